/// Text that came from a network, a file or another person, made fit to show.
///
/// The one place where member names, notes, file names and chat become screen text: control codes, bidirectional
/// overrides, zero-width and private characters are written out as `\u{…}`, so nothing from outside moves a cursor,
/// rings a bell, hides itself or reverses a line (AB-84, AB-86, ATT-05).
public enum SafeText {
    /// `text` with every unsafe scalar escaped; at most `limit` characters, shortened with "…".
    public static func escaped(_ text: String, limit: Int = .max) -> String {
        var output = ""
        var count = 0
        for character in text {
            if count == limit {
                output += "…"
                break
            }
            if character.unicodeScalars.allSatisfy({ isSafe($0, in: character) }) {
                output.append(character)
            } else {
                for scalar in character.unicodeScalars {
                    if isSafe(scalar, in: character) {
                        output.unicodeScalars.append(scalar)
                    } else {
                        output += "\\u{" + String(scalar.value, radix: 16) + "}"
                    }
                }
            }
            count += 1
        }
        return output
    }

    /// A member or file name as it is kept: at most `maximumBytes` of UTF-8, cut at a character, never empty.
    public static func shortened(_ text: String, maximumBytes: Int) -> String {
        guard text.utf8.count > maximumBytes else { return text }
        var output = ""
        var size = 0
        for character in text {
            let bytes = String(character).utf8.count
            if size + bytes > maximumBytes { break }
            output.append(character)
            size += bytes
        }
        return output
    }

    private static func isSafe(_ scalar: Unicode.Scalar, in character: Character) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .surrogate, .privateUse, .lineSeparator, .paragraphSeparator, .unassigned: false
        // A zero-width joiner inside an emoji sequence is part of the picture; alone it hides something.
        case .format: scalar.value == 0x200d && character.unicodeScalars.count > 1
        default: true
        }
    }
}
