import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire
import Testing

@testable import MeshNode

private func delivered(_ numbers: Range<Int>, byteCount: Int = 1) -> DeliveredMessages {
    var batch = MessageBatch()
    for number in numbers { batch.append([UInt8](repeating: UInt8(truncatingIfNeeded: number), count: byteCount)) }
    return DeliveredMessages(
        .several(UserMessageBatch(from: PeerID(.zero), mode: .reliable, lamport: 1, batch: batch)))
}

struct `A message feed` {
    @Test func `gives everything in order, and waits for what is not there yet`() async {
        let feed = MessageFeed()
        feed.append(delivered(0..<3))
        feed.append(delivered(3..<5))
        #expect(await feed.next().flatMap(\.batch.payloads) == (0..<5).map { [UInt8($0)] })
        async let later = feed.next()
        feed.append(delivered(5..<6))
        #expect(await later.flatMap(\.batch.payloads) == [[5]])
        feed.end()
        #expect(await feed.next().isEmpty)
    }

    @Test func `MSG-03 of a slow reader loses its oldest, counts them, and costs another reader nothing`() async {
        let (slow, quick) = (MessageFeed(), MessageFeed())
        var readers = Followers()
        readers.readers = [.feed(slow), .feed(quick)]
        let size = 1 << 20
        var box = MessageBox()
        var taken = 0
        for number in 0..<40 {
            let content = ReceivedContent.one(
                UserMessage(
                    from: PeerID(.zero), mode: .reliable, lamport: UInt64(number),
                    payload: [UInt8](repeating: UInt8(number), count: size / 4)))
            box.append(content, fromName: "ana")
            for _ in 0..<4 { readers.publish(content, fromName: "ana", counting: box) }
            taken += await quick.next().count
        }
        #expect(taken == 160 && quick.droppedCount == 0)
        let left = await slow.next()
        #expect(left.count + slow.droppedCount == 160)
        #expect((60...64).contains(left.count), "16 MiB of 256 KiB each")
        #expect(left.last?.lamport == 39, "the newest are kept")
    }
}

struct `A message outlet` {
    private func outlet() throws -> MessageOutlet {
        MessageOutlet(recipients: nil, inbox: Inbox(executor: try EventLoop(clock: MonotonicClock())))
    }

    @Test func `MSG-01 refuses one byte more than a message holds, with both numbers`() throws {
        let outlet = try outlet()
        let limit = WireLimits.maximumMessageBytes
        try outlet.send([UInt8](repeating: 1, count: limit))
        #expect(throws: CommandError.limitExceeded(limit: limit, actual: limit + 1)) {
            try outlet.send([UInt8](repeating: 1, count: limit + 1))
        }
        #expect(outlet.progress.accepted == 1)
    }

    @Test func `makes batches in order, refuses beyond its bound, and has room again when they are settled`() throws {
        let outlet = try outlet()
        var count = 0
        #expect(throws: CommandError.queueFull(limit: MessageOutlet.maximumWaitingBytes, of: .bytes)) {
            while true {
                try outlet.send([UInt8](repeating: UInt8(truncatingIfNeeded: count), count: 64))
                count += 1
            }
        }
        #expect(count > 15_000)
        var payloads: [[UInt8]] = []
        var batches: [MessageBatch] = []
        while let batch = outlet.takeBatch() {
            #expect(batch.bytes.count <= MessageBatch.targetBytes)
            payloads += batch.payloads
            batches.append(batch)
        }
        #expect(payloads.count == count)
        #expect(payloads.enumerated().allSatisfy { $1.first == UInt8(truncatingIfNeeded: $0) })
        for batch in batches { outlet.settle(batch, isDelivered: true) }
        #expect(outlet.progress.delivered == UInt64(count))
        try outlet.send([1])
        #expect(outlet.takeBatch()?.payloads == [[1]], "a single message goes alone")
    }

    @Test func `lets no more than its bound be under way`() throws {
        let outlet = try outlet()
        var underWay = 0
        while underWay < 16 << 20 {
            try outlet.send([UInt8](repeating: 1, count: 200_000))
            guard let batch = outlet.takeBatch() else { break }
            underWay += batch.bytes.count
        }
        #expect(
            (MessageOutlet.maximumUnsettledBytes..<(MessageOutlet.maximumUnsettledBytes + 200_010)).contains(underWay))
    }
}
