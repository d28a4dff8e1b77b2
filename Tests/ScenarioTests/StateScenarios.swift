import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct State {
        @Test func `CLI-08 a stale socket is replaced and a second process on one state is told who holds it`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")

            let second = try await household.run("up", "--name", "ana", "--bind", "127.0.0.1", "--no-discovery")
            #expect(second.exit == 7)
            #expect(second.failure["code"].text == "stateInUse")
            #expect(second.failure["message"].text?.contains("\(ana.pid)") == true, "\(second)")

            try await ana.killAtOnce()
            #expect(FileManager.default.fileExists(atPath: ana.socketPath), "the killed process could not tidy up")
            let returned = try await household.up("ana")
            #expect(try await returned.ask("status").document["node"]["pid"].integer == Int(returned.pid))
        }

        @Test func `MEM-20 a taken port is refused with its holder's name when asked for, else the next one is taken`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")

            let refused = try await household.run(
                "up", "--name", "ben", "--bind", "127.0.0.1", "--no-discovery", "--port", "\(ana.port)")
            #expect(refused.exit == 1)
            #expect(refused.failure["code"].text == "portInUse")
            #expect(refused.failure["message"].text?.contains("starling (pid \(ana.pid))") == true, "\(refused)")
            #expect(refused.failure["hint"].text?.contains("--port") == true)

            let ben = try await household.up("ben")
            #expect(ben.port != ana.port && ben.port > 0)
        }

        @Test func `a node that returns calls the others by their names from its first event on`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            try await household.eventually("ben knows ana's name") { try await nodes[1].peerStates()["ana"] != nil }
            try await nodes[1].killAtOnce()

            let ben = try await household.up("ben")

            try await household.eventually("ben meets ana") { try await ben.peerStates()["ana"] == "alive" }
            let names = try await ben.ask("events").documents.compactMap(\.["node"].text)
            #expect(Set(names).isSubset(of: ["ana", "ben"]), "\(names)")
        }

        /// A file system of its own, when the test may mount one.
        private func mounted(_ options: String, at path: String, in household: Household) async throws -> Bool {
            let outcome = try await household.shell(
                "mkdir -p '\(path)' && mount -t tmpfs -o \(options) tmpfs '\(path)'")
            return outcome.exit == 0
        }

        @Test(.enabled(if: geteuid() == 0, "mounting needs root"))
        func `a full state directory refuses a file as a whole`() async throws {
            let household = try Household()
            defer { household.end() }
            let state = household.directory.appending(path: "state").path
            try #require(try await mounted("size=4m", at: state, in: household))
            defer { unsafe umount2(state, Int32(MNT_DETACH)) }
            let film = try household.file("film.bin", bytes: 10 << 20)
            let ana = try await household.up("ana")

            let refused = try await ana.ask("journal", "add", film.path)

            #expect(refused.exit == 7)
            #expect(refused.failure["code"].text == "storageFull", "\(refused)")
            #expect(try await ana.ask("journal", "ls").document["attachments"].list.isEmpty)
            let left = try await household.shell("find \(state) -path '*contents*' -type f -size +64k | wc -l")
            #expect(left.output == "0\n")
            #expect(try await ana.ask("send", "still well").exit == 0)
        }

        @Test(.enabled(if: geteuid() == 0, "mounting needs root"))
        func `a read-only state directory is a typed error`() async throws {
            let household = try Household()
            defer { household.end() }
            let state = household.directory.appending(path: "state").path
            try #require(try await mounted("ro", at: state, in: household))
            defer { unsafe umount2(state, Int32(MNT_DETACH)) }

            for arguments in [[], ["--background"]] {
                let refused = try await household.run(
                    Command.path, ["up", "--name", "ana", "--no-discovery", "--json"] + arguments, input: nil,
                    seconds: 10)
                #expect(refused.exit == 7, "\(refused)")
                #expect(refused.failure["hint"].text?.isEmpty == false)
            }
        }

        @Test func `CLI-10 without any setting a node starts with defaults or says what is missing`() async throws {
            let household = try Household()
            defer { household.end() }
            household.environment = Sanitizer.environment(in: household.directory)
            household.environment.merge(["PATH": "/usr/bin:/bin", "STARLING": Command.path]) { _, last in last }

            let asked = try await household.run("status", "-n", "nobody-has-this-name")
            #expect(asked.exit == 3, "\(asked)")
            #expect(asked.failure["hint"].text?.isEmpty == false)
            // Nothing can be made in /proc, not even by root.
            household.environment["HOME"] = "/proc/self"
            let refused = try await household.run("up", "--no-discovery", seconds: 8)
            #expect(refused.exit == 7, "\(refused)")
            #expect(refused.failure["hint"].text?.isEmpty == false)

            household.environment["STARLING_STATE"] = household.directory.appending(path: "own").path
            let ready = try await household.run(
                "up", "--name", "ana", "--no-discovery", "--bind", "127.0.0.1", "--background")
            household.adopt([ready.document["pid"].integer])
            #expect(ready.exit == 0, "\(ready)")
            #expect(try await household.run("down", "-n", "ana").exit == 0)
        }
    }
}
