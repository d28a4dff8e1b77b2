import MeshBase
import MeshCrypto
import MeshWire

// Sealing, signing, opening and checking of what others pass on.
extension SealedMessage {
    /// Fills in the sealed bytes and the signature.
    mutating func seal(
        _ payload: [UInt8], mesh: MeshID, secret: GroupSecret, signing: SigningKeyPair
    ) throws(CryptoError) {
        let associated = associatedBytes(mesh: mesh, sealedByteCount: payload.count + WireLimits.tagBytes)
        sealed = try AuthenticatedCipher.sealExtended(
            payload.span, associated: associated.span, nonce: nonce.span, key: secret.envelopeKey)
        signature = signing.sign(signedBytes(mesh: mesh).span)
    }

    /// Only the author's own signature makes it the author's (AB-52). Cost: 36 µs.
    func isSignatureValid(mesh: MeshID) -> Bool {
        Signature.isValid(signature.span, of: signedBytes(mesh: mesh).span, by: author)
    }

    func open(mesh: MeshID, secret: GroupSecret) -> [UInt8]? {
        let associated = associatedBytes(mesh: mesh, sealedByteCount: sealed.count)
        // A seal that does not hold says nothing more.
        return try? AuthenticatedCipher.openExtended(
            sealed.span, associated: associated.span, nonce: nonce.span, key: secret.envelopeKey)
    }

    private func associatedBytes(mesh: MeshID, sealedByteCount: Int) -> [UInt8] {
        var writer = ByteWriter(reserving: 160)
        writer.write(mesh.value)
        encodeHeader(into: &writer, sealedByteCount: sealedByteCount)
        return writer.bytes
    }

    private func signedBytes(mesh: MeshID) -> [UInt8] {
        var writer = ByteWriter(reserving: sealed.count + 256)
        writer.write(bytes: Self.signatureDomain.utf8)
        writer.write(mesh.value)
        encodeUnsigned(into: &writer)
        return writer.bytes
    }
}
