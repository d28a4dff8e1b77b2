import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import Testing

/// Whole nodes: somebody is removed, and the mesh ends.
@Suite(.serialized) struct RemovalTests {
    /// A settled mesh of `count`, with room for others.
    private func mesh(_ count: Int, of room: Int? = nil, seed: UInt64) throws -> (cluster: Cluster, invite: String) {
        let cluster = Cluster(seed: seed, count: room ?? count)
        try cluster.start(0)
        cluster.run(for: .milliseconds(300))
        let invite = try #require(try cluster.invite(from: 0))
        for index in 1..<count { try cluster.start(index, invite: invite) }
        cluster.run(for: .seconds(4))
        for index in 0..<count { try #require(names(cluster, index).count == count) }
        return (cluster, invite)
    }

    private func names(_ cluster: Cluster, _ index: Int) -> Set<String> {
        Set(cluster.snapshot(of: index)?.members.map(\.name) ?? [])
    }

    private func alive(_ cluster: Cluster, _ index: Int) -> Set<String> {
        Set(cluster.snapshot(of: index)?.members.filter { $0.state == .alive }.map(\.name) ?? [])
    }

    private func remove(_ subject: Int, by remover: Int, in cluster: Cluster) throws {
        let answer = try cluster.answer(to: ["verb": "remove", "name": .string("node\(subject)")], of: remover)
        #expect(answer.errorCode == nil, "\(answer.objects)")
    }

    private func code(_ cluster: Cluster, _ index: Int) -> String? {
        guard case .failure(let error) = cluster.nodes[index].end else { return nil }
        #expect(error.exit == 5)
        #expect(!error.hint.isEmpty)
        return error.code
    }

    private func events(_ cluster: Cluster, _ index: Int, _ kind: String) throws -> [JSONValue] {
        try cluster.answer(to: ["verb": "events"], of: index).objects.filter { $0["kind"]?.stringValue == kind }
    }

    @Test func `a removed member is told once and ends with a reason, and the others go on without it`() throws {
        let (cluster, _) = try mesh(4, seed: 71)
        try remove(2, by: 0, in: cluster)
        cluster.run(for: .seconds(2))

        #expect(code(cluster, 2) == "removed")
        for index in [0, 1, 3] {
            #expect(alive(cluster, index) == ["node0", "node1", "node3"])
            let told = try events(cluster, index, "memberRemoved")
            #expect(told.count == 1)
            #expect(told.first?["node"] == "node2")
            #expect(told.first?["detail"]?["by"] == "node0")
            #expect(cluster.snapshot(of: index)?.peers.allSatisfy { $0.link != nil } == true)
        }
        let sent = try cluster.answer(to: ["verb": "send", "text": "just us"], of: 1)
        #expect(sent.errorCode == nil)
        #expect(cluster.nodes[3].receivedByLife.last?.map(\.text) == ["just us"])
        #expect(cluster.nodes[2].receivedByLife.last?.isEmpty == true)
    }

    @Test func `a removed member comes back by no ticket it holds, neither under its key nor under another`() throws {
        let (cluster, invite) = try mesh(3, of: 5, seed: 72)
        try remove(2, by: 0, in: cluster)
        cluster.run(for: .seconds(2))

        // Its own state directory knows that it is out.
        try cluster.start(2)
        cluster.run(for: .seconds(2))
        #expect(code(cluster, 2) == "removed")
        // The old ticket under a new key meets silence.
        try cluster.start(3, invite: invite)
        cluster.run(for: .seconds(15))
        guard case .failure(let error) = cluster.nodes[3].end else {
            Issue.record("it came in")
            return
        }
        #expect(error.code == "unreachable")
        for index in 0...1 { #expect(names(cluster, index) == ["node0", "node1"]) }
        // Whoever is meant to come gets a new one.
        let fresh = try #require(try cluster.invite(from: 1))
        #expect(fresh != invite)
        try cluster.start(4, invite: fresh)
        #expect(cluster.run(atMost: .seconds(10)) { self.alive($0, 0) == ["node0", "node1", "node4"] })
    }

    @Test func `a member removed while its store is set back hears nothing and gets no link`() throws {
        let (cluster, _) = try mesh(3, seed: 73)
        cluster.kill(2)
        try remove(2, by: 0, in: cluster)
        cluster.run(for: .seconds(2))
        // It missed the removal, and its disk knows nothing of it.
        try cluster.start(2)
        cluster.run(for: .seconds(30))
        #expect(cluster.nodes[2].isRunning)
        #expect(cluster.snapshot(of: 2)?.peers.allSatisfy { $0.link == nil } == true)
        for index in 0...1 {
            let snapshot = try #require(cluster.snapshot(of: index))
            #expect(snapshot.peers.count == 1)
            #expect(snapshot.linkTable.linksLost <= 1)
        }
    }

    @Test func `a member that was away for two removals comes back under the newest secret`() throws {
        let (cluster, _) = try mesh(5, seed: 74)
        cluster.kill(4)
        cluster.run(for: .seconds(3))
        try remove(2, by: 0, in: cluster)
        cluster.run(for: .seconds(2))
        _ = try cluster.answer(to: ["verb": "send", "text": "between"], of: 0)
        try remove(3, by: 0, in: cluster)
        cluster.run(for: .seconds(2))
        try cluster.start(4)

        #expect(
            cluster.run(atMost: .seconds(20)) { cluster in
                [0, 1, 4].allSatisfy { self.alive(cluster, $0) == ["node0", "node1", "node4"] }
            })
        #expect(cluster.snapshot(of: 4)?.recordsHead == cluster.snapshot(of: 0)?.recordsHead)
        let sent = try cluster.answer(to: ["verb": "send", "text": "welcome back"], of: 1)
        #expect(sent.errorCode == nil)
        #expect(cluster.nodes[4].receivedByLife.last?.map(\.text) == ["welcome back"])
    }

    @Test func `MEM-14 a split in which one half removes a member of the other heals without it`() throws {
        let (cluster, _) = try mesh(5, seed: 75)
        cluster.nodes[2].storage.putFile([UInt8](repeating: 7, count: 5_000), at: "/files/late.bin")
        cluster.network.partition([[0, 1], [2, 3, 4]])
        cluster.run(for: .seconds(5))
        try remove(2, by: 0, in: cluster)
        let added = try cluster.answer(to: ["verb": "journal.add", "path": "/files/late.bin"], of: 2)
        #expect(added.errorCode == nil)
        cluster.run(for: .seconds(5))
        #expect(cluster.snapshot(of: 3)?.attachments.count == 1)
        cluster.network.heal()

        #expect(
            cluster.run(atMost: .seconds(20)) { cluster in
                [0, 1, 3, 4].allSatisfy { self.alive(cluster, $0) == ["node0", "node1", "node3", "node4"] }
            })
        cluster.run(for: .seconds(3))
        #expect(code(cluster, 2) == "removed")
        let head = cluster.snapshot(of: 0)?.recordsHead
        for index in [1, 3, 4] { #expect(cluster.snapshot(of: index)?.recordsHead == head) }
        // What the removed shared behind the others' backs is nobody's any more.
        for index in [0, 1, 3, 4] { #expect(cluster.snapshot(of: index)?.attachments.isEmpty == true) }
    }

    @Test func `whoever may not remove is told so, and so is who names nobody`() throws {
        let (cluster, _) = try mesh(3, seed: 76)
        let refused = try cluster.answer(to: ["verb": "remove", "name": "node2"], of: 1)
        // Node 1 did not let node 2 in, or it did: then it may.
        let admitter = cluster.snapshot(of: 0)?.members.first { $0.name == "node2" }?.admittedBy
        if admitter != cluster.nodes[1].peerID { #expect(refused.errorCode == "notPermitted") }
        #expect(try cluster.answer(to: ["verb": "remove", "name": "node0"], of: 1).errorCode == "notPermitted")
        #expect(try cluster.answer(to: ["verb": "remove", "name": "nobody"], of: 0).errorCode == "notFound")
        #expect(try cluster.answer(to: ["verb": "remove"], of: 0).errorCode == "usage")
    }

    @Test func `the end stops every node with its reason, and a late one learns it`() throws {
        let (cluster, _) = try mesh(4, seed: 77)
        cluster.kill(3)
        cluster.run(for: .seconds(2))
        let answer = try cluster.answer(to: ["verb": "end"], of: 1)
        #expect(answer.errorCode == nil)
        #expect(try cluster.answer(to: ["verb": "send", "text": "hello?"], of: 0).errorCode == "meshEnded")
        cluster.run(for: .seconds(5))
        for index in 0...2 { #expect(code(cluster, index) == "meshEnded") }

        // It was away; nobody is there to tell it, until one of the others is started again.
        try cluster.start(3)
        cluster.run(for: .seconds(5))
        #expect(cluster.nodes[3].isRunning)
        try cluster.start(0)
        cluster.run(for: .seconds(12))
        #expect(code(cluster, 3) == "meshEnded")
        #expect(code(cluster, 0) == "meshEnded")
        // Terminal: a start leads nowhere, and says why.
        try cluster.start(3)
        cluster.run(for: .seconds(6))
        #expect(code(cluster, 3) == "meshEnded")
    }

    @Test func `an end that a removed member writes behind the others' backs is none for them`() throws {
        let (cluster, _) = try mesh(4, seed: 78)
        cluster.network.partition([[0, 1, 3], [2]])
        cluster.run(for: .seconds(3))
        try remove(2, by: 0, in: cluster)
        _ = try cluster.answer(to: ["verb": "end"], of: 2)
        cluster.network.heal()
        cluster.run(for: .seconds(10))
        for index in [0, 1, 3] {
            #expect(cluster.nodes[index].isRunning)
            #expect(alive(cluster, index) == ["node0", "node1", "node3"])
        }
        #expect(!cluster.nodes[2].isRunning)
    }
}
