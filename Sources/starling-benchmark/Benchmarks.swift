import Glibc
import MeshBase

/// `starling-benchmark list`, `starling-benchmark run CASE… [--json] [--runs N]`, and `between SOCKET SOCKET`: round trips
/// between two nodes that run already (`Tools/lab/path` puts an impaired path between them).
///
/// Every case starts real nodes or links over real sockets of this machine. Figures are of this machine, this minute:
/// compare them only with others of the same run.
enum Benchmarks {
    static let cases: [any BenchmarkCase] = [
        LinkThroughput(datagramByteCount: nil), LinkThroughput(datagramByteCount: 1232), MessageLatency(),
        MessageThroughput(), MessageStream(byteCount: 64), MessageStream(byteCount: 1024), MessageRoundTrip(),
        AttachmentTransfer(), JoinTime(), FirstMessage(), FanOut(), FailureNotice(failure: .kill),
        FailureNotice(failure: .stop), IdleCost(),
    ]

    static func main() async {
        var arguments = Array(CommandLine.arguments.dropFirst())
        let isJSON = take("--json", from: &arguments)
        let runs = takeValue("--runs", from: &arguments).map { Int($0) ?? 0 }
        switch arguments.first {
        case "list" where arguments.count == 1:
            for item in cases { write("\(item.name)  \(item.summary)") }
        case "run" where arguments.count > 1 && runs.map({ (1...1000).contains($0) }) ?? true:
            await run(Array(arguments.dropFirst()), runs: runs, isJSON: isJSON)
        case "between" where arguments.count == 3 && runs.map({ (1...10_000).contains($0) }) ?? true:
            let path = PathRoundTrip(first: arguments[1], second: arguments[2])
            await report({ [try path.run(runs: runs ?? 1000)] }, of: "path-round-trip", isJSON: isJSON)
        default: usage()
        }
    }

    private static func run(_ names: [String], runs: Int?, isJSON: Bool) async {
        let chosen = names.contains("all") ? cases : cases.filter { names.contains($0.name) }
        guard names.contains("all") || Set(names).isSubset(of: Set(cases.map(\.name))) else { usage() }
        for item in chosen {
            await report({ try await item.run(runs: runs ?? item.standardRuns) }, of: item.name, isJSON: isJSON)
        }
    }

    private static func report(
        _ body: () async throws -> [BenchmarkResult], of name: String, isJSON: Bool
    ) async {
        do {
            for result in try await body() { write(isJSON ? result.json.text : result.text) }
        } catch {
            write("\(name): \(error)", to: 2)
            exit(1)
        }
    }

    private static func take(_ flag: String, from arguments: inout [String]) -> Bool {
        guard let index = arguments.firstIndex(of: flag) else { return false }
        arguments.remove(at: index)
        return true
    }

    private static func takeValue(_ flag: String, from arguments: inout [String]) -> String? {
        guard let index = arguments.firstIndex(of: flag), index + 1 < arguments.count else { return nil }
        defer { arguments.removeSubrange(index...(index + 1)) }
        return arguments[index + 1]
    }

    private static func usage() -> Never {
        write("usage: starling-benchmark list | run CASE…|all | between SOCKET SOCKET  [--json] [--runs N]", to: 2)
        exit(2)
    }

    static func write(_ line: String, to descriptor: Int32 = 1) {
        let bytes = Array((line + "\n").utf8)
        _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
    }
}

/// One thing that is measured.
protocol BenchmarkCase: Sendable {
    var name: String { get }
    var summary: String { get }
    var standardRuns: Int { get }
    func run(runs: Int) async throws -> [BenchmarkResult]
}

/// Why a case could not be measured.
struct BenchmarkFailure: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}
