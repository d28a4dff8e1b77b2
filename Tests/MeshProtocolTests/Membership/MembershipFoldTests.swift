import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct MembershipFoldTests {
    private static let anybody = MeshPolicies(invite: .anyMember, remove: .anyMember, end: .anyMember)

    /// Seven members act at random, each on what it has seen: they admit, remove, restart, end and hear of each other.
    private func randomHistory(_ seed: UInt64, policies: MeshPolicies) -> MembershipHistory {
        var random = RandomStream(testSeed: seed)
        let history = MembershipHistory(12, policies: policies, admitting: false)
        for number in 1..<5 { history.admit(number, by: 0) }
        for number in 1..<5 { history.sync(number, from: 0) }
        for _ in 0..<40 {
            let actor = random.below(9)
            let other = random.below(12)
            switch random.below(12) {
            case 0...2: history.admit(other, by: actor)
            case 3...5: history.remove(other, by: actor)
            case 6: if random.below(6) == 0 { history.end(by: actor) }
            case 7: history.restart(actor)
            default: history.sync(actor, from: other)
            }
        }
        return history
    }

    @Test(arguments: 0..<24 as Range<UInt64>)
    func `AB-67 admissions, removals and ends that knew nothing of each other give one member set in any order`(
        seed: UInt64
    ) {
        let history = randomHistory(seed, policies: seed % 2 == 0 ? .standard : Self.anybody)
        let expected = history.fold().encoded(history.facts)
        var random = RandomStream(testSeed: seed &+ 1000)
        for _ in 0..<200 {
            let shuffled = random.shuffle(history.facts)
            var fold = MembershipFold()
            for fact in shuffled {
                fold.insert(fact)
                // Verdicts on the way must leave nothing behind.
                if random.below(8) == 0 { _ = fold.refresh() }
            }
            _ = fold.refresh()
            #expect(fold.encoded(history.facts) == expected)
        }
    }

    @Test(arguments: 0..<200 as Range<UInt64>)
    func `AB-67 the creator is never out, and nobody is in whom only cut-off records let in`(seed: UInt64) {
        let history = randomHistory(seed, policies: seed % 2 == 0 ? .standard : Self.anybody)
        let fold = history.fold()
        #expect(fold.membership.isMember(history.peer(0)))
        for (peer, standing) in fold.membership.standings where standing.admittedBy != nil {
            let admission = history.facts.first { $0.id == standing.record }
            #expect(admission.map { fold.counts($0.order) } == true, "\(peer)")
        }
        for removal in fold.membership.removals.values {
            let record = history.facts.first { $0.id == removal.record }
            #expect(record.map { fold.counts($0.order) } == true, "a removal that counts is by somebody who may")
        }
    }

    @Test func `by default the creator and whoever admitted a member may remove it, and nobody else`() {
        let history = MembershipHistory(4)
        history.admit(9 % 4, by: 1)
        for (remover, subject, counts) in [(1, 2, false), (2, 2, false), (1, 0, false), (0, 2, true)] {
            let trial = MembershipHistory(4)
            trial.remove(subject, by: remover)
            #expect(trial.isMember(subject) != counts, "\(remover) removes \(subject)")
        }
        let trial = MembershipHistory(5, admitting: false)
        trial.admit(1, by: 0)
        trial.sync(1, from: 0)
        trial.admit(2, by: 1)
        trial.remove(2, by: 1)
        #expect(!trial.isMember(2))
    }

    @Test func `a removal is for ever: no later admission of the key lets it back`() {
        let history = MembershipHistory(3)
        history.remove(1, by: 0)
        history.admit(1, by: 0)
        history.sync(2, from: 0)
        history.admit(1, by: 2)
        #expect(!history.isMember(1))
    }

    @Test func `what the removed had done before its remover looked stays, what it did behind its back does not`() {
        let history = MembershipHistory(5, admitting: false)
        history.admit(1, by: 0)
        history.sync(1, from: 0)
        history.admit(2, by: 1)
        history.sync(0, from: 1)
        history.admit(3, by: 1)
        history.remove(1, by: 0)
        history.restart(1)
        history.admit(4, by: 1)
        #expect(history.isMember(2))
        #expect(!history.isMember(3))
        #expect(!history.isMember(4))
    }

    @Test func `an end by somebody who was removed behind its back ends nothing`() {
        let history = MembershipHistory(3)
        history.remove(1, by: 0)
        history.end(by: 1)
        #expect(history.membership.ending == nil)
        history.end(by: 2)
        #expect(history.membership.ending?.by == history.peer(2))
    }

    @Test func `AB-73 an end by a stranger, or against the policy, ends nothing`() {
        let stranger = MembershipHistory(3, admitting: false)
        stranger.sync(1, from: 0)
        stranger.end(by: 1)
        #expect(stranger.membership.ending == nil)
        let strict = MembershipHistory(3, policies: MeshPolicies(invite: .anyMember, remove: .creator, end: .creator))
        strict.end(by: 1)
        #expect(strict.membership.ending == nil)
        strict.end(by: 0)
        #expect(strict.membership.ending?.by == strict.peer(0))
    }

    @Test func `of two members that remove each other at once the senior stays`() {
        let history = MembershipHistory(4, policies: Self.anybody)
        history.remove(1, by: 2)
        history.remove(2, by: 1)
        #expect(history.isMember(1))
        #expect(!history.isMember(2))
    }

    @Test func `whoever knew that it was removed cannot remove its remover, however senior`() {
        let history = MembershipHistory(4, policies: Self.anybody)
        history.remove(1, by: 2)
        history.sync(1, from: 2)
        history.remove(2, by: 1)
        #expect(!history.isMember(1))
        #expect(history.isMember(2))
    }

    @Test func `in a circle of three the most senior removal counts and the next does not`() {
        let history = MembershipHistory(4, policies: Self.anybody)
        history.remove(2, by: 1)
        history.remove(3, by: 2)
        history.remove(1, by: 3)
        #expect(history.isMember(1))
        #expect(!history.isMember(2))
        #expect(history.isMember(3))
    }

    @Test func `the removal of a remover behind its back takes its removals back`() {
        let history = MembershipHistory(4, policies: Self.anybody)
        history.remove(3, by: 2)
        history.remove(2, by: 0)
        #expect(history.isMember(3))
        #expect(!history.isMember(2))
    }

    @Test func `a removal by somebody whom only a removed member let in falls with it`() {
        let history = MembershipHistory(5, policies: Self.anybody, admitting: false)
        for number in 1...3 { history.admit(number, by: 0) }
        for number in 1...3 { history.sync(number, from: 0) }
        history.admit(4, by: 1)
        history.sync(4, from: 1)
        history.remove(3, by: 4)
        history.remove(1, by: 0)
        #expect(history.isMember(3))
        #expect(!history.isMember(4))
        #expect(!history.isMember(1))
    }

    @Test func `where only the creator invites, others admit by its invites alone`() {
        let secret = SecretID(Bytes16([UInt8](repeating: 4, count: 16))!)
        let policies = MeshPolicies(invite: .creator, remove: .creator, end: .creator)
        let history = MembershipHistory(5, policies: policies, admitting: false)
        history.admit(1, by: 0)
        history.write(0, .invite(secret))
        history.sync(1, from: 0)
        history.admit(2, by: 1, under: secret)
        history.admit(3, by: 1)
        #expect(history.isMember(2))
        #expect(!history.isMember(3))
    }

    @Test func `a forked removal counts for nothing, a forked admission stands`() {
        let history = MembershipHistory(3)
        let removal = history.remove(1, by: 0)
        var fold = history.fold()
        fold.void(removal.id)
        for fact in history.facts { fold.void(fact.id) }
        _ = fold.refresh()
        #expect(fold.membership.isMember(history.peer(1)))
        #expect(fold.membership.members.count == 3)
    }
}
