/// Splits a line typed at the REPL into words, as a shell does with quotes and backslashes, but expanding nothing.
public enum LineTokenizer {
    /// The words of a line, and whether the line ends inside a word, which is what completion works on.
    public struct Words: Hashable, Sendable {
        public var words: [String]
        /// Whether the last word is still open (no white space after it).
        public var endsInWord: Bool
        /// A quote that was opened and not closed.
        public var openQuote: Character?
        /// Where the last open word begins, in characters from the start of the line.
        public var lastWordStart: Int
    }

    /// Splits `line`; never fails: an open quote is reported, not refused. Cost: one pass.
    public static func split(_ line: String) -> Words {
        var output = Words(words: [], endsInWord: false, openQuote: nil, lastWordStart: 0)
        var word = ""
        var isEscaped = false
        for (position, character) in line.enumerated() {
            if !output.endsInWord, !character.isWhitespace {
                output.endsInWord = true
                output.lastWordStart = position
                word = ""
            }
            if isEscaped {
                word.append(character)
                isEscaped = false
            } else if let quote = output.openQuote {
                if character == quote {
                    output.openQuote = nil
                } else if character == "\\", quote == "\"" {
                    isEscaped = true
                } else {
                    word.append(character)
                }
            } else if character == "\\" {
                isEscaped = true
            } else if character == "\"" || character == "'" {
                output.openQuote = character
            } else if character.isWhitespace {
                if output.endsInWord { output.words.append(word) }
                output.endsInWord = false
            } else {
                word.append(character)
            }
        }
        if output.endsInWord { output.words.append(word) } else { output.lastWordStart = line.count }
        return output
    }

    /// `word` so that `split` gives it back as one word.
    public static func quoted(_ word: String) -> String {
        let special: Set<Character> = ["\"", "'", "\\"]
        var output = ""
        for character in word {
            if character.isWhitespace || special.contains(character) { output.append("\\") }
            output.append(character)
        }
        return output.isEmpty ? "''" : output
    }
}
