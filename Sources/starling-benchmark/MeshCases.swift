import Glibc
import MeshBase
import MeshNode

/// How long a node takes from its start until it has a link to everybody in a mesh of 16.
struct JoinTime: BenchmarkCase {
    let name = "join"
    let summary = "a seventeenth node enters a mesh of 16: start to links with all"
    let standardRuns = 5

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(16) { nodes in
            let ticket = try await nodes[0].invite()
            var samples: [Double] = []
            for run in 0..<runs {
                let start = Machine.seconds()
                let newcomer = try LocalNode(name: "newcomer\(run)")
                defer { newcomer.close() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask(executorPreference: newcomer.loop) {
                        await newcomer.run(.join(ticket, extraAddresses: []))
                    }
                    defer { newcomer.node.stop() }
                    try await meets(16, newcomer)
                    samples.append((Machine.seconds() - start) * 1e3)
                    newcomer.node.stop()
                    try await group.waitForAll()
                }
            }
            return samples
        }
        return [BenchmarkResult(name: name, unit: "ms", samples: samples)]
    }
}

/// One of seventeen node processes is killed or stopped: how long until all others know.
struct FailureNotice: BenchmarkCase {
    enum Failure: String {
        case kill, stop
    }

    let failure: Failure
    var name: String { failure == .kill ? "failure" : "freeze" }
    var summary: String {
        "one of 17 processes gets \(failure == .kill ? "kill -9" : "SIGSTOP"): until the other 16 know"
    }
    let standardRuns = 3
    private static let count = 17

    func run(runs: Int) async throws -> [BenchmarkResult] {
        var samples: [Double] = []
        for _ in 0..<runs {
            let mesh = try NodeProcesses(count: Self.count)
            defer { mesh.stop() }
            try await mesh.waitUntilMeshed()
            try await Task.sleep(for: .seconds(2))
            let start = Machine.seconds()
            if failure == .kill { mesh.kill(Self.count - 1) } else { mesh.freeze(Self.count - 1) }
            for index in 0..<(Self.count - 1) {
                try await until(seconds: 20, interval: .milliseconds(10), "a death went unnoticed") {
                    try mesh.deadCount(index) == 1
                }
            }
            samples.append((Machine.seconds() - start) * 1e3)
        }
        return [BenchmarkResult(name: name, unit: "ms", samples: samples)]
    }
}

/// Memory and processor time of one idle node process in a mesh of 16.
struct IdleCost: BenchmarkCase {
    let name = "idle"
    let summary = "memory and processor time of an idle node process in a mesh of 17"
    let standardRuns = 1

    func run(runs: Int) async throws -> [BenchmarkResult] {
        var memory: [Double] = []
        var load: [Double] = []
        for _ in 0..<runs {
            let mesh = try NodeProcesses(count: 17)
            defer { mesh.stop() }
            try await mesh.waitUntilMeshed()
            // The first seconds measure the clock eagerly; idle is what comes after.
            try await Task.sleep(for: .seconds(15))
            let before = try mesh.processorSeconds()
            let start = Machine.seconds()
            try await Task.sleep(for: .seconds(20))
            let span = Machine.seconds() - start
            load += zip(before, try mesh.processorSeconds()).map { ($1 - $0) / span * 100 }
            memory += try mesh.residentBytes().map { $0 / 1e6 }
        }
        return [
            BenchmarkResult(name: "idle-memory", unit: "MB", samples: memory),
            BenchmarkResult(name: "idle-processor", unit: "%", samples: load),
        ]
    }
}
