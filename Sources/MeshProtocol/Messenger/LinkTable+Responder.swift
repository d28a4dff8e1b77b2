import MeshBase
import MeshCrypto
import MeshWire

// The side that answers, cheapest check first: length and zero bytes → mac1 → cookie under load → half-open table →
// Noise → identity. Whoever does not know a secret gets no byte (AB-65).
extension LinkTable {
    // MARK: INIT → RESP

    mutating func receiveInitiation(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, suite: HandshakeSuite, from source: SocketAddress,
        at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let secret = secret(opening: bytes, suite: suite, at: now),
            let mac1 = Bytes16(bytes.extracting(HandshakeDatagram.mac1Offset..<HandshakeDatagram.mac2Offset))
        else {
            statistics.refusedMac1 += 1
            return
        }
        for index in halfOpen.expire(at: now) { owners[index] = nil }
        // Of the same source only: a copy from elsewhere, which may have overtaken the true one, is a handshake apart.
        if let known = halfOpen.entry(initiationMAC: mac1, source: source) {
            statistics.responsesSent += 1
            transmit(known.response, to: source, into: &outbox)
            return
        }
        let isUnderLoad = handshakeRate.note(at: now)
        // A mac2 of zeros proves nothing and is not worth a look.
        let isProven = hasMAC2(bytes) && cookies.proves(bytes, from: source, at: now, random: &random)
        switch halfOpen.admission(of: source, isProven: isProven) {
        case .admitted where isProven || !isUnderLoad:
            respond(datagram, mac1: mac1, secret: secret, suite: suite, to: source, at: now, into: &outbox)
        case .admitted, .needsProof:
            sendCookie(datagram, bytes, secret: secret, to: source, at: now, into: &outbox)
        case .full:
            statistics.refusedHalfOpen += 1
        }
    }

    /// Those of the mesh first; then those between two members, for one that missed a change of the epoch secret.
    private mutating func secret(
        opening bytes: Span<UInt8>, suite: HandshakeSuite, at now: HostTime
    ) -> GroupSecret? {
        if let secret = secrets.first(where: { HandshakeSuite.hasValidMAC1(bytes, secret: $0) }) { return secret }
        guard pairs.mayTry(at: now) else { return nil }
        let needless = linkedPeers.filter { peer in
            link(to: peer).map { now - $0.lastHeardAt < Self.recentlyHeard && isActive($0.identity.secretID) } ?? false
        }
        return pairs.secret(opening: bytes, mesh: suite.mesh, besides: Set(needless))
    }

    private func isActive(_ id: SecretID) -> Bool { secrets.contains { $0.id == id } }

    private func hasMAC2(_ bytes: Span<UInt8>) -> Bool {
        for index in HandshakeDatagram.mac2Offset..<bytes.count where bytes[index] != 0 { return true }
        return false
    }

    private mutating func sendCookie(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, secret: GroupSecret, to source: SocketAddress,
        at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard
            let answer = cookies.answer(
                to: bytes, senderIndex: datagram.senderIndex, from: source, secret: secret, at: now, random: &random)
        else { return }
        statistics.cookiesSent += 1
        transmit(answer, to: source, into: &outbox)
    }

    private mutating func respond(
        _ datagram: HandshakeDatagram, mac1: Bytes16, secret: GroupSecret, suite: HandshakeSuite,
        to source: SocketAddress, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        var handshake = suite.handshake(.responder, secret: secret, random: &random)
        let noise: [UInt8]
        do throws(CryptoError) {
            _ = try handshake.readMessage(datagram.noise)
            noise = try handshake.writeMessage(
                payload: suite.payload(role: .responder, flags: 0, membershipHead: membershipHead))
        } catch {
            statistics.refusedHandshake += 1
            return
        }
        let index = freshIndex()
        let response = HandshakeSuite.sealed(
            HandshakeDatagram(
                type: .response, senderIndex: index, receiverIndex: datagram.senderIndex, noise: noise),
            secret: secret, cookie: nil)
        halfOpen.insert(
            HalfOpenTable.Entry(
                localIndex: index, remoteIndex: datagram.senderIndex, handshake: handshake, secretID: secret.id,
                source: source, initiationMAC: mac1, response: response, createdAt: now))
        owners[index] = .halfOpen
        statistics.responsesSent += 1
        transmit(response, to: source, into: &outbox)
    }

    // MARK: FIN

    mutating func receiveFinal(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, suite: HandshakeSuite, from source: SocketAddress,
        receivedAt: HostTime, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let entry = halfOpen.entry(localIndex: datagram.receiverIndex), entry.remoteIndex == datagram.senderIndex,
            now - entry.createdAt < configuration.halfOpenLife, let secret = secret(entry.secretID)
        else {
            statistics.refusedState += 1
            return
        }
        guard HandshakeSuite.hasValidMAC1(bytes, secret: secret) else {
            statistics.refusedMac1 += 1
            return
        }
        guard entry.source == source else {
            statistics.refusedSource += 1
            return
        }
        // From here on the place is given back, whatever comes out (AB-37).
        halfOpen.remove(localIndex: entry.localIndex)
        owners[entry.localIndex] = nil
        var handshake = entry.handshake
        guard let payload = readPayload(datagram.noise, with: &handshake, suite: suite, peerRole: .initiator) else {
            statistics.refusedHandshake += 1
            return
        }
        // Who carries a handshake says whose it is, and a secret between two says it too; that must be true.
        let expected = relays.route(source)?.peer ?? pairs.peer(entry.secretID)
        guard objection(to: payload, expected: expected, from: source, at: now, into: &outbox) == nil else { return }
        if let owner = pairs.peer(entry.secretID), owner != payload.node {
            statistics.refusedWrongPeer += 1
            return
        }
        guard slot(of: payload.node) != nil || hasRoomForLink else {
            statistics.refusedLinkLimit += 1
            outbox.append(
                .event(ProtocolEvent(.limitReached, subject: payload.node, detail: [.init("limit", .text("links"))])))
            return
        }
        do throws(CryptoError) {
            let generation = try keys(
                from: &handshake, localIndex: entry.localIndex, remoteIndex: entry.remoteIndex, role: .responder,
                secretID: entry.secretID, at: now)
            _ = establish(
                payload, generation: generation, address: source, isSilent: false,
                roundTrip: receivedAt - entry.createdAt, at: now, into: &outbox)
        } catch {
            statistics.refusedHandshake += 1
        }
    }
}
