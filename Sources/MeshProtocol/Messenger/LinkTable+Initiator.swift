import MeshBase
import MeshCrypto
import MeshWire

// The side that begins: INIT, again and to several addresses, until a RESP proves itself; then FIN until it is heard.
extension LinkTable {
    // MARK: Beginning

    /// Books a dial; `runDials` sends. Returns why not.
    mutating func beginDial(_ request: DialRequest, purpose: Dial.Purpose, at now: HostTime) -> DialFailure? {
        guard let suite else { return .unknownSecret }
        if let peer = request.expectedPeer, secret(request.secretID) == nil {
            _ = pairs.secret(with: peer, mesh: suite.mesh)
        }
        guard secret(request.secretID) != nil else { return .unknownSecret }
        guard request.expectedPeer != identity.peerID else { return .wrongPeer }
        guard dials.count < configuration.maximumDials else { return .tooMany }
        var addresses: [SocketAddress] = []
        for address in request.addresses.prefix(configuration.maximumDialAddresses)
        where (address.isDialable || purpose != .link && address.isDiscardOnly) && !addresses.contains(address) {
            if let known = history.mismatch(peer: request.expectedPeer, address: address, at: now) {
                guard request.addresses.count > 1, known.peer != request.expectedPeer else {
                    return .versionMismatch(theirMinimum: known.theirMinimum, theirMaximum: known.theirMaximum)
                }
                continue
            }
            addresses.append(address)
        }
        let routes = routes(for: request)
        guard !addresses.isEmpty || !routes.isEmpty else { return .noAnswer }
        if request.isPunch { forgetDials(to: request.expectedPeer) }
        let targets =
            addresses.enumerated().map { position, address in
                let staggered = now + configuration.dialStagger * Int64(position)
                let earliest = max(staggered, history.nextAttempt(at: address, now: now))
                return Dial.Target(address: address, nextSendAt: request.isPunch ? now : earliest)
            } + routes.map { Dial.Target(address: $0, nextSendAt: now) }
        dials.append(
            Dial(
                number: nextDialNumber, request: request, purpose: purpose, deadline: now + configuration.dialTimeLimit,
                targets: targets))
        nextDialNumber += 1
        return nil
    }

    /// The addresses that stand for the ways through members.
    private mutating func routes(for request: DialRequest) -> [SocketAddress] {
        guard let peer = request.expectedPeer else { return [] }
        let able = request.relays.filter { $0 != peer && directSlot(of: $0) != nil }
        return able.map { relays.address(of: RelayRoutes.Route(peer: peer, relay: $0)) }
    }

    /// An attempt at an agreed instant takes the place of those that have led to nothing.
    private mutating func forgetDials(to peer: PeerID?) {
        for dial in dials where dial.purpose == .link && dial.request.expectedPeer == peer { forgetDial(dial.number) }
    }

    /// These addresses lead nowhere.
    mutating func failTargets(at address: SocketAddress, into outbox: inout Outbox<LinkOutput>) {
        for dial in dials {
            guard let target = dial.targets.firstIndex(where: { $0.address == address && $0.nextSendAt != nil }),
                let position = dials.firstIndex(where: { $0.number == dial.number })
            else { continue }
            failTarget(target, ofDial: position, .noAnswer, into: &outbox)
        }
    }

    /// New keys for a link, over its own address, under its secret or, when that is void, one that the peer has.
    mutating func beginRekey(_ slot: Int, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        guard let link = links[slot], let suite,
            let secret = secret(link.identity.secretID) ?? pairs.secret(with: link.peer, mesh: suite.mesh)
                ?? secrets.first
        else { return }
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
        // Attempts at an agreed instant are repeated at agreed instants.
        let isAgreed = dials[position].request.isPunch && dials[position].targets[target].sendCount < Dial.punchRounds
        dials[position].targets[target].nextSendAt = now + (isAgreed ? wait : random.jittered(wait))
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

    // MARK: RESP → FIN

    /// The dial, its target and its secret that an answer to this index belongs to; an answer to none is counted.
    private mutating func dialWaiting(at index: UInt32) -> (position: Int, target: Int, secret: GroupSecret)? {
        guard case .dial(let number, let target) = owners[index],
            let position = dials.firstIndex(where: { $0.number == number }),
            let secret = secret(dials[position].request.secretID)
        else {
            statistics.refusedState += 1
            return nil
        }
        return (position, target, secret)
    }

    mutating func receiveResponse(
        _ datagram: HandshakeDatagram, _ bytes: Span<UInt8>, suite: HandshakeSuite, from source: SocketAddress,
        receivedAt: HostTime, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let (position, target, secret) = dialWaiting(at: datagram.receiverIndex) else { return }
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
        guard let (position, target, secret) = dialWaiting(at: datagram.receiverIndex) else { return }
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
