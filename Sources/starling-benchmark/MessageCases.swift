import MeshBase
import MeshNode

/// From handing a small reliable message to one node until another has it: one way, two nodes, paced.
struct MessageLatency: BenchmarkCase {
    let name = "message-latency"
    let summary = "one way of a 64-byte reliable message between two nodes, 1 kHz"
    let standardRuns = 2000

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(2) { nodes in
            // The times are taken on the receiving node's own thread; nothing polls beside the two nodes.
            let (arrivals, continuation) = AsyncStream<Double>.makeStream()
            try nodes[1].follow(["verb": "inbox", "follow": true, "backlog": false]) { object in
                guard object["text"] != nil else { return }
                continuation.yield(Machine.seconds())
            }
            // Requests are taken in order: once this one is answered, the other is being followed.
            _ = try await nodes[1].ask(["verb": "clock"])
            var samples: [Double] = []
            var iterator = arrivals.makeAsyncIterator()
            for _ in 0..<runs {
                let start = Machine.seconds()
                try nodes[0].node.submit(
                    ControlCall(
                        request: ["verb": "send", "text": .string(String(repeating: "x", count: 64))],
                        reply: ControlReply { _ in true }))
                guard let arrival = await iterator.next() else { break }
                samples.append((arrival - start) * 1e6)
                try await Task.sleep(for: .microseconds(800))
            }
            return samples
        }
        return [BenchmarkResult(name: name, unit: "µs", samples: samples)]
    }
}

/// How many small reliable messages a second go from one node to another, none lost.
struct MessageThroughput: BenchmarkCase {
    let name = "message-throughput"
    let summary = "64-byte reliable messages from one node to another, 20,000 a run"
    let standardRuns = 3

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(2) { nodes in
            var samples: [Double] = []
            for _ in 0..<runs {
                let count = 20_000
                let start = Machine.seconds()
                _ = try await nodes[0].ask([
                    "verb": "send", "text": .string(String(repeating: "x", count: 64)),
                    "repeat": .integer(Int64(count)), "timeoutSeconds": 60,
                ])
                samples.append(Double(count) / (Machine.seconds() - start))
            }
            return samples
        }
        return [BenchmarkResult(name: name, unit: "messages/s", samples: samples)]
    }
}
