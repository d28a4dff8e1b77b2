import Glibc
import MeshBase
import MeshSystem

/// One of 16 processes sends small reliable messages at a steady pace: until the last of the other 15 has told its
/// control client, and what each delivery costs on the wire.
struct FanOut: BenchmarkCase {
    let name = "fan-out"
    let summary =
        "64-byte messages at 50 a second to 15 other processes: until the last has it; bytes for each delivery"
    let standardRuns = 300
    private static let count = 16
    private static let pace = 0.02

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let mesh = try NodeProcesses(count: Self.count)
        defer { mesh.stop() }
        try await mesh.waitUntilMeshed()
        let idle = try await idleBytesPerSecond()
        let inboxes = try (1..<Self.count).map { try mesh.follow($0) }
        let readers = inboxes.map { InboxReader($0, expecting: runs) }
        let (start, before) = (Machine.seconds(), try loopbackBytes())
        var sent: [Double] = []
        for run in 0..<runs {
            sent.append(Machine.seconds())
            try mesh.send(0, "\(run) " + String(repeating: "x", count: 63 - "\(run)".utf8.count))
            let next = start + Double(run + 1) * Self.pace
            try await Task.sleep(for: .seconds(max(0, next - Machine.seconds())))
        }
        let arrivals = readers.map { $0.finish() }
        let (end, after) = (Machine.seconds(), try loopbackBytes())
        let last = sent.indices.map { run in ((arrivals.map { $0[run] }.max() ?? 0) - sent[run]) * 1e3 }
        let wire = (after - before - idle * (end - start)) / Double(runs * (Self.count - 1))
        return [
            BenchmarkResult(name: name, unit: "ms", samples: last),
            BenchmarkResult(name: "fan-out-wire", unit: "bytes", samples: [wire]),
            BenchmarkResult(name: "idle-traffic", unit: "bytes/s", samples: [idle / Double(Self.count)]),
        ]
    }

    /// Of the whole machine: run this where loopback is the mesh's own (`unshare -n` with `lo` up).
    private func idleBytesPerSecond() async throws -> Double {
        try await Task.sleep(for: .seconds(12))
        let (start, before) = (Machine.seconds(), try loopbackBytes())
        try await Task.sleep(for: .seconds(10))
        return (try loopbackBytes() - before) / (Machine.seconds() - start)
    }

    private func loopbackBytes() throws -> Double {
        for line in try TextFile.read("/proc/net/dev").split(separator: "\n") where line.contains("lo:") {
            let fields = line.split(separator: ":").last?.split(separator: " ") ?? []
            if let bytes = fields.first.flatMap({ Double($0) }) { return bytes }
        }
        throw BenchmarkFailure("no loopback interface")
    }
}

/// Reads one node's followed inbox on a thread of its own and notes when each numbered message came.
private final class InboxReader: Sendable {
    private let times: Lock<[Double]>
    private let thread: SystemThread?

    init(_ inbox: UnixStream, expecting count: Int) {
        let times = Lock([Double](repeating: 0, count: count))
        self.times = times
        thread = try? SystemThread(name: "inbox") {
            var missing = count
            while missing > 0, let line = try? inbox.readLine(maximumBytes: 1 << 20) {
                let now = Machine.seconds()
                let text = (try? JSONValue.parse(line))?["text"]?.stringValue ?? ""
                guard let number = text.split(separator: " ").first.flatMap({ Int($0) }), number < count else {
                    continue
                }
                times.withLock { $0[number] = now }
                missing -= 1
            }
            inbox.close()
        }
    }

    /// Waits for the last message; seconds of the monotonic clock by message.
    func finish() -> [Double] {
        thread?.join()
        return times.withLock { $0 }
    }
}

/// From the start of a process until its first message has come out at a member of a mesh of 16.
struct FirstMessage: BenchmarkCase {
    let name = "first-message"
    let summary = "process start until its first message is at a member of a mesh of 16"
    let standardRuns = 5

    func run(runs: Int) async throws -> [BenchmarkResult] {
        var samples: [Double] = []
        for _ in 0..<runs { samples.append(try await measure()) }
        return [BenchmarkResult(name: name, unit: "ms", samples: samples)]
    }

    /// In a mesh of its own: a newcomer that was killed would be waited for.
    private func measure() async throws -> Double {
        let mesh = try NodeProcesses(count: 16)
        defer { mesh.stop() }
        try await mesh.waitUntilMeshed()
        let inbox = try mesh.follow(0)
        defer { inbox.close() }
        let start = Machine.seconds()
        try mesh.sendWhenUp(try mesh.add(), "first")
        while let line = try inbox.readLine(maximumBytes: 1 << 20) {
            if try JSONValue.parse(line)["text"]?.stringValue == "first" { break }
        }
        return (Machine.seconds() - start) * 1e3
    }
}
