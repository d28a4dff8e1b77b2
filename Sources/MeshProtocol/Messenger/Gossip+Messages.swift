import MeshBase
import MeshCrypto
import MeshWire

/// Messages of applications: to linked peers directly, to others through members.
extension Gossip {
    // MARK: Sending

    mutating func sendUserMessage(
        _ payload: [UInt8], to recipients: [PeerID]?, mode: DeliveryMode, deadline: TimeSpan?, token: CommandToken,
        at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        let limit = WireLimits.maximumMessageBytes
        guard payload.count <= limit else { throw .limitExceeded(limit: limit, actual: payload.count) }
        guard log.genesisID != nil else { throw .noMesh }
        guard deadline == nil || mode == .unreliable else { throw .invalid(field: "deadline") }
        let known = resolve(recipients)
        switch mode {
        case .ordered:
            guard recipients == nil else { throw .invalid(field: "recipients") }
            try sendOrdered(payload, token: token, at: now, into: &outbox)
        case .unreliable:
            try sendUnreliable(payload, to: known, deadline: deadline, token: token, at: now, into: &outbox)
        case .reliable:
            let content = OutgoingContent(
                count: 1, payload: payload, audience: audience(of: known, isEverybody: recipients == nil))
            try sendReliable(content, to: known, token: token, at: now, into: &outbox)
        }
    }

    mutating func sendUserMessages(
        _ batch: MessageBatch, to recipients: [PeerID]?, token: CommandToken, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        let limit = WireLimits.maximumMessageBytes
        guard batch.bytes.count <= limit else { throw .limitExceeded(limit: limit, actual: batch.bytes.count) }
        guard log.genesisID != nil else { throw .noMesh }
        guard batch.count > 1 else {
            guard let only = batch.payloads.first else { return outbox.append(.messageSettled(token, .delivered)) }
            return try sendUserMessage(
                only, to: recipients, mode: .reliable, deadline: nil, token: token, at: now, into: &outbox)
        }
        let known = resolve(recipients)
        let content = OutgoingContent(
            count: batch.count, payload: batch.bytes, audience: audience(of: known, isEverybody: recipients == nil))
        try sendReliable(content, to: known, token: token, at: now, into: &outbox)
    }

    /// Sorted, each once, without this node and without strangers.
    private func resolve(_ recipients: [PeerID]?) -> [PeerID] {
        guard let recipients else { return members.sorted() }
        let known = recipients.filter { $0 != identity.peerID && (members.contains($0) || departures[$0] != nil) }
        return Set(known).sorted()
    }

    /// What a recipient is told of the others.
    private func audience(of recipients: [PeerID], isEverybody: Bool) -> DirectMessage.Audience {
        if isEverybody { return .everybody }
        guard (2...DirectMessage.maximumNamedRecipients).contains(recipients.count) else { return .unnamed }
        return .several(recipients.map { PeerTag($0) }.sorted())
    }

    /// The Lamport time of the next message, with room for `count` in all.
    mutating func nextLamport(count: Int = 1) -> UInt64 {
        let latest = max(messageClock, log.greatestLamport)
        let (last, overflow) = latest.addingReportingOverflow(UInt64(count))
        messageClock = overflow ? .max : last
        return overflow ? latest : latest + 1
    }

    /// A recipient whose queue is full makes the sender wait (`queueFull`) while it still takes messages; one that has
    /// stopped taking any is skipped and named in the outcome, so that it cannot stop the others (AB-41).
    private mutating func sendReliable(
        _ content: OutgoingContent, to recipients: [PeerID], token: CommandToken, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        var takers: [PeerID] = []
        var failures: [DeliveryFailure] = []
        for peer in recipients {
            if let departure = departures[peer], departure.givenUpAt <= now {
                failures.append(DeliveryFailure(peer: peer, reason: departure.reason))
                continue
            }
            guard let full = outgoing[peer].flatMap({ fullness(of: $0, adding: content) }) else {
                takers.append(peer)
                continue
            }
            if let stream = outgoing[peer], now - stream.progressAt < configuration.stallTime {
                throw full
            } else {
                failures.append(DeliveryFailure(peer: peer, reason: .stalled))
            }
        }
        let number = nextMessageNumber
        nextMessageNumber += 1
        let lamport = nextLamport(count: content.count)
        counters.messagesSent += content.count
        counters.messagesFailed += failures.count
        unsettled[number] = UnsettledMessage(token: token, waitingFor: Set(takers), failures: failures)
        for peer in takers {
            let causes = causes(for: peer, at: now)
            outgoing[peer, default: OutgoingStream()].append(
                content, causes: causes, lamport: lamport, number: number, at: now)
            pump(peer, at: now, into: &outbox)
        }
        settleIfComplete(number, into: &outbox)
    }

    /// The limit that one more would break.
    private func fullness(of stream: OutgoingStream, adding content: OutgoingContent) -> CommandError? {
        if stream.items.count >= configuration.maximumQueuedItems {
            return .queueFull(limit: configuration.maximumQueuedItems)
        }
        if stream.messageCount + content.count > configuration.maximumQueuedMessages {
            return .queueFull(limit: configuration.maximumQueuedMessages)
        }
        let isOver = stream.byteCount + content.payload.count > configuration.maximumQueuedBytes
        return isOver ? .queueFull(limit: configuration.maximumQueuedBytes, of: .bytes) : nil
    }

    // MARK: Routes

    /// Sends what the route to `peer` takes now.
    private mutating func pump(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        // Taken out, so that its queue is not copied.
        guard var stream = outgoing.removeValue(forKey: peer) else { return }
        defer { outgoing[peer] = stream }
        if stream.route == .none {
            if links[peer] != nil {
                stream.restart(on: .direct)
            } else if !links.isEmpty {
                stream.restart(on: .relayed)
            }
        }
        while stream.sentCount < stream.items.count, hasWindow(stream) {
            let item = stream.items[stream.sentCount]
            stream.sentCount += 1
            stream.sentByteCount += item.payload.count
            transmit(item, of: stream, to: peer, at: now, into: &outbox)
        }
        if stream.sentCount > 0, stream.retransmitAt == nil {
            stream.retransmissionPause = firstPause(stream.route)
            stream.retransmitAt = now + random.jittered(stream.retransmissionPause)
        }
    }

    private func hasWindow(_ stream: OutgoingStream) -> Bool {
        switch stream.route {
        case .none, .awaitingStatus: false
        case .relayed: stream.sentCount < configuration.relayWindow
        case .direct:
            stream.sentCount < configuration.directWindow && stream.sentByteCount < configuration.directWindowBytes
        }
    }

    private func firstPause(_ route: OutgoingStream.Route) -> TimeSpan {
        route == .relayed ? configuration.relayRetransmission : configuration.directRetransmission
    }

    private mutating func transmit(
        _ item: OutgoingStream.Item, of stream: OutgoingStream, to peer: PeerID, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        let isDirect = stream.route == .direct
        let message = DirectMessage(
            isReliable: true, sequence: item.sequence, base: stream.base, lamport: item.lamport, payload: item.payload,
            count: item.count, audience: item.audience, causes: item.causes,
            isSettledByLink: isDirect && stream.isSettledByLink)
        if message.isSettledByLink {
            outbox.append(.sendDirect(GossipMessage.direct(message).encoded, to: peer, number: item.sequence))
        } else if isDirect {
            send(.direct(message), to: peer, priority: .message, isReliable: true, into: &outbox)
        } else {
            _ = sendThroughOthers(.direct(message), to: peer, at: now, into: &outbox)
        }
    }

    /// On a new link each side first says what it has of the other's stream, so that nothing is sent twice needlessly.
    mutating func greetWithStatus(
        _ peer: PeerID, _ incarnation: Incarnation, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let next = incoming[ChainKey(author: peer, incarnation: incarnation)]?.next ?? 1
        let status = MessageAcknowledgement(incarnation: incarnation, next: next)
        send(.acknowledgement(status), to: peer, priority: .command, isReliable: true, into: &outbox)
        if var stream = outgoing[peer], !stream.items.isEmpty {
            stream.restart(on: .awaitingStatus)
            stream.retransmitAt = now + configuration.statusTimeout
            outgoing[peer] = stream
        } else {
            outgoing[peer]?.restart(on: .direct)
        }
        // Whoever had no way at all may have one through the new peer.
        for other in outgoing.keys.sorted() where outgoing[other]?.route == OutgoingStream.Route.none {
            pump(other, at: now, into: &outbox)
        }
    }

    mutating func routesLost(with peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        if outgoing[peer] != nil {
            outgoing[peer]?.restart(on: .none)
            pump(peer, at: now, into: &outbox)
        }
        guard links.isEmpty else { return }
        for other in outgoing.keys.sorted() { outgoing[other]?.restart(on: .none) }
    }

    // MARK: Acknowledgements

    mutating func receiveAcknowledgement(
        _ acknowledgement: MessageAcknowledgement, from peer: PeerID, overLink: Bool, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        guard acknowledgement.incarnation == identity.incarnation, outgoing[peer] != nil else { return }
        // In place: a copy of the stream would copy its whole queue.
        let delivered = outgoing[peer]?.acknowledge(below: acknowledgement.next, overLink: overLink, at: now) ?? []
        if overLink, outgoing[peer]?.route == .awaitingStatus { outgoing[peer]?.restart(on: .direct) }
        progress(of: peer, delivered, at: now, into: &outbox)
    }

    /// `peer`'s link has these messages.
    public mutating func received(
        _ numbers: [UInt64], by peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let delivered = outgoing[peer]?.receive(numbers, at: now) ?? []
        if !delivered.isEmpty { progress(of: peer, delivered, at: now, into: &outbox) }
    }

    private mutating func progress(
        of peer: PeerID, _ delivered: [OutgoingStream.Item], at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        if !delivered.isEmpty {
            outgoing[peer]?.retransmitAt = nil
            outgoing[peer]?.retransmissionPause = .zero
        }
        if outgoing[peer]?.items.isEmpty == true { outgoing[peer]?.retransmitAt = nil }
        for item in delivered { settle(item.number, peer, failure: nil, into: &outbox) }
        pump(peer, at: now, into: &outbox)
    }

    private mutating func acknowledge(_ key: ChainKey, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let stream = incoming[key] else { return }
        incoming[key]?.acknowledgeAt = nil
        incoming[key]?.unacknowledgedCount = 0
        let message = GossipMessage.acknowledgement(
            MessageAcknowledgement(incarnation: key.incarnation, next: stream.next))
        if links[key.author]?.incarnation == key.incarnation {
            send(message, to: key.author, priority: .message, isReliable: true, into: &outbox)
        } else {
            _ = sendThroughOthers(message, to: key.author, at: now, into: &outbox)
        }
    }

    // MARK: Receiving

    mutating func receiveDirect(
        _ message: DirectMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        // The link proves the author, and which of its process lives this is (AB-58).
        guard let incarnation = links[peer]?.incarnation else { return }
        take(message, from: ChainKey(author: peer, incarnation: incarnation), at: now, into: &outbox)
    }

    /// A message whose author is proven.
    mutating func take(
        _ message: DirectMessage, from key: ChainKey, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        makeRoom(for: key, at: now, into: &outbox)
        var stream = incoming.removeValue(forKey: key) ?? IncomingStream(at: now)
        stream.usedAt = now
        guard message.isReliable else {
            let isNew = stream.unreliableSeen.insert(message.sequence)
            incoming[key] = stream
            return takeUnreliable(message, isNew: isNew, from: key, at: now, into: &outbox)
        }
        let arrival = stream.receive(message, limits: configuration)
        if !message.isSettledByLink {
            stream.unacknowledgedCount += 1
            if stream.acknowledgeAt == nil { stream.acknowledgeAt = now + configuration.acknowledgementDelay }
        }
        let isDue = stream.unacknowledgedCount >= configuration.acknowledgementCount
        incoming[key] = stream
        switch arrival {
        case .delivered(let messages): receiveInOrder(messages, from: key, at: now, into: &outbox)
        case .duplicate: counters.messagesDuplicate += 1
        case .overCap: counters.messagesOverCap += 1
        case .held: break
        }
        if isDue { acknowledge(key, at: now, into: &outbox) }
    }

    mutating func deliver(
        _ received: IncomingStream.Received, from key: ChainKey, mode: DeliveryMode, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        let author = key.author
        counters.messagesReceived += received.count
        hear(received.lastLamport, at: now)
        if mode == .reliable {
            incoming[key]?.noteDelivery(through: received.lastLamport)
            noteHeard(received, from: key, at: now)
        }
        if received.count == 1 {
            outbox.append(
                .userMessage(
                    UserMessage(from: author, mode: mode, lamport: received.lamport, payload: received.payload)))
        } else if let batch = MessageBatch(packed: received.payload, count: received.count) {
            outbox.append(
                .userMessages(UserMessageBatch(from: author, mode: mode, lamport: received.lamport, batch: batch)))
        }
    }

    /// A claim from outside moves our own clock within an allowance only, so nobody can run it to its end (AB-66).
    mutating func hear(_ lamport: UInt64, at now: HostTime) {
        let latest = max(messageClock, log.greatestLamport)
        guard lamport > latest else { return }
        messageClock = latest + claims.take(lamport - latest, at: now)
    }

    /// A few process lives of each sender are remembered; of those without a link the least recently used goes.
    mutating func makeRoom(for key: ChainKey, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard incoming[key] == nil else { return }
        let lives = incoming.filter { $0.key.author == key.author }
        guard lives.count >= 4 else { return }
        let current = links[key.author]?.incarnation
        let oldest = lives.filter { $0.key.incarnation != current }.min {
            ($0.value.usedAt, $0.key) < ($1.value.usedAt, $1.key)
        }
        guard let oldest else { return }
        // What it held back was acknowledged: it comes out now.
        for (received, _) in oldest.value.blocked {
            deliver(received, from: oldest.key, mode: .reliable, at: now, into: &outbox)
        }
        blockedStreams.remove(oldest.key)
        incoming[oldest.key] = nil
    }

    // MARK: Settling

    private mutating func settle(
        _ number: UInt64, _ peer: PeerID, failure: DeliveryFailure.Reason?, into outbox: inout Outbox<GossipOutput>
    ) {
        guard unsettled[number]?.waitingFor.remove(peer) != nil else { return }
        if let failure {
            counters.messagesFailed += 1
            unsettled[number]?.failures.append(DeliveryFailure(peer: peer, reason: failure))
        }
        settleIfComplete(number, into: &outbox)
    }

    private mutating func settleIfComplete(_ number: UInt64, into outbox: inout Outbox<GossipOutput>) {
        guard let message = unsettled[number], message.waitingFor.isEmpty else { return }
        unsettled[number] = nil
        let failures = message.failures.sorted { $0.peer < $1.peer }
        outbox.append(.messageSettled(message.token, failures.isEmpty ? .delivered : .failed(failures)))
    }

    // MARK: Members

    mutating func membersChanged(
        _ peers: [PeerID], at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let present = Set(peers.filter { $0 != identity.peerID })
        for peer in members.subtracting(present).sorted() where departures[peer] == nil {
            depart(peer, .left, patience: configuration.patienceAfterLeave, at: now)
        }
        for peer in present { departures[peer] = nil }
        let isFewer = !members.isSubset(of: present)
        members = present
        handleMessageDeadlines(at: now, into: &outbox)
        if isFewer { scheduleRepair(at: now) }
        releaseBlocked(at: now, into: &outbox)
        deliverOrdered(at: now, into: &outbox)
    }

    mutating func memberLost(_ peer: PeerID, at now: HostTime) {
        guard peer != identity.peerID else { return }
        if let known = departures[peer], known.reason == .dead || known.givenUpAt <= now { return }
        members.remove(peer)
        depart(peer, .dead, patience: configuration.patienceAfterLoss, at: now)
    }

    private mutating func depart(
        _ peer: PeerID, _ reason: DeliveryFailure.Reason, patience: TimeSpan, at now: HostTime
    ) {
        departures[peer] = Departure(reason: reason, since: now, givenUpAt: now + patience)
        guard departures.count > 1024 else { return }
        let oldest = departures.min { ($0.value.since, $0.key) < ($1.value.since, $1.key) }
        if let oldest, outgoing[oldest.key]?.items.isEmpty ?? true { departures[oldest.key] = nil }
    }

    // MARK: Deadlines

    var messageDeadline: HostTime? {
        var earliest: HostTime?
        func consider(_ time: HostTime?) {
            if let time { earliest = min(earliest ?? time, time) }
        }
        for stream in incoming.values { consider(stream.acknowledgeAt) }
        for (peer, stream) in outgoing {
            guard let oldest = stream.items.first else { continue }
            consider(stream.retransmitAt)
            consider(oldest.submittedAt + configuration.messageLifetime)
            consider(departures[peer]?.givenUpAt)
        }
        return earliest
    }

    mutating func handleMessageDeadlines(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        for key in incoming.filter({ ($0.value.acknowledgeAt ?? .distantFuture) <= now }).keys.sorted() {
            acknowledge(key, at: now, into: &outbox)
        }
        for peer in outgoing.filter({ !$0.value.items.isEmpty }).keys.sorted() {
            giveUpOld(peer, at: now, into: &outbox)
            if let time = outgoing[peer]?.retransmitAt, time <= now { retransmit(peer, at: now, into: &outbox) }
        }
    }

    private mutating func giveUpOld(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        if let departure = departures[peer], departure.givenUpAt <= now {
            let abandoned = outgoing[peer]?.removeAll() ?? []
            for item in abandoned { settle(item.number, peer, failure: departure.reason, into: &outbox) }
        } else {
            let limit = now - configuration.messageLifetime
            let expired = outgoing[peer]?.expire(submittedBefore: limit + .nanoseconds(1)) ?? []
            for item in expired { settle(item.number, peer, failure: .expired, into: &outbox) }
        }
        if outgoing[peer]?.items.isEmpty == true { outgoing[peer]?.retransmitAt = nil }
    }

    /// The link repeats by itself, so only the first is sent again there, against a receiver that dropped it; through
    /// others, nothing else repeats.
    private mutating func retransmit(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard var stream = outgoing[peer], !stream.items.isEmpty else { return }
        if stream.route == .awaitingStatus {
            stream.restart(on: .direct)
            outgoing[peer] = stream
            pump(peer, at: now, into: &outbox)
            return
        }
        let count = min(stream.sentCount, stream.route == .relayed ? 8 : 1)
        for item in stream.items.prefix(count) {
            counters.messagesRetransmitted += 1
            transmit(item, of: stream, to: peer, at: now, into: &outbox)
        }
        stream.retransmissionPause = min(stream.retransmissionPause * 2, configuration.retransmissionLimit)
        stream.retransmitAt = now + random.jittered(stream.retransmissionPause)
        outgoing[peer] = stream
    }
}
