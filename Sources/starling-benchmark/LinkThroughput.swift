import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// How fast one link carries chunks between two event loops on loopback, sealed, acknowledged and paced.
struct LinkThroughput: BenchmarkCase {
    /// `nil` lets the link find the path's largest datagram.
    let datagramByteCount: Int?
    let standardRuns = 5

    var name: String { datagramByteCount.map { "link-throughput-\($0)" } ?? "link-throughput" }
    var summary: String {
        "sealed 64 KiB messages over one loopback link"
            + (datagramByteCount.map { ", datagrams of \($0) bytes" } ?? ", datagrams as the path allows")
    }

    func run(runs: Int) async throws -> [BenchmarkResult] {
        var rates: [Double] = []
        var datagrams: [Double] = []
        for _ in 0..<runs {
            let (bits, count) = try await measure(seconds: 2)
            rates.append(bits / 1e9)
            datagrams.append(count)
        }
        return [
            BenchmarkResult(name: name, unit: "Gbit/s", samples: rates),
            BenchmarkResult(name: name, unit: "datagrams/s", samples: datagrams),
        ]
    }

    private func measure(seconds: Double) async throws -> (bitsPerSecond: Double, datagramsPerSecond: Double) {
        let secret = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 9, count: 32)))
        let sender = try LinkPeer(seed: 1, secret: secret, datagramByteCount: datagramByteCount)
        let receiver = try LinkPeer(seed: 2, secret: secret, datagramByteCount: datagramByteCount)
        defer {
            sender.loop.stop()
            receiver.loop.stop()
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask(executorPreference: sender.loop) { await sender.run() }
            group.addTask(executorPreference: receiver.loop) { await receiver.run() }
            await sender.dial(receiver.address, secret: secret)
            try await until(seconds: 5, "no link") {
                let isHereLinked = await sender.isLinked
                let isThereLinked = await receiver.isLinked
                return isHereLinked && isThereLinked
            }
            await sender.setLoad(
                OutgoingMessage(
                    channel: .journal, payload: [UInt8](repeating: 7, count: 65_536), priority: .attachment,
                    isReliable: true))
            try await Task.sleep(for: .seconds(1))
            let start = (Machine.seconds(), await receiver.receivedBytes, await sender.statistics?.datagramsSent ?? 0)
            try await Task.sleep(for: .seconds(seconds))
            let end = (Machine.seconds(), await receiver.receivedBytes, await sender.statistics?.datagramsSent ?? 0)
            await sender.stop()
            await receiver.stop()
            try await group.waitForAll()
            let span = end.0 - start.0
            return (Double(end.1 - start.1) * 8 / span, Double(end.2 - start.2) / span)
        }
    }
}

/// Looks every few milliseconds whether something has come true.
func until(
    seconds: Double, interval: Duration = .milliseconds(2), _ failure: String, _ condition: () async throws -> Bool
) async throws {
    let limit = Machine.seconds() + seconds
    while try await !condition() {
        guard Machine.seconds() < limit else { throw BenchmarkFailure(failure) }
        try await Task.sleep(for: interval)
    }
}
