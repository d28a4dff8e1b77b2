import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Tickets {
        private func join(_ household: Household, with input: String) async throws -> Outcome {
            try await household.run(
                "join", "-", "--name", "guest", "--bind", "127.0.0.1", "--no-discovery", "--timeout", "3", input: input,
                seconds: 8)
        }

        @Test func `text that is no ticket, and a damaged one, are refused at once`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let ticket = try #require(ana.ready["invite"].text)
            let middle = ticket.index(ticket.startIndex, offsetBy: ticket.count / 2)
            let other: Character = ticket[middle] == "a" ? "b" : "a"
            let flipped = ticket[..<middle] + String(other) + ticket[ticket.index(after: middle)...]

            for input in [
                "", "hello", "starling:", "starling:\u{1b}[2J", String(flipped), String(ticket.dropLast()),
                String(repeating: "starling:a", count: 5_000),
            ] {
                let refused = try await join(household, with: input)
                #expect(refused.exit == 2, "\(input.prefix(40)): \(refused)")
                #expect(["usage", "invalidInvite"].contains(refused.failure["code"].text))
                #expect(refused.failure["hint"].text?.isEmpty == false)
            }
        }

        @Test func `expired and revoked tickets meet silence, and the report says what was tried`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let expiring = try await ana.ask("invite", "--expires", "1s").document
            let revoked = try await ana.ask("invite").document
            #expect(try await ana.ask("invite", "revoke", revoked["id"].text ?? "").exit == 0)
            try await Task.sleep(for: .seconds(1.2))

            for ticket in [expiring, revoked] {
                let refused = try await join(household, with: try #require(ticket["invite"].text))
                #expect(refused.exit == 4, "\(refused)")
                #expect(refused.failure["code"].text == "unreachable")
                #expect(refused.failure["hint"].text?.contains("expired or revoked") == true)
                #expect(refused.failure["tried"].list.contains { $0["result"].text == "no answer" })
            }
            #expect(try await ana.ask("members").document["members"].list.count == 1)
        }

        @Test func `a state of one mesh refuses the ticket of another`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let guest = try await household.up("guest")
            #expect(try await guest.ask("down").exit == 0)
            #expect(try await guest.end() == 0)

            let refused = try await join(household, with: try #require(ana.ready["invite"].text))

            #expect(refused.exit == 5)
            #expect(refused.failure["code"].text == "otherMesh", "\(refused)")
            let returned = try await household.up("guest")
            #expect(returned.ready["id"].text == guest.ready["id"].text)
        }

        @Test func `AB-85 a ticket stands in no command line, environment or log`() async throws {
            let household = try Household()
            defer { household.end() }
            let up = try await household.run(
                "up", "--name", "ana", "--bind", "127.0.0.1", "--no-discovery", "--background")
            household.adopt([up.document["pid"].integer])
            let ticket = try #require(up.document["invite"].text)
            let joined = try await household.run(
                "join", "-", "--name", "ben", "--bind", "127.0.0.1", "--no-discovery", "--background", input: ticket)
            household.adopt([joined.document["pid"].integer])
            // Given as an argument, it is wiped from there.
            let given = try await household.run(
                "join", ticket, "--name", "cyd", "--bind", "127.0.0.1", "--no-discovery", "--background")
            household.adopt([given.document["pid"].integer])

            let secret = String(ticket.dropFirst("starling:".count).prefix(40))
            let pids = [up, joined, given].compactMap { $0.document["pid"].integer }
            #expect(pids.count == 3)
            for pid in pids {
                for file in ["cmdline", "environ"] {
                    let data = try Data(contentsOf: URL(filePath: "/proc/\(pid)/\(file)"))
                    #expect(!String(decoding: data, as: UTF8.self).contains(secret), "/proc/\(pid)/\(file)")
                }
            }
            let state = household.directory.appending(path: "state").path
            let logs = try await household.shell("find \(state) -name log | xargs grep -l '\(secret)'; true")
            #expect(logs.output == "")
            #expect(try await household.run("down", "--all").exit == 0)
        }
    }
}
