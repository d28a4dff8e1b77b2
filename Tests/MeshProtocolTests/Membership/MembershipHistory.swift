import MeshBase
import MeshCrypto
import MeshWire

@testable import MeshProtocol

/// A history as members write it, each knowing only a part: every fact stands on what its author had seen.
final class MembershipHistory {
    struct Author {
        var peer: PeerID
        var incarnation = Incarnation(1)
        var sequence: UInt64 = 0
        var seen: Set<RecordID> = []
    }

    private(set) var facts: [MembershipFact] = []
    private(set) var authors: [Author] = []
    let genesisSecret = SecretID(Bytes16([UInt8](repeating: 9, count: 16))!)

    init(_ count: Int, policies: MeshPolicies = .standard, admitting: Bool = true) {
        for number in 0..<count { authors.append(Author(peer: Self.peer(number))) }
        write(0, .genesis(policies))
        guard admitting else { return }
        for number in 1..<max(1, count) { admit(number, by: 0) }
        for number in 1..<max(1, count) { sync(number, from: 0) }
    }

    static func peer(_ number: Int) -> PeerID {
        PeerID(Digest.hash32([UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8), 77]))
    }

    func peer(_ number: Int) -> PeerID { authors[number].peer }

    // MARK: Acting

    @discardableResult
    func write(
        _ author: Int, _ statement: MembershipFact.Statement, sealedUnder: SecretID? = nil
    ) -> MembershipFact {
        authors[author].sequence += 1
        let greatest = facts.filter { authors[author].seen.contains($0.id) }.map(\.order.lamport).max() ?? 0
        let order = RecordOrder(
            lamport: greatest + 1, author: authors[author].peer, incarnation: authors[author].incarnation,
            sequence: authors[author].sequence)
        var writer = ByteWriter(reserving: 64)
        writer.write(order.author.value)
        writer.write(order.incarnation.value)
        writer.write(order.sequence)
        let fact = MembershipFact(
            id: RecordID(Digest.hash32(writer.bytes)), order: order, sealedUnder: sealedUnder ?? genesisSecret,
            statement: statement)
        facts.append(fact)
        authors[author].seen.insert(fact.id)
        return fact
    }

    @discardableResult
    func admit(_ subject: Int, by author: Int, under secret: SecretID? = nil) -> MembershipFact {
        write(author, .admit(peer(subject), under: secret ?? genesisSecret, name: "node \(subject)"))
    }

    /// With the cut as the author sees it.
    @discardableResult
    func remove(_ subject: Int, by author: Int) -> MembershipFact {
        var lives: [Incarnation: UInt64] = [:]
        for fact in facts where authors[author].seen.contains(fact.id) && fact.author == peer(subject) {
            lives[fact.order.incarnation] = max(lives[fact.order.incarnation] ?? 0, fact.order.sequence)
        }
        let body = RemoveBody(
            subject: peer(subject),
            lives: lives.sorted { $0.key < $1.key }.map { RemoveBody.Life(incarnation: $0.key, sequence: $0.value) })
        return write(author, .remove(body))
    }

    @discardableResult
    func end(by author: Int) -> MembershipFact { write(author, .end) }

    /// `reader` learns all that `other` has seen.
    func sync(_ reader: Int, from other: Int) { authors[reader].seen.formUnion(authors[other].seen) }

    func syncAll() {
        let all = Set(facts.map(\.id))
        for number in authors.indices { authors[number].seen = all }
    }

    /// A new process life.
    func restart(_ author: Int) {
        authors[author].incarnation = Incarnation(authors[author].incarnation.value + 1)
        authors[author].sequence = 0
    }

    // MARK: Judging

    func fold(_ facts: [MembershipFact]? = nil) -> MembershipFold {
        var fold = MembershipFold()
        for fact in facts ?? self.facts { fold.insert(fact) }
        _ = fold.refresh()
        return fold
    }

    var membership: Membership { fold().membership }

    func isMember(_ number: Int) -> Bool { membership.isMember(peer(number)) }
}

extension MembershipFold {
    /// Every verdict as bytes, in an order of their own.
    func encoded(_ facts: [MembershipFact]) -> [UInt8] {
        var writer = ByteWriter(reserving: 4096)
        for peer in membership.standings.keys.sorted() {
            guard let standing = membership.standings[peer] else { continue }
            writer.write(peer.value)
            writer.write(UInt64(membership.rank(of: peer)))
            writer.write(standing.admittedBy?.value ?? .zero)
            writer.write(standing.record.value)
            writer.write(text: standing.name)
            writer.write(membership.removals[peer]?.record.value ?? .zero)
            writer.write(membership.removals[peer]?.by.value ?? .zero)
        }
        writer.write(membership.ending?.record.value ?? .zero)
        for epoch in epochs.heads { writer.write(epoch.record.value) }
        for fact in facts.sorted(by: { $0.order < $1.order }) { writer.write(UInt8(counts(fact.order) ? 1 : 0)) }
        return writer.bytes
    }
}
