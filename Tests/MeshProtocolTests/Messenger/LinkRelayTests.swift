import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// Links whose datagrams a third member carries.
@Suite struct LinkRelayTests {
    /// 0 and 2 have links with 1 (and 3), and no datagram passes between them.
    private func relayed(
        relays: [Int] = [1], configuration: LinkConfiguration = LinkConfiguration(), seed: UInt64 = 1
    ) -> LinkPipe {
        let pipe = LinkPipe(seed: seed)
        pipe.addNode(0)
        pipe.addNode(1, configuration: configuration)
        pipe.addNode(2)
        pipe.addNode(3, configuration: configuration)
        separate(pipe)
        for relay in relays {
            pipe.dial(0, to: relay)
            pipe.dial(2, to: relay)
        }
        pipe.run(
            until: { relays.allSatisfy { pipe.isLinked(0, $0) && pipe.isLinked(2, $0) && pipe.isLinked($0, 0) } },
            limit: .seconds(5))
        dial(pipe, through: relays)
        pipe.run(until: { pipe.isLinked(0, 2) && pipe.isLinked(2, 0) }, limit: .seconds(5))
        return pipe
    }

    private func separate(_ pipe: LinkPipe) {
        let (first, last) = (pipe.nodes[0].address, pipe.nodes[2].address)
        pipe.tap = { [$0.from, $0.to] == [first, last] || [$0.from, $0.to] == [last, first] ? nil : $0 }
    }

    private func dial(_ pipe: LinkPipe, through relays: [Int]) {
        var request = DialRequest(addresses: [], secretID: LinkPipe.secret.id, expectedPeer: pipe.nodes[2].peerID)
        request.relays = relays.map { pipe.nodes[$0].peerID }
        pipe.dial(0, request)
    }

    private func relay(_ pipe: LinkPipe, of from: Int, to: Int) -> PeerID? {
        pipe.nodes[from].table.statistics(of: pipe.nodes[to].peerID)?.identity.relay
    }

    private func received(_ pipe: LinkPipe, _ index: Int, channel: Channel = .gossip) -> [[UInt8]] {
        pipe.nodes[index].messages.filter { $0.channel == channel }.map(\.payload)
    }

    @Test func `two members without a path are linked through a third, which learns neither content nor keys`() throws {
        let pipe = relayed()
        #expect(pipe.isLinked(0, 2) && pipe.isLinked(2, 0))
        #expect(relay(pipe, of: 0, to: 2) == pipe.nodes[1].peerID)
        #expect(relay(pipe, of: 2, to: 0) == pipe.nodes[1].peerID)
        try pipe.send([1, 2, 3], from: 0, to: 2)
        try pipe.send([4, 5], from: 2, to: 0)
        pipe.run(for: .seconds(1))
        #expect(received(pipe, 2) == [[1, 2, 3]])
        #expect(received(pipe, 0) == [[4, 5]])
        #expect(pipe.nodes[1].messages.isEmpty)
    }

    @Test func `a message of the greatest size passes through a member whole, in smaller datagrams`() throws {
        let pipe = relayed()
        let payload = pipe.generator.bytes(WireLimits.maximumLinkMessageBytes)
        try pipe.send(payload, from: 0, to: 2)
        pipe.run(until: { !received(pipe, 2).isEmpty }, limit: .seconds(10))
        #expect(received(pipe, 2) == [payload])
        let statistics = try #require(pipe.nodes[0].table.statistics(of: pipe.nodes[2].peerID))
        #expect(statistics.datagramBytes == WireLimits.relayedDatagramBytes)
        #expect(pipe.nodes[1].table.statistics.relayedBytes > UInt64(payload.count))
    }

    @Test func `clock samples of a link through a member are made of the sockets' stamps`() {
        let pipe = relayed()
        pipe.nodes[2].clockOffset = .seconds(5)
        pipe.run(for: .seconds(12))
        let fromPeer = pipe.nodes[0].samples.suffix(4)
        #expect(!fromPeer.isEmpty)
    }

    @Test(arguments: 1...8)
    func `nothing is lost or doubled when a better path takes over while messages flow`(seed: UInt64) throws {
        let pipe = relayed(seed: seed)
        pipe.faults.jitter = .milliseconds(3)
        pipe.faults.loss = 0.02
        var sent: [[UInt8]] = []
        for number in 0..<400 {
            if number == 150 {
                pipe.tap = nil
                pipe.dial(0, to: 2)
            }
            let payload = [UInt8(number & 255), UInt8(number >> 8)] + pipe.generator.bytes(200)
            sent.append(payload)
            try pipe.send(payload, from: number.isMultiple(of: 2) ? 0 : 2, to: number.isMultiple(of: 2) ? 2 : 0)
            pipe.run(for: .milliseconds(2))
        }
        pipe.run(for: .seconds(5))
        let arrived = received(pipe, 2) + received(pipe, 0)
        #expect(arrived.count == 400)
        #expect(Set(arrived) == Set(sent))
        #expect(relay(pipe, of: 0, to: 2) == nil && relay(pipe, of: 2, to: 0) == nil)
        #expect(pipe.nodes[0].moved.last == pipe.nodes[2].address)
        #expect(pipe.nodes[2].moved.last == pipe.nodes[0].address)
        #expect(pipe.nodes[0].lost.isEmpty && pipe.nodes[2].lost.isEmpty)
    }

    @Test func `a path through a member never takes the place of a living direct one`() {
        let pipe = relayed()
        pipe.tap = nil
        pipe.dial(0, to: 2)
        pipe.run(for: .seconds(1))
        #expect(relay(pipe, of: 0, to: 2) == nil)
        dial(pipe, through: [1])
        pipe.run(for: .seconds(3))
        #expect(relay(pipe, of: 0, to: 2) == nil && relay(pipe, of: 2, to: 0) == nil)
    }

    @Test func `a direct path that dies is left for one through a member, with what was queued`() throws {
        let pipe = LinkPipe()
        for index in 0..<3 { pipe.addNode(index) }
        for (from, to) in [(0, 1), (2, 1), (0, 2)] { pipe.dial(from, to: to) }
        pipe.run(for: .seconds(1))
        separate(pipe)
        try pipe.send([7], from: 0, to: 2)
        try pipe.send([8], from: 2, to: 0)
        pipe.run(for: .seconds(3))
        #expect(received(pipe, 2).isEmpty)
        dial(pipe, through: [1])
        pipe.run(for: .seconds(4))
        #expect(received(pipe, 2) == [[7]] && received(pipe, 0) == [[8]])
        #expect(pipe.nodes[0].lost.isEmpty && pipe.nodes[2].lost.isEmpty)
    }

    @Test func `of two members that carry, the other takes over when one is gone, without a handshake`() throws {
        let pipe = relayed(relays: [1, 3])
        let first = try #require(relay(pipe, of: 0, to: 2))
        let gone = try #require(pipe.nodes.firstIndex { $0.peerID == first })
        let handshakes = pipe.nodes[0].table.statistics.handshakesFinished
        pipe.close(gone, 0)
        pipe.close(gone, 2)
        pipe.run(for: .milliseconds(100))
        try pipe.send([9], from: 0, to: 2)
        pipe.run(for: .seconds(2))
        #expect(received(pipe, 2) == [[9]])
        #expect(relay(pipe, of: 0, to: 2) != first && relay(pipe, of: 0, to: 2) != nil)
        #expect(pipe.nodes[0].table.statistics.handshakesFinished == handshakes)
    }

    @Test func `the second way through a member is kept warm, and moves nothing while it is`() throws {
        let pipe = relayed(relays: [1, 3])
        let present = try #require(relay(pipe, of: 0, to: 2))
        let spare = try #require([1, 3].first { pipe.nodes[$0].peerID != present })
        pipe.run(for: .seconds(25))
        let before = pipe.nodes[spare].table.statistics.relayedDatagrams
        pipe.run(for: .seconds(60))
        #expect(pipe.nodes[spare].table.statistics.relayedDatagrams >= before + 6)
        #expect(pipe.nodes[spare].table.statistics.relayedDatagrams <= before + 60)
        #expect(pipe.nodes[spare].table.relaying(at: pipe.now).pairCount == 1)
        #expect(pipe.link(0, 2)?.spareProbe?.address != nil)
        #expect(relay(pipe, of: 0, to: 2) == present && relay(pipe, of: 2, to: 0) == present)
        #expect(pipe.nodes[0].table.statistics.relayChanges == 0 && pipe.nodes[0].moved.isEmpty)
    }

    @Test func `new keys are agreed through a member too`() {
        let pipe = relayed()
        pipe.run(for: .seconds(300))
        let statistics = pipe.nodes[0].table.statistics(of: pipe.nodes[2].peerID)
        #expect((statistics?.rekeys ?? 0) >= 2)
        #expect(relay(pipe, of: 0, to: 2) == pipe.nodes[1].peerID)
    }

    // MARK: Refusals

    @Test func `what goes to somebody the carrier is not linked with is refused aloud, once a second at most`() {
        let pipe = LinkPipe()
        for index in 0..<3 { pipe.addNode(index) }
        pipe.dial(0, to: 1)
        pipe.run(for: .seconds(1))
        dial(pipe, through: [1])
        pipe.run(for: .milliseconds(500))
        #expect(pipe.nodes[0].failures == [.noAnswer])
        #expect(pipe.nodes[0].refusals.map(\.relay) == [pipe.nodes[1].peerID])
        #expect(pipe.nodes[1].table.statistics.relayRefused == 1)
    }

    @Test func `a carrier that is reached through a member itself carries nothing: no loops`() throws {
        let pipe = relayed()
        pipe.addNode(4)
        pipe.dial(4, to: 2)
        pipe.run(for: .seconds(1))
        // 2 is linked with 0 through 1: it must not carry between 0 and 4.
        pipe.nodes[2].table.passOn(
            [UInt8](repeating: 4, count: 64), from: pipe.nodes[4].peerID, to: pipe.nodes[0].peerID, at: pipe.now)
        pipe.nodes[2].table.passOn(
            [UInt8](repeating: 4, count: 64), from: pipe.nodes[0].peerID, to: pipe.nodes[4].peerID, at: pipe.now)
        #expect(pipe.nodes[2].table.statistics.relayedDatagrams == 0)
        #expect(pipe.nodes[2].table.statistics.relayRefused == 2)
        // Nor does a node take what somebody reached that way says it carries.
        let before = pipe.nodes[0].table.statistics.relayReceived
        var outbox = Outbox<LinkOutput>()
        pipe.nodes[0].table.receiveCarried(
            [UInt8](repeating: 4, count: 64), of: pipe.nodes[4].peerID, from: pipe.nodes[2].peerID,
            receivedAt: pipe.now,
            at: pipe.now, into: &outbox)
        #expect(pipe.nodes[0].table.statistics.relayReceived == before)
    }

    @Test func `AB-65 of what a member asks to be carried at most as much leaves as came in`() throws {
        let pipe = relayed()
        pipe.run(for: .seconds(1))
        let target = pipe.nodes[2].address
        let carrier = pipe.nodes[1].address
        pipe.sent = []
        let datagram = [UInt8](repeating: 4, count: 1_000)
        for _ in 0..<100 {
            var table = pipe.nodes[0].table
            let slot = try #require(table.slot(of: pipe.nodes[1].peerID))
            _ = table.links[slot]?.enqueueRelay(RelayMessage.carry(datagram, to: pipe.nodes[2].peerID).encoded)
            pipe.nodes[0].table = table
            pipe.run(for: .milliseconds(5))
        }
        let inward = pipe.sent.filter { $0.to == carrier && $0.from == pipe.nodes[0].address }.reduce(0) {
            $0 + $1.bytes.count
        }
        let outward = pipe.sent.filter { $0.to == target && $0.from == carrier }.reduce(0) { $0 + $1.bytes.count }
        #expect(outward > 90_000)
        #expect(Double(outward) <= Double(inward) * 1.05)
    }

    @Test func `beyond its bytes a second a member drops what it carries, counts it, and the link slows down`() throws {
        var configuration = LinkConfiguration()
        configuration.relayedBytesPerSecond = 100_000
        let pipe = relayed(configuration: configuration)
        let start = pipe.now
        let payload = pipe.generator.bytes(250_000)
        try pipe.send(payload, from: 0, to: 2)
        pipe.run(until: { !received(pipe, 2).isEmpty }, limit: .seconds(30))
        #expect(received(pipe, 2) == [payload])
        #expect(pipe.now - start >= .seconds(2))
        #expect(pipe.nodes[1].table.statistics.relayOverBudget > 0)
        #expect(pipe.nodes[1].table.relaying(at: pipe.now).pairCount == 1)
    }

    @Test
    func `a member carries no more pairs than it is willing to, and a pair gives its place back after half a minute`() {
        var configuration = LinkConfiguration()
        configuration.maximumRelayedPairs = 2
        var budget = RelayBudget(configuration: configuration)
        let peers = (0..<4).map { LinkPipe.identity($0).peerID }
        let now = HostTime(nanoseconds: 1_000_000_000)
        let take = { (budget: inout RelayBudget, one: Int, other: Int, time: HostTime) in
            budget.take(100, between: peers[one], and: peers[other], at: time)
        }
        let verdicts = [(0, 1), (1, 0), (0, 2), (0, 3), (2, 0)].map { take(&budget, $0.0, $0.1, now) }
        #expect(verdicts == [.granted, .granted, .granted, .noRoom, .granted])
        let later = take(&budget, 0, 3, now + .seconds(31 as Int64))
        #expect(later == .granted)
    }

    @Test func `a refusal is said once a second for each pair, and of a flood of pairs to 256 a second`() {
        var budget = RelayBudget(configuration: LinkConfiguration())
        let peers = (0..<200).map { PeerID(Bytes32([UInt8($0)] + [UInt8](repeating: 0, count: 31))!) }
        let now = HostTime(nanoseconds: 1_000_000_000)
        var said = 0
        for _ in 0..<3 { if budget.mayRefuse(peers[0], peers[1], at: now) { said += 1 } }
        #expect(said == 1)
        let again = budget.mayRefuse(peers[1], peers[0], at: now + .seconds(1 as Int64))
        #expect(again)
        for one in 0..<100 {
            for other in 100..<110 where budget.mayRefuse(peers[one], peers[other], at: now) { said += 1 }
        }
        #expect(said <= 256)
    }

    @Test func `AB-41 what waits to be carried over one link is bounded`() throws {
        let pipe = relayed()
        let slot = try #require(pipe.nodes[1].table.slot(of: pipe.nodes[2].peerID))
        let message = RelayMessage.carried([UInt8](repeating: 4, count: 1_000), from: pipe.nodes[0].peerID).encoded
        var taken = 0
        while taken < 10_000, pipe.nodes[1].table.links[slot]?.enqueueRelay(message) == true { taken += 1 }
        #expect((200...270).contains(taken))
    }

    @Test func `a datagram that a member claims to carry for another is not taken for that other's`() throws {
        let pipe = relayed()
        pipe.run(for: .seconds(1))
        // 3 is a member too, linked with 0; it captured a datagram of 2 for 0 and claims to have it from somebody else.
        pipe.dial(3, to: 0)
        pipe.run(for: .seconds(1))
        let forged = try pipe.forge([2, 0, 0], from: 2, to: 0)
        var outbox = Outbox<LinkOutput>()
        let before = pipe.nodes[0].table.statistics.refusedSource
        pipe.nodes[0].table.receiveCarried(
            forged, of: pipe.nodes[1].peerID, from: pipe.nodes[3].peerID, receivedAt: pipe.now, at: pipe.now,
            into: &outbox)
        #expect(pipe.nodes[0].table.statistics.refusedSource == before + 1)
    }

    @Test func `what claims over the network to come through a member is dropped`() {
        let pipe = relayed()
        let before = pipe.nodes[0].table.statistics.refusedSource
        let inside = SocketAddress(family: .ipv6, high: SocketAddress.discardPrefix, low: 1, port: 1)
        #expect(pipe.inject([UInt8](repeating: 4, count: 64), into: 0, from: inside).isEmpty)
        #expect(pipe.nodes[0].table.statistics.refusedSource == before + 1)
        #expect(!inside.isDialable)
    }
}
