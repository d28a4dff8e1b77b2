import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

private func linked(_ count: Int, seed: UInt64) throws -> GossipNetwork {
    let network = try GossipNetwork.mesh(count, seed: seed)
    network.connectFully()
    network.run(milliseconds: 2_000)
    return network
}

struct `Reliable messages of several senders` {
    /// Ana's link to Cyd is slow; Ben's are fast.
    private func slowTriangle(seed: UInt64, slowness: Int64 = 300) throws -> GossipNetwork {
        let network = try linked(3, seed: seed)
        network.slowness[.init(0, 2)] = slowness
        return network
    }

    @Test func `MSG-11 an answer comes out behind its question at a third member that hears the answer first`() throws {
        let network = try slowTriangle(seed: 1_000)
        try network.say(0, [1])
        network.run(milliseconds: 10)
        try network.say(1, [2])
        network.run(milliseconds: 250)
        #expect(network.nodes[2].messages.isEmpty, "the answer is there and waits")
        network.run(milliseconds: 100)
        #expect(network.nodes[2].messages.map(\.payload) == [[1], [2]])
        #expect(network.nodes[2].gossip.statistics.messagesHeldBack == 1)
        #expect(network.nodes[2].gossip.statistics.causesGivenUp == 0)
    }

    @Test func `a chain of answers comes out in its order`() throws {
        let network = try linked(4, seed: 1_001)
        network.slowness = [.init(0, 3): 400, .init(1, 3): 200]
        for sender in 0..<3 {
            try network.say(sender, [UInt8(sender)])
            network.run(milliseconds: 10)
        }
        network.run(milliseconds: 600)
        #expect(network.nodes[3].messages.map(\.payload) == [[0], [1], [2]])
    }

    @Test func `what was said to somebody else is not waited for`() throws {
        let network = try slowTriangle(seed: 1_002)
        let (ben, cyd) = (network.nodes[1].id, network.nodes[2].id)
        try network.say(0, [1], to: [ben])
        network.run(milliseconds: 10)
        try network.say(1, [2], to: [cyd])
        network.run(milliseconds: 10)
        #expect(network.nodes[2].messages.map(\.payload) == [[2]])

        try network.say(0, [3], to: [ben, cyd])
        network.run(milliseconds: 10)
        try network.say(1, [4], to: [cyd])
        network.run(milliseconds: 50)
        #expect(network.nodes[2].messages.map(\.payload) == [[2]], "a question to both is")
        network.run(milliseconds: 400)
        #expect(network.nodes[2].messages.map(\.payload) == [[2], [3], [4]])
    }

    @Test func `a question whose author died before it got through blocks nobody`() throws {
        let network = try slowTriangle(seed: 1_003)
        try network.say(0, [1])
        network.run(milliseconds: 10)
        try network.say(1, [2])
        network.run(milliseconds: 10)
        for other in 1...2 { network.disconnect(0, other) }
        network.nodes[0].isFrozen = true
        network.run(milliseconds: 500)
        #expect(network.nodes[2].messages.isEmpty)
        try network.submit(2, .memberLost(network.nodes[0].id))
        #expect(network.nodes[2].messages.map(\.payload) == [[2]])
    }

    @Test func `a question that never comes is waited for five seconds and no more`() throws {
        let network = try slowTriangle(seed: 1_004, slowness: 60_000)
        try network.say(0, [1])
        network.run(milliseconds: 10)
        let asked = network.now
        try network.say(1, [2])
        #expect(network.run(atMost: 20_000) { network.nodes[2].messages.map(\.payload) == [[2]] })
        #expect(network.now - asked <= .milliseconds(5_010))
        #expect(network.nodes[2].gossip.statistics.causesGivenUp == 1)
        #expect(network.nodes[1].outcomes == [0: .delivered], "it was acknowledged meanwhile")
    }

    @Test func `whoever the question was not meant for learns so by asking its author`() throws {
        let network = try linked(3, seed: 1_005)
        // Ana does not know of Cyd yet.
        try network.submit(0, .membersChanged([network.nodes[1].id], lives: [:]))
        try network.say(0, [1])
        network.run(milliseconds: 10)
        let asked = network.now
        try network.say(1, [2])
        #expect(network.run(atMost: 2_000) { network.nodes[2].messages.map(\.payload) == [[2]] })
        #expect(network.now - asked <= .milliseconds(110))
        #expect(network.nodes[2].gossip.statistics.causesGivenUp == 0)
    }

    @Test func `naming a cause costs eight bytes, and nothing where nothing new was heard`() throws {
        let network = try linked(3, seed: 1_006)
        try network.say(0, [1])
        network.run(milliseconds: 10)
        func cost(_ position: Int) throws -> Int {
            let before = network.nodes[position].sentBytes
            try network.say(position, [9], to: [network.nodes[2].id])
            defer { network.run(milliseconds: 500) }
            return network.nodes[position].sentBytes - before
        }
        let first = try cost(1)
        #expect(try cost(1) == 6, "kind, flags, three numbers and a byte of payload")
        #expect(first <= 14)
    }

    @Test func `AB-34 causes that cannot be are waited for a bounded time in a bounded room`() throws {
        let network = try linked(2, seed: 1_007)
        let cause = DirectMessage.Cause(life: LifeTag(value: 0xdead_beef), lamport: .max)
        for sequence in 1...40 as ClosedRange<UInt64> {
            network.inject(
                .direct(
                    DirectMessage(
                        isReliable: true, sequence: sequence, base: 1, lamport: sequence,
                        payload: [UInt8](repeating: 0, count: 200_000), causes: [cause])), from: 1, to: 0)
        }
        #expect(network.nodes[0].messages.count == 40 - 20, "20 of 200 kB fill 4 MiB")
        network.run(milliseconds: 5_010)
        #expect(network.nodes[0].messages.map(\.lamport) == Array(1...40))
        #expect(network.nodes[0].gossip.statistics.causesGivenUp == 40)
    }

    /// Everything a message's author had delivered or sent before it stands in its payload.
    private struct Chat {
        let network: GossipNetwork
        var sent: [[UInt16]] = []
        var seenBy: [[UInt16]]

        init(_ network: GossipNetwork) {
            self.network = network
            seenBy = network.nodes.map { _ in [] }
        }

        mutating func say(_ position: Int) throws {
            update()
            let number = UInt16(sent.count)
            sent.append(seenBy[position])
            seenBy[position].append(number)
            try network.say(
                position, [UInt8(truncatingIfNeeded: number), UInt8(number >> 8)], token: UInt64(number))
        }

        mutating func update() {
            for (position, node) in network.nodes.enumerated() {
                let heard = node.messages.map { UInt16($0.payload[0]) | UInt16($0.payload[1]) << 8 }
                let own = seenBy[position].filter { !heard.contains($0) }
                seenBy[position] = own + heard
            }
        }
    }

    @Test(arguments: 0..<20)
    func `come out once, in order of each and behind their causes, through loss, cuts and reordering`(
        seed: Int
    ) throws {
        let network = try linked(5, seed: 1_020 + UInt64(seed))
        network.faults = .init(delay: 1...120, loss: 0.15, duplication: 0.2, recovery: 150)
        var chat = Chat(network)
        for round in 0..<150 {
            try chat.say(network.random.below(5))
            network.run(milliseconds: Int64(network.random.below(30)))
            if round % 12 == 5 {
                let (left, right) = (network.random.below(5), network.random.below(5))
                if network.isConnected(left, right) {
                    network.disconnect(left, right)
                } else {
                    network.connect(left, right)
                }
            }
        }
        network.connectFully()
        #expect(
            network.run(atMost: 40_000) { network.nodes.allSatisfy { $0.messages.count + $0.outcomes.count == 150 } })

        for (position, node) in network.nodes.enumerated() {
            let heard = node.messages.map { UInt16($0.payload[0]) | UInt16($0.payload[1]) << 8 }
            #expect(Set(heard).count == heard.count)
            let places = Dictionary(uniqueKeysWithValues: heard.enumerated().map { ($1, $0) })
            for (place, number) in heard.enumerated() {
                for cause in chat.sent[Int(number)] {
                    guard let earlier = places[cause] else { continue }  // Its own.
                    #expect(earlier < place, "\(cause) before \(number) at \(position)")
                }
            }
        }
        #expect(network.nodes.map(\.gossip.statistics.messagesHeldBack).reduce(0, +) > 0)
        #expect(network.nodes.allSatisfy { $0.gossip.statistics.causesGivenUp == 0 })
    }
}
