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

extension GossipNetwork {
    /// Tells every node the same mesh clock: the network's own time, with this error.
    func tellClock(error: TimeSpan = .milliseconds(1), epoch: UInt16 = 7, to positions: [Int]? = nil) throws {
        let line = MeshClock(host: .zero, mesh: MeshTime(nanoseconds: 0))
        let reading = MeshClockReading(line: line, error: error, epoch: epoch, at: now)
        for position in positions ?? Array(nodes.indices) { try submit(position, .meshClock(reading)) }
    }
}

struct `Recipients` {
    @Test func `of an empty set are nobody, and sending to them succeeds at once, in each mode`() throws {
        let network = try linked(3, seed: 60)
        let before = network.nodes[0].sentMessages
        try network.say(0, [1], to: [], token: 1)
        try network.say(0, [1], to: [], mode: .unreliable, token: 2)
        #expect(network.nodes[0].outcomes == [1: .delivered, 2: .sent])
        #expect(network.nodes[0].sentMessages == before)
    }

    @Test func `of a set are those and no others, each once`() throws {
        let network = try linked(4, seed: 61)
        let (one, two) = (network.nodes[1].id, network.nodes[2].id)
        for mode in [DeliveryMode.reliable, .unreliable] {
            try network.say(0, [mode.rawValue], to: [two, one, two, network.nodes[0].id], mode: mode)
        }
        network.run(milliseconds: 100)
        #expect(network.nodes.map(\.messages.count) == [0, 2, 2, 0])
    }
}

struct `Unreliable messages` {
    @Test(arguments: 0..<20)
    func `come at most once and as they were sent, whatever is lost, repeated and reordered`(seed: Int) throws {
        let network = try linked(3, seed: 700 + UInt64(seed))
        network.faults = .init(delay: 1...60, loss: 0.2, duplication: 0.4)
        for number in 0..<200 {
            try network.say(0, [UInt8(number), 0x55, UInt8(number) ^ 0xff], mode: .unreliable)
            network.run(milliseconds: 1)
        }
        network.run(milliseconds: 200)
        for receiver in 1...2 {
            let received = network.nodes[receiver].messages.map(\.payload)
            #expect(Set(received).count == received.count)
            #expect(received.allSatisfy { $0.count == 3 && $0[1] == 0x55 && $0[2] == $0[0] ^ 0xff })
            #expect((100..<200).contains(received.count))
        }
    }

    @Test func `that arrive after their deadline in mesh time are dropped and counted, the others not`() throws {
        let network = try linked(2, seed: 62)
        try network.tellClock()
        network.faults = .init(delay: 60...60)
        try network.say(0, [1], mode: .unreliable, deadline: .milliseconds(50))
        try network.say(0, [2], mode: .unreliable, deadline: .milliseconds(80))
        try network.say(0, [3], mode: .unreliable)
        network.run(milliseconds: 100)
        #expect(network.nodes[1].messages.map(\.payload) == [[2], [3]])
        #expect(network.nodes[1].gossip.statistics.unreliableDroppedLate == 1)
    }

    @Test func `are not judged by a clock that is unknown, too uncertain, or of another epoch`() throws {
        for (error, epoch) in [(TimeSpan.milliseconds(21), UInt16(7)), (.milliseconds(1), 8)] {
            let network = try linked(2, seed: 63)
            try network.tellClock(to: [0])
            try network.tellClock(error: error, epoch: epoch, to: [1])
            network.faults = .init(delay: 60...60)
            try network.say(0, [1], mode: .unreliable, deadline: .milliseconds(10))
            network.run(milliseconds: 100)
            #expect(network.nodes[1].messages.count == 1)
        }
        let network = try linked(2, seed: 64)
        try network.tellClock(to: [1])
        network.faults = .init(delay: 60...60)
        try network.say(0, [1], mode: .unreliable, deadline: .milliseconds(10))
        network.run(milliseconds: 100)
        #expect(network.nodes[1].messages.count == 1, "a sender without a clock names no time")
    }

    @Test func `a clock read long ago is trusted less and less`() throws {
        let reading = MeshClockReading(
            line: MeshClock(host: .zero, mesh: MeshTime(nanoseconds: 0)), error: .milliseconds(1), epoch: 1, at: .zero)
        #expect(reading.error(at: .zero) == .milliseconds(1))
        #expect(reading.error(at: .zero + .seconds(10)) == .milliseconds(11))
    }

    @Test func `with a deadline that cannot be, or reliable ones with any, are refused before anything is sent`() throws
    {
        let network = try linked(2, seed: 65)
        let before = network.nodes[0].sentMessages
        for span in [TimeSpan.zero, .milliseconds(-1), .seconds(61)] {
            #expect(throws: CommandError.invalid(field: "deadline")) {
                try network.say(0, [1], mode: .unreliable, deadline: span)
            }
        }
        #expect(throws: CommandError.invalid(field: "deadline")) { try network.say(0, [1], deadline: .seconds(1)) }
        #expect(network.nodes[0].sentMessages == before)
    }

    @Test func `without a way to their recipient are dropped and counted`() throws {
        let network = try GossipNetwork.mesh(2, seed: 66)
        try network.say(0, [1], mode: .unreliable, token: 1)
        #expect(network.nodes[0].outcomes == [1: .sent])
        #expect(network.nodes[0].gossip.statistics.unreliableDroppedNoRoute == 1)
    }

    private func queued(_ byteCount: Int, isReliable: Bool = false, expiresAt: HostTime? = nil) -> OutgoingMessage {
        OutgoingMessage(
            channel: .gossip, payload: [UInt8](repeating: 1, count: byteCount), priority: .message,
            isReliable: isReliable, expiresAt: expiresAt)
    }

    @Test func `still queued at their deadline are dropped and counted, and give back their room`() throws {
        var queue = SendQueue(epoch: 1, configuration: LinkConfiguration())
        let now = HostTime(nanoseconds: 1_000)
        try queue.enqueue(queued(100, expiresAt: now))
        try queue.enqueue(queued(5_000, expiresAt: now))
        try queue.enqueue(queued(100, expiresAt: now + .nanoseconds(1)))
        var plain: [UInt8] = []
        var contents = SentContents()
        let filling = queue.fill(
            &plain, limit: 1_200, emptyRoom: 1_150, through: .message, contents: &contents, at: now, insurance: nil)
        #expect(filling == .lasting)
        #expect((100..<200).contains(plain.count), "one message is in it")
        #expect(queue.lateMessages == 2)
        #expect(queue.bytes == 0)
    }

    @Test func `fill half a link's queue at most, so that what must arrive still fits`() throws {
        let configuration = LinkConfiguration()
        var queue = SendQueue(epoch: 1, configuration: configuration)
        var count = 0
        #expect(throws: CommandError.queueFull(limit: configuration.maximumQueueBytes / 2)) {
            while true {
                try queue.enqueue(queued(100_000))
                count += 1
            }
        }
        #expect(count == configuration.maximumQueueBytes / 2 / 100_128)
        try queue.enqueue(queued(100_000, isReliable: true))
    }
}

struct `Batches of messages` {
    private func batch(_ numbers: Range<Int>) -> MessageBatch {
        var batch = MessageBatch()
        for number in numbers { batch.append([UInt8(truncatingIfNeeded: number), UInt8(number >> 8)]) }
        return batch
    }

    @Test(arguments: 0..<10)
    func `come out once, in order and among single ones, through loss, repetition and cuts`(seed: Int) throws {
        let network = try linked(3, seed: 800 + UInt64(seed))
        network.faults = .init(delay: 1...40, loss: 0.2, duplication: 0.3, recovery: 50)
        var next = 0
        for round in 0..<30 {
            let size = 1 + network.random.below(50)
            try network.submit(
                0,
                .sendUserMessages(batch(next..<(next + size)), recipients: nil, token: CommandToken(UInt64(2 * round))))
            next += size
            try network.say(0, [UInt8(truncatingIfNeeded: next), UInt8(next >> 8)], token: UInt64(2 * round + 1))
            next += 1
            network.run(milliseconds: Int64(network.random.below(30)))
            if round % 5 == 2 { network.disconnect(0, 1) }
            if round % 5 == 4 { network.connect(0, 1) }
        }
        network.connect(0, 1)
        #expect(network.run(atMost: 20_000) { network.nodes[0].outcomes.count == 60 })
        #expect(network.nodes[0].outcomes.values.allSatisfy { $0 == .delivered })
        let expected = (0..<next).map { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        for receiver in 1...2 {
            #expect(network.nodes[receiver].messages.map(\.payload) == expected)
            let times = network.nodes[receiver].messages.map(\.lamport)
            #expect(zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
        }
    }

    @Test func `AB-34 count as the messages they hold, and a queue that is full of them says so`() throws {
        let network = try linked(2, seed: 67)
        network.nodes[1].isFrozen = true
        var sent = 0
        #expect(throws: CommandError.queueFull(limit: 65_536)) {
            while true {
                var batch = MessageBatch()
                for _ in 0..<MessageBatch.maximumCount { batch.append([]) }
                try network.submit(
                    0, .sendUserMessages(batch, recipients: nil, token: CommandToken(UInt64(sent))))
                sent += 1
            }
        }
        #expect(sent == 16)
        network.thaw(1)
        network.run(milliseconds: 100)
        #expect(network.nodes[1].messages.count == 65_536)
    }
}
