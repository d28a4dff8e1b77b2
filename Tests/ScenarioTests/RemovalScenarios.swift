import Foundation
import Testing

extension Scenarios {
    /// A member is removed, and the mesh ends, with real processes.
    @Suite(.timeLimit(.minutes(10))) struct Removals {
        private func restart(_ name: String, in household: Household) async throws -> Outcome {
            try await household.run(
                "up", "--name", name, "--bind", "127.0.0.1", "--no-discovery", seconds: 20)
        }

        @Test func `a removed member and then a whole mesh end with their reasons, and starts say them again`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben", "cyd")
            let (ana, ben, cyd) = (nodes[0], nodes[1], nodes[2])
            try await household.eventually("all are there", within: 8) {
                for node in nodes where try await node.peerStates().values.filter({ $0 == "alive" }).count < 2 {
                    return false
                }
                return true
            }
            let oldInvite = try #require(ana.ready["invite"].text)

            let removed = try await ana.ask("remove", "cyd")
            #expect(removed.exit == 0, "\(removed)")
            #expect(removed.document["schema"].text == "starling/remove/1")
            #expect(removed.document["name"].text == "cyd")
            #expect(try await cyd.end() == 5)
            for node in [ana, ben] {
                try await household.eventually("cyd is no member", within: 8) {
                    try await node.ask("members").document["members"].list.count == 2
                }
            }
            try await ben.ask("send", "between us")
            #expect(try await ana.inboxTexts() == ["between us"])

            let again = try await restart("cyd", in: household)
            #expect(again.exit == 5, "\(again)")
            #expect(again.failure["code"].text == "removed")
            // The invite that cyd knows lets in nobody, whatever the name.
            let guest = try await household.run(
                "join", "-", "--name", "guest", "--bind", "127.0.0.1", "--no-discovery", "--timeout", "3",
                input: oldInvite + "\n", seconds: 20)
            #expect(guest.exit == 4, "\(guest)")
            let dora = try await household.join("dora", with: try await ben.invite())

            #expect(try await ben.ask("remove", "nobody").exit == 6)
            #expect(try await ben.ask("remove", "ana").exit == 5)
            let end = try await dora.ask("end")
            #expect(end.exit == 0, "\(end)")
            for node in [ana, ben, dora] { #expect(try await node.end(within: 12) == 5) }
            let late = try await restart("ben", in: household)
            #expect(late.exit == 5, "\(late)")
            #expect(late.failure["code"].text == "meshEnded")
        }
    }
}
