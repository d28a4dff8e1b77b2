import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct LinkDeliveryTests {
    @Test func `a dial links both sides and tells them who the other is`() {
        let pipe = LinkPipe.linkedPair()

        #expect(pipe.nodes[0].established.map(\.peer) == [pipe.nodes[1].peerID])
        #expect(pipe.nodes[1].established.map(\.peer) == [pipe.nodes[0].peerID])
        #expect(pipe.nodes[0].established.first?.role == .initiator)
        #expect(pipe.nodes[1].established.first?.role == .responder)
        #expect(pipe.nodes[1].established.first?.incarnation == Incarnation(100))
        #expect(pipe.nodes[1].established.first?.address == LinkPipe.address(0))
    }

    @Test func `messages of every size arrive once and whole`() throws {
        let pipe = LinkPipe.linkedPair()
        let sizes = [0, 1, 15, 1000, 1024, 1025, 1150, 1200, 4096, 65_536, 262_144, WireLimits.maximumLinkMessageBytes]

        for size in sizes {
            try pipe.send([UInt8](repeating: UInt8(size % 251), count: size), from: 0, to: 1)
        }
        pipe.run(for: .seconds(5))

        #expect(pipe.nodes[1].messages.map(\.payload.count).sorted() == sizes)
        for message in pipe.nodes[1].messages {
            #expect(message.payload.allSatisfy { $0 == UInt8(message.payload.count % 251) })
        }
        #expect(pipe.nodes[0].table.sendQueueBytes(to: pipe.nodes[1].peerID) == 0)
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `1000 reliable messages arrive through 30 percent loss both ways`(seed: UInt64) throws {
        let pipe = LinkPipe.linkedPair(seed: seed)
        pipe.faults = PipeFaults(loss: 0.3, delay: .milliseconds(10), jitter: .milliseconds(2))

        for number in 0..<1000 {
            try pipe.send([UInt8(number & 255), UInt8(number >> 8)] + [UInt8](repeating: 0, count: 60), from: 0, to: 1)
        }
        pipe.run(until: { pipe.nodes[1].messages.count >= 1000 }, limit: .seconds(60))
        pipe.run(for: .seconds(5))

        let numbers = pipe.nodes[1].messages.map { Int($0.payload[0]) | Int($0.payload[1]) << 8 }
        #expect(numbers.sorted() == Array(0..<1000))
    }

    @Test func `a receipt is given once, when the whole message has come over`() throws {
        let pipe = LinkPipe.linkedPair(seed: 4)
        pipe.faults = PipeFaults(loss: 0.3, delay: .milliseconds(10), duplication: 0.2)
        let peer = pipe.nodes[1].peerID
        for number in 0..<40 as Range<UInt64> {
            let message = OutgoingMessage(
                channel: .gossip, payload: [UInt8](repeating: 1, count: number % 4 == 0 ? 9_000 : 50),
                priority: .message, isReliable: true, receipt: number)
            try pipe.nodes[0].table.send(message, to: peer, at: pipe.hostTime(0))
        }
        pipe.run(until: { pipe.nodes[0].receipts.count > 0 }, limit: .seconds(5))
        #expect(pipe.nodes[0].receipts.count <= pipe.nodes[1].messages.count)
        pipe.run(for: .seconds(20))

        #expect(pipe.nodes[0].receipts.sorted() == Array(0..<40))
        #expect(pipe.nodes[1].receipts == [])
    }

    // MARK: Speed

    @Test(arguments: [(0.01, 2.3), (0.05, 3.0)])
    func `10 MB pass a path of 50 Mbit/s and 20 ms in 2,3 s at 1 percent of loss, in 3 s at 5`(
        loss: Double, limit: Double
    ) throws {
        let result = try transfer(
            10_000_000,
            over: PipeFaults(
                loss: loss, delay: .milliseconds(20), bandwidth: 6_250_000, queueLimit: .milliseconds(40),
                maximumBytes: 1452))

        #expect(result.seconds < limit)
    }

    @Test func `a full queue ends the search for the path's rate before it has thrown away half the file`() throws {
        let result = try transfer(
            10_000_000,
            over: PipeFaults(
                loss: 0.02, delay: .milliseconds(100), bandwidth: 2_500_000, queueLimit: .milliseconds(100),
                maximumBytes: 1452))

        #expect(result.bytesPerByte < 1.5)
    }

    /// Pieces fill a datagram but for less than a slot and the headers.
    @Test(arguments: [(1232, 1.11), (1452, 1.09)])
    func `a large message fills datagrams of every size`(datagram: Int, limit: Double) throws {
        let result = try transfer(2_000_000, over: PipeFaults(delay: .milliseconds(5), maximumBytes: datagram))

        #expect(result.bytesPerByte < limit)
    }

    private func transfer(_ byteCount: Int, over faults: PipeFaults) throws -> (seconds: Double, bytesPerByte: Double) {
        let pipe = LinkPipe.linkedPair(faults: faults)
        pipe.keepsSent = false
        pipe.run(for: .seconds(1))
        let (start, before) = (pipe.now, pipe.link(0, 1)?.bytesSent ?? 0)
        var queued = 0
        let chunk = [UInt8](repeating: 3, count: 65_536)
        let count = (byteCount + chunk.count - 1) / chunk.count
        while pipe.nodes[1].messages.count < count, pipe.now - start < .seconds(60) {
            while queued < count, pipe.nodes[0].table.sendQueueBytes(to: pipe.nodes[1].peerID) < 2 << 20 {
                try pipe.send(chunk, from: 0, to: 1, priority: .attachment)
                queued += 1
            }
            pipe.run(until: { pipe.nodes[1].messages.count >= count }, limit: .milliseconds(10))
        }
        #expect(pipe.nodes[1].messages.count == count)
        let sent = (pipe.link(0, 1)?.bytesSent ?? 0) - before
        return ((pipe.now - start).seconds, Double(sent) / Double(count * chunk.count))
    }

    // MARK: Insurance against loss

    @Test
    func
        `99 of 100 round trips of a small message take 60 ms over 20 ms and 1 percent of loss, for 2,2 times the bytes`()
        throws
    {
        let insured = try roundTrips(800, loss: 0.01, insured: true)
        let bare = try roundTrips(800, loss: 0.01, insured: false)

        #expect(insured.milliseconds[792] < 60)
        #expect(insured.byteCount < bare.byteCount * 2.2)
    }

    @Test func `a path that loses nothing carries no second copies`() throws {
        let insured = try roundTrips(100, loss: 0, insured: true)
        let bare = try roundTrips(100, loss: 0, insured: false)

        #expect(insured.byteCount == bare.byteCount)
    }

    @Test func `a flood of small messages is not sent twice`() throws {
        var sent: [Int] = []
        for insured in [true, false] {
            let pipe = lossyPair(0.01, insured: insured)
            for number in 0..<3000 { try pipe.send([UInt8](repeating: UInt8(number & 255), count: 64), from: 0, to: 1) }
            let before = pipe.sentBytes
            pipe.run(until: { pipe.nodes[1].messages.count >= 3000 }, limit: .seconds(20))
            #expect(pipe.nodes[1].messages.count == 3000)
            sent.append(pipe.sentBytes - before)
        }
        #expect(Double(sent[0]) < Double(sent[1]) * 1.2)
    }

    /// A link over 50 Mbit/s and 20 ms that has seen its path's loss.
    private func lossyPair(_ loss: Double, insured: Bool) -> LinkPipe {
        var configuration = LinkConfiguration()
        if !insured { configuration.insuredDatagramsAfterLoss = 0 }
        let pipe = LinkPipe.linkedPair(
            seed: 3, faults: PipeFaults(loss: loss, delay: .milliseconds(20), bandwidth: 6_250_000, maximumBytes: 1452),
            configuration: configuration)
        pipe.keepsSent = false
        pipe.run(for: .seconds(2))
        return pipe
    }

    private func roundTrips(
        _ count: Int, loss: Double, insured: Bool
    ) throws -> (milliseconds: [Double], byteCount: Double) {
        let pipe = lossyPair(loss, insured: insured)
        var times: [Double] = []
        let before = pipe.sentBytes
        for _ in 0..<count {
            let start = pipe.now
            for (from, to) in [(0, 1), (1, 0)] {
                pipe.nodes[to].messages = []
                try pipe.send([UInt8](repeating: 1, count: 64), from: from, to: to)
                pipe.run(until: { !pipe.nodes[to].messages.isEmpty }, limit: .seconds(5))
            }
            times.append((pipe.now - start).seconds * 1000)
            pipe.run(for: .milliseconds(2))
        }
        return (times.sorted(), Double(pipe.sentBytes - before))
    }
}
