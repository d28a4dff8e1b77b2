import MeshBase
import MeshNode
import MeshProtocol
import MeshSystem
import MeshWire

/// How many messages a second go from one node to another by the node's own way in and out, none lost.
struct MessageStream: BenchmarkCase {
    let byteCount: Int
    let standardRuns = 5
    var name: String { "message-stream-\(byteCount)" }
    var summary: String {
        "reliable messages of \(byteCount) bytes, one call each, one to one, without JSON, none lost"
    }

    private var count: Int { byteCount <= 64 ? 2_000_000 : 500_000 }

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(2) { nodes in
            let feed = nodes[1].node.messageFeed()
            var samples: [Double] = []
            for run in 0...runs {
                let start = Machine.seconds()
                async let received = receive(count, feed)
                let outlet = nodes[0].node.outlet()
                try await send(outlet)
                let arrived = await received
                let rate = Double(arrived) / (Machine.seconds() - start)
                await outlet.waitUntilSettled()
                guard arrived == count, feed.droppedCount == 0, outlet.progress.delivered == UInt64(count) else {
                    throw BenchmarkFailure("\(arrived) of \(count) arrived, \(feed.droppedCount) dropped")
                }
                // The first run warms the path up.
                if run > 0 { samples.append(rate) }
            }
            return samples
        }
        return [BenchmarkResult(name: name, unit: "messages/s", samples: samples)]
    }

    private func send(_ outlet: MessageOutlet) async throws {
        let payload = [UInt8](repeating: 0x78, count: byteCount)
        var sent = 0
        while sent < count {
            do {
                try outlet.send(payload)
                sent += 1
            } catch CommandError.queueFull {
                await outlet.waitForRoom()
            }
        }
    }

    /// Looks at every message's length, as a reader would.
    private func receive(_ count: Int, _ feed: MessageFeed) async -> Int {
        var arrived = 0
        while arrived < count {
            let messages = await feed.next()
            if messages.isEmpty { break }
            for delivered in messages {
                delivered.batch.forEachRange { if $0.count == byteCount { arrived += 1 } }
            }
        }
        return arrived
    }
}

/// There and back of a small reliable message between two nodes, every 2 ms; the other node answers on its own thread.
struct MessageRoundTrip: BenchmarkCase {
    let name = "message-round-trip"
    let summary = "64 bytes there and back between two nodes, one every 2 ms, without JSON"
    let standardRuns = 2000

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(2) { nodes in
            let (arrivals, continuation) = AsyncStream<Double>.makeStream()
            nodes[0].node.onMessages { _ in continuation.yield(Machine.seconds()) }
            let back = nodes[1].node.outlet()
            nodes[1].node.onMessages { delivered in
                for payload in delivered.batch.payloads { try? back.send(payload) }
            }
            // Requests are taken in order: once this one is answered, both are heard.
            for node in nodes { _ = try await node.ask(["verb": "clock"]) }
            let outlet = nodes[0].node.outlet()
            let payload = [UInt8](repeating: 0x78, count: 64)
            var samples: [Double] = []
            var iterator = arrivals.makeAsyncIterator()
            for _ in 0..<runs {
                let start = Machine.seconds()
                try outlet.send(payload)
                guard let arrival = await iterator.next() else { break }
                samples.append((arrival - start) * 1e6)
                try await Task.sleep(for: .microseconds(1_900))
            }
            return samples
        }
        return [BenchmarkResult(name: name, unit: "µs", samples: samples)]
    }
}
