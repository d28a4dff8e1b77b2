import Glibc
import MeshBase
import MeshNode

/// 100 MB from one node to another, both on this machine's disk: from `add` returning until the other has it verified
/// and durable; and how long the `add` takes.
struct AttachmentTransfer: BenchmarkCase {
    let name = "attachment"
    let summary = "100 MB from one node to another, verified and durable"
    let standardRuns = 5
    static let byteCount = 100_000_000

    func run(runs: Int) async throws -> [BenchmarkResult] {
        let samples = try await withMesh(2) { nodes in
            var samples: [(add: Double, fetch: Double)] = []
            for run in 0..<runs { samples.append(try await measure(run, nodes)) }
            return samples
        }
        return [
            BenchmarkResult(name: "attachment-add", unit: "s", samples: samples.map(\.add)),
            BenchmarkResult(name: name, unit: "s", samples: samples.map(\.fetch)),
        ]
    }

    private func measure(_ run: Int, _ nodes: [LocalNode]) async throws -> (add: Double, fetch: Double) {
        let path = "\(nodes[0].directory)/source-\(run)"
        try makeFile(path, seed: UInt64(run))
        let start = Machine.seconds()
        let added = try await nodes[0].ask(["verb": "journal.add", "path": .string(path)])
        let middle = Machine.seconds()
        guard let id = added["id"]?.stringValue else { throw BenchmarkFailure("nothing was added") }
        _ = try await nodes[1].ask(["verb": "journal.wait", "id": .string(id), "timeoutSeconds": 120])
        let end = Machine.seconds()
        _ = try await nodes[0].ask(["verb": "journal.rm", "id": .string(id)])
        _ = unsafe unlink(path)
        return (middle - start, end - middle)
    }

    /// Bytes that no store can share between runs.
    private func makeFile(_ path: String, seed: UInt64) throws {
        let descriptor = unsafe open(path, O_CREAT | O_WRONLY | O_TRUNC, 0o600)
        guard descriptor >= 0 else { throw BenchmarkFailure("cannot write \(path)") }
        defer { close(descriptor) }
        var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
        var block = [UInt64](repeating: 0, count: 125_000)
        for _ in 0..<(Self.byteCount / 1_000_000) {
            for index in block.indices {
                state ^= state << 13
                state ^= state >> 7
                state ^= state << 17
                block[index] = state
            }
            guard unsafe write(descriptor, block, 1_000_000) == 1_000_000 else {
                throw BenchmarkFailure("cannot write \(path)")
            }
        }
    }
}
