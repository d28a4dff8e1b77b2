import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

private func linked(
    _ count: Int, seed: UInt64, delay: ClosedRange<Int64> = 1...1,
    configuration: GossipConfiguration = GossipConfiguration()
) throws -> GossipNetwork {
    let network = try GossipNetwork.mesh(count, seed: seed, configuration: configuration)
    network.connectFully()
    network.run(milliseconds: 2_000)
    network.faults.delay = delay
    return network
}

/// The place of a message in the order of all.
private struct Place: Comparable, Hashable {
    let lamport: UInt64
    let author: PeerID
    let payload: [UInt8]

    init(_ message: UserMessage) {
        lamport = message.lamport
        author = message.from
        payload = message.payload
    }

    static func < (left: Place, right: Place) -> Bool { (left.lamport, left.author) < (right.lamport, right.author) }
}

extension GossipNetwork.Node {
    fileprivate var order: [UserMessage] { messages.filter { $0.mode == .ordered } }
    fileprivate var places: [Place] { order.map { Place($0) } }
    /// Without what was marked late it must rise.
    fileprivate var isInOrder: Bool {
        let timely = order.filter { !$0.isLate }.map { Place($0) }
        return zip(timely, timely.dropFirst()).allSatisfy { $0 < $1 }
    }
}

struct `Ordered messages` {
    @Test func `are delivered at every member within one and a half round trips, quiet members or not`() throws {
        let network = try linked(5, seed: 900, delay: 20...20)
        let start = network.now
        try network.say(0, [7], mode: .ordered, token: 1)
        #expect(network.nodes[0].outcomes.isEmpty, "not before all were heard")
        #expect(network.run(atMost: 1_000) { network.nodes.allSatisfy { $0.order.count == 1 } })
        #expect(network.now - start <= .milliseconds(42))
        #expect(network.nodes[0].outcomes == [1: .delivered])
        #expect(
            network.nodes.allSatisfy { $0.order.first.map { !$0.isLate && $0.from == network.nodes[0].id } ?? false })
    }

    @Test func `of a lone member are delivered at once, and a set of recipients is refused`() throws {
        let network = try GossipNetwork.mesh(1, seed: 901)
        try network.say(0, [1], mode: .ordered, token: 1)
        #expect(network.nodes[0].outcomes == [1: .delivered])
        #expect(network.nodes[0].order.map(\.payload) == [[1]])
        #expect(throws: CommandError.invalid(field: "recipients")) {
            try network.say(0, [1], to: [], mode: .ordered)
        }
    }

    @Test func `MSG-01 of the limit pass and one byte more is refused with both numbers`() throws {
        let network = try linked(2, seed: 902)
        let limit = WireLimits.maximumMessageBytes
        #expect(throws: CommandError.limitExceeded(limit: limit, actual: limit + 1)) {
            try network.say(0, [UInt8](repeating: 7, count: limit + 1), mode: .ordered)
        }
        try network.say(0, [UInt8](repeating: 7, count: limit), mode: .ordered)
        network.run(milliseconds: 100)
        #expect(network.nodes[1].order.map(\.payload.count) == [limit])
    }

    @Test(arguments: 0..<20)
    func `of all senders at once have one order everywhere, through loss, repetition and reordering`(
        seed: Int
    ) throws {
        let network = try linked(5, seed: 910 + UInt64(seed))
        network.faults = .init(delay: 1...50, loss: 0.2, duplication: 0.3, recovery: 60)
        for number in 0..<100 {
            try network.say(network.random.below(5), [UInt8(number)], mode: .ordered)
            network.run(milliseconds: Int64(network.random.below(15)))
        }
        #expect(network.run(atMost: 10_000) { network.nodes.allSatisfy { $0.order.count == 100 } })
        let places = network.nodes.map(\.places)
        #expect(places.allSatisfy { $0 == places[0] && $0 == $0.sorted() }, "nothing is late while nobody is lost")
        #expect(network.nodes.allSatisfy { $0.order.allSatisfy { !$0.isLate } })
    }

    @Test(arguments: 0..<10)
    func `MEM-14 of both halves of a split follow when it heals, marked late, and the sorted logs are equal`(
        seed: Int
    ) throws {
        let network = try linked(6, seed: 940 + UInt64(seed))
        network.faults = .init(delay: 1...20, loss: 0.1, duplication: 0.2, recovery: 40)
        let halves = [Array(0..<3), Array(3..<6)]
        for left in halves[0] { for right in halves[1] { network.disconnect(left, right) } }
        for (half, others) in [(halves[0], halves[1]), (halves[1], halves[0])] {
            for member in half {
                for other in others { try network.submit(member, .memberLost(network.nodes[other].id)) }
            }
        }
        for number in 0..<60 {
            try network.say(network.random.below(6), [UInt8(number)], mode: .ordered)
            network.run(milliseconds: Int64(network.random.below(20)))
        }
        network.run(milliseconds: 500)
        let before = network.nodes.map(\.order.count)
        #expect(before.reduce(0, +) == 180, "each half goes on")

        network.connectFully()
        network.tellMembers()
        try network.say(0, [200], mode: .ordered)
        #expect(network.run(atMost: 5_000) { network.nodes.allSatisfy { $0.order.count == 61 } })
        let logs = network.nodes.map { $0.places.sorted() }
        #expect(logs.allSatisfy { $0 == logs[0] && Set($0).count == 61 })
        #expect(network.nodes.allSatisfy { $0.isInOrder })
        #expect(network.nodes.contains { $0.order.contains { $0.isLate } })
        #expect(network.nodes[0].gossip.statistics.orderedImpatient == 0)
    }

    @Test(arguments: 0..<10)
    func `that a dying member told some of reach all others, and the sorted logs are equal`(seed: Int) throws {
        let network = try linked(5, seed: 960 + UInt64(seed))
        network.faults = .init(delay: 1...30)
        for number in 0..<20 {
            try network.say(4, [UInt8(number)], mode: .ordered)
            try network.say(network.random.below(4), [UInt8(100 + number)], mode: .ordered)
            network.run(milliseconds: 5)
        }
        // It dies with its last words under way to some: its links go one by one.
        for other in network.random.shuffle(Array(0..<4)) {
            network.run(milliseconds: Int64(network.random.below(12)))
            network.disconnect(4, other)
        }
        network.nodes[4].isFrozen = true
        let dead = network.nodes[4].id
        for member in 0..<4 { try network.submit(member, .memberLost(dead)) }
        network.run(milliseconds: 4_000)
        let logs = network.nodes.prefix(4).map { $0.places.sorted() }
        #expect(logs.allSatisfy { $0 == logs[0] }, "seed \(seed)")
        #expect(network.nodes.prefix(4).allSatisfy { $0.isInOrder })
        for member in 0..<4 { #expect(network.nodes[member].order.filter { $0.from != dead }.count == 20) }
    }

    @Test func `reach members without a link to their author, in the same order`() throws {
        let network = try GossipNetwork.mesh(4, seed: 980)
        network.connectLine()
        network.run(milliseconds: 4_000)
        network.faults.delay = 5...5
        for number in 0..<10 {
            try network.say(number % 4, [UInt8(number)], mode: .ordered)
            network.run(milliseconds: 3)
        }
        #expect(network.run(atMost: 5_000) { network.nodes.allSatisfy { $0.order.count == 10 } })
        #expect(network.nodes.allSatisfy { $0.places == network.nodes[0].places && $0.isInOrder })
    }

    @Test func `a newcomer gets what is kept, and then has the same order as the others`() throws {
        let network = try linked(2, seed: 981)
        for number in 0..<5 { try network.say(0, [UInt8(number)], mode: .ordered) }
        network.run(milliseconds: 100)
        network.addNode()
        try network.admit(2)
        network.tellMembers()
        network.connectFully()
        network.run(milliseconds: 2_000)
        for number in 5..<8 { try network.say(number % 3, [UInt8(number)], mode: .ordered) }
        network.run(milliseconds: 1_000)
        let logs = network.nodes.map { $0.places.sorted() }
        #expect(logs.allSatisfy { $0 == logs[0] && $0.count == 8 })
    }

    @Test func `a frozen member holds the order up until it is declared dead, and no longer`() throws {
        let network = try linked(3, seed: 982)
        network.nodes[2].isFrozen = true
        try network.say(0, [1], mode: .ordered, token: 1)
        network.run(milliseconds: 1_500)
        #expect(network.nodes[1].order.isEmpty)
        for member in 0...1 { try network.submit(member, .memberLost(network.nodes[2].id)) }
        network.run(milliseconds: 10)
        #expect(network.nodes[0].outcomes == [1: .delivered])
        #expect(network.nodes[1].order.count == 1)
    }

    @Test func `a member that lives and withholds its promises delays each message by a bounded time`() throws {
        let network = try linked(3, seed: 983)
        network.nodes[2].isFrozen = true
        try network.say(0, [1], mode: .ordered, token: 1)
        network.run(milliseconds: 8_100)
        #expect(network.nodes[0].outcomes == [1: .delivered])
        #expect(network.nodes[0].gossip.statistics.orderedImpatient == 1)
        #expect(network.nodes[0].gossip.statistics.promisesAsked > 5)
    }

    @Test func `a lost promise is asked for`() throws {
        let network = try linked(3, seed: 984)
        // The link goes right behind the message, with the promise on it.
        try network.say(0, [1], mode: .ordered, token: 1)
        network.run(milliseconds: 1)
        network.changeLink(2) { [nodes = network.nodes] in $0.linkDown(nodes[0].id, at: $1, into: &$2) }
        network.run(milliseconds: 1_500)
        #expect(network.nodes[0].outcomes == [1: .delivered])
    }

    private func sealed(
        _ network: GossipNetwork, by author: Int, sequence: UInt64 = 1, lamport: UInt64 = 50, payload: [UInt8] = [42]
    ) throws -> OrderedMessage {
        let mesh = try #require(network.nodes[0].gossip.meshID)
        return try OrderedSeal.seal(
            payload, sequence: sequence, lamport: lamport, mesh: mesh, secret: network.secret,
            nonce: network.random.bytes(24), identity: network.nodes[author].identity)
    }

    @Test func `AB-52 count only with their author's signature, whoever brings them`() throws {
        let network = try linked(3, seed: 985)
        network.addNode()
        var forged = try sealed(network, by: 1)
        forged.author = network.nodes[0].id
        network.inject(.ordered(forged), from: 1, to: 2)
        network.run(milliseconds: 11_000)
        network.inject(.ordered(try sealed(network, by: 3)), from: 1, to: 2)
        #expect(network.nodes[2].gossip.statistics.orderedRefused == 2, "forged, and of a stranger")
        network.inject(.ordered(try sealed(network, by: 0)), from: 1, to: 2)
        network.run(milliseconds: 9_000)
        #expect(network.nodes[2].order.map(\.from) == [network.nodes[0].id])
    }

    @Test func `AB-13 changed in any byte are refused`() throws {
        let network = try linked(2, seed: 986)
        let genuine = GossipMessage.ordered(try sealed(network, by: 0)).encoded
        for place in 1..<genuine.count {
            var bytes = genuine
            bytes[place] ^= 1
            network.inject(bytes, from: 0, to: 1)
            network.run(milliseconds: 11_000)
        }
        #expect(network.nodes[1].order.isEmpty)
        network.inject(genuine, from: 0, to: 1)
        network.run(milliseconds: 9_000)
        #expect(network.nodes[1].order.map(\.payload) == [[42]])
    }

    @Test func `AB-66 with a Lamport time beyond reach are refused, and a great one stops nobody`() throws {
        let network = try linked(3, seed: 987)
        network.inject(.ordered(try sealed(network, by: 1, lamport: .max - 1)), from: 1, to: 2)
        #expect(network.nodes[2].gossip.statistics.orderedRefused == 1)
        let far = GossipMessage.ordered(try sealed(network, by: 1, lamport: 1 << 31))
        for receiver in [0, 2] { network.inject(far, from: 1, to: receiver) }
        try network.say(0, [1], mode: .ordered)
        try network.say(2, [2], mode: .ordered)
        network.run(milliseconds: 1_000)
        #expect(network.nodes[0].places == network.nodes[2].places)
        #expect(network.nodes[0].order.count == 3)
    }

    @Test func `AB-67 two of one number by one author count once, and are told`() throws {
        let network = try linked(2, seed: 988)
        network.inject(.ordered(try sealed(network, by: 0, payload: [1])), from: 0, to: 1)
        network.inject(.ordered(try sealed(network, by: 0, payload: [2])), from: 0, to: 1)
        network.run(milliseconds: 9_000)
        #expect(network.nodes[1].order.map(\.payload) == [[1]])
        #expect(network.nodes[1].gossip.statistics.orderedRefused == 1)
        #expect(network.nodes[1].events.contains { $0.kind == .messageDropped })
    }

    @Test func `AB-34 of one author wait in a bounded room`() throws {
        let network = try linked(3, seed: 989)
        network.nodes[2].isFrozen = true
        for sequence in 1...1_100 as ClosedRange<UInt64> {
            network.inject(
                .ordered(try sealed(network, by: 0, sequence: sequence, lamport: 100 + sequence)), from: 0, to: 1)
        }
        #expect(network.nodes[1].gossip.statistics.orderedOverCap == 1_100 - 1_024)
        var sent = 0
        #expect(throws: CommandError.queueFull(limit: 1_024)) {
            while true {
                try network.say(0, [1], mode: .ordered)
                sent += 1
            }
        }
        #expect(sent == 1_024)
    }

    @Test func `a number that never comes is given up after a bounded time`() throws {
        let network = try linked(2, seed: 990)
        network.inject(.ordered(try sealed(network, by: 0, sequence: 1, lamport: 50)), from: 0, to: 1)
        network.inject(.ordered(try sealed(network, by: 0, sequence: 3, lamport: 60)), from: 0, to: 1)
        network.run(milliseconds: 1_000)
        #expect(network.nodes[1].order.count == 1)
        network.run(milliseconds: 7_500)
        #expect(network.nodes[1].order.count == 2)
        #expect(network.nodes[1].gossip.statistics.orderedGivenUp == 1)
    }
}
