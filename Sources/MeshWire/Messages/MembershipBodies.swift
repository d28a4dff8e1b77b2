import MeshBase

/// Body of REMOVE: `version u8 = 1 | subject 32 | n u16 ≤ 1,024 | n × (incarnation 8 | sequence u64)`, incarnations
/// strictly rising.
///
/// The list is the cut: what the subject had written when its remover looked. In these process lives its records count
/// up to these numbers; whatever else it wrote or will write counts for nothing, so it can neither go on nor date back.
public struct RemoveBody: WireMessage {
    public static let maximumLives = 1024

    public struct Life: Hashable, Sendable {
        public var incarnation: Incarnation
        public var sequence: UInt64

        public init(incarnation: Incarnation, sequence: UInt64) {
            self.incarnation = incarnation
            self.sequence = sequence
        }
    }

    public var subject: PeerID
    /// In strictly rising order of incarnations.
    public var lives: [Life]

    public init(subject: PeerID, lives: [Life]) {
        self.subject = subject
        self.lives = lives
    }

    /// Whether the cut lets this record of the subject count.
    public func covers(_ incarnation: Incarnation, _ sequence: UInt64) -> Bool {
        lives.contains { $0.incarnation == incarnation && sequence <= $0.sequence }
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(subject.value)
        writer.write(UInt16(truncatingIfNeeded: lives.count))
        for life in lives {
            writer.write(life.incarnation.value)
            writer.write(life.sequence)
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        subject = PeerID(try bytes.readBytes32(&position))
        let count = try bytes.readCount16(&position, maximum: Self.maximumLives)
        lives = []
        for _ in 0..<count {
            let life = Life(
                incarnation: Incarnation(try bytes.readUInt64(&position)), sequence: try bytes.readUInt64(&position))
            try lives.append(rising: life, by: \.incarnation)
        }
        try bytes.expectEnd(position)
    }
}

/// Body of EPOCH: `version u8 = 1 | secret id 16 | n u8, 1 to 16 | n × base 32 | n u16 ≤ 255 | n × removal 32 |
/// ephemeral key 32 | n u16 ≤ 1,024 | n × (peer 32 | sealed 48)`; bases, removals and peers strictly rising.
///
/// With boxes: a fresh secret for everybody but the subjects of `removals`. Without: the secrets of several bases, made
/// at once by members that did not know of each other, are one from here on; then there are no removals either and the
/// key is zero.
public struct EpochBody: WireMessage {
    public static let maximumBases = 16
    public static let maximumRemovals = 255
    public static let maximumBoxes = 1024
    public static let boxByteCount = 48

    public struct Box: Hashable, Sendable {
        public var recipient: PeerID
        public var sealed: [UInt8]

        public init(recipient: PeerID, sealed: [UInt8]) {
            self.recipient = recipient
            self.sealed = sealed
        }
    }

    /// Of the epoch secret that this record makes.
    public var secretID: SecretID
    /// GENESIS or EPOCH records whose secrets go into this one.
    public var bases: [RecordID]
    /// The REMOVE records whose subjects do not get the fresh secret.
    public var removals: [RecordID]
    public var ephemeralKey: Bytes32
    public var boxes: [Box]

    public var isMerge: Bool { boxes.isEmpty }

    public init(
        secretID: SecretID, bases: [RecordID], removals: [RecordID], ephemeralKey: Bytes32, boxes: [Box]
    ) {
        self.secretID = secretID
        self.bases = bases
        self.removals = removals
        self.ephemeralKey = ephemeralKey
        self.boxes = boxes
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(secretID.value)
        writer.write(UInt8(truncatingIfNeeded: bases.count))
        for base in bases { writer.write(base.value) }
        writer.write(UInt16(truncatingIfNeeded: removals.count))
        for removal in removals { writer.write(removal.value) }
        writer.write(ephemeralKey)
        writer.write(UInt16(truncatingIfNeeded: boxes.count))
        for box in boxes {
            writer.write(box.recipient.value)
            writer.write(bytes: box.sealed)
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        secretID = SecretID(try bytes.readBytes16(&position))
        let baseCount = Int(try bytes.readUInt8(&position))
        guard (1...Self.maximumBases).contains(baseCount) else { throw .limitExceeded }
        bases = try Self.readRecords(bytes, &position, count: baseCount)
        let removalCount = try bytes.readCount16(&position, maximum: Self.maximumRemovals)
        removals = try Self.readRecords(bytes, &position, count: removalCount)
        ephemeralKey = try bytes.readBytes32(&position)
        boxes = try Self.readBoxes(bytes, &position)
        if boxes.isEmpty {
            guard removals.isEmpty, ephemeralKey == .zero, bases.count > 1 else { throw .invalidValue }
        }
        try bytes.expectEnd(position)
    }

    private static func readRecords(
        _ bytes: Span<UInt8>, _ position: inout Int, count: Int
    ) throws(WireError) -> [RecordID] {
        var records: [RecordID] = []
        for _ in 0..<count {
            try records.append(rising: RecordID(try bytes.readBytes32(&position)))
        }
        return records
    }

    private static func readBoxes(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Box] {
        let count = try bytes.readCount16(&position, maximum: maximumBoxes)
        var boxes: [Box] = []
        for _ in 0..<count {
            let recipient = PeerID(try bytes.readBytes32(&position))
            let box = Box(recipient: recipient, sealed: try bytes.readBytes(&position, count: boxByteCount))
            try boxes.append(rising: box, by: \.recipient)
        }
        return boxes
    }
}

/// Body of END: `version u8 = 1`.
public struct EndBody: WireMessage {
    public init() {}

    public func encode(into writer: inout ByteWriter) { writer.write(UInt8(1)) }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        try bytes.expectEnd(position)
    }
}
