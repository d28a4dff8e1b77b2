import MeshBase
import MeshCrypto
import MeshWire

/// Seals, signs, opens and checks ordered messages.
enum OrderedSeal {
    private static let domain = Array("STARLING/1 ordered\0".utf8)

    /// `nonce`: 24 fresh random bytes.
    static func seal(
        _ payload: [UInt8], sequence: UInt64, lamport: UInt64, mesh: MeshID, secret: GroupSecret, nonce: [UInt8],
        identity: NodeIdentity
    ) throws(CryptoError) -> OrderedMessage {
        var message = OrderedMessage(
            author: identity.peerID, incarnation: identity.incarnation, sequence: sequence, lamport: lamport,
            epoch: secret.id, nonce: nonce, sealed: [], signature: [])
        let associated = associatedBytes(message, mesh: mesh, sealedByteCount: payload.count + WireLimits.tagBytes)
        message.sealed = try AuthenticatedCipher.sealExtended(
            payload.span, associated: associated.span, nonce: nonce.span, key: secret.envelopeKey)
        message.signature = identity.signing.sign(signedBytes(message, mesh: mesh).span)
        return message
    }

    static func isSignatureValid(_ message: OrderedMessage, mesh: MeshID) -> Bool {
        Signature.isValid(message.signature.span, of: signedBytes(message, mesh: mesh).span, by: message.author)
    }

    static func open(_ message: OrderedMessage, mesh: MeshID, secret: GroupSecret) -> [UInt8]? {
        let associated = associatedBytes(message, mesh: mesh, sealedByteCount: message.sealed.count)
        // A seal that does not hold says nothing more.
        return try? AuthenticatedCipher.openExtended(
            message.sealed.span, associated: associated.span, nonce: message.nonce.span, key: secret.envelopeKey)
    }

    private static func associatedBytes(_ message: OrderedMessage, mesh: MeshID, sealedByteCount: Int) -> [UInt8] {
        var writer = ByteWriter(reserving: 128)
        writer.write(mesh.value)
        message.encodeHeader(into: &writer, sealedByteCount: sealedByteCount)
        return writer.bytes
    }

    private static func signedBytes(_ message: OrderedMessage, mesh: MeshID) -> [UInt8] {
        var writer = ByteWriter(reserving: message.sealed.count + 192)
        writer.write(bytes: domain)
        writer.write(mesh.value)
        message.encodeUnsigned(into: &writer)
        return writer.bytes
    }
}
