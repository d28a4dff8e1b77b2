/// Several messages of one sender to the same recipients, in order, in one run of bytes: `length v | payload` each.
///
/// Whole batches are queued, sealed, sent, acknowledged and delivered as one, so that a message costs little more than
/// the copying of its bytes.
public struct MessageBatch: Hashable, Sendable {
    /// Messages of one batch.
    public static let maximumCount = 4096
    /// A batch is closed before it grows beyond this, unless it is one message alone: it fits one datagram of loopback.
    public static let targetBytes = 30 * 1024

    /// The packed messages.
    public private(set) var bytes: [UInt8] = []
    public private(set) var count = 0
    /// Bytes of the payloads alone.
    public private(set) var payloadByteCount = 0

    public init() {}

    /// Empty, with room for so many bytes.
    public init(reserving byteCount: Int) { bytes.reserveCapacity(byteCount) }

    /// Takes what was decoded as `count` messages.
    public init?(packed bytes: [UInt8], count: Int) {
        guard let payloadByteCount = Self.payloadByteCount(of: bytes.span, count: count) else { return nil }
        self.bytes = bytes
        self.count = count
        self.payloadByteCount = payloadByteCount
    }

    public var isEmpty: Bool { count == 0 }

    /// Whether one more message of so many bytes keeps it within its bounds.
    public func hasRoom(for byteCount: Int) -> Bool {
        isEmpty || count < Self.maximumCount && bytes.count + byteCount + 4 <= Self.targetBytes
    }

    public mutating func append(_ payload: Span<UInt8>) {
        bytes.appendVariable(UInt64(payload.count))
        unsafe payload.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
        count += 1
        payloadByteCount += payload.count
    }

    public mutating func append(_ payload: [UInt8]) { append(payload.span) }

    /// Empties it and keeps its room.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        count = 0
        payloadByteCount = 0
    }

    /// Where each payload lies in `bytes`, in order.
    @inlinable
    public func forEachRange(_ body: (Range<Int>) -> Void) {
        let span = bytes.span
        var position = 0
        for _ in 0..<count {
            // What was packed or checked here always reads.
            guard let length = try? span.readVariable(&position) else { return }
            let end = position + Int(length)
            body(position..<end)
            position = end
        }
    }

    /// Each payload in order, without a copy.
    @inlinable
    public func forEach(_ body: (Span<UInt8>) -> Void) {
        let span = bytes.span
        forEachRange { body(span.extracting($0)) }
    }

    /// The payloads as arrays of their own. Allocates each.
    public var payloads: [[UInt8]] {
        var result: [[UInt8]] = []
        result.reserveCapacity(count)
        forEachRange { result.append(Array(bytes[$0])) }
        return result
    }

    /// `n v`, 2 to `maximumCount`, checked against what really follows to the end.
    static func readCount(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> Int {
        let count = try bytes.readVariable(&position)
        guard count <= UInt64(maximumCount) else { throw .limitExceeded }
        let packed = bytes.extracting(position..<bytes.count)
        guard count >= 2, payloadByteCount(of: packed, count: Int(count)) != nil else { throw .invalidValue }
        return Int(count)
    }

    /// Bytes of the payloads of `count` packed messages; nil when the bytes are not exactly that many.
    private static func payloadByteCount(of bytes: Span<UInt8>, count: Int) -> Int? {
        var position = 0
        var total = 0
        for _ in 0..<count {
            guard let length = try? bytes.readVariable(&position), length <= UInt64(bytes.count - position) else {
                return nil
            }
            position += Int(length)
            total += Int(length)
        }
        return position == bytes.count ? total : nil
    }
}
