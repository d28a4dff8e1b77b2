/// Sixteen bytes by value: half the size of a digest, enough to name a secret.
public struct Bytes16: Hashable, Comparable, Sendable {
    /// Big-endian words, so that comparing words compares bytes.
    @usableFromInline let high: UInt64
    @usableFromInline let low: UInt64

    public static let byteCount = 16
    public static let zero = Bytes16(high: 0, low: 0)

    @inlinable
    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// `nil` unless exactly 16 bytes are given.
    @inlinable
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var iterator = bytes.makeIterator()
        self.init(high: bigEndianWord(&iterator), low: bigEndianWord(&iterator))
    }

    /// `nil` unless exactly 16 bytes are given. Allocates nothing.
    @inlinable
    public init?(_ bytes: Span<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init(high: bigEndianWord(bytes, at: 0), low: bigEndianWord(bytes, at: 8))
    }

    public var bytes: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(Self.byteCount)
        append(to: &output)
        return output
    }

    @inlinable
    public func append(to output: inout [UInt8]) {
        appendBigEndian(high, to: &output)
        appendBigEndian(low, to: &output)
    }

    @inlinable
    public static func < (left: Bytes16, right: Bytes16) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

/// Thirty-two bytes by value: a public key or a digest. Never a secret: secrets live in `SecretBytes`.
public struct Bytes32: Hashable, Comparable, Sendable {
    @usableFromInline let first: UInt64
    @usableFromInline let second: UInt64
    @usableFromInline let third: UInt64
    @usableFromInline let fourth: UInt64

    public static let byteCount = 32
    public static let zero = Bytes32(first: 0, second: 0, third: 0, fourth: 0)

    @inlinable
    init(first: UInt64, second: UInt64, third: UInt64, fourth: UInt64) {
        self.first = first
        self.second = second
        self.third = third
        self.fourth = fourth
    }

    /// The first eight bytes as a big-endian number.
    @inlinable public var leadingWord: UInt64 { first }

    /// `nil` unless exactly 32 bytes are given.
    @inlinable
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var iterator = bytes.makeIterator()
        self.init(
            first: bigEndianWord(&iterator), second: bigEndianWord(&iterator), third: bigEndianWord(&iterator),
            fourth: bigEndianWord(&iterator))
    }

    /// `nil` unless exactly 32 bytes are given. Allocates nothing.
    @inlinable
    public init?(_ bytes: Span<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.init(
            first: bigEndianWord(bytes, at: 0), second: bigEndianWord(bytes, at: 8),
            third: bigEndianWord(bytes, at: 16), fourth: bigEndianWord(bytes, at: 24))
    }

    public var bytes: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(Self.byteCount)
        append(to: &output)
        return output
    }

    @inlinable
    public func append(to output: inout [UInt8]) {
        appendBigEndian(first, to: &output)
        appendBigEndian(second, to: &output)
        appendBigEndian(third, to: &output)
        appendBigEndian(fourth, to: &output)
    }

    /// Lends the bytes without allocating.
    @inlinable
    public func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        let words: InlineArray<4, UInt64> = [first.bigEndian, second.bigEndian, third.bigEndian, fourth.bigEndian]
        // Four integers laid out one after the other are 32 initialised bytes.
        return unsafe words.span.withUnsafeBytes { raw in
            body(unsafe raw.bindMemory(to: UInt8.self).span)
        }
    }

    @inlinable
    public static func < (left: Bytes32, right: Bytes32) -> Bool {
        (left.first, left.second, left.third, left.fourth) < (right.first, right.second, right.third, right.fourth)
    }
}

@inlinable
func bigEndianWord(_ iterator: inout some IteratorProtocol<UInt8>) -> UInt64 {
    var word: UInt64 = 0
    for _ in 0..<8 { word = word << 8 | UInt64(iterator.next() ?? 0) }
    return word
}

/// The caller has checked that eight bytes stand at `offset`.
@inlinable
func bigEndianWord(_ bytes: Span<UInt8>, at offset: Int) -> UInt64 {
    var word: UInt64 = 0
    for index in offset..<(offset + 8) { word = word << 8 | UInt64(bytes[index]) }
    return word
}

@inlinable
func appendBigEndian(_ word: UInt64, to output: inout [UInt8]) {
    for shift in stride(from: 56, through: 0, by: -8) {
        output.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
    }
}
