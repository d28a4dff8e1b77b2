import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

private func records(_ count: Int, seed: UInt64) -> [AcceptedRecord] {
    var random = RandomStream(testSeed: seed)
    let authors = (0..<3).map { _ in PeerID(Bytes32(random.bytes(32)) ?? .zero) }
    return (0..<count).map { index in
        AcceptedRecord(
            id: RecordID(Bytes32(random.bytes(32)) ?? .zero), kind: .admit, author: authors[random.below(3)],
            incarnation: Incarnation(UInt64(random.below(2))), sequence: UInt64(index),
            lamport: UInt64(1 + random.below(20)), body: [])
    }
}

private func coordinator(orderCapacity: Int = 4096) -> CoordinatorStateMachine {
    var configuration = CoordinatorConfiguration()
    configuration.orderCapacity = orderCapacity
    var random = RandomStream(testSeed: 1)
    let identity = NodeIdentity(signing: SigningKeyPair(seed: random.secret()), incarnation: Incarnation(1))
    return CoordinatorStateMachine(identity: identity, configuration: configuration, random: random)
}

struct CommandOrderTests {
    /// 40 shuffles of one set, each with some records twice, into a log that holds them all and into one that does not.
    @Test(arguments: [4096, 25])
    func `the order is the same whatever the order of arrival`(capacity: Int) throws {
        let set = records(60, seed: 3)
        var expected: [CommandOrder.Entry]?
        for seed in 0..<40 as Range<UInt64> {
            var random = RandomStream(testSeed: seed)
            var arrivals = set + set.prefix(10)
            for index in arrivals.indices { arrivals.swapAt(index, index + random.below(arrivals.count - index)) }
            var machine = coordinator(orderCapacity: capacity)
            var outbox = Outbox<CoordinatorOutput>()

            for record in arrivals { try machine.submit(.recordAccepted(record), at: .zero, into: &outbox) }

            #expect(machine.order == expected ?? machine.order, "seed \(seed)")
            #expect(machine.order.count == min(capacity, set.count))
            #expect(machine.lamport.latest == set.map(\.lamport).max())
            expected = machine.order
        }
    }

    @Test func `the order goes by Lamport time, author, incarnation and sequence`() throws {
        var machine = coordinator()
        var outbox = Outbox<CoordinatorOutput>()
        for record in records(50, seed: 4) { try machine.submit(.recordAccepted(record), at: .zero, into: &outbox) }

        for (left, right) in zip(machine.order, machine.order.dropFirst()) {
            #expect(
                (left.lamport, left.author, left.incarnation, left.sequence)
                    < (right.lamport, right.author, right.incarnation, right.sequence))
        }
        #expect(outbox.items.count == 50)
    }

    @Test func `a record that came before changes nothing`() throws {
        var machine = coordinator()
        var outbox = Outbox<CoordinatorOutput>()
        let record = records(1, seed: 5)[0]
        try machine.submit(.recordAccepted(record), at: .zero, into: &outbox)
        outbox.removeAll()

        try machine.submit(.recordAccepted(record), at: .zero, into: &outbox)

        #expect(outbox.isEmpty)
        #expect(machine.order.count == 1)
    }

    @Test func `the next Lamport time saturates`() throws {
        var machine = coordinator()
        var outbox = Outbox<CoordinatorOutput>()
        var record = records(1, seed: 6)[0]
        record.lamport = .max

        try machine.submit(.recordAccepted(record), at: .zero, into: &outbox)

        #expect(machine.lamport.next == .max)
    }
}
