import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct EpochTreeTests {
    private func secret(_ number: UInt8) -> SecretID { SecretID(Bytes16([UInt8](repeating: number, count: 16))!) }

    private func epoch(
        _ number: UInt8, on bases: [RecordID], without removals: [RecordID]
    ) -> MembershipFact.Statement {
        let box = EpochBody.Box(recipient: PeerID(.zero), sealed: [UInt8](repeating: 0, count: 48))
        return .epoch(
            EpochBody(
                secretID: secret(number), bases: bases.sorted(), removals: removals.sorted(), ephemeralKey: .zero,
                boxes: removals.isEmpty ? [] : [box]))
    }

    @Test func `a secret is safe when every removal that counts is answered by it or by what it builds on`() {
        let history = MembershipHistory(4)
        let genesis = history.facts[0].id
        #expect(history.fold().isSafe(history.genesisSecret))
        let first = history.remove(1, by: 0)
        #expect(!history.fold().isSafe(history.genesisSecret))
        let answer = history.write(0, epoch(1, on: [genesis], without: [first.id]))
        #expect(history.fold().isSafe(secret(1)))
        #expect(!history.fold().isSafe(secret(7)))
        let second = history.remove(2, by: 0)
        #expect(!history.fold().isSafe(secret(1)))
        history.write(0, epoch(2, on: [answer.id], without: [second.id]))
        #expect(history.fold().isSafe(secret(2)))
        #expect(history.fold().epochs.heads.map(\.secret) == [secret(2)])
    }

    @Test func `two secrets made at once are both heads until one builds on both, and only that one is safe`() {
        let history = MembershipHistory(
            5, policies: MeshPolicies(invite: .anyMember, remove: .anyMember, end: .anyMember))
        let genesis = history.facts[0].id
        let removals = [(0, 3), (1, 4)].map { history.remove($0.1, by: $0.0) }
        let first = history.write(0, epoch(1, on: [genesis], without: [removals[0].id]))
        let second = history.write(1, epoch(2, on: [genesis], without: [removals[1].id]))
        #expect(Set(history.fold().epochs.heads.map(\.secret)) == [secret(1), secret(2)])
        #expect(!history.fold().isSafe(secret(1)) && !history.fold().isSafe(secret(2)))
        history.syncAll()
        for author in 0...1 { history.write(author, epoch(3, on: [first.id, second.id], without: [])) }
        #expect(history.fold().epochs.heads.map(\.secret) == [secret(3)])
        #expect(history.fold().isSafe(secret(3)))
    }

    @Test func `a secret made by somebody who was removed behind its back is none`() {
        let history = MembershipHistory(3)
        let genesis = history.facts[0].id
        history.remove(1, by: 0)
        history.write(1, epoch(1, on: [genesis], without: [genesis]))
        #expect(history.fold().epochs.heads.map(\.record) == [genesis])
    }
}
