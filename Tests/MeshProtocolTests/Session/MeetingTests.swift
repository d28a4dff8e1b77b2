import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// Members that do not reach each other, brought together by a third.
@Suite struct MeetingTests {
    /// 0 is reached by everybody; 1 and 2 reach each other only as `prepare` says.
    private func mesh(_ count: Int = 3, prepare: (TestMesh) -> Void) -> TestMesh {
        let mesh = TestMesh()
        mesh.configuration.isDiscoveryEnabled = false
        prepare(mesh)
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        for _ in 1..<count { mesh.join(mesh.add(), mesh.ticket(founder)) }
        return mesh
    }

    private func isPair(_ one: Int, _ other: Int) -> Bool { (min(one, other), max(one, other)) == (1, 2) }

    private func isLinked(_ mesh: TestMesh) -> Bool { mesh.nodes[1].links[2] != nil && mesh.nodes[2].links[1] != nil }

    @Test func `two members behind translators are introduced by a third, dial at one instant, and are linked`() throws
    {
        let mesh = mesh { $0.needsPunch = isPair }
        let time = try #require(mesh.run(limit: .seconds(10 as Int64)) { isLinked(mesh) })
        #expect(time < .seconds(3 as Int64))
        let instants = [mesh.nodes[1].punchedAt[2], mesh.nodes[2].punchedAt[1]].compactMap { $0 }
        #expect(instants.count == 2 && (instants[0] - instants[1]) < .milliseconds(2))
        #expect(mesh.nodes[1].machine.path(to: mesh.nodes[2].peer).kind == .introduced(by: mesh.nodes[0].peer))
        #expect(mesh.nodes[0].machine.statistics.introductionsMade >= 1)
        #expect(mesh.nodes[1].relays.isEmpty)
    }

    @Test func `hyperdht-287 a kind of mapping that promises nothing does not keep a member from being dialled`() throws
    {
        let mesh = mesh { $0.needsPunch = isPair }
        for (observer, port) in [(0, 5_000), (3, 6_000)] where observer < mesh.nodes.count {
            mesh.submit(mesh.nodes[observer], .linkMoved(mesh.nodes[1].peer, .ipv4(203, 0, 113, 7, port: UInt16(port))))
        }
        #expect(mesh.run(limit: .seconds(5 as Int64)) { isLinked(mesh) } != nil)
    }

    @Test func `a member that no attempt reaches is linked through a third within three seconds`() throws {
        let mesh = mesh { mesh in mesh.reaches = { !isPair($0, $1) } }
        let time = try #require(mesh.run(limit: .seconds(20 as Int64)) { isLinked(mesh) })
        #expect(time < .seconds(4 as Int64))
        #expect(mesh.nodes[1].relays[2] == 0 && mesh.nodes[2].relays[1] == 0)
        let report = mesh.nodes[1].machine.path(to: mesh.nodes[2].peer)
        #expect(report.kind == .relayed(by: mesh.nodes[0].peer))
        #expect(report.nextAttemptAt != nil)
        mesh.run(.seconds(10 as Int64))
        #expect(mesh.isWhole)
    }

    @Test func `pubsub-712 while a member carries, a direct way is tried again and again, a minute apart at last`()
        throws
    {
        let mesh = mesh { mesh in mesh.reaches = { !isPair($0, $1) } }
        mesh.run(.seconds(10 as Int64))
        let before = mesh.nodes[1].dialled.count
        mesh.run(.seconds(300 as Int64))
        let attempts = mesh.nodes[1].dialled.count - before
        #expect((4...16).contains(attempts))
        mesh.reaches = { _, _ in true }
        #expect(mesh.run(limit: .seconds(61 as Int64)) { mesh.nodes[1].relays.isEmpty && isLinked(mesh) } != nil)
        mesh.run(.seconds(2 as Int64))
        #expect(mesh.nodes[1].machine.path(to: mesh.nodes[2].peer).nextAttemptAt == nil)
    }

    @Test func `MEM-06 a new address of this node is reason to try everybody directly at once`() throws {
        let mesh = mesh { mesh in mesh.reaches = { !isPair($0, $1) } }
        mesh.run(.seconds(120 as Int64))
        mesh.reaches = { _, _ in true }
        let node = mesh.nodes[1]
        node.address = .ipv4(10, 9, 9, 9, port: 47_800)
        mesh.submit(node, .localAddressesChanged([node.address]))
        #expect(mesh.run(limit: .seconds(2 as Int64)) { node.relays.isEmpty && isLinked(mesh) } != nil)
    }

    @Test func `when the member that carries dies another is asked`() throws {
        let mesh = mesh(4) { mesh in mesh.reaches = { !isPair($0, $1) } }
        try #require(mesh.run(limit: .seconds(20 as Int64)) { isLinked(mesh) } != nil)
        mesh.run(.seconds(5 as Int64))
        let carrier = try #require(mesh.nodes[1].relays[2])
        let other = carrier == 0 ? 3 : 0
        mesh.kill(mesh.nodes[carrier])
        for index in [1, 2] {
            mesh.submit(mesh.nodes[index], .relayRefused(mesh.nodes[3 - index].peer, by: mesh.nodes[carrier].peer))
            mesh.nodes[index].links[3 - index] = nil
            mesh.submit(mesh.nodes[index], .linkLost(mesh.nodes[3 - index].peer, .timedOut))
        }
        let time = try #require(mesh.run(limit: .seconds(20 as Int64)) { mesh.nodes[1].relays[2] == other })
        #expect(time < .seconds(5 as Int64))
    }

    @Test func `a member that loses everybody at once is carried within five seconds of finding one of them`() throws {
        let mesh = TestMesh.settled(3) { $0.configuration.isDiscoveryEnabled = false }
        mesh.reaches = { from, to in from != 2 && to != 2 }
        mesh.run(.seconds(20 as Int64))
        mesh.reaches = { !isPair($0, $1) }
        let found = try #require(
            mesh.run(limit: .seconds(10 as Int64)) { mesh.nodes[2].state(of: mesh.nodes[0]) == .alive })
        #expect(found < .seconds(4 as Int64))
        let carried = mesh.run(limit: .seconds(10 as Int64)) { mesh.nodes[1].relays[2] == 0 }
        #expect(try #require(carried) < .seconds(5 as Int64))
    }

    @Test func `members that reach each other ask nobody for an introduction`() {
        let mesh = TestMesh.settled(5)
        mesh.run(.seconds(30 as Int64))
        #expect(mesh.nodes.allSatisfy { $0.machine.statistics.introductionsAsked == 0 })
    }

    @Test func `AB-64 however often introductions come, one attempt in five seconds goes to a member's addresses`() {
        let mesh = mesh { mesh in mesh.reaches = { !isPair($0, $1) } }
        mesh.run(.seconds(10 as Int64))
        let node = mesh.nodes[1]
        let before = node.dialled.count { $0.isPunch }
        for _ in 0..<100 {
            var outbox = Outbox<SessionOutput>()
            let message = SessionMessage.introduction(
                .init(subject: mesh.nodes[2].peer, delay: .zero, roundTrip: .milliseconds(1)))
            node.machine.receive(message.encoded, from: mesh.nodes[0].peer, at: mesh.now, into: &outbox)
            mesh.run(.milliseconds(100))
        }
        #expect(node.dialled.count { $0.isPunch } - before <= 3)
    }

    @Test func `AB-38 one member's flood of questions for introductions is answered within bounds`() {
        let mesh = mesh { mesh in mesh.reaches = { !isPair($0, $1) } }
        mesh.run(.seconds(10 as Int64))
        let helper = mesh.nodes[0]
        var outbox = Outbox<SessionOutput>()
        for _ in 0..<1_000 {
            helper.machine.receive(
                SessionMessage.introductionRequest(subject: mesh.nodes[2].peer).encoded, from: mesh.nodes[1].peer,
                at: mesh.now, into: &outbox)
        }
        let answers = outbox.items.count { output in
            if case .send(.introduction, _, _, _) = output { return true }
            return false
        }
        #expect(answers <= 64)
        #expect(helper.machine.statistics.introductionsRefused >= 900)
    }

    @Test func `an introduction to a stranger, to oneself or to who has left leads to nothing`() {
        let mesh = TestMesh.settled(3)
        let node = mesh.nodes[1]
        let stranger = PeerID(Bytes32([UInt8](repeating: 9, count: 32))!)
        for subject in [stranger, node.peer, mesh.nodes[0].peer] {
            var outbox = Outbox<SessionOutput>()
            let message = SessionMessage.introduction(.init(subject: subject, delay: .zero, roundTrip: .zero))
            node.machine.receive(message.encoded, from: mesh.nodes[0].peer, at: mesh.now, into: &outbox)
            #expect(node.machine.meetings[subject] == nil)
        }
    }
}
