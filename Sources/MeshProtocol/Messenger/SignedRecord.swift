import MeshBase
import MeshCrypto
import MeshWire

/// A decoded envelope with its bytes and id. Whether its signature holds is asked once, with `isSignatureValid`.
struct SignedRecord: Sendable {
    let id: RecordID
    let envelope: Envelope
    let bytes: [UInt8]

    private static let domain = Array("STARLING/1 record\0".utf8)

    init(decoding bytes: [UInt8]) throws(WireError) {
        envelope = try Envelope(decoding: bytes)
        self.bytes = bytes
        id = Self.identifier(of: bytes)
    }

    /// Signs a new record. `body` is at most the record limit less the cipher's tag; `nonce` 24 fresh random bytes.
    init(
        kind: RecordKind, mesh: MeshID, sequence: UInt64, lamport: UInt64, previous: RecordID, parents: [RecordID],
        body: [UInt8], secret: GroupSecret, nonce: [UInt8], identity: NodeIdentity
    ) throws(CryptoError) {
        var envelope = Envelope(
            kind: kind, mesh: mesh, author: identity.peerID, incarnation: identity.incarnation, sequence: sequence,
            lamport: lamport, previous: previous, epoch: secret.id, parents: parents, nonce: nonce, sealedBody: [],
            signature: [])
        var header = ByteWriter(reserving: 256)
        envelope.encodeHeader(into: &header, sealedByteCount: body.count + WireLimits.tagBytes)
        envelope.sealedBody = try AuthenticatedCipher.sealExtended(
            body.span, associated: header.bytes.span, nonce: nonce.span, key: secret.envelopeKey)
        var unsigned = ByteWriter(reserving: header.count + body.count + 128)
        envelope.encodeUnsigned(into: &unsigned)
        envelope.signature = identity.signing.sign((Self.domain + unsigned.bytes).span)
        self.envelope = envelope
        bytes = unsigned.bytes + envelope.signature
        id = RecordID(Digest.hash32(unsigned.bytes.span))
    }

    /// The id covers everything but the signature, so re-encoding a signature cannot make a second record (AB-54).
    private static func identifier(of bytes: [UInt8]) -> RecordID {
        let unsignedCount = bytes.count - Envelope.signatureByteCount
        return RecordID(Digest.hash32(bytes.span.extracting(0..<unsignedCount)))
    }

    /// The author's signature over the domain and all before it. Cost: 36 µs.
    var isSignatureValid: Bool {
        let signed = Self.domain + bytes[0..<(bytes.count - Envelope.signatureByteCount)]
        return Signature.isValid(envelope.signature.span, of: signed.span, by: envelope.author)
    }

    /// The body in clear; nil when the seal does not hold.
    func openBody(with secret: GroupSecret) -> [UInt8]? {
        var header = ByteWriter(reserving: 256)
        envelope.encodeHeader(into: &header, sealedByteCount: envelope.sealedBody.count)
        // A seal that does not hold is the author's fault and says nothing more.
        return try? AuthenticatedCipher.openExtended(
            envelope.sealedBody.span, associated: header.bytes.span, nonce: envelope.nonce.span,
            key: secret.envelopeKey)
    }

    var order: RecordOrder { RecordOrder(envelope) }
    var chain: ChainKey { ChainKey(author: envelope.author, incarnation: envelope.incarnation) }

    /// The records that must be known before this one: `previous` and the parents.
    var causes: [RecordID] {
        envelope.previous.value == .zero ? envelope.parents : [envelope.previous] + envelope.parents
    }
}
