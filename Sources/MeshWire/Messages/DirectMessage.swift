import MeshBase

/// A message of an application for the peer it is sent to, or several that follow each other. It names no author: that
/// is the link's peer in its present process life, or the signer of the relayed message around it (AB-58).
///
/// ```
/// flags 1 | sequence v | sequence − base v | lamport v | [n 1 | n × recipient's tag 4] if several
///   | [n 1 | n × (life's tag 4 | lamport v)] if it has causes | [epoch 2 | mesh time i64] if it has a deadline
///   | [n v | n × (length v | payload)] if a batch, else payload to the end
/// ```
/// `v` is a number of variable length (`ByteWriter.write(variable:)`). Flags: 1 reliable, 2 causes, 4 deadline, 8 batch,
/// 16 to everybody, 32 to several, 64 settled by the link.
public struct DirectMessage: Hashable, Sendable {
    /// The most bytes around the payload, kind included.
    public static let maximumHeaderBytes =
        2 + 3 * 10 + 1 + 4 * maximumNamedRecipients + 1 + maximumCauses * (4 + 10) + 10 + 10
    public static let maximumCauses = 16
    /// A message to more than these, and not to everybody, names none.
    public static let maximumNamedRecipients = 16

    /// Who else has it: what they may have to wait for when its recipient answers it.
    public enum Audience: Hashable, Sendable {
        /// Nobody, or more than can be named.
        case unnamed
        /// These too, in rising order of their tags, at most `maximumNamedRecipients`.
        case several([PeerTag])
        case everybody
    }

    /// A message by another author that must come out first: all of that life up to this Lamport time.
    public struct Cause: Hashable, Sendable {
        public var life: LifeTag
        public var lamport: UInt64

        public init(life: LifeTag, lamport: UInt64) {
            self.life = life
            self.lamport = lamport
        }
    }

    /// When nobody wants an unreliable message any more, on the mesh clock of one epoch.
    public struct Deadline: Hashable, Sendable {
        /// The low 16 bits of the epoch's id: on another number line the time means nothing.
        public var epoch: UInt16
        public var time: MeshTime

        public init(epoch: UInt16, time: MeshTime) {
            self.epoch = epoch
            self.time = time
        }
    }

    /// Reliable messages have an ordered stream; unreliable ones a number for telling copies apart.
    public var isReliable: Bool
    /// Of the first message. Numbers start at 1 in each process life of the sender; a batch takes as many as it holds.
    public var sequence: UInt64
    /// The least number not yet settled at the sender: whatever is below will never come (again).
    public var base: UInt64
    /// Of the first message; each further one of a batch has one more.
    public var lamport: UInt64
    public var audience: Audience
    /// Of reliable messages only, at most `maximumCauses`, strictly rising by life.
    public var causes: [Cause]
    /// Of unreliable messages only.
    public var deadline: Deadline?
    /// How many messages `payload` holds. More than one: packed as in `MessageBatch`.
    public var count: Int
    public var payload: [UInt8]
    /// Of reliable messages only: the link's acknowledgement is enough, the recipient need not say that it took it.
    public var isSettledByLink: Bool

    public init(
        isReliable: Bool, sequence: UInt64, base: UInt64, lamport: UInt64, payload: [UInt8], count: Int = 1,
        audience: Audience = .unnamed, causes: [Cause] = [], deadline: Deadline? = nil,
        isSettledByLink: Bool = false
    ) {
        self.isReliable = isReliable
        self.sequence = sequence
        self.base = base
        self.lamport = lamport
        self.audience = audience
        self.causes = causes
        self.deadline = deadline
        self.count = count
        self.payload = payload
        self.isSettledByLink = isSettledByLink
    }
}

/// A member in four bytes, where a mistaken one costs a short wait at most: the first of its id.
public struct PeerTag: Hashable, Comparable, Sendable {
    public var value: UInt32

    public init(value: UInt32) { self.value = value }
    public init(_ peer: PeerID) { value = UInt32(truncatingIfNeeded: peer.value.leadingWord) }

    public static func < (left: PeerTag, right: PeerTag) -> Bool { left.value < right.value }
}

/// A process life of a member in four bytes: the first of its id, changed by the first of its incarnation.
public struct LifeTag: Hashable, Comparable, Sendable {
    public var value: UInt32

    public init(value: UInt32) { self.value = value }
    public init(_ life: ChainKey) {
        value = PeerTag(life.author).value ^ UInt32(truncatingIfNeeded: life.incarnation.value)
    }

    public static func < (left: LifeTag, right: LifeTag) -> Bool { left.value < right.value }
}

extension DirectMessage {
    private enum Flag {
        static let reliable: UInt8 = 1
        static let causes: UInt8 = 2
        static let deadline: UInt8 = 4
        static let batch: UInt8 = 8
        static let everybody: UInt8 = 16
        static let several: UInt8 = 32
        static let settledByLink: UInt8 = 64
        static let all: UInt8 = 127
    }

    private var flags: UInt8 {
        var flags: UInt8 = isReliable ? Flag.reliable : 0
        if !causes.isEmpty { flags |= Flag.causes }
        if deadline != nil { flags |= Flag.deadline }
        if count > 1 { flags |= Flag.batch }
        if isSettledByLink { flags |= Flag.settledByLink }
        switch audience {
        case .unnamed: break
        case .several: flags |= Flag.several
        case .everybody: flags |= Flag.everybody
        }
        return flags
    }

    func encode(into writer: inout ByteWriter) {
        writer.write(flags)
        writer.write(variable: sequence)
        writer.write(variable: sequence &- base)
        writer.write(variable: lamport)
        if case .several(let tags) = audience {
            writer.write(UInt8(truncatingIfNeeded: tags.count))
            for tag in tags { writer.write(tag.value) }
        }
        if !causes.isEmpty {
            writer.write(UInt8(truncatingIfNeeded: causes.count))
            for cause in causes {
                writer.write(cause.life.value)
                writer.write(variable: cause.lamport)
            }
        }
        if let deadline {
            writer.write(deadline.epoch)
            writer.write(deadline.time.nanoseconds)
        }
        if count > 1 { writer.write(variable: UInt64(count)) }
        writer.write(bytes: payload)
    }

    init(reading bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        let flags = try GossipMessage.readFlags(bytes, &position, allowed: Flag.all)
        isReliable = flags & Flag.reliable != 0
        isSettledByLink = flags & Flag.settledByLink != 0
        sequence = try bytes.readVariable(&position)
        let gap = try bytes.readVariable(&position)
        guard gap < sequence else { throw .invalidValue }
        base = sequence - gap
        lamport = try bytes.readVariable(&position)
        audience = try Self.readAudience(bytes, &position, flags: flags)
        causes = flags & Flag.causes != 0 ? try Self.readCauses(bytes, &position) : []
        deadline = nil
        if flags & Flag.deadline != 0 {
            let epoch = try bytes.readUInt16(&position)
            deadline = Deadline(epoch: epoch, time: MeshTime(nanoseconds: try bytes.readInt64(&position)))
        }
        guard isReliable ? deadline == nil : causes.isEmpty && !isSettledByLink else { throw .invalidValue }
        count = 1
        if flags & Flag.batch != 0 {
            count = try MessageBatch.readCount(bytes, &position)
            guard isReliable, sequence <= .max - UInt64(count), lamport <= .max - UInt64(count) else {
                throw .invalidValue
            }
        }
        guard bytes.remaining(position) <= WireLimits.maximumMessageBytes else { throw .limitExceeded }
        payload = try bytes.readBytes(&position, count: bytes.remaining(position))
    }

    private static func readAudience(
        _ bytes: Span<UInt8>, _ position: inout Int, flags: UInt8
    ) throws(WireError) -> Audience {
        switch flags & (Flag.everybody | Flag.several) {
        case 0: return .unnamed
        case Flag.everybody: return .everybody
        case Flag.several: break
        default: throw .invalidValue
        }
        let count = try bytes.readCount8(&position, maximum: maximumNamedRecipients)
        var tags: [PeerTag] = []
        for _ in 0..<count {
            let tag = PeerTag(value: try bytes.readUInt32(&position))
            // Two members may have one tag, so equal ones are possible.
            if let last = tags.last, tag < last { throw .invalidValue }
            tags.append(tag)
        }
        return .several(tags)
    }

    private static func readCauses(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Cause] {
        let count = try bytes.readCount8(&position, maximum: maximumCauses)
        guard count >= 1 else { throw .invalidValue }
        var causes: [Cause] = []
        for _ in 0..<count {
            let life = LifeTag(value: try bytes.readUInt32(&position))
            try causes.append(rising: Cause(life: life, lamport: try bytes.readVariable(&position)), by: \.life)
        }
        return causes
    }
}
