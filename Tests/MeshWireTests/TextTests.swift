import Foundation
import MeshBase
import MeshWire
import Testing

@Suite struct TextTests {
    @Test func `216 valid and invalid texts: read as they are, or refused, never repaired`() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: tests.appending(path: "Vectors/utf8/utf8tests.json"))
        let cases = try JSONDecoder().decode(File.self, from: data).tests
        #expect(cases.count == 216)
        var refused = 0

        for test in cases {
            let bytes = try #require(Hexadecimal.decode(test.hex))
            var writer = ByteWriter()
            writer.write(sized: bytes)
            let text = try? Reader(writer.bytes).read { span, position in
                try span.readText(&position, maximum: 1024)
            }
            #expect((text != nil) == test.valid, "\(test.id)")
            if let text { #expect(Array(text.utf8) == bytes) } else { refused += 1 }
        }

        #expect(refused == cases.count { !$0.valid })
        #expect(refused > 50)
    }

    private struct File: Decodable {
        struct Case: Decodable {
            let id: String
            let hex: String
            let valid: Bool
        }
        let tests: [Case]
    }
}
