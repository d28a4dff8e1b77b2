import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// What members see of a node, and what the node makes of it.
@Suite struct ReflectedAddressesTests {
    private let own = SocketAddress.ipv4(192, 168, 1, 2, port: 47_800)
    private let outer = SocketAddress.ipv4(203, 0, 113, 7, port: 6_000)
    private let now = HostTime(nanoseconds: 1_000_000_000)

    private func peer(_ number: UInt8) -> PeerID { PeerID(Bytes32([UInt8](repeating: number, count: 32))!) }

    private func seen(_ addresses: [SocketAddress]) -> ReflectedAddresses {
        var reflected = ReflectedAddresses()
        for (index, address) in addresses.enumerated() {
            _ = reflected.note(address, from: peer(UInt8(index + 1)), at: now + .milliseconds(Int64(index)))
        }
        return reflected
    }

    @Test func `two observers that see one outer address make it a shared mapping, one observer none at all`() {
        #expect(seen([outer]).mapping(local: [own]) == .unknown)
        #expect(seen([outer, outer]).mapping(local: [own]) == .shared)
        #expect(seen([outer, outer]).addresses(besides: [own]) == [outer])
    }

    @Test func `two observers that see different ports of one host make it a mapping for each destination`() {
        let reflected = seen([outer, outer.with(port: 6_001), outer])
        #expect(reflected.mapping(local: [own]) == .perDestination)
        // What two see stands before what one sees; all are told, since a classification cancels nothing.
        #expect(reflected.addresses(besides: [own]) == [outer, outer.with(port: 6_001)])
    }

    @Test func `observers inside and outside a network are not compared with each other`() {
        let inner = SocketAddress.ipv4(10, 0, 0, 9, port: 5_000)
        #expect(seen([outer, inner]).mapping(local: [own]) == .unknown)
        #expect(seen([outer, inner, outer]).mapping(local: [own]) == .shared)
    }

    @Test func `a node that others see at its own address has no translator before it`() {
        #expect(seen([own, own]).mapping(local: [own]) == .none)
        #expect(seen([own]).addresses(besides: [own]).isEmpty)
        #expect(seen([.loopback(port: 1)]).mapping(local: [own]) == .unknown)
    }

    @Test func `AB-64 of a flood of told addresses four are believed, and none that nobody can answer at`() {
        let flood = (0..<200).map { outer.with(port: UInt16(7_000 + $0)) }
        #expect(seen(flood).addresses(besides: [own]).count == 4)
        let useless: [SocketAddress] = [
            .loopback(port: 5), .ipv4(0, 0, 0, 0, port: 5), .ipv4(224, 0, 0, 1, port: 5), outer.with(port: 0),
            SocketAddress("[fe80::1]:5")!,
        ]
        #expect(seen(useless).addresses(besides: [own]).isEmpty)
    }

    @Test func `what a member saw is forgotten two minutes after its link, and kept when it returns`() {
        var reflected = seen([outer, outer])
        reflected.linkLost(peer(1), at: now)
        reflected.linkLost(peer(2), at: now)
        reflected.linkEstablished(peer(2))
        let didForget = reflected.expire(at: now + .seconds(121 as Int64))
        #expect(didForget)
        #expect(reflected.addresses(besides: [own]) == [outer])
        #expect(reflected.mapping(local: [own]) == .unknown)
        let didForgetMore = reflected.expire(at: now + .seconds(500 as Int64))
        #expect(!didForgetMore)
        #expect(reflected.nextDeadline == nil)
    }

    @Test func `a presence names own addresses first and keeps room for what others see`() {
        let local = (1...16).map { SocketAddress.ipv4(10, 0, UInt8($0), 1, port: 47_800) }
        let told = Paths.advertised(local, reflected: [outer])
        #expect(told.count == 16)
        #expect(told.first == local[0] && told.last == outer)
        #expect(Paths.forTicket(local, reflected: [outer, own]) == Array(local.prefix(3)) + [outer])
    }

    // MARK: In the mesh

    @Test func `every member tells each new link the address it sees`() {
        let mesh = TestMesh.settled(3)
        for node in mesh.nodes {
            let told = node.outputs.compactMap { output -> PeerID? in
                guard case .send(.yourAddress(let address), let peer, _, true) = output else { return nil }
                #expect(mesh.nodes.contains { $0.peer == peer && $0.address == address })
                return peer
            }
            #expect(Set(told) == Set(mesh.nodes.map(\.peer)).subtracting([node.peer]))
        }
    }

    @Test func `MEM-06 a link that moved is told its new address, which stands in everybody's list within a second`()
        throws
    {
        let mesh = TestMesh.settled(3)
        let (first, second, third) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
        mesh.submit(first, .linkMoved(second.peer, outer))
        let time = mesh.run(limit: .seconds(1 as Int64)) {
            third.machine.members.first { $0.peer == second.peer }?.addresses.contains(outer) ?? false
        }
        #expect(time != nil)
        #expect(third.machine.list[second.peer]?.presence?.addresses == [second.address, outer])
    }

    @Test func `the kind of mapping is told to everybody once two members see one outer address`() {
        let mesh = TestMesh.settled(4)
        let node = mesh.nodes[3]
        mesh.submit(mesh.nodes[0], .linkMoved(node.peer, outer))
        mesh.submit(mesh.nodes[1], .linkMoved(node.peer, outer))
        mesh.run(.seconds(3 as Int64))
        for other in mesh.nodes.dropLast() {
            #expect(other.machine.list[node.peer]?.presence?.mapping == .shared)
        }
    }

    @Test func `a newcomer behind a translator stands in the list with its outer address as soon as it is a member`() {
        let mesh = TestMesh()
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        let newcomer = mesh.add()
        mesh.seenAs[newcomer.index] = outer
        mesh.join(newcomer, mesh.ticket(founder))
        let time = mesh.run(limit: .seconds(2 as Int64)) {
            founder.machine.list[newcomer.peer]?.presence?.addresses == [newcomer.address, outer]
        }
        #expect(time != nil)
    }

    @Test func `a mesh without translators says nothing more for being seen`() {
        let mesh = TestMesh.settled(3)
        let revisions = mesh.nodes.map { $0.machine.revision }
        mesh.run(.seconds(300 as Int64))
        #expect(mesh.nodes.map { $0.machine.revision } == revisions)
    }

    @Test func `AB-35 a stranger's word about this node's address is not taken`() {
        let mesh = TestMesh.settled(2)
        let node = mesh.nodes[0]
        let stranger = mesh.add()
        mesh.submit(
            node,
            .linkEstablished(
                LinkIdentity(
                    peer: stranger.peer, incarnation: stranger.incarnation, secretID: SecretID(.zero), role: .responder,
                    address: stranger.address, membershipHead: .zero)))
        var outbox = Outbox<SessionOutput>()
        node.machine.receive(
            SessionMessage.yourAddress(outer).encoded, from: stranger.peer, at: mesh.now, into: &outbox)
        #expect(node.machine.reflected.addresses(besides: [node.address]).isEmpty)
        #expect(node.machine.statistics.unexpectedMessages == 1)
    }
}
