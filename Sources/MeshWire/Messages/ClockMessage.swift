import MeshBase

/// The name of a mesh clock's number line. The greater epoch wins wherever two meet: a total order without any
/// measured age in it, so that every node decides alike.
public struct ClockEpoch: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// 0 = no epoch yet, 1 = begun by a returning member that met nobody, 2 = begun by founding the mesh.
    public var birth: UInt8
    /// Random, so that two epochs of equal birth differ.
    public var id: UInt64

    public init(birth: UInt8, id: UInt64) {
        self.birth = birth
        self.id = id
    }

    /// The sender follows no number line yet.
    public static let none = ClockEpoch(birth: 0, id: 0)
    public static let maximumBirth: UInt8 = 2

    public static func < (left: ClockEpoch, right: ClockEpoch) -> Bool {
        (left.birth, left.id) < (right.birth, right.id)
    }

    /// `birth-id`, the id in 16 hexadecimal digits; `none` before there is one.
    public var description: String {
        if self == .none { return "none" }
        let digits = String(id, radix: 16)
        return "\(birth)-" + String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// What one node says about its mesh clock: its map from host clock to mesh clock at one instant.
public struct ClockReport: Hashable, Sendable {
    public var epoch: ClockEpoch
    /// The sender is still finding its place: receivers give it no weight.
    public var isJoining: Bool
    /// How many more answers the sender asks for at once: the burst of a new link. 0 ... `maximumAnswers`.
    public var wantedAnswers: UInt8
    /// The instant on the sender's host clock.
    public var host: HostTime
    /// The same instant on the mesh clock, within ±`ClockMessage.maximumMeshNanoseconds`.
    public var mesh: MeshTime
    /// The sender's mesh clock runs 1 + rate × 10⁻¹² as fast as its host clock; within ± 300 ppm.
    public var ratePartsPerTrillion: Int32
    /// Standard uncertainty of `mesh` against the rest of the mesh, in nanoseconds; saturates at 2³² − 1.
    public var uncertaintyNanoseconds: UInt32

    public static let maximumAnswers: UInt8 = 20
    /// 300 ppm: no healthy oscillator is further off, so a larger rate is a fault or a lie.
    public static let maximumRatePartsPerTrillion: Int32 = 300_000_000

    public init(
        epoch: ClockEpoch, isJoining: Bool, wantedAnswers: UInt8, host: HostTime, mesh: MeshTime,
        ratePartsPerTrillion: Int32, uncertaintyNanoseconds: UInt32
    ) {
        self.epoch = epoch
        self.isJoining = isJoining
        self.wantedAnswers = wantedAnswers
        self.host = host
        self.mesh = mesh
        self.ratePartsPerTrillion = ratePartsPerTrillion
        self.uncertaintyNanoseconds = uncertaintyNanoseconds
    }
}

/// "This number line ends": the losing side of two meshes that met switches at one instant, by one constant.
public struct ClockMerge: Hashable, Sendable {
    /// The epoch that ends; whoever follows another one ignores the message.
    public var losing: ClockEpoch
    /// The epoch that goes on; greater than `losing`.
    public var winning: ClockEpoch
    /// The instant of the switch on the losing number line.
    public var switchAt: MeshTime
    /// Winning minus losing number line at that instant.
    public var shift: TimeSpan

    public init(losing: ClockEpoch, winning: ClockEpoch, switchAt: MeshTime, shift: TimeSpan) {
        self.losing = losing
        self.winning = winning
        self.switchAt = switchAt
        self.shift = shift
    }
}

/// A message of the coordinator channel.
///
///     REPORT  1 | birth u8 | epoch id u64 | flags u8 (bit 0 joining) | answers u8 | host i64 | mesh i64
///               | rate i32 (10⁻¹²) | uncertainty u32 (ns)                                           37 bytes
///     MERGE   2 | birth u8 | id u64 (losing) | birth u8 | id u64 (winning) | switch at i64 | shift i64    35 bytes
public enum ClockMessage: WireMessage {
    case report(ClockReport)
    case merge(ClockMerge)
    /// A kind from 0x80 on that this build does not know: skipped.
    case unknown(kind: UInt8)

    /// About 73 years either way: beyond it a mesh time is a lie, and below it sums of two cannot overflow.
    public static let maximumMeshNanoseconds: Int64 = 1 << 61

    public func encode(into writer: inout ByteWriter) {
        switch self {
        case .report(let report):
            writer.write(UInt8(1))
            writer.write(report.epoch)
            writer.write(UInt8(report.isJoining ? 1 : 0))
            writer.write(report.wantedAnswers)
            writer.write(report.host.nanoseconds)
            writer.write(report.mesh.nanoseconds)
            writer.write(UInt32(bitPattern: report.ratePartsPerTrillion))
            writer.write(report.uncertaintyNanoseconds)
        case .merge(let merge):
            writer.write(UInt8(2))
            writer.write(merge.losing)
            writer.write(merge.winning)
            writer.write(merge.switchAt.nanoseconds)
            writer.write(merge.shift.nanoseconds)
        case .unknown(let kind):
            writer.write(kind)
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        switch try bytes.readUInt8(&position) {
        case 1: self = .report(try ClockReport(decoding: bytes, &position))
        case 2: self = .merge(try ClockMerge(decoding: bytes, &position))
        case let kind where kind >= 0x80:
            self = .unknown(kind: kind)
            return
        default: throw .unknownType
        }
        try bytes.expectEnd(position)
    }
}

extension ClockReport {
    fileprivate init(decoding bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        epoch = try bytes.readEpoch(&position)
        let flags = try bytes.readUInt8(&position)
        isJoining = flags & 1 != 0
        wantedAnswers = try bytes.readUInt8(&position)
        host = HostTime(nanoseconds: try bytes.readInt64(&position))
        mesh = try bytes.readMeshTime(&position)
        ratePartsPerTrillion = Int32(bitPattern: try bytes.readUInt32(&position))
        uncertaintyNanoseconds = try bytes.readUInt32(&position)
        let limit = Self.maximumRatePartsPerTrillion
        guard flags <= 1, wantedAnswers <= Self.maximumAnswers, (-limit...limit).contains(ratePartsPerTrillion) else {
            throw .invalidValue
        }
    }
}

extension ClockMerge {
    fileprivate init(decoding bytes: Span<UInt8>, _ position: inout Int) throws(WireError) {
        losing = try bytes.readEpoch(&position)
        winning = try bytes.readEpoch(&position)
        switchAt = try bytes.readMeshTime(&position)
        shift = TimeSpan(nanoseconds: try bytes.readMeshTime(&position).nanoseconds)
        guard losing < winning else { throw .invalidValue }
    }
}

extension ByteWriter {
    fileprivate mutating func write(_ epoch: ClockEpoch) {
        write(epoch.birth)
        write(epoch.id)
    }
}

extension Span where Element == UInt8 {
    fileprivate func readEpoch(_ position: inout Int) throws(WireError) -> ClockEpoch {
        let birth = try readUInt8(&position)
        let id = try readUInt64(&position)
        guard birth <= ClockEpoch.maximumBirth, birth > 0 || id == 0 else { throw .invalidValue }
        return ClockEpoch(birth: birth, id: id)
    }

    fileprivate func readMeshTime(_ position: inout Int) throws(WireError) -> MeshTime {
        let value = try readInt64(&position)
        let limit = ClockMessage.maximumMeshNanoseconds
        guard (-limit...limit).contains(value) else { throw .invalidValue }
        return MeshTime(nanoseconds: value)
    }
}
