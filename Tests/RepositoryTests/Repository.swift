import Foundation
import Testing

/// The checkout these tests were built from.
enum Repository {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func files(under folder: String, withExtension ending: String) -> [URL] {
        let start = root.appending(path: folder)
        guard let walk = FileManager.default.enumerator(at: start, includingPropertiesForKeys: nil) else { return [] }
        return walk.compactMap { $0 as? URL }.filter { $0.pathExtension == ending }
            .sorted { $0.path < $1.path }
    }

    static func text(_ file: URL) throws -> String { try String(contentsOf: file, encoding: .utf8) }

    static func relativePath(_ file: URL) -> String {
        String(file.path.dropFirst(root.path.count).drop { $0 == "/" })
    }
}

/// One line of Swift source without its comment and without the inside of its strings.
struct SourceLine {
    var number: Int
    var code: String

    /// Lines of a file; block comments and multi-line strings are left out as a whole.
    static func lines(of text: String) -> [SourceLine] {
        var output: [SourceLine] = []
        var isInsideText = false
        for (index, raw) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let delimiters = raw.components(separatedBy: "\"\"\"").count - 1
            if isInsideText {
                if delimiters % 2 == 1 { isInsideText = false }
                continue
            }
            output.append(SourceLine(number: index + 1, code: code(String(raw))))
            if delimiters % 2 == 1 { isInsideText = true }
        }
        return output
    }

    private static func code(_ line: String) -> String {
        var output = ""
        var isInString = false
        var previous: Character = " "
        for character in line {
            if character == "\"", previous != "\\" { isInString.toggle() }
            if !isInString, character == "/", previous == "/" { return String(output.dropLast()) }
            if !isInString || character == "\"" { output.append(character) }
            previous = character
        }
        return output
    }
}
