import MeshBase
import MeshNode

/// From handing a small reliable message to one node until another has it: one way, two nodes, by the nodes' own way in
/// and out. Once paced, so that both sleep in between and every cache is cold, and once one message after the other.
struct MessageLatency: BenchmarkCase {
    let name = "message-latency"
    let summary = "one way of a 64-byte reliable message between two nodes, without JSON, 1 kHz and back to back"
    let standardRuns = 2000

    func run(runs: Int) async throws -> [BenchmarkResult] {
        try await withMesh(2) { nodes in
            // The times are taken on the receiving node's own thread; nothing polls beside the two nodes.
            let (arrivals, continuation) = AsyncStream<Double>.makeStream()
            nodes[1].node.onMessages { _ in continuation.yield(Machine.seconds()) }
            // Requests are taken in order: once this one is answered, the messages are heard.
            _ = try await nodes[1].ask(["verb": "clock"])
            let outlet = nodes[0].node.outlet()
            var iterator = arrivals.makeAsyncIterator()
            var results: [BenchmarkResult] = []
            for (name, pause) in [(name, Duration.microseconds(800)), ("\(name)-back-to-back", .zero)] {
                var samples: [Double] = []
                for _ in 0..<runs {
                    let start = Machine.seconds()
                    try outlet.send([UInt8](repeating: 0x78, count: 64))
                    guard let arrival = await iterator.next() else { break }
                    samples.append((arrival - start) * 1e6)
                    if pause > .zero { try await Task.sleep(for: pause) }
                }
                results.append(BenchmarkResult(name: name, unit: "µs", samples: samples))
            }
            return results
        }
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
