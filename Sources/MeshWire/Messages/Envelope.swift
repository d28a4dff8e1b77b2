import MeshBase

/// A signed record as it travels and is stored.
///
/// ```
/// version 1 | kind 1 | flags 2 | mesh 32 | author 32 | incarnation 8 | sequence 8 | lamport 8 | previous 32
///   | epoch 16 | n 1 | n × 32 parents | body length 4 | nonce 24 | sealed body | Ed25519 64
/// ```
/// Integers are little-endian; `body length` counts the sealed body with its tag, without the nonce. One record has
/// exactly one byte form: flags are zero, parents stand in strictly rising order, and no parent equals `previous`.
public struct Envelope: WireMessage {
    public static let version: UInt8 = 1
    public static let nonceByteCount = 24
    public static let signatureByteCount = 64
    /// Everything before the parents.
    static let fixedByteCount = 1 + 1 + 2 + 32 + 32 + 8 + 8 + 8 + 32 + 16 + 1

    /// The largest record in bytes, with all parents and the largest body.
    public static let maximumByteCount =
        fixedByteCount + 32 * WireLimits.maximumParents + 4 + nonceByteCount + WireLimits.maximumRecordBodyBytes
        + signatureByteCount

    public var kind: RecordKind
    /// 32 zero bytes in GENESIS, whose id names the mesh.
    public var mesh: MeshID
    public var author: PeerID
    /// The author's process life: one chain of records each.
    public var incarnation: Incarnation
    /// 1, 2, 3… within the chain.
    public var sequence: UInt64
    /// One more than the greatest of the causes: checked by every receiver.
    public var lamport: UInt64
    /// The record before this one in the chain; zero for the first.
    public var previous: RecordID
    /// The secret under which the body is sealed.
    public var epoch: SecretID
    /// The other records the author had seen last, at most `WireLimits.maximumParents`, strictly rising.
    public var parents: [RecordID]
    /// 24 random bytes.
    public var nonce: [UInt8]
    /// 16 to `WireLimits.maximumRecordBodyBytes` bytes.
    public var sealedBody: [UInt8]
    /// 64 bytes.
    public var signature: [UInt8]

    public init(
        kind: RecordKind, mesh: MeshID, author: PeerID, incarnation: Incarnation, sequence: UInt64, lamport: UInt64,
        previous: RecordID, epoch: SecretID, parents: [RecordID], nonce: [UInt8], sealedBody: [UInt8],
        signature: [UInt8]
    ) {
        self.kind = kind
        self.mesh = mesh
        self.author = author
        self.incarnation = incarnation
        self.sequence = sequence
        self.lamport = lamport
        self.previous = previous
        self.epoch = epoch
        self.parents = parents
        self.nonce = nonce
        self.sealedBody = sealedBody
        self.signature = signature
    }

    /// What the cipher authenticates beside the body: every byte before the nonce. `sealedByteCount` stands in it.
    public func encodeHeader(into writer: inout ByteWriter, sealedByteCount: Int) {
        precondition(parents.count <= WireLimits.maximumParents, "a record has at most 16 parents")
        writer.write(Self.version)
        writer.write(kind.rawValue)
        writer.write(UInt16(0))
        writer.write(mesh.value)
        writer.write(author.value)
        writer.write(incarnation.value)
        writer.write(sequence)
        writer.write(lamport)
        writer.write(previous.value)
        writer.write(epoch.value)
        writer.write(UInt8(truncatingIfNeeded: parents.count))
        for parent in parents { writer.write(parent.value) }
        writer.write(UInt32(truncatingIfNeeded: sealedByteCount))
    }

    /// Everything before the signature: what the id covers and the signature signs.
    public func encodeUnsigned(into writer: inout ByteWriter) {
        encodeHeader(into: &writer, sealedByteCount: sealedBody.count)
        writer.write(bytes: nonce)
        writer.write(bytes: sealedBody)
    }

    public func encode(into writer: inout ByteWriter) {
        encodeUnsigned(into: &writer)
        writer.write(bytes: signature)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == Self.version else { throw .unsupportedVersion }
        kind = RecordKind(rawValue: try bytes.readUInt8(&position))
        guard try bytes.readUInt16(&position) == 0 else { throw .invalidValue }
        mesh = MeshID(try bytes.readBytes32(&position))
        author = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
        sequence = try bytes.readUInt64(&position)
        lamport = try bytes.readUInt64(&position)
        previous = RecordID(try bytes.readBytes32(&position))
        epoch = SecretID(try bytes.readBytes16(&position))
        parents = try Self.readParents(bytes, &position, previous: previous)
        let bodyByteCount = Int(try bytes.readUInt32(&position))
        guard bodyByteCount <= WireLimits.maximumRecordBodyBytes else { throw .limitExceeded }
        guard bodyByteCount >= WireLimits.tagBytes else { throw .invalidValue }
        nonce = try bytes.readBytes(&position, count: Self.nonceByteCount)
        sealedBody = try bytes.readBytes(&position, count: bodyByteCount)
        signature = try bytes.readBytes(&position, count: Self.signatureByteCount)
        try bytes.expectEnd(position)
    }

    private static func readParents(
        _ bytes: Span<UInt8>, _ position: inout Int, previous: RecordID
    ) throws(WireError) -> [RecordID] {
        let count = try bytes.readCount8(&position, maximum: WireLimits.maximumParents)
        var parents: [RecordID] = []
        for _ in 0..<count {
            let parent = RecordID(try bytes.readBytes32(&position))
            guard parent != previous else { throw .invalidValue }
            try parents.append(rising: parent)
        }
        return parents
    }
}
