import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

struct `Records spread` {
    @Test(arguments: [3, 5])
    func `along a line whose ends are not linked`(count: Int) throws {
        let network = try GossipNetwork.mesh(count, seed: 1)
        network.connectLine()
        #expect(network.run(atMost: 5_000) { network.haveConverged() })
        network.run(milliseconds: 3_000)

        try network.publish(0, "from one end")
        try network.publish(count - 1, "from the other")

        #expect(network.run(atMost: 100) { network.haveConverged() })
        #expect(network.nodes[0].accepted.count == count + 2)
    }

    @Test func `once to each member of a full mesh`() throws {
        let network = try GossipNetwork.mesh(6, seed: 2)
        network.connectFully()
        network.run(milliseconds: 5_000)
        #expect(network.haveConverged())
        let duplicatesBefore = network.nodes.map { $0.gossip.statistics.recordsDuplicate }

        for round in 0..<10 {
            for position in network.nodes.indices {
                try network.publish(position, "\(round) \(position)")
                network.run(milliseconds: 7)
            }
        }
        network.run(milliseconds: 5_000)

        #expect(network.haveConverged())
        #expect(network.nodes.allSatisfy { $0.accepted.count == 6 + 60 })
        #expect(network.nodes.map { $0.gossip.statistics.recordsDuplicate } == duplicatesBefore)
        #expect(network.nodes.allSatisfy { $0.gossip.statistics.recordsForwarded == 0 || $0 === network.nodes[0] })
    }

    @Test func `to a late joiner after the author is gone`() throws {
        let network = try GossipNetwork.mesh(3, seed: 3)
        network.connectFully()
        try network.publish(0, "left behind")
        network.run(milliseconds: 500)
        for other in 1...2 { network.disconnect(0, other) }

        network.addNode()
        try network.admit(3, by: 1)
        network.connect(3, 1)
        network.connect(3, 2)

        #expect(network.run(atMost: 1_000) { network.haveConverged([1, 2, 3]) })
        #expect(network.nodes[3].accepted.contains { $0.kind == .attachmentAdded })
    }

    @Test func `to a joiner whose links came before its admission`() throws {
        let network = try GossipNetwork.mesh(2, seed: 4)
        network.connectFully()
        network.run(milliseconds: 300)
        network.addNode()
        try network.adopt(2)
        network.connect(2, 0)
        network.connect(2, 1)
        network.run(milliseconds: 200)
        #expect(network.nodes[2].accepted.count == 1, "nothing but GENESIS for one who is not admitted")

        let body = AdmitBody(subject: network.nodes[2].id, secretID: network.secret.id, name: "late")
        try network.submit(1, .publish(.admit, body: body.encoded, token: nil))

        #expect(network.run(atMost: 1_000) { network.haveConverged() })
    }

    @Test func `MEM-14 to both sides after a partition heals, and nothing added is lost`() throws {
        for split in [1_000, 90_000] as [Int64] {
            let network = try GossipNetwork.mesh(5, seed: UInt64(split))
            network.connectFully()
            network.run(milliseconds: 2_000)
            for left in 0..<3 { for right in 3..<5 { network.disconnect(left, right) } }
            for round in 0..<20 {
                try network.publish(round % 5, "\(round)")
                network.run(milliseconds: split / 20)
            }
            #expect(!network.haveConverged())

            network.connectFully()

            #expect(network.run(atMost: 5_000) { network.haveConverged() })
            #expect(network.nodes.allSatisfy { $0.accepted.count == 25 })
            #expect(network.nodes.allSatisfy { Set($0.accepted.map(\.id)).count == 25 }, "each once")
        }
    }

    @Test func `MEM-14 while links flap every three seconds`() throws {
        let network = try GossipNetwork.mesh(5, seed: 5)
        network.connectFully()
        for round in 0..<12 {
            for left in 0..<2 { for right in 2..<5 { network.disconnect(left, right) } }
            try network.publish(round % 5, "\(round)")
            network.run(milliseconds: 1_500)
            network.connectFully()
            network.run(milliseconds: 1_500)
        }
        #expect(network.run(atMost: 5_000) { network.haveConverged() })
        #expect(network.nodes.allSatisfy { $0.accepted.count == 17 })
    }

    @Test func `a joiner with a long history asks one member at a time`() throws {
        let network = try GossipNetwork.mesh(4, seed: 6)
        network.connectFully()
        network.run(milliseconds: 100)
        for number in 0..<1_300 {
            try network.publish(number % 4, "\(number)")
            if number % 10 == 0 { network.run(milliseconds: 2) }
        }
        network.run(milliseconds: 1_000)
        #expect(network.haveConverged())

        network.addNode()
        try network.admit(4)
        for member in 0..<4 { network.connect(4, member) }

        #expect(network.run(atMost: 2_000) { network.haveConverged() })
        let statistics = network.nodes[4].gossip.statistics
        #expect(statistics.recordsAccepted == 4 + 1_300 + 1)
        #expect(statistics.recordsDuplicate < 20)
        #expect(statistics.signaturesVerified < 1_330, "known records cost no signature check")
    }

    @Test(arguments: 0..<100)
    func `over any topology with loss, repetition, reordering and cuts`(seed: Int) throws {
        let network = try GossipNetwork.mesh(5, seed: UInt64(seed) + 100)
        network.faults = GossipNetwork.Faults(delay: 1...60, loss: 0.3, duplication: 0.2, recovery: 120)
        // A random tree keeps it connected; more links at random.
        for position in 1..<5 { network.connect(position, network.random.below(position)) }
        for _ in 0..<3 { network.connect(network.random.below(5), network.random.below(5)) }
        for round in 0..<16 {
            network.run(milliseconds: Int64(network.random.below(200)))
            try network.publish(network.random.below(5), "\(round)")
            let left = network.random.below(5)
            let right = network.random.below(5)
            if network.isConnected(left, right) {
                network.disconnect(left, right)
            } else {
                network.connect(left, right)
            }
        }
        for position in 1..<5 { network.connect(position, position - 1) }

        #expect(network.run(atMost: 10_000) { network.haveConverged() }, "seed \(seed)")
        for node in network.nodes {
            #expect(node.accepted.count == 21 && Set(node.accepted.map(\.id)).count == 21, "seed \(seed)")
            #expect(node.gossip.statistics.recordsRefused == 0 && node.gossip.statistics.forks == 0)
        }
    }

    @Test func `quiet nodes send a digest a second and no more`() throws {
        let network = try GossipNetwork.mesh(3, seed: 7)
        network.connectFully()
        network.run(milliseconds: 3_000)
        let before = network.nodes[0].sentMessages
        let bytesBefore = network.nodes[0].sentBytes

        network.run(milliseconds: 60_000)

        let sent = network.nodes[0].sentMessages - before
        #expect((100...150).contains(sent))
        #expect(network.nodes[0].sentBytes - bytesBefore == sent * 17)
    }

    @Test(arguments: [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
    func `MSG-11 whatever the order in which members start and publish`(order: [Int]) throws {
        let network = try GossipNetwork.mesh(3, seed: 8)
        var started: [Int] = []
        for position in order {
            for other in started { network.connect(position, other) }
            started.append(position)
            try network.publish(position, "from \(position)")
            try network.say(position, [UInt8(position)])
            network.run(milliseconds: 50)
        }

        #expect(network.run(atMost: 3_000) { network.haveConverged() })
        for node in network.nodes {
            #expect(node.accepted.count == 6)
            #expect(Set(node.messages.map(\.from)).count == 2)
        }
    }
}
