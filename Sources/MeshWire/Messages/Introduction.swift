import MeshBase

extension SessionMessage {
    /// `subject 32 | delay u32 µs | round trip u32 µs`: the receiver is to dial `subject` that much later, when `subject`
    /// dials it.
    public struct Introduction: Hashable, Sendable {
        public var subject: PeerID
        /// From the arrival of this message; at most 5 s.
        public var delay: TimeSpan
        /// Between the sender and `subject`, as measured.
        public var roundTrip: TimeSpan

        public static let maximumDelay = TimeSpan.seconds(5 as Int64)

        public init(subject: PeerID, delay: TimeSpan, roundTrip: TimeSpan) {
            self.subject = subject
            self.delay = min(max(delay, .zero), Self.maximumDelay)
            self.roundTrip = max(roundTrip, .zero)
        }

        func encode(into writer: inout ByteWriter) {
            writer.write(subject.value)
            writer.write(UInt32(clamping: delay.nanoseconds / 1_000))
            writer.write(UInt32(clamping: roundTrip.nanoseconds / 1_000))
        }

        init(reading bytes: Span<UInt8>, at position: inout Int) throws(WireError) {
            subject = PeerID(try bytes.readBytes32(&position))
            delay = .microseconds(Int64(try bytes.readUInt32(&position)))
            roundTrip = .microseconds(Int64(try bytes.readUInt32(&position)))
            guard delay <= Self.maximumDelay else { throw .limitExceeded }
        }
    }
}
