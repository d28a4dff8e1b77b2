import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Commands {
        @Test func `CLI-01 events reach a pipe line by line, also when the command is killed`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let piped = household.directory.appending(path: "piped").path

            let outcome = try await household.shell(
                """
                exec 3> >(cat > \(piped))
                $STARLING events --follow --json -n ana >&3 & follower=$!
                sleep 1; kill -9 $follower; exec 3>&-; sleep 0.2; wc -l < \(piped)
                """)
            #expect((Int(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0) > 0, "\(outcome)")
            let text = try String(contentsOfFile: piped, encoding: .utf8)
            #expect(text.hasSuffix("\n"))
            #expect(Document.lines(text).count == text.split(separator: "\n").count)
            _ = nodes
        }

        @Test func `CLI-02 a reader that goes away is no error, a full disk is one, and the node lives on`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")

            for verb in ["status", "peers", "events", "help", "man", "journal ls", "nodes"] {
                let outcome = try await household.shell("$STARLING \(verb) | true; echo ${PIPESTATUS[0]}")
                #expect(outcome.output == "0\n", "\(verb): \(outcome)")
                #expect(outcome.errorOutput == "", "\(verb)")
            }
            let full = try await household.shell("$STARLING status > /dev/full")
            #expect(full.exit != 0)
            #expect(!full.errorOutput.isEmpty)

            // A node whose own reader goes away.
            let node = try await household.shell(
                "($STARLING up --name ben --bind 127.0.0.1 --no-discovery --json & echo $! >&2; wait) | head -n 1 >/dev/null & "
                    + "sleep 1.5; $STARLING send hello -n ben --json; $STARLING status -n ben --json; $STARLING down -n ben"
            )
            household.adopt([Int(node.errorOutput.split(separator: "\n").first ?? "")])
            #expect(node.documents.contains { $0["schema"].text == "starling/status/1" }, "\(node)")
            #expect(try await ana.ask("status").exit == 0)
        }

        @Test func `CLI-03 without standard input the REPL ends well and a node neither reads it nor spins`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")

            for input in ["< /dev/null", "<&-"] {
                let outcome = try await household.shell("$STARLING repl ana \(input)", seconds: 5)
                #expect(outcome.exit == 0, "\(input): \(outcome)")
            }
            let closed = try await household.shell(
                "$STARLING up --name ben --bind 127.0.0.1 --no-discovery --background --json <&-")
            household.adopt([closed.document["pid"].integer])
            #expect(closed.exit == 0, "\(closed)")
            for pid in [Int(ana.pid), try #require(closed.document["pid"].integer)] {
                let before = try processorTicks(pid)
                try await Task.sleep(for: .seconds(1))
                #expect(try processorTicks(pid) - before < 20, "a hundred are a second")
            }
        }

        private func processorTicks(_ pid: Int) throws -> Int {
            let text = try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8)
            let fields = text.drop { $0 != ")" }.split(separator: " ")
            return (Int(fields[12]) ?? 0) + (Int(fields[13]) ?? 0)
        }

        @Test func `a REPL at a pipe prints what each verb prints, as JSON`() async throws {
            let household = try Household()
            defer { household.end() }
            _ = try await household.mesh("ana", "ben")

            let outcome = try await household.run(
                "repl", "ana", input: "peers\nstatus\nno-such-verb\njournal ls\nsend hello\nquit\n")

            let schemas = outcome.documents.compactMap(\.["schema"].text)
            #expect(
                schemas == [
                    "starling/peers/1", "starling/status/1", "starling/journal.ls/1", "starling/send/1",
                ], "\(outcome)")
            #expect(outcome.failure["code"].text == "usage")
        }

        @Test(.enabled(if: FileManager.default.fileExists(atPath: "/usr/bin/tmux"), "tmux is not installed"))
        func `CLI-04 events that arrive while one types leave prompt and text whole`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let tmux = "tmux -S \(household.directory.path)/tmux"
            defer {
                _ = try? Process.run(
                    URL(filePath: "/usr/bin/tmux"),
                    arguments: ["-S", "\(household.directory.path)/tmux", "kill-server"])
            }

            try await household.shell("\(tmux) -f /dev/null new-session -d -x 100 -y 40 \"$STARLING repl ana\"")
            func screen() async throws -> String { try await household.shell("\(tmux) capture-pane -p").output }
            try await household.eventually("the prompt is there") { try await screen().contains("ana") }
            try await household.shell("\(tmux) send-keys -l 'send \"half a sen'")
            for number in 0..<50 {
                guard number % 10 == 0 else { continue }
                try await nodes[1].ask("send", "message \(number)", "--repeat", "10")
            }
            try await household.eventually("all messages are there") {
                try await nodes[0].ask("inbox", "--count").document["count"].integer == 50
            }
            try await Task.sleep(for: .milliseconds(300))
            let middle = try await screen()
            try await household.shell("\(tmux) send-keys -l 'tence, finished\"'; \(tmux) send-keys Enter")
            try await household.eventually("ben hears the whole line") {
                try await nodes[1].inboxTexts().contains("half a sentence, finished")
            }

            let lines = middle.split(separator: "\n").map(String.init)
            #expect(lines.last?.hasSuffix("send \"half a sen") == true, "\(middle)")
            #expect(lines.filter { $0.contains("half a sen") }.count == 1, "\(middle)")
            #expect(lines.contains { $0.contains("message 40") }, "\(middle)")
        }
    }
}
