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

    @Test func `10 MB pass a path of 50 Mbit/s, 20 ms and 1 percent loss in under 4 s`() throws {
        let pipe = LinkPipe.pair()
        pipe.keepsSent = false
        pipe.faults = PipeFaults(loss: 0.01, delay: .milliseconds(10), bandwidth: 6_250_000, maximumBytes: 1452)
        pipe.dial(0, to: 1)
        pipe.run(until: { pipe.isLinked(0, 1) && pipe.isLinked(1, 0) }, limit: .seconds(5))

        let start = pipe.now
        var queued = 0
        let chunk = [UInt8](repeating: 3, count: 65_536)
        while queued < 160 || pipe.nodes[1].messages.count < 160 {
            while queued < 160, pipe.nodes[0].table.sendQueueBytes(to: pipe.nodes[1].peerID) < 2 << 20 {
                try pipe.send(chunk, from: 0, to: 1, priority: .attachment)
                queued += 1
            }
            pipe.run(for: .milliseconds(20))
            if pipe.now - start > .seconds(20) { break }
        }
        let seconds = (pipe.now - start).seconds

        #expect(pipe.nodes[1].messages.count == 160)
        #expect(seconds < 4, "took \(seconds) s, sent \(pipe.sentBytes) bytes")
    }
}
