import MeshBase
import MeshCrypto
import MeshWire

// Both sides of the handshake. Responder, cheapest check first: length and zero bytes → mac1 → cookie under load →
// half-open table → Noise → identity. Whoever does not know a secret gets no byte (AB-65).
extension LinkTable {
    // MARK: Beginning

    /// Books a dial; `runDials` sends. Returns why not.
    mutating func beginDial(_ request: DialRequest, purpose: Dial.Purpose, at now: HostTime) -> DialFailure? {
        guard suite != nil, secret(request.secretID) != nil else { return .unknownSecret }
        guard request.expectedPeer != identity.peerID else { return .wrongPeer }
        guard dials.count < configuration.maximumDials else { return .tooMany }
        var addresses: [SocketAddress] = []
        for address in request.addresses.prefix(configuration.maximumDialAddresses)
        where address.isDialable && !addresses.contains(address) {
            if let known = history.mismatch(peer: request.expectedPeer, address: address, at: now) {
                guard request.addresses.count > 1, known.peer != request.expectedPeer else {
                    return .versionMismatch(theirMinimum: known.theirMinimum, theirMaximum: known.theirMaximum)
                }
                continue
            }
            addresses.append(address)
        }
        guard !addresses.isEmpty else { return .noAnswer }
        let targets = addresses.enumerated().map { position, address in
            let staggered = now + configuration.dialStagger * Int64(position)
            return Dial.Target(
                address: address, nextSendAt: max(staggered, history.nextAttempt(at: address, now: now)))
        }
        dials.append(
            Dial(
                number: nextDialNumber, request: request, purpose: purpose, deadline: now + configuration.dialTimeLimit,
                targets: targets))
        nextDialNumber += 1
        return nil
    }

    /// New keys for a link, over its own address, under its secret or, when that is void, the newest.
    mutating func beginRekey(_ slot: Int, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        guard let link = links[slot], let secret = secret(link.identity.secretID) ?? secrets.first else { return }
        let request = DialRequest(
            addresses: [link.path.address], secretID: secret.id, expectedPeer: link.peer)
        history.noteProven(link.path.address)
        // A failure shows in the link's own deadline: it tries again.
        _ = beginDial(request, purpose: .rekey(link.peer), at: now)
        runDials(at: now, into: &outbox)
    }

    mutating func abandonRekeys(of peer: PeerID) {
        for dial in dials where dial.purpose == .rekey(peer) { forgetDial(dial.number) }
    }

    // MARK: Deadlines

    mutating func runDials(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        var position = 0
        while position < dials.count {
            for target in dials[position].targets.indices {
                guard let sendAt = dials[position].targets[target].nextSendAt, sendAt <= now else { continue }
                sendInitiation(dial: position, target: target, at: now, into: &outbox)
            }
            if dials[position].deadline <= now || dials[position].hasFailedEverywhere {
                fail(position, into: &outbox)
            } else {
                position += 1
            }
        }
    }

    private mutating func fail(_ position: Int, into outbox: inout Outbox<LinkOutput>) {
        let dial = dials[position]
        forgetDial(dial.number)
        guard dial.purpose == .link else { return }
        statistics.dialsFailed += 1
        outbox.append(.dialFailed(dial.request, dial.failure))
    }

    mutating func forgetDial(_ number: UInt64) {
        guard let position = dials.firstIndex(where: { $0.number == number }) else { return }
        for target in dials[position].targets {
            if let index = target.localIndex { owners[index] = nil }
        }
        dials.remove(at: position)
    }

    private mutating func sendInitiation(
        dial position: Int, target: Int, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let suite, let secret = secret(dials[position].request.secretID) else {
            dials[position].targets[target].nextSendAt = nil
            return
        }
        if dials[position].targets[target].localIndex == nil {
            prepareInitiation(dial: position, target: target, suite: suite, secret: secret, at: now)
        }
        var bytes = dials[position].targets[target].initiation
        guard !bytes.isEmpty else { return }
        HandshakeSuite.appendMAC2(to: &bytes, cookie: dials[position].targets[target].cookie)
        let wait =
            configuration.handshakeRetransmission * Int64(1 << min(dials[position].targets[target].sendCount, 16))
        dials[position].targets[target].sendCount += 1
        dials[position].targets[target].nextSendAt = now + random.jittered(wait)
        statistics.initiationsSent += 1
        transmit(bytes, to: dials[position].targets[target].address, into: &outbox)
    }

    private mutating func prepareInitiation(
        dial position: Int, target: Int, suite: HandshakeSuite, secret: GroupSecret, at now: HostTime
    ) {
        var handshake = suite.handshake(.initiator, secret: secret, random: &random)
        let index = freshIndex()
        do throws(CryptoError) {
            let noise = try handshake.writeMessage(payload: [])
            var bytes = HandshakeDatagram(type: .initiation, senderIndex: index, receiverIndex: 0, noise: noise)
                .bytesBeforeMACs
            Digest.mac16(bytes.span, key: secret.mac1Key).append(to: &bytes)
            dials[position].targets[target].initiation = bytes
        } catch {
            dials[position].targets[target].nextSendAt = nil
            return
        }
        dials[position].targets[target].handshake = handshake
        dials[position].targets[target].localIndex = index
        dials[position].targets[target].firstSentAt = now
        owners[index] = .dial(number: dials[position].number, target: target)
        history.noteAttempt(at: dials[position].targets[target].address, now: now)
    }

    mutating func transmit(_ bytes: [UInt8], to address: SocketAddress, into outbox: inout Outbox<LinkOutput>) {
        statistics.datagramsSent += 1
        statistics.bytesSent += UInt64(bytes.count)
        outbox.append(.transmit(OutgoingDatagram(bytes: bytes, destination: address)))
    }

    /// FINs again until something under their keys arrives.
    mutating func runFinals(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        var position = 0
        while position < finals.count {
            let final = finals[position]
            let generation = links[final.slot]?.generations.first { $0.localIndex == final.localIndex }
            guard let generation, !generation.isConfirmed, generation.retiresAt == nil, now < final.endsAt else {
                finals.remove(at: position)
                continue
            }
            if final.nextSendAt <= now {
                let wait = configuration.handshakeRetransmission * Int64(1 << min(final.sendCount, 16))
                finals[position].sendCount += 1
                finals[position].nextSendAt = min(now + random.jittered(wait), final.endsAt)
                transmit(final.bytes, to: final.address, into: &outbox)
            }
            position += 1
        }
    }

    // MARK: Receiving

    mutating func receiveHandshake(
        _ bytes: Span<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        guard let suite, !secrets.isEmpty else {
            statistics.refusedNoMesh += 1
            return
        }
        let datagram: HandshakeDatagram
        do throws(WireError) {
            datagram = try HandshakeDatagram(decoding: bytes)
        } catch {
            count(error)
            return
        }
        switch datagram.type {
        case .initiation:
            receiveInitiation(datagram, bytes, suite: suite, from: source, at: now, into: &outbox)
        case .response:
            receiveResponse(
                datagram, bytes, suite: suite, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        case .final:
            receiveFinal(datagram, bytes, suite: suite, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        case .data, .cookie:
            statistics.refusedType += 1
        }
    }

    // MARK: INIT → RESP

    private mutating func receiveInitiation(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, suite: HandshakeSuite, from source: SocketAddress,
        at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let secret = secrets.first(where: { HandshakeSuite.hasValidMAC1(bytes, secret: $0) }),
            let mac1 = Bytes16(bytes.extracting(HandshakeDatagram.mac1Offset..<HandshakeDatagram.mac2Offset))
        else {
            statistics.refusedMac1 += 1
            return
        }
        for index in halfOpen.expire(at: now) { owners[index] = nil }
        if let known = halfOpen.entry(initiationMAC: mac1) {
            answerAgain(known, from: source, into: &outbox)
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

    private func hasMAC2(_ bytes: Span<UInt8>) -> Bool {
        for index in HandshakeDatagram.mac2Offset..<bytes.count where bytes[index] != 0 { return true }
        return false
    }

    /// Only to the source of the first one: a copy from elsewhere is somebody else's.
    private mutating func answerAgain(
        _ entry: HalfOpenTable.Entry, from source: SocketAddress, into outbox: inout Outbox<LinkOutput>
    ) {
        guard entry.source == source else {
            statistics.refusedSource += 1
            return
        }
        statistics.responsesSent += 1
        transmit(entry.response, to: source, into: &outbox)
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

    // MARK: RESP → FIN

    private mutating func receiveResponse(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, suite: HandshakeSuite, from source: SocketAddress,
        receivedAt: HostTime, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard case .dial(let number, let target) = owners[datagram.receiverIndex],
            let position = dials.firstIndex(where: { $0.number == number }),
            let secret = secret(dials[position].request.secretID)
        else {
            statistics.refusedState += 1
            return
        }
        guard HandshakeSuite.hasValidMAC1(bytes, secret: secret) else {
            statistics.refusedMac1 += 1
            return
        }
        guard source == dials[position].targets[target].address,
            let waiting = dials[position].targets[target].handshake
        else {
            statistics.refusedSource += 1
            return
        }
        // A copy reads: a forged answer must not end the wait for the true one (AB-63).
        var handshake = waiting
        guard let payload = readPayload(datagram.noise, with: &handshake, suite: suite, peerRole: .responder) else {
            statistics.refusedHandshake += 1
            dials[position].failure = .authenticationFailed
            return
        }
        if let failure = objection(
            to: payload, expected: dials[position].request.expectedPeer, from: source, at: now, into: &outbox)
        {
            failTarget(target, ofDial: position, failure, into: &outbox)
            return
        }
        finishDial(
            dials[position], target: target, datagram: datagram, payload: payload, handshake: handshake, secret: secret,
            suite: suite, receivedAt: receivedAt, at: now, into: &outbox)
    }

    private mutating func failTarget(
        _ target: Int, ofDial position: Int, _ failure: DialFailure, into outbox: inout Outbox<LinkOutput>
    ) {
        if let index = dials[position].targets[target].localIndex { owners[index] = nil }
        dials[position].targets[target].nextSendAt = nil
        dials[position].targets[target].handshake = nil
        dials[position].failure = failure
        if dials[position].hasFailedEverywhere { fail(position, into: &outbox) }
    }

    private func readPayload(
        _ noise: [UInt8], with handshake: inout NoiseHandshake, suite: HandshakeSuite, peerRole: LinkIdentity.Role
    ) -> HandshakePayload? {
        do throws(CryptoError) {
            let bytes = try handshake.readMessage(noise)
            return suite.verifiedPayload(bytes, role: peerRole, staticKey: handshake.remoteStatic)
        } catch {
            return nil
        }
    }

    /// Why a proven peer is not the one to link with; `nil` when it is.
    private mutating func objection(
        to payload: HandshakePayload, expected: PeerID?, from source: SocketAddress, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) -> DialFailure? {
        guard payload.node != identity.peerID else {
            statistics.refusedSelf += 1
            if payload.incarnation != identity.incarnation {
                // Another process runs under this node's key.
                outbox.append(.event(ProtocolEvent(.identityConflict, subject: payload.node)))
            }
            return .wrongPeer
        }
        guard expected == nil || expected == payload.node else {
            statistics.refusedWrongPeer += 1
            return .wrongPeer
        }
        guard let suite, suite.speaks(payload) else {
            statistics.refusedVersion += 1
            if history.noteMismatch(payload, address: source, at: now) {
                outbox.append(
                    .event(
                        ProtocolEvent(
                            .versionMismatch, subject: payload.node,
                            detail: [
                                .init("theirMinimum", .integer(Int64(payload.minimumVersion))),
                                .init("theirMaximum", .integer(Int64(payload.maximumVersion))),
                            ])))
            }
            return .versionMismatch(theirMinimum: payload.minimumVersion, theirMaximum: payload.maximumVersion)
        }
        return nil
    }

    private mutating func finishDial(
        _ dial: Dial, target: Int, datagram: HandshakeDatagram, payload: HandshakePayload, handshake: NoiseHandshake,
        secret: GroupSecret, suite: HandshakeSuite, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        let address = dial.targets[target].address
        guard let localIndex = dial.targets[target].localIndex else { return }
        let keepsLink = link(to: payload.node)?.identity.incarnation == payload.incarnation
        guard keepsLink || slot(of: payload.node) != nil || hasRoomForLink else {
            statistics.refusedLinkLimit += 1
            outbox.append(
                .event(ProtocolEvent(.limitReached, subject: payload.node, detail: [.init("limit", .text("links"))])))
            return
        }
        var handshake = handshake
        let generation: KeyGeneration
        let final: [UInt8]
        do throws(CryptoError) {
            let noise = try handshake.writeMessage(
                payload: suite.payload(
                    role: .initiator, flags: keepsLink ? HandshakePayload.keepsLinkFlag : 0,
                    membershipHead: membershipHead))
            final = HandshakeSuite.sealed(
                HandshakeDatagram(
                    type: .final, senderIndex: localIndex, receiverIndex: datagram.senderIndex, noise: noise),
                secret: secret, cookie: nil)
            generation = try keys(
                from: &handshake, localIndex: localIndex, remoteIndex: datagram.senderIndex, role: .initiator,
                secretID: secret.id, at: now)
        } catch {
            statistics.refusedHandshake += 1
            return
        }
        forgetDial(dial.number)
        history.noteProven(address)
        let sample = dial.targets[target].sendCount == 1 ? receivedAt - dial.targets[target].firstSentAt : nil
        let isSilent = dial.purpose != .link
        guard
            let slot = establish(
                payload, generation: generation, address: address, isSilent: isSilent, roundTrip: sample, at: now,
                into: &outbox)
        else { return }
        transmit(final, to: address, into: &outbox)
        finals.append(
            PendingFinal(
                localIndex: localIndex, slot: slot, address: address, bytes: final,
                nextSendAt: now + random.jittered(configuration.handshakeRetransmission), sendCount: 1,
                endsAt: now + configuration.halfOpenLife))
    }

    private func keys(
        from handshake: inout NoiseHandshake, localIndex: UInt32, remoteIndex: UInt32, role: LinkIdentity.Role,
        secretID: SecretID, at now: HostTime
    ) throws(CryptoError) -> KeyGeneration {
        let hash = handshake.handshakeHash
        let keys = try handshake.split()
        return KeyGeneration(
            localIndex: localIndex, remoteIndex: remoteIndex, role: role, secretID: secretID, handshakeHash: hash,
            sendKey: keys.send, receiveKey: keys.receive, firstCounter: configuration.firstCounter, at: now)
    }

    // MARK: FIN

    private mutating func receiveFinal(
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
        guard objection(to: payload, expected: nil, from: source, at: now, into: &outbox) == nil else { return }
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

    // MARK: Link

    /// Gives the keys to the peer's link, or makes one. Returns its slot; `nil` when the keys were not needed.
    private mutating func establish(
        _ payload: HandshakePayload, generation: KeyGeneration, address: SocketAddress, isSilent: Bool,
        roundTrip: TimeSpan?, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) -> Int? {
        statistics.handshakesFinished += 1
        endDials(for: payload.node, into: &outbox)
        if let slot = slot(of: payload.node), let link = links[slot] {
            guard link.identity.incarnation != payload.incarnation else {
                return renew(
                    slot, payload, generation: generation, address: address, isSilent: isSilent, at: now, into: &outbox)
            }
            removeLink(slot, loss: .replaced, into: &outbox)
        }
        let linkIdentity = LinkIdentity(
            peer: payload.node, incarnation: payload.incarnation, secretID: generation.secretID, role: generation.role,
            address: address, membershipHead: payload.membershipHead)
        var link = SecureLink(identity: linkIdentity, configuration: configuration, random: &random, at: now)
        _ = link.install(generation, address: address, at: now)
        if let roundTrip { link.roundTrip.measure(roundTrip, acknowledgementDelay: .zero, at: now) }
        let slot = insertLink(link)
        owners[generation.localIndex] = .link(slot: slot)
        outbox.append(.established(linkIdentity))
        return slot
    }

    /// The same process of the peer again: new keys, a reconnection, or a handshake that crossed another.
    private mutating func renew(
        _ slot: Int, _ payload: HandshakePayload, generation: KeyGeneration, address: SocketAddress, isSilent: Bool,
        at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) -> Int? {
        guard case .installed(let isCrossing) = links[slot]?.install(generation, address: address, at: now) else {
            return nil
        }
        owners[generation.localIndex] = .link(slot: slot)
        links[slot]?.note(membershipHead: payload.membershipHead)
        let peerKeptLink = payload.flags & HandshakePayload.keepsLinkFlag != 0
        if generation.role == .responder, !peerKeptLink, !isCrossing { links[slot]?.restartQueues(random: &random) }
        let isNews = generation.role == .initiator ? !isSilent : !peerKeptLink
        if isNews, !isCrossing, let identity = links[slot]?.identity { outbox.append(.established(identity)) }
        return slot
    }

    /// Other dials that were meant for a peer that is linked now have reached their goal.
    private mutating func endDials(for peer: PeerID, into outbox: inout Outbox<LinkOutput>) {
        for dial in dials where dial.request.expectedPeer == peer && dial.purpose == .link { forgetDial(dial.number) }
    }

    // MARK: COOKIE

    /// Takes a cookie for the next INIT; never moves an address, never ends anything (AB-46, AB-56).
    mutating func receiveCookie(
        _ bytes: Span<UInt8>, from source: SocketAddress, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        let datagram: CookieDatagram
        do throws(WireError) {
            datagram = try CookieDatagram(decoding: bytes)
        } catch {
            count(error)
            return
        }
        guard case .dial(let number, let target) = owners[datagram.receiverIndex],
            let position = dials.firstIndex(where: { $0.number == number }),
            let secret = secret(dials[position].request.secretID)
        else {
            statistics.refusedState += 1
            return
        }
        let initiation = dials[position].targets[target].initiation
        guard dials[position].targets[target].address == source, initiation.count == HandshakeDatagram.mac2Offset else {
            statistics.refusedSource += 1
            return
        }
        do throws(CryptoError) {
            let cookie = try AuthenticatedCipher.openExtended(
                datagram.sealedCookie.span,
                associated: initiation.span.extracting(HandshakeDatagram.mac1Offset..<initiation.count),
                nonce: datagram.nonce.span, key: secret.cookieKey)
            dials[position].targets[target].cookie = SecretBytes(copying: cookie)
        } catch {
            statistics.refusedCookie += 1
            return
        }
        dials[position].targets[target].cookiesTaken += 1
        guard dials[position].targets[target].cookiesTaken == 1 else { return }
        dials[position].targets[target].nextSendAt = now
        sendInitiation(dial: position, target: target, at: now, into: &outbox)
    }
}
