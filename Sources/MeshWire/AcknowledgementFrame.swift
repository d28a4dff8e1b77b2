/// Which counters arrived: `u32 key index | u32 delay µs | u64 largest | u8 n | u32 length | (n−1) × (u32 gap | u32 length)`.
///
/// Ranges go downwards from the largest. `length` counts the counters of a range, at least 1; `gap` counts the missing
/// ones between it and the range above, at least 1. The key index is the receiver index of the datagrams that are
/// acknowledged: it names the keys under which their counters were used, so that acknowledgements outlive a rekey.
public struct AcknowledgementFrame: Hashable, Sendable {
    public static let fixedBytes = 21
    public static let rangeBytes = 8

    public var keyIndex: UInt32
    /// Between the arrival of the largest counter and the sending of this frame.
    public var delayMicroseconds: UInt32
    /// From the largest downwards, disjoint, never touching.
    public var ranges: [ClosedRange<UInt64>]

    public init(keyIndex: UInt32, delayMicroseconds: UInt32, ranges: [ClosedRange<UInt64>]) {
        self.keyIndex = keyIndex
        self.delayMicroseconds = delayMicroseconds
        self.ranges = ranges
    }

    init(decoding body: Span<UInt8>, at position: inout Int) throws(WireError) {
        keyIndex = try body.readUInt32(&position)
        delayMicroseconds = try body.readUInt32(&position)
        let largest = try body.readUInt64(&position)
        let count = Int(try body.readUInt8(&position))
        guard (1...WireLimits.maximumAcknowledgementRanges).contains(count) else { throw .limitExceeded }
        guard body.remaining(position) == 4 + (count - 1) * Self.rangeBytes else { throw .truncated }
        ranges = []
        ranges.reserveCapacity(count)
        var top = largest
        for index in 0..<count {
            if index > 0 {
                let gap = UInt64(try body.readUInt32(&position))
                // One step below the range above, then the gap; `top` is that range's lower bound here.
                guard gap >= 1, top >= gap + 1 else { throw .invalidValue }
                top -= gap + 1
            }
            let length = UInt64(try body.readUInt32(&position))
            guard length >= 1, top >= length - 1 else { throw .invalidValue }
            ranges.append((top - (length - 1))...top)
            top -= length - 1
        }
    }

    /// Bytes of a whole frame with `count` ranges.
    public static func byteCount(ranges count: Int) -> Int {
        FrameType.headerBytes + fixedBytes + (count - 1) * rangeBytes
    }

    /// Writes `ranges`, largest first, 1 to 64 of them. A range or gap of 2³² or more ends the list early.
    public static func append(
        keyIndex: UInt32, delayMicroseconds: UInt32, ranges: ArraySlice<ClosedRange<UInt64>>, to bytes: inout [UInt8]
    ) {
        guard let first = ranges.first else { return }
        let start = bytes.count
        Frame.appendHeader(.acknowledgement, length: 0, to: &bytes)
        bytes.appendInteger(keyIndex)
        bytes.appendInteger(delayMicroseconds)
        bytes.appendInteger(first.upperBound)
        let countOffset = bytes.count
        bytes.append(0)
        var written = 0
        var previousLow: UInt64 = 0
        for range in ranges.prefix(WireLimits.maximumAcknowledgementRanges) {
            let length = min(range.upperBound - range.lowerBound, UInt64(UInt32.max) - 1) + 1
            if written > 0 {
                let gap = previousLow - range.upperBound - 1
                guard gap <= UInt64(UInt32.max) else { break }
                bytes.appendInteger(UInt32(gap))
            }
            bytes.appendInteger(UInt32(length))
            previousLow = range.upperBound - (length - 1)
            written += 1
            if previousLow != range.lowerBound { break }
        }
        bytes[countOffset] = UInt8(written)
        let length = bytes.count - start - FrameType.headerBytes
        bytes[start + 1] = UInt8(truncatingIfNeeded: length)
        bytes[start + 2] = UInt8(truncatingIfNeeded: length >> 8)
    }
}
