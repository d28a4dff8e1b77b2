import MeshBase
import MeshCrypto
import MeshWire

/// What both sides of a handshake compute alike: prologue, MACs, signed payload. Docs/Protocol.md, "Cryptography".
struct HandshakeSuite: Sendable {
    let identity: NodeIdentity
    let mesh: MeshID
    let configuration: LinkConfiguration
    /// The X25519 key of this process, bound to the node and its incarnation by a signature inside the handshake.
    let staticKey: AgreementKeyPair

    /// `"STARLING/1" || 0 || wire_version || mesh_id 32 || secret_id 16`: sides that differ in any of it never meet.
    func prologue(secretID: SecretID) -> [UInt8] {
        var bytes = Array("STARLING/1".utf8)
        bytes.append(0)
        bytes.append(WireVersion.current)
        bytes += mesh.bytes
        bytes += secretID.bytes
        return bytes
    }

    func handshake(_ role: NoiseHandshake.Role, secret: GroupSecret, random: inout RandomStream) -> NoiseHandshake {
        NoiseHandshake(
            pattern: .mesh, role: role, prologue: prologue(secretID: secret.id), localStatic: staticKey,
            localEphemeral: AgreementKeyPair(secret: random.secret()), presharedKeys: [secret.presharedKey])
    }

    // MARK: Payload

    func payload(role: LinkIdentity.Role, flags: UInt16, membershipHead: Bytes16) -> [UInt8] {
        var payload = HandshakePayload(
            node: identity.peerID, incarnation: identity.incarnation, minimumVersion: configuration.minimumVersion,
            maximumVersion: configuration.maximumVersion, flags: flags, capabilities: configuration.capabilities,
            membershipHead: membershipHead)
        let message = payload.signedMessage(mesh: mesh, role: role.rawValue, staticKey: staticKey.publicKey)
        payload.signature = identity.signing.sign(message.span)
        return payload.encoded
    }

    /// The peer's payload, when its signature binds the static key that the handshake proved. `role`: the peer's.
    func verifiedPayload(_ bytes: [UInt8], role: LinkIdentity.Role, staticKey: Bytes32?) -> HandshakePayload? {
        guard let staticKey else { return nil }
        do throws(WireError) {
            let payload = try HandshakePayload(decoding: bytes.span)
            let message = payload.signedMessage(mesh: mesh, role: role.rawValue, staticKey: staticKey)
            let isValid = Signature.isValid(payload.signature.span, of: message.span, by: payload.node)
            return isValid ? payload : nil
        } catch {
            return nil
        }
    }

    func speaks(_ payload: HandshakePayload) -> Bool {
        payload.minimumVersion <= configuration.maximumVersion && payload.maximumVersion >= configuration.minimumVersion
    }

    // MARK: Datagrams

    /// A whole datagram with `mac1`, and `mac2` when a cookie is at hand (zeros otherwise).
    static func sealed(_ datagram: HandshakeDatagram, secret: GroupSecret, cookie: SecretBytes?) -> [UInt8] {
        var bytes = datagram.bytesBeforeMACs
        Digest.mac16(bytes.span, key: secret.mac1Key).append(to: &bytes)
        appendMAC2(to: &bytes, cookie: cookie)
        return bytes
    }

    /// Appends `mac2` to the 336 bytes before it.
    static func appendMAC2(to bytes: inout [UInt8], cookie: SecretBytes?) {
        if let cookie {
            Digest.mac16(bytes.span, key: cookie).append(to: &bytes)
        } else {
            bytes.appendZeros(Bytes16.byteCount)
        }
    }

    static func hasValidMAC1(_ bytes: Span<UInt8>, secret: GroupSecret) -> Bool {
        Digest.verify(
            mac: bytes.extracting(HandshakeDatagram.mac1Offset..<HandshakeDatagram.mac2Offset),
            of: bytes.extracting(0..<HandshakeDatagram.mac1Offset), key: secret.mac1Key)
    }
}
