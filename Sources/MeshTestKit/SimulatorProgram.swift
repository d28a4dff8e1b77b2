import Glibc
import MeshBase
import MeshSystem

/// `starling-simulator`: from its arguments to its exit code. Results on stdout, talk on stderr; 0 all held,
/// 1 an invariant was violated, 2 usage, 7 the list of seeds cannot be read.
public enum SimulatorProgram {
    static let usage = """
        starling-simulator run --for 1m                      new seeds of all scenarios for a minute
        starling-simulator run --seeds Tests/SimulationTests/Seeds.txt
        starling-simulator run --scenario storm --seed 17    replays one run
        starling-simulator list                              the scenarios and what each invariant proves

        run [--seeds FILE | --seed N | --for DURATION] [--scenario NAME] [--json]
        DURATION is a number with s, m or h. Same scenario and seed: the same run, to the byte.

        """

    struct Options {
        var seedsFile: String?
        var seed: UInt64?
        var seconds = 10.0
        var scenario: Scenario?
        var isJSON = false
    }

    /// Totals over all runs.
    struct Totals {
        var runs = 0
        var simulated = 0.0
        var faults: UInt64 = 0
        var violations = 0
        var worstConvergence = 0.0
    }

    public static func run(_ arguments: [String]) -> Int32 {
        switch arguments.first {
        case "run":
            guard let options = parse(Array(arguments.dropFirst())) else { return refuse(arguments) }
            return run(options)
        case "list":
            for scenario in Scenario.all { write("\(scenario.name): \(scenario.summary)") }
            for invariant in Invariants.all { write("\(invariant.name): \(invariant.sentence)") }
            return 0
        case "--help", "-h", "help":
            write(usage, terminator: "")
            return 0
        default: return refuse(arguments)
        }
    }

    private static func refuse(_ arguments: [String]) -> Int32 {
        talk("not understood: \(SafeText.escaped(arguments.joined(separator: " "), limit: 200))")
        talk(usage, terminator: "")
        return 2
    }

    /// `nil` for anything that is not exactly understood.
    static func parse(_ arguments: [String]) -> Options? {
        var options = Options()
        var kinds = 0
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "--json": options.isJSON = true
            case "--seeds":
                guard let file = rest.popFirst() else { return nil }
                options.seedsFile = file
                kinds += 1
            case "--seed":
                guard let seed = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                options.seed = seed
                kinds += 1
            case "--for":
                guard let seconds = rest.popFirst().flatMap(duration) else { return nil }
                options.seconds = seconds
                kinds += 1
            case "--scenario":
                guard let scenario = rest.popFirst().flatMap(Scenario.named) else { return nil }
                options.scenario = scenario
            default: return nil
            }
        }
        return kinds <= 1 ? options : nil
    }

    private static func duration(_ text: String) -> Double? {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600]
        guard let last = text.last else { return nil }
        guard let unit = units[last] else { return Double(text).flatMap { $0 > 0 && $0 < 1e7 ? $0 : nil } }
        return Double(text.dropLast()).flatMap { $0 > 0 && $0 < 1e7 ? $0 * unit : nil }
    }

    private static func run(_ options: Options) -> Int32 {
        let clock = MonotonicClock()
        let started = clock.now()
        var totals = Totals()
        if let file = options.seedsFile {
            let list: SeedList
            do {
                list = try readSeeds(file)
            } catch {
                talk("\(SafeText.escaped(file, limit: 200)) cannot be used: \(error)")
                return 7
            }
            for (scenario, seed) in list.runs where options.scenario == nil || options.scenario?.name == scenario.name {
                play(scenario, seed, options, &totals)
            }
        } else if let seed = options.seed {
            for scenario in options.scenario.map({ [$0] }) ?? Scenario.all { play(scenario, seed, options, &totals) }
        } else {
            // The seeds are new every time, so that a machine left running finds what no list holds.
            var seed = UInt64(bitPattern: started.nanoseconds) % 1_000_000_000
            while clock.now().since(started).seconds < options.seconds {
                for scenario in options.scenario.map({ [$0] }) ?? Scenario.all {
                    play(scenario, seed, options, &totals)
                    guard clock.now().since(started).seconds < options.seconds else { break }
                }
                seed += 1
            }
        }
        conclude(totals, seconds: clock.now().since(started).seconds, options)
        return totals.violations == 0 ? 0 : 1
    }

    private static func readSeeds(_ path: String) throws -> SeedList {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StorageError.notFound(path: path) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while bytes.count < 1 << 20 {
            let count = unsafe block.withUnsafeMutableBytes { buffer in
                unsafe read(descriptor, buffer.baseAddress, buffer.count)
            }
            guard count > 0 else { break }
            bytes += block.prefix(count)
        }
        return try SeedList(text: String(decoding: bytes, as: UTF8.self))
    }

    private static func play(_ scenario: Scenario, _ seed: UInt64, _ options: Options, _ totals: inout Totals) {
        let report = SimulationRun.run(scenario, seed: seed)
        totals.runs += 1
        totals.simulated += report.simulated.seconds
        totals.faults += report.faults
        totals.violations += report.violations.count
        totals.worstConvergence = max(totals.worstConvergence, report.convergence?.seconds ?? 0)
        if options.isJSON {
            write(report.json.text)
        } else {
            let result = report.convergence.map { "converged in \(rounded($0.seconds)) s" } ?? "DID NOT CONVERGE"
            write(
                "\(scenario.name) \(seed): \(report.nodeCount) nodes, \(rounded(report.simulated.seconds)) s simulated, "
                    + "\(report.faults) faults, \(report.messagesSent) messages, \(report.attachments) attachments, "
                    + result)
        }
        guard !report.violations.isEmpty else { return }
        for violation in report.violations { talk("  \(SafeText.escaped(violation, limit: 300))") }
        talk("  replay: starling-simulator run --scenario \(scenario.name) --seed \(seed)")
    }

    private static func conclude(_ totals: Totals, seconds: Double, _ options: Options) {
        let hours = totals.simulated / 3600
        let factor = totals.simulated / max(seconds, 1e-9)
        guard options.isJSON else {
            write(
                "\(totals.runs) seeds, \(rounded(hours, 4)) simulated hours, \(totals.faults) faults injected, "
                    + "\(totals.violations) violations, \(rounded(factor)) times real time, slowest convergence "
                    + "\(rounded(totals.worstConvergence)) s")
            return
        }
        let object: JSONValue = [
            "schema": "starling/simulator/1", "seeds": .integer(Int64(totals.runs)),
            "simulatedHours": .number(hours), "faultsInjected": .integer(Int64(clamping: totals.faults)),
            "violations": .integer(Int64(totals.violations)), "factor": .number(factor),
            "slowestConvergenceSeconds": .number(totals.worstConvergence),
        ]
        write(object.text)
    }

    private static func rounded(_ value: Double, _ digits: Int = 1) -> String {
        let scale = digits == 1 ? 10.0 : 10_000.0
        return "\((value * scale).rounded() / scale)"
    }

    // MARK: Output

    private static func write(_ text: String, terminator: String = "\n") { emit(text + terminator, to: 1) }
    private static func talk(_ text: String, terminator: String = "\n") { emit(text + terminator, to: 2) }

    /// A closed pipe is no error: whoever read has seen enough.
    private static func emit(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
            }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }
}

extension SimulationReport {
    /// One object a run, for `--json`.
    public var json: JSONValue {
        [
            "schema": "starling/simulation/1", "scenario": .string(scenario), "seed": .integer(Int64(clamping: seed)),
            "nodes": .integer(Int64(nodeCount)), "simulatedSeconds": .number(simulated.seconds),
            "convergenceSeconds": convergence.map { .number($0.seconds) } ?? .null,
            "faults": .integer(Int64(clamping: faults)), "messagesSent": .integer(Int64(messagesSent)),
            "messagesReceived": .integer(Int64(messagesReceived)), "attachments": .integer(Int64(attachments)),
            "trace": .string(Hexadecimal.encode(trace.bytes)),
            "violations": .array(violations.map { .string($0) }),
        ]
    }
}
