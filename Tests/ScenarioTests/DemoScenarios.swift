import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Demo {
        @Test func `a demo of three is a full mesh, and nothing of it remains`() async throws {
            let household = try Household()
            defer { household.end() }

            let begun = ContinuousClock.now
            let demo = try await household.run("demo", "--nodes", "3")
            let seconds = (ContinuousClock.now - begun) / .seconds(1)
            let nodes = demo.document["nodes"].list
            household.adopt(nodes.map(\.["pid"].integer))

            #expect(demo.exit == 0, "\(demo)")
            #expect(nodes.count == 3)
            #expect(demo.document["linkCount"].integer == 3)
            #expect(seconds < 10 * Sanitizer.patience, "under three seconds on a machine that is not loaded")
            for name in nodes.compactMap(\.["name"].text) {
                try await household.eventually("\(name) knows both others' clocks", within: 8) {
                    let peers = try await household.run("peers", "-n", name).document["peers"].list
                    return peers.count == 2
                        && peers.allSatisfy { peer in
                            peer["state"].text == "alive" && (peer["rttMicroseconds"].number ?? 0) > 0
                                && peer["offsetMicroseconds"].number != nil
                                && (peer["offsetErrorMicroseconds"].number ?? .infinity) < 1_000_000
                        }
                }
            }

            #expect(try await household.run("demo", "stop").exit == 0)
            for pid in nodes.compactMap(\.["pid"].integer) { #expect(!household.isOurs(pid_t(pid))) }
            #expect(try await household.run("nodes").document["nodes"].list.isEmpty)
        }
    }
}
