import MeshBase

/// A message of an application with one place in an order that all members share: signed by its author and sealed for
/// the members, so that any of them can bring it to any other, also after a split.
///
/// ```
/// author 32 | incarnation 8 | sequence u64 | lamport u64 | epoch 16 | length u32 | nonce 24 | sealed payload
///   | Ed25519 64
/// ```
/// The signature covers the mesh and all before it; the cipher authenticates the mesh and all from `author` to `length`.
public struct OrderedMessage: SealedMessage, Hashable {
    public static let signatureDomain = "STARLING/1 ordered\0"
    public static let maximumSealedBytes = WireLimits.maximumMessageBytes + WireLimits.tagBytes

    public var author: PeerID
    public var incarnation: Incarnation
    /// 1, 2, 3 … within the author's process life.
    public var sequence: UInt64
    /// Rises with the sequence.
    public var lamport: UInt64
    public var epoch: SecretID
    public var nonce: [UInt8]
    public var sealed: [UInt8]
    public var signature: [UInt8]

    public init(
        author: PeerID, incarnation: Incarnation, sequence: UInt64, lamport: UInt64, epoch: SecretID, nonce: [UInt8],
        sealed: [UInt8], signature: [UInt8]
    ) {
        self.author = author
        self.incarnation = incarnation
        self.sequence = sequence
        self.lamport = lamport
        self.epoch = epoch
        self.nonce = nonce
        self.sealed = sealed
        self.signature = signature
    }

    public var life: ChainKey { ChainKey(author: author, incarnation: incarnation) }

    /// From `author` to `length`.
    public func encodeHeader(into writer: inout ByteWriter, sealedByteCount: Int) {
        writer.write(author.value)
        writer.write(incarnation.value)
        writer.write(sequence)
        writer.write(lamport)
        writer.write(epoch.value)
        writer.write(UInt32(truncatingIfNeeded: sealedByteCount))
    }

    func encode(into writer: inout ByteWriter) { encodeSigned(into: &writer) }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        author = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
        sequence = try bytes.readUInt64(&position)
        lamport = try bytes.readUInt64(&position)
        guard sequence >= 1, sequence < .max, lamport >= 1, lamport < .max else { throw .invalidValue }
        epoch = SecretID(try bytes.readBytes16(&position))
        (nonce, sealed, signature) = try Self.readSealed(bytes, &position)
    }
}

/// What a member says of its own messages to come: `flags u8 (1 asks) | lamport v | next ordered v | next direct v`.
///
/// Every message it will send has a greater Lamport time than `lamport`, but for ordered ones below `nextOrdered` and
/// reliable ones to this receiver below `nextDirect`, which are sent already.
public struct OrderPromise: Hashable, Sendable {
    /// The receiver is to answer with its own.
    public var asks: Bool
    public var lamport: UInt64
    /// At least 1.
    public var nextOrdered: UInt64
    /// At least 1.
    public var nextDirect: UInt64

    public init(asks: Bool, lamport: UInt64, nextOrdered: UInt64, nextDirect: UInt64) {
        self.asks = asks
        self.lamport = lamport
        self.nextOrdered = nextOrdered
        self.nextDirect = nextDirect
    }

    func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(asks ? 1 : 0))
        writer.write(variable: lamport)
        writer.write(variable: nextOrdered)
        writer.write(variable: nextDirect)
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        asks = try GossipMessage.readFlags(bytes, &position, allowed: 1) != 0
        lamport = try bytes.readVariable(&position)
        nextOrdered = try bytes.readVariable(&position)
        nextDirect = try bytes.readVariable(&position)
        guard nextOrdered >= 1, nextDirect >= 1 else { throw .invalidValue }
    }
}

/// Which ordered messages a member has had:
/// `flags u8 (1 asks for all) | n u8 ≤ 64 | n × (author 32 | incarnation 8 | m u8 ≤ 8 | m × (first v | count − 1 v))`.
public struct OrderedSummary: Hashable, Sendable {
    public static let maximumLives = 64
    public static let maximumRuns = 8

    public struct Life: Hashable, Sendable {
        public var key: ChainKey
        /// Rising, with a number missing between two.
        public var runs: [ClosedRange<UInt64>]

        public init(key: ChainKey, runs: [ClosedRange<UInt64>]) {
            self.key = key
            self.runs = runs
        }
    }

    /// Something is missing here for a while: also messages that their author could bring itself are wanted.
    public var asksForAll: Bool
    /// Strictly rising by life.
    public var lives: [Life]

    public init(asksForAll: Bool, lives: [Life]) {
        self.asksForAll = asksForAll
        self.lives = lives
    }

    func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(asksForAll ? 1 : 0))
        writer.write(UInt8(truncatingIfNeeded: lives.count))
        for life in lives {
            life.key.encode(into: &writer)
            writer.write(UInt8(truncatingIfNeeded: life.runs.count))
            for run in life.runs {
                writer.write(variable: run.lowerBound)
                writer.write(variable: run.upperBound - run.lowerBound)
            }
        }
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        asksForAll = try GossipMessage.readFlags(bytes, &position, allowed: 1) != 0
        let count = try bytes.readCount8(&position, maximum: Self.maximumLives)
        lives = []
        for _ in 0..<count {
            let key = try ChainKey(reading: bytes, &position)
            try lives.append(rising: Life(key: key, runs: try Self.readRuns(bytes, &position)), by: \.key)
        }
    }

    private static func readRuns(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> [ClosedRange<UInt64>] {
        let count = try bytes.readCount8(&position, maximum: maximumRuns)
        var runs: [ClosedRange<UInt64>] = []
        for _ in 0..<count {
            let first = try bytes.readVariable(&position)
            let (last, overflow) = first.addingReportingOverflow(try bytes.readVariable(&position))
            guard !overflow else { throw .invalidValue }
            if let previous = runs.last, first <= previous.upperBound || first == previous.upperBound + 1 {
                throw .invalidValue
            }
            runs.append(first...last)
        }
        return runs
    }
}
