/// How many terminal cells text takes.
///
/// By grapheme cluster: a picture joined from several emoji takes two cells, a combining accent none, an ideograph
/// two. Terminals differ on rare sequences; this is what most of them do.
public enum DisplayWidth {
    public static func of(_ text: some StringProtocol) -> Int {
        var width = 0
        for character in text { width += of(character) }
        return width
    }

    public static func of(_ character: Character) -> Int {
        if let ascii = character.asciiValue { return ascii < 0x20 || ascii == 0x7f ? 0 : 1 }
        let scalars = character.unicodeScalars
        var sum = 0
        for scalar in scalars {
            // Variation selector 16 asks for the emoji form; a regional indicator is half a flag.
            if scalar.properties.isEmojiPresentation || scalar.value == 0xfe0f { return 2 }
            sum += of(scalar)
        }
        return sum
    }

    /// The longest beginning of `text` that fits into `width` cells.
    public static func prefix(of text: String, fitting width: Int) -> String {
        var output = ""
        var used = 0
        for character in text {
            used += of(character)
            if used > width { break }
            output.append(character)
        }
        return output
    }

    /// `text` in at most `width` cells, with "…" where something is missing.
    public static func truncated(_ text: String, to width: Int) -> String {
        of(text) <= width ? text : prefix(of: text, fitting: max(width - 1, 0)) + (width > 0 ? "…" : "")
    }

    /// `text` filled up with spaces to `width` cells.
    public static func padded(_ text: String, to width: Int, right: Bool = false) -> String {
        let missing = String(repeating: " ", count: max(width - of(text), 0))
        return right ? missing + text : text + missing
    }

    private static func of(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control, .lineSeparator, .paragraphSeparator: return 0
        default: break
        }
        // Vowels and finals of a decomposed Hangul syllable lie inside the cells of its initial.
        if (0x1160...0x11ff).contains(scalar.value) || (0xd7b0...0xd7fb).contains(scalar.value) { return 0 }
        return isWide(scalar.value) ? 2 : 1
    }

    private static func isWide(_ value: UInt32) -> Bool {
        guard value >= 0x1100 else { return false }
        var low = 0
        var high = wide.count
        while low < high {
            let middle = (low + high) / 2
            if wide[middle].upperBound < value { low = middle + 1 } else { high = middle }
        }
        return low < wide.count && wide[low].contains(value)
    }

    /// East Asian wide and full-width ranges (UAX #11) outside the emoji that `isEmojiPresentation` covers.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115f, 0x2329...0x232a, 0x2e80...0x2e99, 0x2e9b...0x2ef3, 0x2f00...0x2fd5, 0x2ff0...0x303e,
        0x3041...0x3096, 0x3099...0x30ff, 0x3105...0x312f, 0x3131...0x318e, 0x3190...0x31e5, 0x31ef...0x321e,
        0x3220...0x3247, 0x3250...0xa48c, 0xa490...0xa4c6, 0xa960...0xa97c, 0xac00...0xd7a3, 0xf900...0xfaff,
        0xfe10...0xfe19, 0xfe30...0xfe52, 0xfe54...0xfe66, 0xfe68...0xfe6b, 0xff01...0xff60, 0xffe0...0xffe6,
        0x16fe0...0x16fe4, 0x16ff0...0x16ff6, 0x17000...0x18cd5, 0x18cff...0x18d1e, 0x1aff0...0x1affe,
        0x1b000...0x1b2fb, 0x1f200...0x1f202, 0x1f210...0x1f23b, 0x1f240...0x1f248, 0x1f250...0x1f251,
        0x1f260...0x1f265, 0x20000...0x2fffd, 0x30000...0x3fffd,
    ]
}
