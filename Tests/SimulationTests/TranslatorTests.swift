import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import Testing

/// Whole nodes behind simulated address translators.
@Suite(.timeLimit(.minutes(10))) struct TranslatorTests {
    typealias Kind = AddressTranslator.Kind

    struct Pair: CustomTestStringConvertible, Sendable {
        var one: Kind
        var other: Kind
        var isDirect: Bool
        var testDescription: String { "\(one.rawValue)/\(other.rawValue)" }
    }

    static let pairs = [
        Pair(one: .fullCone, other: .fullCone, isDirect: true),
        Pair(one: .portRestricted, other: .portRestricted, isDirect: true),
        Pair(one: .addressRestricted, other: .portRestricted, isDirect: true),
        Pair(one: .fullCone, other: .symmetric, isDirect: true),
        Pair(one: .addressRestricted, other: .symmetric, isDirect: true),
        Pair(one: .portRestricted, other: .symmetric, isDirect: false),
        Pair(one: .symmetric, other: .symmetric, isDirect: false),
    ]

    /// 0 (and 3) in the open, 1 and 2 behind translators.
    private func cluster(_ pair: Pair, open: Int = 1, seed: UInt64 = 1) throws -> Cluster {
        let cluster = Cluster(seed: seed, count: 2 + open)
        cluster.network.setTranslator(pair.one, forHost: 1)
        cluster.network.setTranslator(pair.other, forHost: 2)
        try cluster.start(0)
        cluster.run(for: .seconds(1))
        let invite = try #require(try cluster.invite(from: 0))
        for index in (1..<(2 + open)) { try cluster.start(index, invite: invite) }
        return cluster
    }

    private func report(_ cluster: Cluster, _ from: Int, _ to: Int) -> PathReport.Kind? {
        cluster.snapshot(of: from)?.peers.first { $0.member.peer == cluster.nodes[to].peerID }?.path.kind
    }

    private func isDirect(_ kind: PathReport.Kind?) -> Bool {
        switch kind {
        case .direct, .introduced: true
        default: false
        }
    }

    private func isRelayed(_ kind: PathReport.Kind?) -> Bool {
        if case .relayed = kind { return true }
        return false
    }

    private func isLinked(_ cluster: Cluster, directly: Bool) -> Bool {
        [(1, 2), (2, 1)].allSatisfy { ends in
            let kind = report(cluster, ends.0, ends.1)
            return directly ? isDirect(kind) : isRelayed(kind)
        }
    }

    private func send(_ text: String, _ cluster: Cluster, from: Int, to: Int) throws -> Bool {
        let reply = try cluster.answer(
            to: ["verb": "send", "text": .string(text), "to": .array([.string("node\(to)")])], of: from)
        cluster.run(for: .milliseconds(200))
        return reply.errorCode == nil && cluster.nodes[to].receivedByLife.last?.contains { $0.text == text } == true
    }

    @Test(arguments: pairs)
    func
        `iroh-3183 two members behind translators are linked directly where their kinds allow it, else through a third`(
            pair: Pair
        ) throws
    {
        let cluster = try cluster(pair)
        let isReached = cluster.run(atMost: .seconds(6)) { isLinked($0, directly: pair.isDirect) }
        #expect(isReached, "\(String(describing: report(cluster, 1, 2))) \(String(describing: report(cluster, 2, 1)))")
        #expect(try send("there", cluster, from: 1, to: 2))
        #expect(try send("and back", cluster, from: 2, to: 1))
        cluster.run(for: .seconds(60))
        // It stays that way: nothing falls back, nothing flaps.
        #expect(isLinked(cluster, directly: pair.isDirect))
        #expect(cluster.snapshot(of: 1)?.clock.state == .steady)
    }

    @Test func `the clock agrees over a link through a member, within what it states`() throws {
        let cluster = try cluster(Pair(one: .symmetric, other: .symmetric, isDirect: false))
        cluster.run(atMost: .seconds(10)) { isLinked($0, directly: false) }
        cluster.run(for: .seconds(20))
        let snapshot = try #require(cluster.snapshot(of: 1))
        let peer = try #require(snapshot.peers.first { $0.member.peer == cluster.nodes[2].peerID })
        let offset = try #require(peer.offset)
        let (own, their) = (try #require(cluster.nodes[1].clock), try #require(cluster.nodes[2].clock))
        let truth = their.now() - own.now()
        let deviation = abs((offset.offset - truth).nanoseconds)
        #expect(deviation <= offset.error.nanoseconds)
    }

    @Test func `a translator that forgets its mappings costs no link and no message`() throws {
        let cluster = try cluster(Pair(one: .portRestricted, other: .fullCone, isDirect: true))
        try #require(cluster.run(atMost: .seconds(6)) { isLinked($0, directly: true) })
        cluster.run(for: .seconds(5))
        cluster.network.forgetMappings(ofHost: 1)
        #expect(try send("after the change", cluster, from: 1, to: 2))
        #expect(try send("and back", cluster, from: 2, to: 1))
        #expect(cluster.run(atMost: .seconds(15)) { isLinked($0, directly: true) })
    }

    @Test func `MEM-06 a member whose translator goes away is linked directly as soon as that can be`() throws {
        let cluster = try cluster(Pair(one: .symmetric, other: .symmetric, isDirect: false))
        try #require(cluster.run(atMost: .seconds(6)) { isLinked($0, directly: false) })
        cluster.network.setTranslator(.fullCone, forHost: 1)
        #expect(cluster.run(atMost: .seconds(90)) { isLinked($0, directly: true) })
        #expect(try send("directly", cluster, from: 2, to: 1))
    }

    @Test func `a member that carries and dies is replaced by another, and messages go on`() throws {
        let cluster = try cluster(Pair(one: .symmetric, other: .symmetric, isDirect: false), open: 2)
        try #require(cluster.run(atMost: .seconds(8)) { isLinked($0, directly: false) })
        cluster.run(for: .seconds(6))
        guard case .relayed(let relay) = report(cluster, 1, 2),
            let carrier = cluster.nodes.firstIndex(where: { $0.peerID == relay })
        else { throw TestFailure() }
        cluster.kill(carrier)
        let other = carrier == 0 ? 3 : 0
        let isReplaced = cluster.run(atMost: .seconds(6)) { cluster in
            report(cluster, 1, 2) == cluster.nodes[other].peerID.map { .relayed(by: $0) }
        }
        #expect(isReplaced)
        #expect(try send("through the other", cluster, from: 1, to: 2))
    }

    struct TestFailure: Error {}
}
