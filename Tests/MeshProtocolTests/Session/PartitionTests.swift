import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

@Suite struct PartitionTests {
    @Test(arguments: [1, 90, 600])
    func `MEM-14 a split of three and two heals to one mesh within five seconds`(seconds: Int64) throws {
        let mesh = TestMesh.settled(5)
        let heal = mesh.reaches
        mesh.reaches = { ($0 < 3) == ($1 < 3) }
        mesh.run(.seconds(seconds))
        if seconds > 5 {
            #expect(mesh.nodes[0].state(of: mesh.nodes[4]) == .dead)
            #expect(mesh.nodes[4].state(of: mesh.nodes[0]) == .dead)
            #expect(mesh.nodes[0].state(of: mesh.nodes[2]) == .alive)
        }
        mesh.submit(mesh.nodes[4], .rename("renamed apart"))

        mesh.reaches = heal
        let time = try #require(
            mesh.run(limit: .seconds(60 as Int64)) {
                mesh.isWhole && mesh.isFullyLinked
                    && mesh.nodes.allSatisfy { node in node.machine.members.contains { $0.name == "renamed apart" } }
            })

        #expect(time <= .seconds(5 as Int64))
        #expect(mesh.nodes.allSatisfy { $0.machine.members.count == 5 })
    }

    @Test func `MEM-14 a mesh that splits and heals every three seconds ends whole`() throws {
        let mesh = TestMesh.settled(5)
        let heal = mesh.reaches
        for _ in 0..<10 {
            mesh.reaches = { ($0 < 2) == ($1 < 2) }
            mesh.run(.seconds(3 as Int64))
            mesh.reaches = heal
            mesh.run(.seconds(3 as Int64))
        }

        #expect(mesh.run(limit: .seconds(5 as Int64)) { mesh.isWhole } != nil)
        #expect(mesh.nodes.allSatisfy { $0.machine.members.count == 5 })
    }

    @Test func `MEM-14 three parts heal to one`() throws {
        let mesh = TestMesh.settled(5)
        let heal = mesh.reaches
        mesh.reaches = { $0 / 2 == $1 / 2 }
        mesh.run(.seconds(40 as Int64))
        mesh.reaches = heal

        let time = try #require(mesh.run(limit: .seconds(30 as Int64)) { mesh.isWhole && mesh.isFullyLinked })
        #expect(time <= .seconds(5 as Int64))
    }

    @Test func `a newcomer admitted in one half is a member in the other after healing`() throws {
        let mesh = TestMesh.settled(4)
        let heal = mesh.reaches
        mesh.reaches = { one, other in (one < 2 || one == 4) == (other < 2 || other == 4) }
        mesh.run(.seconds(5 as Int64))
        let late = mesh.add()
        mesh.join(late, mesh.ticket(mesh.nodes[0]))
        mesh.run(.seconds(3 as Int64))
        #expect(mesh.nodes[0].state(of: late) == .alive)

        mesh.reaches = heal
        #expect(mesh.run(limit: .seconds(5 as Int64)) { mesh.isWhole && mesh.isFullyLinked } != nil)
    }

    @Test func `MEM-06 a member with a new address is back within five seconds, and is told and dialled there`() throws
    {
        let mesh = TestMesh.settled(3)
        let mover = mesh.nodes[2]
        mesh.reaches = { $0 != 2 && $1 != 2 }
        mesh.run(.seconds(40 as Int64))
        mover.address = .ipv4(192, 168, 7, 7, port: 47_800)
        mesh.reaches = { _, _ in true }
        mesh.submit(mover, .localAddressesChanged([mover.address]))

        let time = try #require(mesh.run(limit: .seconds(20 as Int64)) { mesh.isWhole && mesh.isFullyLinked })
        #expect(time <= .seconds(5 as Int64))
        mesh.run(.seconds(1 as Int64))
        #expect(
            mesh.nodes[0].machine.members.first { $0.peer == mover.peer }?.addresses.contains(mover.address) == true)
        #expect(mover.count(.interfacesChanged) == 1)
    }

    @Test func `MEM-17 a member on two networks is one member with two paths, dialled on both at once`() throws {
        let mesh = TestMesh.settled(2)
        let both: [SocketAddress] = [mesh.nodes[1].address, .ipv4(192, 168, 1, 5, port: 47_800)]
        mesh.submit(mesh.nodes[1], .localAddressesChanged(both))
        mesh.run(.seconds(1 as Int64))
        #expect(mesh.nodes[0].machine.members.count == 2)
        #expect(
            Set(mesh.nodes[0].machine.members.first { $0.peer == mesh.nodes[1].peer }?.addresses ?? []) == Set(both))

        mesh.reaches = { _, _ in false }
        mesh.nodes[0].dialled = []
        mesh.run(.seconds(5 as Int64))

        let request = try #require(mesh.nodes[0].dialled.first)
        #expect(Set(request.addresses) == Set(both))
        #expect(request.expectedPeer == mesh.nodes[1].peer)
    }

    @Test func `a lost member is dialled every two seconds for half an hour, then every thirty`() {
        let mesh = TestMesh.settled(2)
        mesh.configuration.isDiscoveryEnabled = false
        mesh.kill(mesh.nodes[1])
        mesh.run(.seconds(3 as Int64))

        mesh.nodes[0].dialCount = 0
        mesh.run(.seconds(100 as Int64))
        #expect((45...56).contains(mesh.nodes[0].dialCount))

        mesh.run(.seconds(1_800 as Int64))
        mesh.nodes[0].dialCount = 0
        mesh.run(.seconds(300 as Int64))
        #expect((9...11).contains(mesh.nodes[0].dialCount))
    }

    @Test func `a path broken in one direction only buries nobody who is heard by others`() {
        let mesh = TestMesh.settled(4)
        // Node 1 hears nothing from node 0 any more; everybody else does.
        mesh.reaches = { from, to in !(from == 0 && to == 1) }
        mesh.run(.seconds(20 as Int64))

        #expect(mesh.nodes[1].count(.memberDead) == 0)
        #expect(mesh.nodes[1].state(of: mesh.nodes[0]) == .alive)
    }

    @Test func `MEM-24 thirty-two nodes that start within a second are one full mesh within five`() throws {
        let mesh = TestMesh()
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        let ticket = mesh.ticket(founder)
        for _ in 1..<32 {
            mesh.join(mesh.add(), ticket)
            mesh.run(.milliseconds(30))
        }
        let time = try #require(
            mesh.run(limit: .seconds(10 as Int64)) {
                mesh.nodes.allSatisfy { $0.machine.members.count == 32 } && mesh.isFullyLinked && mesh.isWhole
            })
        #expect(time <= .seconds(5 as Int64))

        // Beyond 16 members only eight watch each; a death is still known to all within two seconds.
        mesh.run(.seconds(3 as Int64))
        #expect(mesh.nodes.allSatisfy { $0.count(.memberDead) == 0 })
        let victim = mesh.nodes[17]
        mesh.kill(victim)
        let noticed = try #require(
            mesh.run(limit: .seconds(8 as Int64)) {
                mesh.nodes.allSatisfy { $0 === victim || $0.state(of: victim) == .dead }
            })
        #expect(noticed < .seconds(2 as Int64))
    }

    @Test func `MEM-24 a newcomer beyond the limit is refused aloud`() {
        let mesh = TestMesh()
        mesh.configuration.maximumMembers = 3
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        for _ in 0..<3 {
            mesh.join(mesh.add(), mesh.ticket(founder))
            mesh.run(.seconds(1 as Int64))
        }

        #expect(founder.machine.members.count == 3)
        let failures = mesh.nodes[3].outputs.compactMap {
            if case .joinFailed(let failure) = $0 { failure } else { nil }
        }
        #expect(failures == [.refused(.meshFull)])
        #expect(founder.count(.memberRefused) == 1)
    }
}
