import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// Claims what only others could say. Nothing of it bears their signature.
struct Forger: HostileRole {
    private var presences: [PresenceRecord] = []
    private var count = 0

    mutating func hear(_ channel: Channel, _ bytes: [UInt8], from peer: PeerID) {
        guard channel == .session, case .presences(let heard)? = try? SessionMessage(decoding: bytes) else { return }
        presences = Array((presences + heard).suffix(32))
    }

    mutating func act(_ hands: inout HostileHands) -> TimeSpan {
        count += 1
        switch count % 5 {
        case 0: forgePresence(&hands)
        case 1: forgeRecord(&hands)
        case 2: forgeRelay(&hands)
        case 3: forgeFork(&hands)
        default: lieAboutDeaths(&hands)
        }
        return .milliseconds(200)
    }

    /// Renames a member, moves it, or says its farewell.
    private func forgePresence(_ hands: inout HostileHands) {
        guard let genuine = presences.last(where: { $0.peer != hands.identity.peerID }) else { return }
        var forged = genuine
        forged.revision += 1_000
        forged.startCount += 1_000
        switch hands.random.below(3) {
        case 0: forged.state = .left
        case 1: forged.name = "forged"
        default: forged.addresses = [hands.address]
        }
        if hands.random.below(2) == 0 {
            forged.signature = hands.identity.signing.sign(forged.signedBytes(mesh: hands.mesh).span)
        }
        hands.sayToAll(.session, SessionMessage.presences([forged]).encoded)
    }

    /// A record in a member's name: signed with another key, or with the signature of another record.
    private func forgeRecord(_ hands: inout HostileHands) {
        guard let (last, envelope) = hands.lastRecord, let victim = hands.anyMember(), let peer = hands.anyLinked()
        else {
            return
        }
        let isAltered = hands.random.below(2) == 0
        guard
            var record = hands.record(
                .attachmentAdded, author: isAltered ? envelope.author : victim.peer, incarnation: victim.incarnation,
                sequence: 1, lamport: envelope.lamport + 1, previous: RecordID(.zero), parents: [last],
                body: hands.random.bytes(40), signer: hands.identity.signing)
        else { return }
        if isAltered { record = Array(record.dropLast(64)) + envelope.signature }
        hands.say(.gossip, hands.bundle([record]), to: peer)
    }

    /// A message in a member's name, as if it had been passed on.
    private func forgeRelay(_ hands: inout HostileHands) {
        guard let victim = hands.anyMember(), let peer = hands.anyLinked(), let secret = hands.secret,
            let recipient = hands.members.first(where: { $0.peer == peer })
        else { return }
        let message = DirectMessage(
            isReliable: true, sequence: 1, base: 1, lamport: 1,
            payload: Array("forged in the name of \(victim.name)".utf8))
        let inner = GossipMessage.direct(message).encoded
        var relayed = RelayedMessage(
            hopsLeft: 4, author: victim.peer, incarnation: victim.incarnation, counter: .max - 1, recipient: peer,
            recipientIncarnation: recipient.incarnation, epoch: secret.id,
            nonce: hands.random.bytes(Envelope.nonceByteCount), sealed: [], signature: [])
        var header = ByteWriter(reserving: 256)
        header.write(hands.mesh.value)
        relayed.encodeHeader(into: &header, sealedByteCount: inner.count + WireLimits.tagBytes)
        guard
            let sealed = try? AuthenticatedCipher.sealExtended(
                inner.span, associated: header.bytes.span, nonce: relayed.nonce.span, key: secret.envelopeKey)
        else { return }
        relayed.sealed = sealed
        var unsigned = ByteWriter(reserving: 512)
        unsigned.write(bytes: RelayedMessage.signatureDomain.utf8)
        unsigned.write(hands.mesh.value)
        relayed.encodeUnsigned(into: &unsigned)
        relayed.signature = hands.identity.signing.sign(unsigned.bytes.span)
        hands.say(.gossip, GossipMessage.relayed(relayed).encoded, to: peer)
    }

    /// "Proof" that an honest member forked: one of its records, and an altered copy.
    private func forgeFork(_ hands: inout HostileHands) {
        guard let peer = hands.anyLinked(), !hands.records.isEmpty else { return }
        let genuine = hands.records[hands.random.below(hands.records.count)]
        var altered = genuine
        altered[altered.count - 70] ^= 1
        let (first, second) = hands.random.below(2) == 0 ? (genuine, altered) : (genuine, genuine)
        hands.say(.gossip, GossipMessage.fork(first, second).encoded, to: peer)
    }

    /// Says that members are dead, and that it could not hear them.
    private func lieAboutDeaths(_ hands: inout HostileHands) {
        guard let victim = hands.anyMember() else { return }
        for peer in hands.linked where peer != victim.peer {
            hands.say(.session, SessionMessage.suspicion(subject: victim.peer).encoded, to: peer)
            let lie = SessionMessage.probeResult(subject: victim.peer, nonce: hands.random.uint64(), outcome: .silent)
            hands.say(.session, lie.encoded, to: peer)
        }
    }

    /// Answers every question about others with "silent".
    func change(_ message: HostileMessage, _ hands: inout HostileHands) -> [HostileMessage] {
        guard message.channel == .session,
            case .probeResult(let subject, let nonce, _)? = try? SessionMessage(decoding: message.bytes)
        else { return [message] }
        var lie = message
        lie.bytes = SessionMessage.probeResult(subject: subject, nonce: nonce, outcome: .silent).encoded
        return [lie]
    }
}

/// Says again what others said.
struct Replayer: HostileRole {
    private var datagrams: [(bytes: [UInt8], destination: SocketAddress)] = []
    private var heard: [(channel: Channel, bytes: [UInt8])] = []
    private var turn = 0

    mutating func overhear(_ bytes: [UInt8], to destination: SocketAddress) {
        turn += 1
        guard turn % 3 == 0 || datagrams.count < 200 else { return }
        if datagrams.count < 400 {
            datagrams.append((bytes, destination))
        } else {
            datagrams[turn % 400] = (bytes, destination)
        }
    }

    mutating func hear(_ channel: Channel, _ bytes: [UInt8], from peer: PeerID) {
        turn += 1
        if heard.count < 400 { heard.append((channel, bytes)) } else { heard[turn % 400] = (channel, bytes) }
    }

    func act(_ hands: inout HostileHands) -> TimeSpan {
        for _ in 0..<5 where !datagrams.isEmpty {
            let datagram = datagrams[hands.random.below(datagrams.count)]
            hands.throwDatagram(datagram.bytes, to: datagram.destination)
        }
        for _ in 0..<3 where !heard.isEmpty {
            let message = heard[hands.random.below(heard.count)]
            if let peer = hands.anyLinked() { hands.say(message.channel, message.bytes, to: peer) }
        }
        return .milliseconds(50)
    }
}

/// Tells each half of the members another story.
struct Equivocator: HostileRole {
    mutating func act(_ hands: inout HostileHands) -> TimeSpan {
        guard let (last, envelope) = hands.lastRecord else { return .milliseconds(500) }
        let incarnation = Incarnation(hands.random.uint64())
        var pair: [[UInt8]] = []
        for note in 0..<2 {
            guard
                let record = hands.record(
                    RecordKind(rawValue: 201), author: hands.identity.peerID, incarnation: incarnation, sequence: 1,
                    lamport: envelope.lamport + 1, previous: RecordID(.zero), parents: [last],
                    body: [UInt8(note)] + hands.random.bytes(20), signer: hands.identity.signing)
            else { return .milliseconds(500) }
            pair.append(record)
        }
        for (place, peer) in hands.linked.enumerated() { hands.say(.gossip, hands.bundle([pair[place % 2]]), to: peer) }
        return .milliseconds(1_500)
    }
}

/// Would freeze the order, if times were believed.
struct LamportLiar: HostileRole {
    private var count: UInt64 = 0

    mutating func act(_ hands: inout HostileHands) -> TimeSpan {
        guard let (last, envelope) = hands.lastRecord, let peer = hands.anyLinked() else { return .milliseconds(500) }
        count += 1
        let lies: [UInt64] = [.max, .max - 1, envelope.lamport &+ 1_000, 0, envelope.lamport]
        let record = hands.record(
            RecordKind(rawValue: 202), author: hands.identity.peerID, incarnation: Incarnation(hands.random.uint64()),
            sequence: 1, lamport: lies[Int(count % 5)], previous: RecordID(.zero), parents: [last], body: [1],
            signer: hands.identity.signing)
        if let record { hands.say(.gossip, hands.bundle([record]), to: peer) }
        let message = DirectMessage(
            isReliable: true, sequence: count % 2 == 0 ? .max : count,
            base: 1, lamport: .max, payload: Array("late".utf8))
        hands.say(.gossip, GossipMessage.direct(message).encoded, to: peer)
        let acknowledgement = MessageAcknowledgement(incarnation: hands.identity.incarnation, next: .max)
        hands.say(.gossip, GossipMessage.acknowledgement(acknowledgement).encoded, to: peer)
        return .milliseconds(300)
    }
}

/// Takes whatever room it is given.
struct Flooder: HostileRole {
    private var seen: [(bytes: [UInt8], destination: SocketAddress)] = []
    private var count = 0

    /// Of each kind of datagram one, to begin junk with.
    mutating func overhear(_ bytes: [UInt8], to destination: SocketAddress) {
        if seen.count < 64 { seen.append((bytes, destination)) }
    }

    mutating func act(_ hands: inout HostileHands) -> TimeSpan {
        count += 1
        throwJunk(&hands)
        guard let peer = hands.anyLinked() else { return .milliseconds(20) }
        switch count % 6 {
        case 0: for _ in 0..<20 { hands.say(.session, strangersPresence(&hands), to: peer) }
        case 1:
            for _ in 0..<20 {
                let ask = SessionMessage.probeRequest(
                    subject: hands.anyMember()?.peer ?? peer, nonce: hands.random.uint64())
                hands.say(.session, ask.encoded, to: peer)
            }
        case 2:
            let ids = (0..<100).map { _ in RecordID(Bytes32(hands.random.bytes(32)) ?? .zero) }
            hands.say(.gossip, GossipMessage.want(ids).encoded, to: peer)
        case 3:
            for channel in Channel.allCases {
                hands.say(channel, hands.random.bytes(hands.random.below(3_000)), to: peer)
            }
        case 4:
            let message = DirectMessage(
                isReliable: false, sequence: UInt64(count), base: 1, lamport: 1,
                payload: hands.random.bytes(20_000))
            hands.say(.gossip, GossipMessage.direct(message).encoded, to: peer, isReliable: false)
        default:
            let summary = RecordSummary(asksForRecords: true, lower: nil, reachesEnd: true, chains: [])
            for _ in 0..<5 { hands.say(.gossip, GossipMessage.summary(summary).encoded, to: peer) }
        }
        return .milliseconds(20)
    }

    private func throwJunk(_ hands: inout HostileHands) {
        guard !seen.isEmpty else { return }
        for _ in 0..<4 {
            let (genuine, destination) = seen[hands.random.below(seen.count)]
            var bytes = genuine
            switch hands.random.below(4) {
            case 0: bytes = hands.random.bytes(hands.random.below(1_400))
            case 1: bytes.removeLast(hands.random.below(bytes.count + 1))
            case 2: if !bytes.isEmpty { bytes[hands.random.below(bytes.count)] ^= 0x10 }
            default: break
            }
            hands.throwDatagram(bytes, to: destination)
        }
    }

    /// Correctly signed, of somebody who was never admitted.
    private func strangersPresence(_ hands: inout HostileHands) -> [UInt8] {
        let key = SigningKeyPair(seed: hands.random.secret())
        var presence = PresenceRecord(
            peer: key.peerID, incarnation: Incarnation(hands.random.uint64()), startCount: 1, revision: 1,
            state: .alive,
            name: "ghost", addresses: [hands.address])
        presence.signature = key.sign(presence.signedBytes(mesh: hands.mesh).span)
        return SessionMessage.presences([presence]).encoded
    }
}

/// Takes what comes, but hardly ever.
struct SlowReader: HostileRole {
    var readLimit: Int { 1 }
    var readPause: TimeSpan { .milliseconds(200) }
    func act(_ hands: inout HostileHands) -> TimeSpan { .seconds(1) }
}

/// A member for itself alone.
struct Withholder: HostileRole {
    func change(_ message: HostileMessage, _ hands: inout HostileHands) -> [HostileMessage] {
        guard message.channel == .gossip, let decoded = try? GossipMessage(decoding: message.bytes) else {
            return [message]
        }
        switch decoded {
        case .neighbours:
            var claim = message
            claim.bytes =
                GossipMessage.neighbours(hands.members.map(\.peer).sorted().filter { $0 != message.peer }).encoded
            return [claim]
        case .records, .relayed, .summary, .fork: return []
        default: return [message]
        }
    }

    func act(_ hands: inout HostileHands) -> TimeSpan { .seconds(1) }
}

/// What a node of a later version may say to those of this one.
struct Tomorrow: HostileRole {
    private var count: UInt8 = 0

    mutating func act(_ hands: inout HostileHands) -> TimeSpan {
        count &+= 1
        hands.command(.publish(RecordKind(rawValue: 100 + count % 100), body: hands.random.bytes(30), token: nil))
        guard let peer = hands.anyLinked() else { return .milliseconds(700) }
        for channel in Channel.allCases { hands.say(channel, [200 &+ count % 50] + hands.random.bytes(20), to: peer) }
        return .milliseconds(700)
    }
}
