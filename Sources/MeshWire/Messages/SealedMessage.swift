import MeshBase

/// What others may pass on without being able to read or change it: sealed under an epoch secret and signed by its
/// author.
///
/// On the wire `header | nonce 24 | sealed bytes | Ed25519 64`; the header ends with the number of sealed bytes, u32. The
/// cipher authenticates the mesh and the header; the signature covers the mesh and all before it.
public protocol SealedMessage: Sendable {
    /// Sealed bytes at most; a tag's at least.
    static var maximumSealedBytes: Int { get }
    /// Separates its signatures from those of every other kind.
    static var signatureDomain: String { get }

    var author: PeerID { get }
    /// The secret that seals it.
    var epoch: SecretID { get }
    var nonce: [UInt8] { get }
    var sealed: [UInt8] { get set }
    var signature: [UInt8] { get set }

    /// All before the nonce.
    func encodeHeader(into writer: inout ByteWriter, sealedByteCount: Int)
}

extension SealedMessage {
    /// All before the signature.
    public func encodeUnsigned(into writer: inout ByteWriter) {
        encodeHeader(into: &writer, sealedByteCount: sealed.count)
        writer.write(bytes: nonce)
        writer.write(bytes: sealed)
    }

    /// All that is signed and the signature.
    func encodeSigned(into writer: inout ByteWriter) {
        encodeUnsigned(into: &writer)
        writer.write(bytes: signature)
    }

    /// `length u32 | nonce 24 | sealed bytes | Ed25519 64`: the header's end and what follows.
    static func readSealed(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> (nonce: [UInt8], sealed: [UInt8], signature: [UInt8]) {
        let length = Int(try bytes.readUInt32(&position))
        guard length <= maximumSealedBytes else { throw .limitExceeded }
        guard length >= WireLimits.tagBytes else { throw .invalidValue }
        let nonce = try bytes.readBytes(&position, count: Envelope.nonceByteCount)
        let sealed = try bytes.readBytes(&position, count: length)
        return (nonce, sealed, try bytes.readBytes(&position, count: Envelope.signatureByteCount))
    }
}
