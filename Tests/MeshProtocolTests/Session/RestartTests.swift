import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

@Suite struct RestartTests {
    @Test
    func `MEM-03 a hundred fast restarts, with stale words about it on the way, end with the newest life everywhere`()
        throws
    {
        let mesh = TestMesh.settled(4)
        let restless = mesh.nodes[3]
        // What others say about it may be five seconds old when it arrives.
        mesh.delay = { from, _, message in
            if case .presences = message, from != 3 { .seconds(5 as Int64) } else { .zero }
        }

        for _ in 0..<100 {
            mesh.kill(restless)
            mesh.run(.milliseconds(40))
            mesh.restart(restless)
            mesh.run(.milliseconds(60))
        }
        let time = try #require(
            mesh.run(limit: .seconds(5 as Int64)) {
                mesh.nodes.dropLast().allSatisfy { node in
                    node.machine.members.contains {
                        $0.peer == restless.peer && $0.incarnation == restless.incarnation && $0.state == .alive
                    }
                }
            })
        #expect(time <= .seconds(3 as Int64))
        mesh.run(.seconds(10 as Int64))

        #expect(mesh.isWhole)
        for node in mesh.nodes {
            #expect(node.machine.members.count == 4)
            #expect(node.count(.identityConflict) == 0)
        }
        #expect(restless.state(of: restless) == .alive)
    }

    @Test func `MEM-04 a node that comes back on another port without a farewell replaces its old link at once`() throws
    {
        let mesh = TestMesh.settled(3)
        let node = mesh.nodes[2]

        node.address = node.address.with(port: 50_123)
        mesh.restart(node)
        let time = try #require(
            mesh.run(limit: .seconds(5 as Int64)) {
                mesh.nodes.dropLast().allSatisfy { other in
                    other.machine.members.contains {
                        $0.peer == node.peer && $0.incarnation == node.incarnation && $0.isLinked
                    }
                }
            })

        #expect(time < .milliseconds(100))
        #expect(mesh.nodes[0].machine.members.first { $0.peer == node.peer }?.addresses.first == node.address)
        #expect(mesh.nodes[0].count(.memberDead) == 0)
    }

    @Test
    func
        `MEM-01 MEM-18 leaving and returning thirty times, half without goodbye, neither adds members nor changes names`()
    {
        let mesh = TestMesh()
        let founder = mesh.found(name: "twin")
        mesh.run(.milliseconds(50))
        let guest = mesh.add(name: "twin")
        mesh.join(guest, mesh.ticket(founder))
        mesh.run(.seconds(1 as Int64))

        for round in 0..<30 {
            if round.isMultiple(of: 2) {
                mesh.submit(guest, .leave)
                mesh.run(.milliseconds(600))
                #expect(founder.state(of: guest) == .left)
            } else {
                mesh.kill(guest)
                mesh.run(.milliseconds(2_000))
                #expect(founder.state(of: guest) == .dead)
            }
            mesh.restart(guest)
            mesh.submit(guest, .rename("twin"))
            mesh.run(.seconds(1 as Int64))
            #expect(founder.state(of: guest) == .alive)
            #expect(founder.machine.members.count == 2)
            #expect(founder.machine.members.map(\.name) == ["twin", "twin"])
        }
        #expect(guest.machine.members.count == 2)
    }

    @Test func `a restart during a member's absence shows it left or dead, never alive, and tells no old news`() {
        let mesh = TestMesh.settled(4)
        mesh.submit(mesh.nodes[2], .leave)
        mesh.run(.milliseconds(600))
        mesh.kill(mesh.nodes[2])
        mesh.kill(mesh.nodes[3])
        mesh.run(.seconds(3 as Int64))

        mesh.nodes[1].events = []
        mesh.restart(mesh.nodes[1])
        mesh.run(.seconds(5 as Int64))

        #expect(mesh.nodes[1].state(of: mesh.nodes[0]) == .alive)
        #expect(mesh.nodes[1].state(of: mesh.nodes[2]) == .left)
        #expect(mesh.nodes[1].state(of: mesh.nodes[3]) == .dead)
        #expect(mesh.nodes[1].count(.memberLeft) == 0)
        #expect(mesh.nodes[1].count(.memberDead) == 0)
    }

    @Test func `a state restored from an old backup outbids its forgotten lives and stays one member`() {
        let mesh = TestMesh.settled(3)
        let node = mesh.nodes[2]
        let backup = node.saved
        for _ in 0..<4 {
            mesh.restart(node)
            mesh.run(.milliseconds(500))
        }

        mesh.restart(node, state: backup)
        mesh.run(.seconds(2 as Int64))

        #expect(mesh.isWhole)
        mesh.submit(node, .rename("restored"))
        mesh.run(.seconds(1 as Int64))
        #expect(mesh.nodes[0].machine.members.contains { $0.name == "restored" })
        #expect(mesh.nodes[0].machine.members.count == 3)
    }

    @Test func `MEM-02 of two processes on copies of one state one yields, all are told, and nothing flaps`() {
        for seed: UInt64 in 1...6 {
            let mesh = TestMesh.settled(3, seed: seed)
            let original = mesh.nodes[2]
            let clone = mesh.add(name: "clone", signing: original.signing)
            clone.records = original.records
            clone.recordIDs = original.recordIDs
            clone.hasEpoch = true
            clone.saved = original.saved
            // Copied before the last start on even seeds, while it ran on odd ones.
            if seed.isMultiple(of: 2) { mesh.restart(original, state: original.saved) }
            mesh.restart(clone, state: clone.saved)
            mesh.run(.seconds(5 as Int64))

            let yielded = [original, clone].filter { node in
                node.events.contains { item in item.event.detail.contains { $0.value == .text("yielded") } }
            }
            #expect(yielded.count == 1, "seed \(seed)")
            #expect(
                mesh.nodes[0].count(.identityConflict) + mesh.nodes[1].count(.identityConflict) >= 1, "seed \(seed)")
            let winner = yielded.first === original ? clone : original
            #expect(
                mesh.nodes[0].machine.members.first { $0.peer == winner.peer }?.incarnation == winner.incarnation)

            let dials = mesh.nodes.map(\.dialCount)
            for node in mesh.nodes { node.events = [] }
            mesh.run(.seconds(30 as Int64))
            // Quiet: nobody dials, dies or returns any more.
            #expect(mesh.nodes.map(\.dialCount) == dials, "seed \(seed)")
            #expect(mesh.nodes.allSatisfy { $0.events.isEmpty }, "seed \(seed)")
            #expect(mesh.nodes[0].machine.members.count == 3)
        }
    }

    @Test func `MEM-16 nodes with one name and one host are distinct members`() {
        let mesh = TestMesh()
        let founder = mesh.found(name: "host")
        mesh.run(.milliseconds(50))
        for port: UInt16 in [47_801, 47_802] {
            mesh.join(mesh.add(name: "host", address: founder.address.with(port: port)), mesh.ticket(founder))
        }
        mesh.run(.seconds(2 as Int64))

        #expect(mesh.isWhole)
        #expect(Set(founder.machine.members.map(\.peer)).count == 3)
    }

    @Test func `the start count grows with every start and is saved before anything is said`() throws {
        let mesh = TestMesh.settled(2)
        let node = mesh.nodes[1]
        let before = try #require(node.saved?.startCount)
        node.outputs = []

        mesh.restart(node)
        mesh.run(.seconds(2 as Int64))

        let saved = node.outputs.indices.filter { index in
            if case .persist(let state) = node.outputs[index] { state.startCount == before + 1 } else { false }
        }
        let said = node.outputs.indices.filter { index in
            switch node.outputs[index] {
            case .send, .dial, .sendBeacon, .publish: true
            default: false
            }
        }
        let (firstSaved, firstSaid) = (try #require(saved.first), try #require(said.first))
        #expect(firstSaved < firstSaid)
        #expect(node.saved?.startCount == before + 1)
    }

    @Test func `the saved state comes back from its bytes and every truncation is refused`() throws {
        let mesh = TestMesh.settled(3)
        mesh.submit(mesh.nodes[1], .createInvite(expiresAfter: .seconds(60 as Int64), token: mesh.nextToken()))
        mesh.run(.seconds(5 as Int64))
        let state = try #require(mesh.nodes[1].saved)
        #expect(state.contacts.count == 2)
        #expect(state.expiringInvites.count == 1)
        #expect(!state.genesis.isEmpty)

        let bytes = state.encoded
        #expect(try SessionState(decoding: bytes) == state)
        for length in 0..<bytes.count {
            #expect(throws: WireError.self) { try SessionState(decoding: Array(bytes.prefix(length))) }
        }
        #expect(throws: WireError.trailingBytes) { try SessionState(decoding: bytes + [0]) }
    }
}
