import MeshBase
import MeshCrypto
import MeshWire

// Both sides of the handshake: what they share. Whoever begins is in `LinkTable+Initiator.swift`, whoever answers in
// `LinkTable+Responder.swift`, what they end in in `LinkTable+Establishing.swift`.
extension LinkTable {
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

    // MARK: Judging

    func readPayload(
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
    mutating func objection(
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
        // By its key, whatever it proved to know (AB-54).
        guard !pairs.removed.contains(payload.node) else {
            statistics.refusedRemoved += 1
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

    func keys(
        from handshake: inout NoiseHandshake, localIndex: UInt32, remoteIndex: UInt32, role: LinkIdentity.Role,
        secretID: SecretID, at now: HostTime
    ) throws(CryptoError) -> KeyGeneration {
        let hash = handshake.handshakeHash
        let keys = try handshake.split()
        return KeyGeneration(
            localIndex: localIndex, remoteIndex: remoteIndex, role: role, secretID: secretID, handshakeHash: hash,
            sendKey: keys.send, receiveKey: keys.receive, firstCounter: configuration.firstCounter, at: now)
    }

    mutating func transmit(_ bytes: [UInt8], to address: SocketAddress, into outbox: inout Outbox<LinkOutput>) {
        if address.isDiscardOnly { return carry(bytes, to: address) }
        statistics.datagramsSent += 1
        statistics.bytesSent += UInt64(bytes.count)
        outbox.append(.transmit(OutgoingDatagram(bytes: bytes, destination: address)))
    }
}
