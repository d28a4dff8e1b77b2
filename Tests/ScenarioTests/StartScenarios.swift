import Foundation
import Glibc
import Testing

extension Scenarios {
    /// Starts that fail, ends that are awaited.
    @Suite(.timeLimit(.minutes(10))) struct Starts {
        private func state(_ name: String, in household: Household) -> String {
            household.directory.appending(path: "state").appending(path: name).path
        }

        private func mounted(_ options: String, at path: String, in household: Household) async throws -> Bool {
            let outcome = try await household.shell(
                "mkdir -p '\(path)' && mount -t tmpfs -o \(options) tmpfs '\(path)'")
            return outcome.exit == 0
        }

        @Test(arguments: [[], ["--background"]])
        func `a first start that leads nowhere leaves no state behind`(options: [String]) async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let invite = try #require(ana.ready["invite"].text)
            #expect(try await ana.ask("down").exit == 0)
            let starts: [([String], String?, Int32)] = [
                (["join", "-", "--timeout", "2"], "starling:damaged", 2), (["join", "-", "--timeout", "2"], invite, 4),
                (["up", "--port", "1"], nil, 1),
            ]

            for (arguments, input, exit) in starts {
                // Root may use port 1, so it is taken first.
                if exit == 1, geteuid() == 0 { continue }
                let failed = try await household.run(
                    Command.path,
                    arguments + ["--name", "guest", "--bind", "127.0.0.1", "--no-discovery", "--json"] + options,
                    input: input, seconds: 20)
                #expect(failed.exit == exit, "\(failed)")
                #expect(!FileManager.default.fileExists(atPath: state("guest", in: household)))
            }
            let ben = try await household.up("ben")
            let taken = try await household.run(
                Command.path,
                ["up", "--name", "guest", "--bind", "127.0.0.1", "--no-discovery", "--json", "--port", "\(ben.port)"]
                    + options, input: nil, seconds: 20)
            #expect(taken.exit == 1, "\(taken)")
            #expect(!FileManager.default.fileExists(atPath: state("guest", in: household)))
        }

        @Test func `a failed start leaves the state of an earlier one alone`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let ben = try await household.up("ben")
            #expect(try await ana.ask("down").exit == 0)

            let taken = try await household.run(
                "up", "--name", "ana", "--bind", "127.0.0.1", "--no-discovery", "--port", "\(ben.port)")
            #expect(taken.exit == 1, "\(taken)")

            let returned = try await household.up("ana")
            #expect(returned.ready["id"].text == ana.ready["id"].text)
        }

        @Test(.enabled(if: geteuid() == 0, "mounting needs root"))
        func `a full disk at the start is called full, and its catalogue is not to be given up`() async throws {
            let household = try Household()
            defer { household.end() }
            let directory = household.directory.appending(path: "state").path
            try #require(try await mounted("size=2m", at: directory, in: household))
            defer { unsafe umount2(directory, Int32(MNT_DETACH)) }
            let ana = try await household.up("ana")
            let id = ana.ready["id"].text
            try await ana.killAtOnce()
            try await household.shell("dd if=/dev/zero of='\(directory)/filler' bs=4k 2>/dev/null; true")

            let refused = try await household.run(
                "up", "--name", "ana", "--bind", "127.0.0.1", "--no-discovery")
            #expect(refused.exit == 7, "\(refused)")
            #expect(refused.failure["code"].text == "storageFull", "\(refused)")
            #expect(refused.failure["hint"].text?.contains("away") == false)

            try await household.shell("rm '\(directory)/filler'")
            let returned = try await household.up("ana")
            #expect(returned.ready["id"].text == id)
        }

        @Test(.enabled(if: geteuid() == 0, "mounting needs root"))
        func `a read-only file system is called so by every start and by the doctor`() async throws {
            let household = try Household()
            defer { household.end() }
            let directory = household.directory.appending(path: "state").path
            try #require(try await mounted("ro", at: directory, in: household))
            defer { unsafe umount2(directory, Int32(MNT_DETACH)) }
            household.environment["STARLING_STATE"] = directory + "/below"

            for options in [[], ["--background"]] {
                let refused = try await household.run(
                    Command.path, ["up", "--name", "ana", "--no-discovery", "--json"] + options, input: nil, seconds: 10
                )
                #expect(refused.exit == 7, "\(refused)")
                let message = refused.failure["message"].text?.lowercased() ?? ""
                #expect(message.contains("read-only"), "\(refused)")
            }
            let doctor = try await household.shell("$STARLING doctor --json")
            #expect(doctor.output.contains("Read-only"), "\(doctor)")
            #expect(!doctor.output.contains("chmod"), "\(doctor)")
        }

        @Test func `down returns when the state is free, also in the middle of a large import`() async throws {
            let household = try Household()
            defer { household.end() }
            let large = household.directory.appending(path: "files").appending(path: "large.bin").path
            try await household.shell("truncate -s 40G '\(large)'")
            let ana = try await household.up("ana", "--max-attachment", "60GB")
            let started = Date.now
            let end = household.directory.appending(path: "added").path
            try await household.shell(
                "( $STARLING journal add '\(large)' -n ana; echo $? > '\(end)' ) > /dev/null 2>&1 &")
            try await Task.sleep(for: .seconds(1))

            let down = try await household.run(Command.path, ["down", "-n", "ana", "--json"], input: nil, seconds: 30)
            #expect(down.exit == 0, "\(down)")
            let returned = try await household.up("ana")
            #expect(returned.ready["id"].text == ana.ready["id"].text)
            let added = try? String(contentsOfFile: end, encoding: .utf8)
            #expect(added != nil && added != "0\n", "the import was cut short")
            #expect(Date.now.timeIntervalSince(started) < 30)
        }

        @Test func `the control socket outlives a want of descriptors`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")

            // Room for one more descriptor, and six readers who want one each. The limit is one of numbers, not of how many.
            let shortage = try await household.shell(
                """
                free=0
                while [ -L /proc/\(ana.pid)/fd/$free ]; do free=$((free + 1)); done
                prlimit --pid \(ana.pid) --nofile=$((free + 1)):1024 || exit 9
                for reader in 1 2 3 4 5 6; do $STARLING events --follow -n ana > /dev/null 2>&1 & readers="$readers $!"; done
                sleep 1.5
                kill $readers
                """, seconds: 20)
            #expect(shortage.exit == 0, "\(shortage)")

            let status = try await ana.ask("status")
            #expect(status.exit == 0, "\(status)")
        }

        @Test func `down of a stopped process names it`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            kill(ana.pid, SIGSTOP)
            defer { kill(ana.pid, SIGCONT) }

            let down = try await household.run(Command.path, ["down", "-n", "ana", "--json"], input: nil, seconds: 30)

            #expect(down.exit == 4, "\(down)")
            #expect(down.failure["message"].text?.contains("\(ana.pid) is stopped") == true, "\(down)")
            #expect(down.failure["hint"].text?.contains("kill -CONT \(ana.pid)") == true)
        }

        @Test func `what a killed ephemeral node left goes with the next one, and a running one's stays`() async throws
        {
            let household = try Household()
            defer { household.end() }
            let temporary = household.directory.appending(path: "temporary").path
            try await household.shell("mkdir -p '\(temporary)'")
            household.environment["TMPDIR"] = temporary
            let ana = try await household.up("ana", "--ephemeral")
            try await ana.killAtOnce()
            let ben = try await household.up("ben", "--ephemeral")
            let cyd = try await household.up("cyd", "--ephemeral")

            let left = try FileManager.default.contentsOfDirectory(atPath: temporary)
            #expect(left.count == 2, "\(left)")
            #expect(!left.contains { $0.contains("ana") })
            #expect(try await ben.ask("status").exit == 0)
            #expect(try await cyd.ask("down").exit == 0)
            #expect(try await ben.ask("down").exit == 0)
            try await household.eventually("nothing is left") {
                try FileManager.default.contentsOfDirectory(atPath: temporary).isEmpty
            }
        }
    }
}
