import MeshBase

/// One chain of records: an author in one of its process lives.
public struct ChainKey: Hashable, Comparable, Sendable {
    public var author: PeerID
    public var incarnation: Incarnation

    public init(author: PeerID, incarnation: Incarnation) {
        self.author = author
        self.incarnation = incarnation
    }

    public static func < (left: ChainKey, right: ChainKey) -> Bool {
        (left.author, left.incarnation) < (right.author, right.incarnation)
    }
}

/// How much of one chain a node holds: `author 32 | incarnation 8 | contiguous u64 | forked u8`.
public struct ChainSummary: Hashable, Sendable {
    public static let byteCount = 49

    public var key: ChainKey
    /// Records 1 to this are held.
    public var contiguous: UInt64
    /// Two different records with number `contiguous + 1` are known; the chain counts only to `contiguous`.
    public var isForked: Bool

    public init(key: ChainKey, contiguous: UInt64, isForked: Bool) {
        self.key = key
        self.contiguous = contiguous
        self.isForked = isForked
    }
}

/// A page of what a node holds: every chain after `lower` (from the first when nil) up to its last entry, or without
/// end when `reachesEnd`. Chains in that range that are not listed are not held at all, so each page stands alone.
public struct RecordSummary: Hashable, Sendable {
    /// Entries of one page.
    public static let maximumEntries = 1024

    /// The sender asks for what it lacks.
    public var asksForRecords: Bool
    public var lower: ChainKey?
    public var reachesEnd: Bool
    /// In strictly rising order, all after `lower`.
    public var chains: [ChainSummary]

    public init(asksForRecords: Bool, lower: ChainKey?, reachesEnd: Bool, chains: [ChainSummary]) {
        self.asksForRecords = asksForRecords
        self.lower = lower
        self.reachesEnd = reachesEnd
        self.chains = chains
    }
}

/// Envelopes in causal order.
public struct RecordBundle: Hashable, Sendable {
    public static let maximumRecords = 512
    /// A sender closes a bundle before it grows beyond this.
    public static let targetBytes = 192 * 1024

    /// More would have followed: the receiver answers with a new summary when it wants it.
    public var hasMore: Bool
    public var records: [[UInt8]]

    public init(hasMore: Bool, records: [[UInt8]]) {
        self.hasMore = hasMore
        self.records = records
    }
}

/// All reliable messages of a stream below `next` have been delivered.
public struct MessageAcknowledgement: Hashable, Sendable {
    /// The process life of the stream's sender.
    public var incarnation: Incarnation
    public var next: UInt64

    public init(incarnation: Incarnation, next: UInt64) {
        self.incarnation = incarnation
        self.next = next
    }
}

/// A message passed on by others: signed by its author and sealed for the members.
///
/// ```
/// hops left 1 | author 32 | incarnation 8 | counter 8 | recipient 32 | recipient's incarnation 8 | epoch 16
///   | length u32 | nonce 24 | sealed DIRECT or ACKNOWLEDGEMENT | Ed25519 64
/// ```
/// The signature covers the mesh and all from `author` to the sealed bytes; the cipher authenticates the mesh and all
/// from `author` to `length`.
public struct RelayedMessage: SealedMessage, Hashable {
    public static let signatureDomain = "STARLING/1 relay\0"
    public static let maximumSealedBytes =
        WireLimits.maximumMessageBytes + DirectMessage.maximumHeaderBytes + WireLimits.tagBytes
    /// No message travels further.
    public static let maximumHops: UInt8 = 16

    /// Lowered by everyone who passes it on; not signed.
    public var hopsLeft: UInt8
    public var author: PeerID
    public var incarnation: Incarnation
    /// Rises with each relayed message of this process life, repetitions included.
    public var counter: UInt64
    public var recipient: PeerID
    /// For which process life of the recipient it is: a later one has forgotten what the earlier one received.
    public var recipientIncarnation: Incarnation
    public var epoch: SecretID
    public var nonce: [UInt8]
    public var sealed: [UInt8]
    public var signature: [UInt8]

    public init(
        hopsLeft: UInt8, author: PeerID, incarnation: Incarnation, counter: UInt64, recipient: PeerID,
        recipientIncarnation: Incarnation, epoch: SecretID, nonce: [UInt8], sealed: [UInt8], signature: [UInt8]
    ) {
        self.hopsLeft = hopsLeft
        self.author = author
        self.incarnation = incarnation
        self.counter = counter
        self.recipient = recipient
        self.recipientIncarnation = recipientIncarnation
        self.epoch = epoch
        self.nonce = nonce
        self.sealed = sealed
        self.signature = signature
    }

    /// From `author` to `length`.
    public func encodeHeader(into writer: inout ByteWriter, sealedByteCount: Int) {
        writer.write(author.value)
        writer.write(incarnation.value)
        writer.write(counter)
        writer.write(recipient.value)
        writer.write(recipientIncarnation.value)
        writer.write(epoch.value)
        writer.write(UInt32(truncatingIfNeeded: sealedByteCount))
    }
}

/// What goes over channel `.gossip`: `kind u8 | body`.
public enum GossipMessage: WireMessage {
    /// 1: `flags u8 (1 asks, 2 has lower, 4 reaches end) | lower 40, zero without | n u16 | n × 49`.
    case summary(RecordSummary)
    /// 2: `flags u8 (1 has more) | n u16 | n × (u32 length | envelope)`.
    case records(RecordBundle)
    /// 3: `n u16 | n × 32`: records wanted by id.
    case want([RecordID])
    /// 4: `16`: digest of all records held; equal digests, equal sets.
    case head(Bytes16)
    /// 5: `n u8 | n × 32`: to whom the sender is linked, strictly rising.
    case neighbours([PeerID])
    /// 6: see `DirectMessage`.
    case direct(DirectMessage)
    /// 7: `incarnation 8 | next u64`.
    case acknowledgement(MessageAcknowledgement)
    /// 8: see `RelayedMessage`.
    case relayed(RelayedMessage)
    /// 9: `u32 length | envelope | u32 length | envelope`: two records of one number.
    case fork([UInt8], [UInt8])
    /// 10: see `OrderedMessage`.
    case ordered(OrderedMessage)
    /// 11: see `OrderPromise`.
    case promise(OrderPromise)
    /// 12: see `OrderedSummary`.
    case orderedSummary(OrderedSummary)
    /// 20: `n u8 ≤ 64 | n × 16`: epoch secrets that the sender, a member, was not given.
    case wantSecrets([SecretID])
    /// 21: `n u8 ≤ 64 | n × 32`: what was asked for and is here.
    case secrets([Bytes32])

    public static let maximumWanted = 256
    public static let maximumNeighbours = 64
    public static let maximumSecrets = 64

    private enum Kind: UInt8 {
        case summary = 1
        case records = 2
        case want = 3
        case head = 4
        case neighbours = 5
        case direct = 6
        case acknowledgement = 7
        case relayed = 8
        case fork = 9
        case ordered = 10
        case promise = 11
        case orderedSummary = 12
        case wantSecrets = 20
        case secrets = 21
    }

    public func encode(into writer: inout ByteWriter) {
        switch self {
        case .summary(let summary):
            writer.write(Kind.summary.rawValue)
            summary.encode(into: &writer)
        case .records(let bundle):
            writer.write(Kind.records.rawValue)
            bundle.encode(into: &writer)
        case .want(let ids):
            writer.write(Kind.want.rawValue)
            writer.write(UInt16(truncatingIfNeeded: ids.count))
            for id in ids { writer.write(id.value) }
        case .head(let digest):
            writer.write(Kind.head.rawValue)
            writer.write(digest)
        case .neighbours(let peers):
            writer.write(Kind.neighbours.rawValue)
            writer.write(UInt8(truncatingIfNeeded: peers.count))
            for peer in peers { writer.write(peer.value) }
        case .direct(let message):
            writer.write(Kind.direct.rawValue)
            message.encode(into: &writer)
        case .acknowledgement(let acknowledgement):
            writer.write(Kind.acknowledgement.rawValue)
            acknowledgement.encode(into: &writer)
        case .relayed(let message):
            writer.write(Kind.relayed.rawValue)
            message.encode(into: &writer)
        case .fork(let first, let second):
            writer.write(Kind.fork.rawValue)
            writer.write(UInt32(truncatingIfNeeded: first.count))
            writer.write(bytes: first)
            writer.write(UInt32(truncatingIfNeeded: second.count))
            writer.write(bytes: second)
        case .ordered(let message):
            writer.write(Kind.ordered.rawValue)
            message.encode(into: &writer)
        case .promise(let promise):
            writer.write(Kind.promise.rawValue)
            promise.encode(into: &writer)
        case .orderedSummary(let summary):
            writer.write(Kind.orderedSummary.rawValue)
            summary.encode(into: &writer)
        case .wantSecrets(let ids):
            writer.write(Kind.wantSecrets.rawValue)
            writer.write(UInt8(truncatingIfNeeded: ids.count))
            for id in ids { writer.write(id.value) }
        case .secrets(let secrets):
            writer.write(Kind.secrets.rawValue)
            writer.write(UInt8(truncatingIfNeeded: secrets.count))
            for secret in secrets { writer.write(secret) }
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard let kind = Kind(rawValue: try bytes.readUInt8(&position)) else { throw .unknownType }
        switch kind {
        case .summary: self = .summary(try RecordSummary(reading: bytes, &position))
        case .records: self = .records(try RecordBundle(reading: bytes, &position))
        case .want: self = .want(try Self.readWanted(bytes, &position))
        case .head: self = .head(try bytes.readBytes16(&position))
        case .neighbours: self = .neighbours(try Self.readNeighbours(bytes, &position))
        case .direct: self = .direct(try DirectMessage(reading: bytes, &position))
        case .acknowledgement: self = .acknowledgement(try MessageAcknowledgement(reading: bytes, &position))
        case .relayed: self = .relayed(try RelayedMessage(reading: bytes, &position))
        case .fork:
            let first = try Self.readEnvelope(bytes, &position)
            self = .fork(first, try Self.readEnvelope(bytes, &position))
        case .ordered: self = .ordered(try OrderedMessage(reading: bytes, &position))
        case .promise: self = .promise(try OrderPromise(reading: bytes, &position))
        case .orderedSummary: self = .orderedSummary(try OrderedSummary(reading: bytes, &position))
        case .wantSecrets: self = .wantSecrets(try Self.readSecretIDs(bytes, &position))
        case .secrets: self = .secrets(try Self.readSecrets(bytes, &position))
        }
        try bytes.expectEnd(position)
    }

    private static func readWanted(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [RecordID] {
        let count = try bytes.readCount16(&position, maximum: maximumWanted)
        var ids: [RecordID] = []
        for _ in 0..<count { ids.append(RecordID(try bytes.readBytes32(&position))) }
        return ids
    }

    private static func readSecretIDs(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> [SecretID] {
        let count = try bytes.readCount8(&position, maximum: maximumSecrets)
        var ids: [SecretID] = []
        for _ in 0..<count { ids.append(SecretID(try bytes.readBytes16(&position))) }
        return ids
    }

    private static func readSecrets(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Bytes32] {
        let count = try bytes.readCount8(&position, maximum: maximumSecrets)
        var secrets: [Bytes32] = []
        for _ in 0..<count { secrets.append(try bytes.readBytes32(&position)) }
        return secrets
    }

    private static func readNeighbours(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [PeerID] {
        let count = try bytes.readCount8(&position, maximum: maximumNeighbours)
        var peers: [PeerID] = []
        for _ in 0..<count {
            try peers.append(rising: PeerID(try bytes.readBytes32(&position)))
        }
        return peers
    }

    /// `u32 length | bytes`, at most one record's.
    static func readEnvelope(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [UInt8] {
        let length = Int(try bytes.readUInt32(&position))
        guard length <= Envelope.maximumByteCount else { throw .limitExceeded }
        return try bytes.readBytes(&position, count: length)
    }

    /// A flag byte in which only the bits of `allowed` may stand.
    static func readFlags(
        _ bytes: Span<UInt8>, _ position: inout Int, allowed: UInt8
    ) throws(WireError) -> UInt8 {
        let flags = try bytes.readUInt8(&position)
        guard flags & ~allowed == 0 else { throw .invalidValue }
        return flags
    }
}

extension ChainKey {
    func encode(into writer: inout ByteWriter) {
        writer.write(author.value)
        writer.write(incarnation.value)
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        author = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
    }
}

extension RecordSummary {
    func encode(into writer: inout ByteWriter) {
        writer.write(UInt8((asksForRecords ? 1 : 0) | (lower != nil ? 2 : 0) | (reachesEnd ? 4 : 0)))
        if let lower { lower.encode(into: &writer) } else { writer.write(zeros: 40) }
        writer.write(UInt16(truncatingIfNeeded: chains.count))
        for chain in chains {
            chain.key.encode(into: &writer)
            writer.write(chain.contiguous)
            writer.write(UInt8(chain.isForked ? 1 : 0))
        }
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        let flags = try GossipMessage.readFlags(bytes, &position, allowed: 7)
        asksForRecords = flags & 1 != 0
        reachesEnd = flags & 4 != 0
        let bound = try ChainKey(reading: bytes, &position)
        let isBounded = flags & 2 != 0
        if !isBounded, bound != ChainKey(author: PeerID(.zero), incarnation: Incarnation(0)) { throw .invalidValue }
        lower = isBounded ? bound : nil
        let count = try bytes.readCount16(&position, maximum: Self.maximumEntries)
        var chains: [ChainSummary] = []
        var last = lower
        for _ in 0..<count {
            let key = try ChainKey(reading: bytes, &position)
            if let last, key <= last { throw .invalidValue }
            last = key
            let contiguous = try bytes.readUInt64(&position)
            let flags = try GossipMessage.readFlags(bytes, &position, allowed: 1)
            chains.append(ChainSummary(key: key, contiguous: contiguous, isForked: flags != 0))
        }
        self.chains = chains
    }
}

extension RecordBundle {
    func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(hasMore ? 1 : 0))
        writer.write(UInt16(truncatingIfNeeded: records.count))
        for record in records {
            writer.write(UInt32(truncatingIfNeeded: record.count))
            writer.write(bytes: record)
        }
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        hasMore = try GossipMessage.readFlags(bytes, &position, allowed: 1) != 0
        let count = try bytes.readCount16(&position, maximum: Self.maximumRecords)
        var records: [[UInt8]] = []
        for _ in 0..<count { records.append(try GossipMessage.readEnvelope(bytes, &position)) }
        self.records = records
    }
}

extension MessageAcknowledgement {
    func encode(into writer: inout ByteWriter) {
        writer.write(incarnation.value)
        writer.write(next)
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        incarnation = Incarnation(try bytes.readUInt64(&position))
        next = try bytes.readUInt64(&position)
        guard next >= 1 else { throw .invalidValue }
    }
}

extension RelayedMessage {
    func encode(into writer: inout ByteWriter) {
        writer.write(hopsLeft)
        encodeSigned(into: &writer)
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        hopsLeft = try bytes.readUInt8(&position)
        guard hopsLeft <= Self.maximumHops else { throw .limitExceeded }
        author = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
        counter = try bytes.readUInt64(&position)
        recipient = PeerID(try bytes.readBytes32(&position))
        recipientIncarnation = Incarnation(try bytes.readUInt64(&position))
        epoch = SecretID(try bytes.readBytes16(&position))
        (nonce, sealed, signature) = try Self.readSealed(bytes, &position)
    }
}
