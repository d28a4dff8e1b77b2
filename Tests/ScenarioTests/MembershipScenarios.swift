import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Membership {
        /// Seconds until everybody in `observers` shows `state` for `name`.
        private func seconds(
            until name: String, is state: String, for observers: [RunningNode], within limit: Double
        ) async throws -> Double {
            let begun = ContinuousClock.now
            try await observers[0].household.eventually("\(name) is \(state) for everybody", within: limit) {
                for observer in observers where try await observer.peerStates()[name] != state { return false }
                return true
            }
            return (ContinuousClock.now - begun) / .seconds(1)
        }

        /// A network with loopback alone, and a name server there that takes every question and answers none.
        @Test(.enabled(if: geteuid() == 0, "a network of its own needs root"))
        func `MEM-13 without a route and with a name server that never answers, nodes start and meet as fast as ever`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let folder = household.directory.path
            try "nameserver 127.0.0.1\n".write(toFile: "\(folder)/resolv.conf", atomically: true, encoding: .utf8)
            try """
            set -e
            ip link set lo up
            mount --bind \(folder)/resolv.conf /etc/resolv.conf
            up() { $STARLING "$@" --bind 127.0.0.1 --background --json; }
            up up --name silence --port 53 --no-discovery > \(folder)/silence.json
            timeout 1 getent hosts nobody.example && exit 90 || [ $? -eq 124 ] || exit 91
            begun=$(date +%s%N)
            up up --name ana > \(folder)/ana.json
            sed -n 's/.*"invite":"\\([^"]*\\)".*/\\1/p' \(folder)/ana.json | up join - --name ben > \(folder)/ben.json
            echo $((($(date +%s%N) - begun) / 1000000))
            $STARLING down --all --json > /dev/null
            """.write(toFile: "\(folder)/script", atomically: true, encoding: .utf8)

            let outcome = try await household.shell("unshare --net --mount /bin/bash \(folder)/script", seconds: 30)

            #expect(outcome.exit == 0, "\(outcome)")
            let milliseconds = try #require(Int(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)))
            // One look-up alone would wait for five seconds.
            #expect(milliseconds < 4_000)
        }

        @Test func `a killed node is dead for all, comes back as itself, and an orderly end is known at once`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben", "cyd")
            let others = [nodes[0], nodes[1]]
            _ = try await seconds(until: "cyd", is: "alive", for: others, within: 8)

            try await nodes[2].killAtOnce()
            // Two seconds are promised; a loaded machine and the asking are given twice that.
            #expect(try await seconds(until: "cyd", is: "dead", for: others, within: 4) < 4 * Sanitizer.patience)

            let returned = try await household.up("cyd")
            #expect(returned.ready["id"].text == nodes[2].ready["id"].text)
            #expect(returned.ready["founded"].isTrue == false)
            _ = try await seconds(until: "cyd", is: "alive", for: others, within: 8)

            #expect(try await returned.ask("down").exit == 0)
            #expect(try await returned.end() == 0)
            #expect(try await seconds(until: "cyd", is: "left", for: others, within: 1.5) < 1.5 * Sanitizer.patience)
        }

        @Test func `MEM-03 five quick restarts leave one member`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let identity = nodes[1].ready["id"].text

            var last = nodes[1]
            for _ in 0..<5 {
                try await last.killAtOnce()
                last = try await household.up("ben")
                #expect(last.ready["id"].text == identity)
            }

            _ = try await seconds(until: "ben", is: "alive", for: [nodes[0]], within: 8)
            _ = try await seconds(until: "ana", is: "alive", for: [last], within: 8)
            for node in [nodes[0], last] {
                let members = try await node.ask("members").document["members"].list
                #expect(members.compactMap(\.["name"].text).sorted() == ["ana", "ben"])
            }
        }

        @Test func `a member frozen for five seconds comes back as itself, and misses no message`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let (ana, ben) = (nodes[0], nodes[1])
            _ = try await seconds(until: "ben", is: "alive", for: [ana], within: 8)
            let before = try await ana.ask("members").document["members"].list.count

            kill(ben.pid, SIGSTOP)
            try await household.eventually("ana doubts ben", within: 5) {
                ["suspect", "dead"].contains(try await ana.peerStates()["ben"])
            }
            try await ana.ask("send", "while you slept", "--timeout", "1")
            try await Task.sleep(for: .seconds(4))
            kill(ben.pid, SIGCONT)

            _ = try await seconds(until: "ben", is: "alive", for: [ana], within: 8)
            try await household.eventually("the message is there") { try await !ben.inboxTexts().isEmpty }
            try await ana.ask("send", "good morning")
            try await household.eventually("so is the next") { try await ben.inboxTexts().contains("good morning") }
            #expect(try await ben.inboxTexts() == ["while you slept", "good morning"])
            #expect(try await ana.ask("members").document["members"].list.count == before)
        }
    }
}
