import Foundation
import Testing

@Suite struct DocumentTests {
    @Test func `links in documents resolve`() throws {
        var broken: [String] = []
        var checked = 0
        let documents =
            Repository.files(under: "Docs", withExtension: "md") + Repository.files(under: "Tests", withExtension: "md")
            + [Repository.root.appending(path: "README.md")]
        for document in documents {
            for target in Self.links(in: try Repository.text(document)) where !target.contains("://") {
                checked += 1
                let path = target.split(separator: "#", omittingEmptySubsequences: false)[0]
                guard !path.isEmpty else { continue }
                let file = document.deletingLastPathComponent().appending(path: String(path))
                if !FileManager.default.fileExists(atPath: file.path) {
                    broken.append("\(Repository.relativePath(document)): \(target)")
                }
            }
        }

        #expect(checked > 0)
        #expect(broken == [])
    }

    /// Targets of `[text](target)`.
    private static func links(in text: String) -> [String] {
        text.components(separatedBy: "](").dropFirst().compactMap { rest in
            rest.firstIndex(of: ")").map { String(rest[..<$0]) }
        }.filter { !$0.contains(" ") && !$0.contains("\n") && !$0.isEmpty }
    }

    /// The abuse and field cases that the code faces by now. Each must stand in the title of a test that fails when its
    /// guard is removed.
    @Test func `every listed case stands in the title of a test`() throws {
        let list = try Repository.text(Repository.root.appending(path: "Tests/Cases.txt"))
        let ids = list.split(separator: "\n").filter { !$0.hasPrefix("#") }.compactMap {
            $0.split(separator: " ").first
        }
        // A long title may stand on the line after `func`.
        var titles = ""
        for file in Repository.files(under: "Tests", withExtension: "swift") {
            let text = try Repository.text(file)
            for part in text.components(separatedBy: "func").dropFirst() {
                let name = part.drop(while: \.isWhitespace)
                guard name.first == "`" else { continue }
                titles += name.dropFirst().prefix { $0 != "`" } + " \n"
            }
        }

        #expect(ids.count > 50)
        #expect(ids.filter { !titles.contains("\($0) ") } == [])
    }
}
