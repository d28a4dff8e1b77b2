/// Text that came from a network, a file or another person, made fit to show.
///
/// The one place where member names, notes, file names and chat become screen text: control codes, bidirectional
/// overrides, invisible and private characters are written out as `\u{…}`, so nothing from outside moves a cursor,
/// rings a bell, hides itself, reverses a line or paints over its neighbours (AB-84, AB-86, ATT-05).
public enum SafeText {
    /// A base letter with more marks than this draws over other lines; no living script needs so many. The longest
    /// emoji sequences have ten.
    private static let maximumScalarsPerCharacter = 16

    /// `text` with every unsafe scalar escaped: at most `limit` characters, and "…" where something was left out. An
    /// escape is never cut in half. Cost: linear in `limit`, not in the text.
    public static func escaped(_ text: String, limit: Int = .max) -> String {
        var output = ""
        var count = 0
        for character in text {
            let shown = escaped(character)
            let size = shown.count
            guard size <= limit - count else { return output + "…" }
            output += shown
            count += size
        }
        return output
    }

    /// A member or file name as it is kept: at most `maximumBytes` of UTF-8, cut between characters; where the first
    /// character alone is longer, between its scalars. Empty only if the text is (or has no room for one scalar).
    public static func shortened(_ text: String, maximumBytes: Int) -> String {
        guard text.utf8.count > maximumBytes else { return text }
        var output = ""
        var size = 0
        for character in text {
            size += character.utf8.count
            if size > maximumBytes { break }
            output.append(character)
        }
        return output.isEmpty ? shortenedScalars(text, maximumBytes: maximumBytes) : output
    }

    private static func shortenedScalars(_ text: String, maximumBytes: Int) -> String {
        var output = String.UnicodeScalarView()
        var size = 0
        for scalar in text.unicodeScalars {
            size += UTF8.width(scalar)
            if size > maximumBytes { break }
            output.append(scalar)
        }
        return String(output)
    }

    private static func escaped(_ character: Character) -> String {
        var output = String.UnicodeScalarView()
        var previous: Unicode.Scalar?
        let scalars = Array(character.unicodeScalars.prefix(maximumScalarsPerCharacter + 1))
        for (position, scalar) in scalars.prefix(maximumScalarsPerCharacter).enumerated() {
            let next = position + 1 < scalars.count ? scalars[position + 1] : nil
            if isSafe(scalar, after: previous, before: next) {
                output.append(scalar)
                previous = scalar
            } else {
                output.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
                previous = nil
            }
        }
        if scalars.count > maximumScalarsPerCharacter { output.append("…") }
        return String(output)
    }

    private static func isSafe(
        _ scalar: Unicode.Scalar, after previous: Unicode.Scalar?, before next: Unicode.Scalar?
    ) -> Bool {
        let properties = scalar.properties
        switch properties.generalCategory {
        case .control, .surrogate, .privateUse, .lineSeparator, .paragraphSeparator, .unassigned: return false
        default: break
        }
        // What draws nothing hides something: "ad<ZWJ>min" looks like "admin".
        guard properties.isDefaultIgnorableCodePoint || properties.generalCategory == .format else { return true }
        guard let previous else { return false }
        switch scalar.value {
        // A joiner after a picture makes one picture of two; after a virama it chooses a letter's form.
        case 0x200d: return isPicture(previous) || previous.properties.canonicalCombiningClass == .virama
        // Text or picture style of the sign before it; of a digit only within a keycap.
        case 0xfe0e, 0xfe0f: return previous.properties.isEmoji && (previous.value > 0x7f || next?.value == 0x20e3)
        default: return false
        }
    }

    /// An emoji, its skin tone or its style; not the digits that may begin a keycap.
    private static func isPicture(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value == 0xfe0f || (scalar.properties.isEmoji && scalar.value > 0xff)
    }
}
