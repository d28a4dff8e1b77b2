import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct PathsTests {
    private let own = SocketAddress.ipv4(192, 168, 1, 2, port: 47_800)
    private let loopback = SocketAddress.loopback(port: 47_800)
    private let linkLocal = SocketAddress("[fe80::1]:47800")!
    private let global = SocketAddress("[2001:db8::1]:47800")!

    private func entry(_ addresses: [SocketAddress], contacts: [SocketAddress] = [], thisHost: Bool = false)
        -> MemberList.Entry
    {
        var entry = MemberList.Entry(peer: PeerID(.zero), admission: nil, admittedName: "")
        entry.presence = PresenceRecord(
            peer: PeerID(.zero), incarnation: Incarnation(1), startCount: 1, revision: 1, state: .alive, name: "x",
            addresses: addresses)
        entry.contacts = contacts
        entry.isToldFromThisHost = thisHost
        return entry
    }

    @Test func `MEM-07 MEM-09 0.0.0.0, multicast and loopback are never told to others`() {
        let local: [SocketAddress] = [
            .ipv4(0, 0, 0, 0, port: 47_800), SocketAddress("[::]:47800")!, loopback, .ipv4(224, 0, 0, 1, port: 47_800),
            own,
        ]
        #expect(Paths.advertised(local) == [own])
        #expect(Paths.advertised([.ipv4(0, 0, 0, 0, port: 47_800)]).isEmpty)
    }

    @Test func `a node bound to loopback alone tells loopback`() {
        #expect(Paths.advertised([loopback]) == [loopback])
        #expect(Paths.forTicket([loopback]) == [loopback])
    }

    @Test func `MEM-09 with IPv6 alone its addresses are told, link-local ones when there are no others`() {
        #expect(Paths.advertised([linkLocal.with(scope: 3), global, loopback]) == [global])
        #expect(Paths.advertised([linkLocal.with(scope: 3), loopback]) == [linkLocal])
    }

    @Test func `MEM-09 a link-local address is tried on every interface of this machine that has one`() {
        let local = [
            SocketAddress("[fe80::9]:1%0")?.with(scope: 0), SocketAddress("[fe80::9]:47800")!.with(scope: 2),
            SocketAddress("[fe80::a]:47800")!.with(scope: 5),
        ].compactMap { $0 }
        let candidates = Paths.candidates(for: entry([linkLocal]), local: local)
        #expect(candidates.map(\.scope) == [2, 5])
        #expect(Paths.candidates(for: entry([linkLocal]), local: [own]).isEmpty)
    }

    @Test func `a ticket holds four addresses, both families first`() {
        let fourth = (1...5).map { SocketAddress.ipv4(10, 0, 0, UInt8($0), port: 1) }
        let sixth = (1...5).map { SocketAddress("[2001:db8::\($0)]:1")! }
        let ticket = Paths.forTicket(fourth + sixth)
        #expect(ticket == [sixth[0], fourth[0], sixth[1], fourth[1]])
    }

    @Test func `IPv6 has the head start where this node has it too, and comes second where it has not`() {
        let fourth = SocketAddress.ipv4(203, 0, 113, 9, port: 47_800)
        let both = entry([fourth, global])
        let sixth = SocketAddress("[2001:db8::7]:47800")!
        #expect(Paths.candidates(for: both, local: [own, sixth]) == [global, fourth])
        #expect(Paths.candidates(for: both, local: [own]) == [fourth, global])
        #expect(Paths.candidates(for: both, local: [own, linkLocal.with(scope: 2)]) == [fourth, global])
    }

    @Test func `MEM-11 addresses are told and tried in their owner's order: a tunnel's stays behind the wire's`() {
        let (wire, tunnel) = (SocketAddress.ipv4(192, 168, 7, 5, port: 1), SocketAddress.ipv4(10, 8, 0, 3, port: 1))
        #expect(Paths.advertised([wire, tunnel]) == [wire, tunnel])
        #expect(Paths.candidates(for: entry([wire, tunnel]), local: [own]) == [wire, tunnel])
    }

    @Test func `loopback of a member is tried only when it can be this machine`() {
        let theirs = SocketAddress.loopback(port: 47_801)
        #expect(Paths.candidates(for: entry([theirs]), local: [own]).isEmpty)
        #expect(Paths.candidates(for: entry([theirs]), local: [loopback]) == [theirs])
        #expect(Paths.candidates(for: entry([theirs], thisHost: true), local: [own]) == [theirs])
        let sameHost = entry([theirs, own.with(port: 47_801)])
        #expect(Set(Paths.candidates(for: sameHost, local: [own])) == [theirs, own.with(port: 47_801)])
    }

    @Test func `a node never dials itself`() {
        #expect(Paths.candidates(for: entry([own, loopback], thisHost: true), local: [own]).isEmpty)
        #expect(Paths.dialable([own, own.with(port: 5)], local: [own]) == [own.with(port: 5)])
    }

    @Test func `MEM-07 all addresses of a member are raced in one dial, the last good one first`() {
        let addresses = (1...6).map { SocketAddress.ipv4(10, UInt8($0), 0, 1, port: 47_800) }
        let candidates = Paths.candidates(for: entry(addresses, contacts: [addresses[4]]), local: [own])
        #expect(candidates.first == addresses[4])
        #expect(Set(candidates) == Set(addresses))
        #expect(candidates.count == 6)
    }

    @Test func `MEM-07 MEM-11 twelve nodes with six addresses, five of them dead, are a full mesh within five seconds`()
        throws
    {
        let mesh = TestMesh()
        mesh.configuration.isDiscoveryEnabled = false
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        for _ in 1..<12 { mesh.add() }
        for node in mesh.nodes {
            let dead = (1...5).map { SocketAddress.ipv4(172, 16, UInt8(node.index), UInt8($0), port: 47_800) }
            mesh.submit(node, .localAddressesChanged(dead + [node.address]))
        }
        let addresses = mesh.ticket(founder).addresses + [founder.address]
        let ticket = Ticket(
            meshID: mesh.ticket(founder).meshID, joinSecret: mesh.ticket(founder).joinSecret, addresses: [])
        for node in mesh.nodes.dropFirst() { mesh.submit(node, .join(ticket, extraAddresses: addresses)) }

        let time = try #require(mesh.run(limit: .seconds(20 as Int64)) { mesh.isWhole && mesh.isFullyLinked })
        #expect(time <= .seconds(5 as Int64))
    }

    @Test func `the ring of watchers is mutual and has eight in a crowd`() {
        let configuration = SessionConfiguration()
        let peers = (0..<40).map { PeerID(Bytes32([UInt8(200 - $0)] + [UInt8](repeating: 0, count: 31))!) }.sorted()
        for peer in peers {
            let watched = Detection.watched(by: peer, members: peers, configuration: configuration)
            #expect(watched.count == 8)
            for other in watched {
                #expect(Detection.watched(by: other, members: peers, configuration: configuration).contains(peer))
            }
        }
        let few = Array(peers.prefix(16))
        #expect(Detection.watched(by: few[0], members: few, configuration: configuration).count == 15)
    }

    @Test func `the time to suspicion follows intervals, round trip and own health`() {
        let configuration = SessionConfiguration()
        func time(_ smoothed: Int64, _ variance: Int64, _ health: Int) -> TimeSpan {
            Detection.suspicionTime(
                interval: configuration.keepAliveInterval, configuration: configuration,
                smoothed: .milliseconds(smoothed), variance: .milliseconds(variance), health: health)
        }
        #expect(time(10, 5, 1) == .milliseconds(750))
        #expect(time(300, 50, 1) == .milliseconds(1_400))
        #expect(time(10, 5, 3) == .milliseconds(2_250))
        // Everything that must happen before a death fits into two seconds.
        #expect(
            time(10, 5, 1) + configuration.keepAliveInterval + configuration.leastDoubt
                + configuration.confirmationTime <= .seconds(2 as Int64))
        // A pause of 700 ms right before a keep-alive, and one keep-alive lost before, end before a death.
        #expect(
            time(10, 5, 1) + configuration.leastDoubt
                > .milliseconds(700) + configuration.keepAliveInterval * 2)
    }

    @Test func `own lateness stretches time-outs up to eightfold and wears off`() {
        var health = LocalHealth()
        let interval = TimeSpan.milliseconds(250)
        health.noteDeadline(lateness: .milliseconds(250), interval: interval, at: .zero)
        #expect(health.multiplier == 1)
        health.noteDeadline(lateness: .milliseconds(600), interval: interval, at: .zero)
        #expect(health.multiplier == 3)
        health.noteDeadline(lateness: .seconds(60 as Int64), interval: interval, at: .zero)
        #expect(health.multiplier == 8)
        for second in 1...20 {
            health.noteDeadline(
                lateness: .zero, interval: interval, at: HostTime(nanoseconds: Int64(second) * 1_000_000_000))
        }
        #expect(health.multiplier == 1)
    }
}
