import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct DiscoveryTests {
    private let secret = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 5, count: 32)))
    private let beacon = Beacon(isQuestion: false, isMember: true, port: 47_800, incarnation: Incarnation(77))

    private func beacons(_ node: TestMesh.Node) -> [[UInt8]] {
        node.outputs.compactMap { if case .sendBeacon(let bytes) = $0 { bytes } else { nil } }
    }

    @Test func `outsiders see random bytes of one size`() {
        var random = RandomStream(testSeed: 1)
        var counts = [[Int]](repeating: [Int](repeating: 0, count: 256), count: 64)
        for _ in 0..<1_000 {
            let bytes = Discovery.seal(beacon, under: secret, random: &random)
            #expect(bytes.count == 64)
            for position in 0..<64 { counts[position][Int(bytes[position])] += 1 }
        }
        // No byte is constant or even frequent anywhere: 1,000 draws from 256 values have a mean of 3.9 each.
        for position in counts {
            #expect(position.max()! < 25)
            #expect(position.count { $0 > 0 } > 220)
        }
    }

    @Test func `only who holds the secret reads a beacon`() {
        var random = RandomStream(testSeed: 1)
        var discovery = Discovery()
        let other = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 6, count: 32)))
        let bytes = Discovery.seal(beacon, under: secret, random: &random)

        guard case .beacon(beacon, _) = discovery.read(bytes, secrets: [other, secret], at: .zero) else {
            return #expect(Bool(false))
        }
        guard case .foreign = discovery.read(bytes, secrets: [other], at: .zero) else { return #expect(Bool(false)) }
        for length in [0, 63, 65, 200] {
            let junk = random.bytes(length)
            guard case .foreign = discovery.read(junk, secrets: [secret], at: .zero) else {
                return #expect(Bool(false))
            }
        }
        for position in bytes.indices {
            var flipped = bytes
            flipped[position] ^= 1
            guard case .foreign = discovery.read(flipped, secrets: [secret], at: .zero) else {
                return #expect(Bool(false))
            }
        }
    }

    @Test func `a flood on the beacon port costs a bounded number of trials`() {
        var random = RandomStream(testSeed: 1)
        var discovery = Discovery()
        var tried = 0
        for step in 0..<10_000 {
            let now = HostTime(nanoseconds: Int64(step) * 100_000)
            if case .foreign = discovery.read(random.bytes(64), secrets: [secret], at: now) { tried += 1 }
        }
        // 200 at once and 100 in that second.
        #expect((250...310).contains(tried))
    }

    @Test func `at most 20 secrets are tried on one beacon`() {
        var random = RandomStream(testSeed: 1)
        var discovery = Discovery()
        let others = (0..<20).map {
            GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: UInt8(100 + $0), count: 32)))
        }
        let bytes = Discovery.seal(beacon, under: secret, random: &random)
        guard case .foreign = discovery.read(bytes, secrets: others + [secret], at: .zero) else {
            return #expect(Bool(false))
        }
        guard case .beacon = discovery.read(bytes, secrets: others.dropLast() + [secret], at: .zero) else {
            return #expect(Bool(false))
        }
    }

    @Test func `a member calls three times at the start, then every five to ten seconds`() {
        let mesh = TestMesh()
        let node = mesh.found()
        mesh.run(.milliseconds(20))
        // One call under the epoch secret; the invite's record comes right after it.
        #expect(beacons(node).count >= 1)
        mesh.run(.milliseconds(400))
        let burst = beacons(node).count
        #expect((5...6).contains(burst))
        mesh.run(.seconds(100 as Int64))
        // Two secrets, 10 to 20 calls.
        #expect((20...40).contains(beacons(node).count - burst))
    }

    @Test func `MEM-23 with forty percent of multicast lost a newcomer without addresses is in within five seconds`()
        throws
    {
        for seed: UInt64 in 1...20 {
            let mesh = TestMesh(seed: seed)
            mesh.hasMulticast = true
            mesh.multicastLoss = 0.4
            let founder = mesh.found()
            mesh.run(.milliseconds(50))
            let ticket = Ticket(meshID: mesh.ticket(founder).meshID, joinSecret: mesh.ticket(founder).joinSecret)
            let newcomer = mesh.add()
            mesh.join(newcomer, ticket)
            let time = mesh.run(limit: .seconds(10 as Int64)) { founder.state(of: newcomer) == .alive }
            #expect(try #require(time) <= .seconds(5 as Int64), "seed \(seed)")
        }
    }

    @Test func `MEM-23 a newcomer that hears no multicast at all is dialled by whoever hears its question`() throws {
        let mesh = TestMesh()
        mesh.hasMulticast = true
        mesh.beaconReaches = { _, to in to == 0 }
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        let ticket = Ticket(meshID: mesh.ticket(founder).meshID, joinSecret: mesh.ticket(founder).joinSecret)
        let newcomer = mesh.add()
        mesh.join(newcomer, ticket)

        let time = mesh.run(limit: .seconds(10 as Int64)) { founder.state(of: newcomer) == .alive }

        #expect(try #require(time) <= .seconds(2 as Int64))
        #expect(newcomer.machine.statistics.beaconsHeard == 0)
    }

    @Test func `MEM-23 a question is answered at once, so that whoever asks can dial too`() {
        let mesh = TestMesh()
        mesh.hasMulticast = true
        let founder = mesh.found()
        mesh.run(.seconds(5 as Int64))
        let ticket = Ticket(meshID: mesh.ticket(founder).meshID, joinSecret: mesh.ticket(founder).joinSecret)
        let before = founder.machine.statistics.beaconsSent
        let newcomer = mesh.add()
        mesh.join(newcomer, ticket)
        mesh.run(.milliseconds(10))

        #expect(founder.machine.statistics.beaconsSent == before + 1)
        #expect(newcomer.machine.statistics.beaconsHeard == 1)
    }

    @Test func `MEM-15 after the network changed a member calls at once`() {
        let mesh = TestMesh.settled(2)
        mesh.nodes[0].outputs = []
        mesh.submit(mesh.nodes[0], .localAddressesChanged([.ipv4(172, 16, 0, 9, port: 47_800)]))
        mesh.run(.milliseconds(350))

        #expect(beacons(mesh.nodes[0]).count >= 3)
    }

    @Test func `AB-64 a replayed beacon leads to one dial per address in five seconds, to its source and nowhere else`()
        throws
    {
        let mesh = TestMesh.settled(2)
        let member = mesh.nodes[0]
        let epoch = try #require(member.machine.epochSecrets.first)
        var random = RandomStream(testSeed: 4)
        let bytes = Discovery.seal(beacon, under: epoch, random: &random)
        member.dialled = []

        for _ in 0..<100 {
            mesh.submit(member, .beaconReceived(bytes, from: .ipv4(203, 0, 113, 9, port: 9)))
            mesh.run(.milliseconds(20))
        }
        #expect(member.dialled.map(\.addresses) == [[.ipv4(203, 0, 113, 9, port: 47_800)]])
        mesh.run(.seconds(4 as Int64))
        mesh.submit(member, .beaconReceived(bytes, from: .ipv4(203, 0, 113, 9, port: 9)))
        #expect(member.dialled.count == 2)

        // Junk and beacons of other meshes lead to nothing at all.
        member.outputs = []
        let foreign = Discovery.seal(beacon, under: secret, random: &random)
        for bytes in [foreign, random.bytes(64), []] {
            mesh.submit(member, .beaconReceived(bytes, from: .ipv4(203, 0, 113, 10, port: 9)))
        }
        #expect(member.outputs.isEmpty)
    }

    @Test func `a question is answered at most five times a second, and one's own beacon never`() throws {
        let mesh = TestMesh.settled(1)
        let member = mesh.nodes[0]
        let epoch = try #require(member.machine.epochSecrets.first)
        var random = RandomStream(testSeed: 4)
        let question = Beacon(isQuestion: true, isMember: true, port: 1, incarnation: Incarnation(5))
        member.outputs = []
        for step in 0..<50 {
            let bytes = Discovery.seal(question, under: epoch, random: &random)
            mesh.submit(member, .beaconReceived(bytes, from: .ipv4(10, 1, 0, UInt8(step), port: 9)))
            mesh.run(.milliseconds(20))
        }
        #expect((4...6).contains(beacons(member).count))

        member.outputs = []
        let own = Beacon(isQuestion: true, isMember: true, port: 1, incarnation: member.incarnation)
        mesh.submit(
            member,
            .beaconReceived(Discovery.seal(own, under: epoch, random: &random), from: .ipv4(10, 1, 1, 1, port: 9)))
        #expect(member.outputs.isEmpty)
    }

    @Test func `two halves that lost each other's addresses find each other by beacon`() throws {
        let mesh = TestMesh.settled(2)
        mesh.hasMulticast = true
        mesh.reaches = { _, _ in false }
        mesh.run(.seconds(60 as Int64))
        // Both have new addresses and neither knows the other's.
        for (index, node) in mesh.nodes.enumerated() {
            node.address = .ipv4(192, 168, 9, UInt8(index + 1), port: 47_800)
            mesh.submit(node, .localAddressesChanged([node.address]))
        }
        mesh.run(.seconds(10 as Int64))
        mesh.reaches = { _, _ in true }

        #expect(mesh.run(limit: .seconds(5 as Int64)) { mesh.isWhole && mesh.isFullyLinked } != nil)
    }
}
