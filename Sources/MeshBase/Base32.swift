/// RFC 4648 base32 without padding: letters and the digits 2 to 7, so that a QR code holds it in its alphanumeric
/// mode and a person can read it out.
public enum Base32 {
    /// Lower-case text, `⌈8 × bytes ÷ 5⌉` characters.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)
        var output: [UInt8] = []
        var pending: UInt32 = 0
        var bitCount = 0
        for byte in bytes {
            pending = (pending << 8 | UInt32(byte)) & 0xfff
            bitCount += 8
            while bitCount >= 5 {
                bitCount -= 5
                output.append(alphabet[Int(pending >> UInt32(bitCount) & 31)])
            }
        }
        if bitCount > 0 { output.append(alphabet[Int(pending << UInt32(5 - bitCount) & 31)]) }
        return String(decoding: output, as: UTF8.self)
    }

    /// Reads either case. `nil` for any other character, for a length that no byte count gives, and for left-over bits
    /// that are not zero, so that every byte string has exactly one text (but for the case of its letters).
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var output: [UInt8] = []
        var pending: UInt32 = 0
        var bitCount = 0
        for character in text.utf8 {
            guard let value = value(of: character) else { return nil }
            pending = (pending << 5 | UInt32(value)) & 0xfff
            bitCount += 5
            if bitCount >= 8 {
                bitCount -= 8
                output.append(UInt8(truncatingIfNeeded: pending >> UInt32(bitCount)))
            }
        }
        guard bitCount < 5, pending & (1 << UInt32(bitCount) - 1) == 0 else { return nil }
        return output
    }

    private static func value(of character: UInt8) -> UInt8? {
        switch character {
        case 0x61...0x7a: character - 0x61
        case 0x41...0x5a: character - 0x41
        case 0x32...0x37: character - 0x32 + 26
        default: nil
        }
    }
}
