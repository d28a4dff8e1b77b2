extension Array where Element == UInt8 {
    /// Appends an integer in the wire's byte order. For datagrams, which are sealed where they are assembled; everything
    /// else is written with `ByteWriter`.
    @inlinable
    public mutating func appendInteger(_ value: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: value.littleEndian) { bytes in unsafe append(contentsOf: bytes) }
    }

    @inlinable
    public mutating func appendZeros(_ count: Int) {
        append(contentsOf: repeatElement(0, count: count))
    }
}

extension Span where Element == UInt8 {
    /// Whether all bytes in `range`, which lies within the span, are zero.
    func isZero(in range: Range<Int>) -> Bool {
        var sum: UInt8 = 0
        for index in range { sum |= self[index] }
        return sum == 0
    }
}
