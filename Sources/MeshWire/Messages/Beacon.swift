import MeshBase

/// What a node calls out on the local network, sealed under a secret's discovery key.
///
/// Datagram: `nonce 24 | sealed 24 + 16`, always 64 bytes; the associated data is empty. Whoever lacks the secret sees
/// 64 uniformly random bytes: no constant, no counter, no length that tells.
/// Plain: `version u8 = 1 | flags u8 | port u16 | incarnation u64 | 12 zeros`.
public struct Beacon: WireMessage {
    /// The sender asks whoever holds the secret to show itself: it is joining, or misses a member.
    public var isQuestion: Bool
    /// The sender is a member, and can admit.
    public var isMember: Bool
    /// Where the sender's datagrams are received; the address is the beacon's own source.
    public var port: UInt16
    /// Tells a node its own beacons, and those of peers it is linked with already.
    public var incarnation: Incarnation

    public static let plainByteCount = 24
    public static let nonceByteCount = 24
    /// The one size of every beacon on the wire.
    public static let datagramByteCount = nonceByteCount + plainByteCount + WireLimits.tagBytes
    /// UDP port and groups of the beacons.
    public static let port: UInt16 = 47_799

    private static let questionFlag: UInt8 = 1
    private static let memberFlag: UInt8 = 2
    private static let zeroByteCount = 12

    public init(isQuestion: Bool, isMember: Bool, port: UInt16, incarnation: Incarnation) {
        self.isQuestion = isQuestion
        self.isMember = isMember
        self.port = port
        self.incarnation = incarnation
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write((isQuestion ? Self.questionFlag : 0) | (isMember ? Self.memberFlag : 0))
        writer.write(port)
        writer.write(incarnation.value)
        writer.write(zeros: Self.zeroByteCount)
    }

    /// Unknown flags and the trailing bytes are ignored: a later version may use them.
    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        let flags = try bytes.readUInt8(&position)
        isQuestion = flags & Self.questionFlag != 0
        isMember = flags & Self.memberFlag != 0
        port = try bytes.readUInt16(&position)
        guard port != 0 else { throw .invalidValue }
        incarnation = Incarnation(try bytes.readUInt64(&position))
        _ = try bytes.readBytes(&position, count: Self.zeroByteCount)
        try bytes.expectEnd(position)
    }
}
