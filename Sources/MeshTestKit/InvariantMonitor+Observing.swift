import Glibc
import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// What the processes and the network show.
extension InvariantMonitor {
    public func observe(_ observation: NodeObservation, by host: Int) {
        state.withLock { state in
            state.checks += 1
            switch observation {
            case .message(let message): check(message, at: host, &state)
            case .recordAccepted(let record): check(record, at: host, &state)
            case .recordVoided(let id): checkVoided(id, at: host, &state)
            case .event(let event): check(event, at: host, &state)
            }
        }
    }

    // MARK: Messages

    private func check(_ message: UserMessage, at host: Int, _ state: inout State) {
        let text = String(decoding: message.payload, as: UTF8.self)
        let isFirst = state.hosts[host]?.life.received.insert(text).inserted ?? true
        state.hosts[host]?.everReceived.insert(text)
        guard let sender = state.hostOfPeer[message.from] else {
            return Self.violate(.noGhosts, "node\(host) received from a stranger", at: time.now, &state)
        }
        if state.hosts[sender]?.mesh != state.hosts[host]?.mesh {
            Self.violate(.apart, "node\(host) received from node\(sender)", at: time.now, &state)
        }
        guard state.hosts[sender]?.isHonest == true else { return }
        if !isFirst {
            Self.violate(.atMostOnce, "node\(host) received twice: \(text.prefix(60))", at: time.now, &state)
        }
        guard let sent = state.sent[text], sent.host == sender else {
            return Self.violate(
                .genuineMessages, "node\(host) received what node\(sender) never sent: \(text.prefix(60))",
                at: time.now, &state)
        }
        guard sent.isReliable, isFirst else { return }
        let key = sender << 32 | sent.life
        if let last = state.hosts[host]?.life.lastNumber[key], last > sent.number {
            Self.violate(
                .inOrder, "node\(host) received \(sent.number) of node\(sender) after \(last)", at: time.now, &state)
        }
        state.hosts[host]?.life.lastNumber[key] = sent.number
    }

    // MARK: Records

    private func check(_ record: AcceptedRecord, at host: Int, _ state: inout State) {
        if state.hosts[host]?.life.accepted.insert(record.id).inserted == false {
            Self.violate(.atMostOnce, "node\(host) accepted record \(record.id) twice", at: time.now, &state)
        }
        let chain = Chain(author: record.author, incarnation: record.incarnation)
        let last = state.hosts[host]?.life.chains.updateValue(record.sequence, forKey: chain) ?? 0
        if record.sequence != last + 1 {
            Self.violate(
                .causalRecords, "node\(host) accepted number \(record.sequence) of a chain after \(last)",
                at: time.now, &state)
        }
        guard let author = state.hostOfPeer[record.author] else {
            return Self.violate(.noGhosts, "node\(host) accepted a stranger's record", at: time.now, &state)
        }
        if state.hosts[author]?.mesh != state.hosts[host]?.mesh {
            Self.violate(.apart, "node\(host) accepted a record of node\(author)", at: time.now, &state)
        }
        guard state.hosts[author]?.isHonest == true else { return }
        if author == host {
            state.authored.insert(record.id)
        } else if !state.authored.contains(record.id) {
            Self.violate(
                .genuineRecords, "node\(host) accepted a record that node\(author) never wrote", at: time.now, &state)
        }
        let numbered = Numbered(chain: chain, sequence: record.sequence)
        let earlier = state.numbered.updateValue(record.id, forKey: numbered)
        if let earlier, earlier != record.id {
            Self.violate(.honestChains, "node\(author) wrote number \(record.sequence) twice", at: time.now, &state)
        }
    }

    private func checkVoided(_ id: RecordID, at host: Int, _ state: inout State) {
        if state.authored.contains(id) {
            Self.violate(.honestChains, "node\(host) holds an honest record void", at: time.now, &state)
        }
    }

    // MARK: Members

    private func check(_ event: ProtocolEvent, at host: Int, _ state: inout State) {
        guard let subject = event.subject else { return }
        switch event.kind {
        case .memberAdmitted, .memberAlive, .memberReturned: checkAlive(subject, event.kind, at: host, &state)
        case .memberDead: checkDeath(of: subject, at: host, &state)
        case .recordFork:
            if let accused = state.hostOfPeer[subject], state.hosts[accused]?.isHonest == true {
                Self.violate(.honestChains, "node\(host) says that node\(accused) forked", at: time.now, &state)
            }
        default: break
        }
    }

    private func checkAlive(_ subject: PeerID, _ kind: ProtocolEvent.Kind, at host: Int, _ state: inout State) {
        guard let known = state.hostOfPeer[subject], let other = state.hosts[known] else {
            return Self.violate(.noGhosts, "node\(host) shows somebody who was never started", at: time.now, &state)
        }
        if other.mesh != state.hosts[host]?.mesh {
            Self.violate(.apart, "node\(host) shows node\(known) of another mesh", at: time.now, &state)
        }
        let isGone = other.isHonest && !other.isUp && time.now - other.downAt > Self.ghostSpan
        if isGone, kind != .memberAdmitted {
            Self.violate(
                .noGhosts, "node\(host) says that node\(known) is alive, long after its end", at: time.now, &state)
        }
    }

    private func checkDeath(of subject: PeerID, at host: Int, _ state: inout State) {
        guard let known = state.hostOfPeer[subject], let other = state.hosts[known], other.isHonest else { return }
        if other.isUp {
            if state.falseDeaths.count < Self.maximumKept {
                let seconds = Double((time.now - 1_000_000_000_000) / 1_000_000) / 1_000
                state.falseDeaths.append("node\(host) declared node\(known) dead at \(seconds) s")
            }
            return
        }
        guard let notice = state.notices[known] else { return }
        state.notices[known]?.waitingFor.remove(host)
        guard state.notices[known]?.waitingFor.isEmpty == true else { return }
        let span = TimeSpan(nanoseconds: time.now - notice.at)
        state.slowestNotice = max(state.slowestNotice ?? .zero, span)
        state.notices[known] = nil
    }

    // MARK: The wire

    /// From now on this address belongs to nobody of any mesh.
    public func watchStranger(_ address: SocketAddress) { state.withLock { $0.strangers[address] = (0, 0) } }

    /// Every datagram, as it leaves its host.
    public func observe(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress) {
        if Self.holdsMarker(bytes) { violate(.unreadable, "\(source) sends a message's text in clear") }
        state.withLock { state in
            guard !state.strangers.isEmpty else { return }
            if state.strangers[source] != nil { state.strangers[source]?.fromIt += bytes.count }
            guard let account = state.strangers[destination] else { return }
            state.strangers[destination]?.toIt += bytes.count
            if account.toIt + bytes.count > account.fromIt {
                Self.violate(
                    .noAmplification, "\(account.toIt + bytes.count) bytes to a stranger that sent \(account.fromIt)",
                    at: time.now, &state)
            }
        }
    }

    private static let markerBytes = Array(marker.utf8)

    private static func holdsMarker(_ bytes: [UInt8]) -> Bool {
        let (first, count) = (markerBytes[0], markerBytes.count)
        guard bytes.count >= count else { return false }
        let span = bytes.span
        var position = 0
        while position <= span.count - count {
            if span[position] == first, (1..<count).allSatisfy({ span[position + $0] == markerBytes[$0] }) {
                return true
            }
            position += 1
        }
        return false
    }
}
