import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Texts {
        /// Control codes (but the line feed), and marks that turn the direction of writing.
        private func isHarmless(_ text: String) -> Bool {
            text.unicodeScalars.allSatisfy { scalar in
                let value = scalar.value
                let isControl = value < 0x20 && value != 0x0a || value == 0x7f || (0x80...0x9f).contains(value)
                let isTurn = (0x202a...0x202e).contains(value) || (0x2066...0x2069).contains(value)
                return !isControl && !isTurn
            }
        }

        private static let hostile = "a\u{1b}[2J\u{1b}]52;c;aGk=\u{07}\r\u{202e}gpj.exe"

        @Test func `names of nodes are refused or shown escaped, whatever they hold`() async throws {
            let household = try Household()
            defer { household.end() }

            for name in [Self.hostile, String(repeating: "x", count: 4_096), "../up", "a/b", "", "\n", "-"] {
                let refused = try await household.run(
                    "up", "--name=\(name)", "--bind", "127.0.0.1", "--no-discovery", "--background")
                household.adopt([refused.document["pid"].integer])
                #expect(refused.exit == 2, "\(name.prefix(20).debugDescription): \(refused)")
                #expect(isHarmless(refused.errorOutput), "\(refused.errorOutput.debugDescription)")
            }
            for (name, mesh) in [("küche", "🎬 film 夜"), ("שלום", Self.hostile)] {
                let node = try await household.run(
                    "up", "--name", name, "--mesh", mesh, "--bind", "127.0.0.1", "--no-discovery", "--background")
                household.adopt([node.document["pid"].integer])
                guard node.exit == 0 else {
                    #expect(node.exit == 2, "\(node)")
                    continue
                }
                #expect(node.document["name"].text == name)
                let shown = try await household.shell("$STARLING status -n '\(name)'; $STARLING nodes")
                #expect(isHarmless(shown.output), "\(shown.output.debugDescription)")
            }
            #expect(try await household.run("down", "--all").exit == 0)
        }

        @Test func `ATT-05 names, notes and messages with control codes are shown escaped`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let file = try household.file(Self.hostile, bytes: 100)

            let added = try await nodes[0].ask("journal", "add", file.path, "--note", Self.hostile)
            #expect(added.exit == 0 || added.exit == 2, "\(added)")
            #expect(try await nodes[0].ask("send", Self.hostile).exit == 0)
            try await household.eventually("ben hears it") { try await !nodes[1].inboxTexts().isEmpty }

            #expect(try await nodes[1].inboxTexts() == [Self.hostile], "JSON carries the text as it is")
            for verb in ["journal ls", "inbox", "events", "status"] {
                let shown = try await household.shell("$STARLING \(verb) -n ben")
                #expect(shown.exit == 0)
                #expect(isHarmless(shown.output), "\(verb): \(shown.output.debugDescription)")
                #expect(isHarmless(shown.errorOutput), "\(verb): \(shown.errorOutput.debugDescription)")
                let json = try await household.shell("$STARLING \(verb) -n ben --json")
                #expect(isHarmless(json.output), "\(json.output.debugDescription)")
            }
            let out = household.outputDirectory
            if added.exit == 0 {
                let got = try await nodes[1].ask(
                    "journal", "get", added.document["id"].text ?? "", "-o", out.path)
                #expect(got.exit == 0, "\(got)")
                let names = try FileManager.default.contentsOfDirectory(atPath: out.path)
                #expect(names.count == 1 && names.allSatisfy { isHarmless($0) }, "\(names)")
            }
        }
    }
}
