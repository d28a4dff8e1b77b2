/// Sixteen bytes by value: half the size of a digest, enough to name a secret.
public struct Bytes16: Hashable, Comparable, Sendable {
    /// Big-endian words, so that comparing words compares bytes.
    let high: UInt64
    let low: UInt64

    public static let byteCount = 16
    public static let zero = Bytes16(high: 0, low: 0)

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// `nil` unless exactly 16 bytes are given.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var iterator = bytes.makeIterator()
        high = bigEndianWord(&iterator)
        low = bigEndianWord(&iterator)
    }

    public var bytes: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(Self.byteCount)
        append(to: &output)
        return output
    }

    public func append(to output: inout [UInt8]) {
        appendBigEndian(high, to: &output)
        appendBigEndian(low, to: &output)
    }

    public static func < (left: Bytes16, right: Bytes16) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

/// Thirty-two bytes by value: a public key or a digest. Never a secret: secrets live in `SecretBytes`.
public struct Bytes32: Hashable, Comparable, Sendable {
    let first: UInt64
    let second: UInt64
    let third: UInt64
    let fourth: UInt64

    public static let byteCount = 32
    public static let zero = Bytes32(first: 0, second: 0, third: 0, fourth: 0)

    init(first: UInt64, second: UInt64, third: UInt64, fourth: UInt64) {
        self.first = first
        self.second = second
        self.third = third
        self.fourth = fourth
    }

    /// `nil` unless exactly 32 bytes are given.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        var iterator = bytes.makeIterator()
        first = bigEndianWord(&iterator)
        second = bigEndianWord(&iterator)
        third = bigEndianWord(&iterator)
        fourth = bigEndianWord(&iterator)
    }

    public var bytes: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(Self.byteCount)
        append(to: &output)
        return output
    }

    public func append(to output: inout [UInt8]) {
        appendBigEndian(first, to: &output)
        appendBigEndian(second, to: &output)
        appendBigEndian(third, to: &output)
        appendBigEndian(fourth, to: &output)
    }

    public static func < (left: Bytes32, right: Bytes32) -> Bool {
        (left.first, left.second, left.third, left.fourth) < (right.first, right.second, right.third, right.fourth)
    }
}

private func bigEndianWord(_ iterator: inout some IteratorProtocol<UInt8>) -> UInt64 {
    var word: UInt64 = 0
    for _ in 0..<8 { word = word << 8 | UInt64(iterator.next() ?? 0) }
    return word
}

private func appendBigEndian(_ word: UInt64, to output: inout [UInt8]) {
    for shift in stride(from: 56, through: 0, by: -8) { output.append(UInt8(truncatingIfNeeded: word >> UInt64(shift))) }
}

/// Lower-case hexadecimal, the form in which ids are shown and typed.
public enum Hexadecimal {
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var output: [UInt8] = []
        for byte in bytes {
            output.append(digits[Int(byte >> 4)])
            output.append(digits[Int(byte & 15)])
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// `nil` for an odd count or any character outside 0–9, a–f, A–F.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let characters = Array(text.utf8)
        guard characters.count.isMultiple(of: 2) else { return nil }
        var output: [UInt8] = []
        output.reserveCapacity(characters.count / 2)
        for index in stride(from: 0, to: characters.count, by: 2) {
            guard let high = digitValue(characters[index]), let low = digitValue(characters[index + 1]) else {
                return nil
            }
            output.append(high << 4 | low)
        }
        return output
    }

    private static func digitValue(_ character: UInt8) -> UInt8? {
        switch character {
        case 0x30...0x39: character - 0x30
        case 0x61...0x66: character - 0x61 + 10
        case 0x41...0x46: character - 0x41 + 10
        default: nil
        }
    }
}
