import MeshBase

/// The first 24 bytes of every DATA plaintext: every datagram is a clock probe.
///
/// `send time i64 | echo send time i64 | hold u32 | previous lateness u32`. Docs/Protocol.md, "Timing header".
public struct TimingHeader: Hashable, Sendable {
    public static let byteCount = 24
    /// In `hold` and `previousLateness`: not known, or longer than 4.29 s.
    public static let unknown = UInt32.max

    /// When the sender handed this datagram over, in nanoseconds of its own host clock.
    public var sendTime: Int64
    /// `sendTime` of the newest datagram that the sender received from the reader; zero when there is none.
    public var echoSendTime: Int64
    /// Nanoseconds between receiving that datagram and sending this one.
    public var hold: UInt32
    /// Nanoseconds by which the sender's previous datagram on this link really left later than its `sendTime`.
    public var previousLateness: UInt32

    public init(sendTime: Int64, echoSendTime: Int64, hold: UInt32, previousLateness: UInt32) {
        self.sendTime = sendTime
        self.echoSendTime = echoSendTime
        self.hold = hold
        self.previousLateness = previousLateness
    }

    public func encode(into bytes: inout [UInt8]) {
        bytes.appendInteger(sendTime)
        bytes.appendInteger(echoSendTime)
        bytes.appendInteger(hold)
        bytes.appendInteger(previousLateness)
    }

    public init(decoding bytes: Span<UInt8>, at position: inout Int) throws(WireError) {
        sendTime = try bytes.readInt64(&position)
        echoSendTime = try bytes.readInt64(&position)
        hold = try bytes.readUInt32(&position)
        previousLateness = try bytes.readUInt32(&position)
    }

    /// A span as it stands in `hold` and `previousLateness`.
    public static func field(_ span: TimeSpan) -> UInt32 {
        guard span.nanoseconds >= 0, span.nanoseconds < Int64(unknown) else { return unknown }
        return UInt32(truncatingIfNeeded: span.nanoseconds)
    }
}
