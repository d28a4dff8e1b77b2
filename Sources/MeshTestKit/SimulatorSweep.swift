import MeshBase
import MeshSystem

/// Many runs, on one or several threads, and what they add up to.
final class SimulatorSweep: Sendable {
    private let options: SimulatorOptions
    private let file: ScenarioFile
    private let clock = MonotonicClock()
    private let started: HostTime
    private let commit: String
    private let state: Lock<State>

    /// Totals over all runs.
    struct Totals {
        var runs = 0
        var failedRuns = 0
        var simulated = 0.0
        var faults: UInt64 = 0
        var checks: UInt64 = 0
        var violations = 0
        var worstConvergence = 0.0
        var falseDeaths = 0
        var worstNotice = 0.0
        /// Per scenario: runs, failed, slowest convergence.
        var scenarios: [String: (runs: Int, failed: Int, worst: Double)] = [:]
    }

    private struct State {
        var queue: [(scenario: Scenario, seed: UInt64)] = []
        var position = 0
        /// For new seeds without end.
        var nextSeed: UInt64 = 0
        var totals = Totals()
    }

    init(_ options: SimulatorOptions, _ file: ScenarioFile) {
        self.options = options
        self.file = file
        started = clock.now()
        commit = SimulatorOutput.commit()
        state = Lock(State())
    }

    func run() -> Int32 {
        let scenarios = file.entries.filter { options.scenario == nil || options.scenario == $0.scenario.name }
        guard !scenarios.isEmpty else {
            SimulatorOutput.talk("there is no such scenario: starling-simulator list")
            return 2
        }
        prepare(scenarios)
        var threads: [SystemThread] = []
        for number in 1..<max(2, options.workers) where number < options.workers {
            do {
                threads.append(try SystemThread(name: "simulator-\(number)") { self.work() })
            } catch {
                SimulatorOutput.talk("a thread could not be started: \(error)")
            }
        }
        work()
        for thread in threads { thread.join() }
        let totals = state.withLock { $0.totals }
        conclude(totals)
        return totals.violations == 0 ? 0 : 1
    }

    private func prepare(_ entries: [ScenarioFile.Entry]) {
        state.withLock { state in
            switch options.choice ?? .listed {
            case .listed: state.queue = entries.flatMap { entry in entry.allSeeds.map { (entry.scenario, $0) } }
            case .first: state.queue = entries.compactMap { entry in entry.allSeeds.first.map { (entry.scenario, $0) } }
            case .seeds(let range): state.queue = entries.flatMap { entry in range.map { (entry.scenario, $0) } }
            case .duration:
                state.queue = entries.map { ($0.scenario, 0) }
                // New every time, so that a machine left running finds what no list holds.
                state.nextSeed = UInt64(bitPattern: started.nanoseconds / 1_000) % 1_000_000_000
            }
        }
    }

    private func next() -> (scenario: Scenario, seed: UInt64)? {
        if case .duration(let seconds)? = options.choice {
            guard clock.now().since(started).seconds < seconds else { return nil }
            return state.withLock { state in
                let place = state.position % state.queue.count
                if place == 0 { state.nextSeed += 1 }
                state.position += 1
                return (state.queue[place].scenario, state.nextSeed)
            }
        }
        return state.withLock { state in
            guard state.position < state.queue.count else { return nil }
            defer { state.position += 1 }
            return state.queue[state.position]
        }
    }

    private func work() {
        while let (scenario, seed) = next() {
            let report = SimulationRun.run(scenario, seed: seed)
            state.withLock { $0.totals.add(report) }
            tell(report)
        }
    }

    // MARK: Telling

    private func tell(_ report: SimulationReport) {
        if options.isJSON {
            SimulatorOutput.write(report.json.text)
        } else if !options.isQuiet || !report.violations.isEmpty {
            SimulatorOutput.write(Self.line(report))
        }
        guard !report.violations.isEmpty else { return }
        for violation in report.violations { SimulatorOutput.talk("  \(SafeText.escaped(violation, limit: 300))") }
        SimulatorOutput.talk(
            "  at commit \(commit): starling-simulator run --scenario \(report.scenario) --seed \(report.seed)")
    }

    private static func line(_ report: SimulationReport) -> String {
        let result =
            report.convergence.map { "converged in \(SimulatorOutput.rounded($0.seconds)) s" } ?? "DID NOT CONVERGE"
        let notice = report.slowestNotice.map { ", ends noticed in \(SimulatorOutput.rounded($0.seconds)) s" } ?? ""
        return "\(report.scenario) \(report.seed): \(report.nodeCount) nodes, "
            + "\(SimulatorOutput.rounded(report.simulated.seconds)) s simulated, \(report.faults) faults, "
            + "\(report.messagesSent) messages, \(report.attachments) attachments, \(report.falseDeaths) false deaths"
            + "\(notice), \(result)" + (report.violations.isEmpty ? "" : ", \(report.violations.count) VIOLATIONS")
    }

    private func conclude(_ totals: Totals) {
        let seconds = clock.now().since(started).seconds
        let hours = totals.simulated / 3600
        let factor = totals.simulated / max(seconds, 1e-9)
        guard options.isJSON else {
            for (name, row) in totals.scenarios.sorted(by: { $0.key < $1.key }) {
                SimulatorOutput.write(
                    "\(name): \(row.runs) seeds, \(row.failed) failed, slowest convergence "
                        + "\(SimulatorOutput.rounded(row.worst)) s")
            }
            SimulatorOutput.write(
                "\(totals.runs) seeds, \(SimulatorOutput.rounded(hours, 4)) simulated hours, \(totals.faults) faults, "
                    + "\(totals.checks) events checked, \(totals.violations) violations in \(totals.failedRuns) seeds, "
                    + "\(SimulatorOutput.rounded(factor)) times real time on \(options.workers) threads, slowest "
                    + "convergence \(SimulatorOutput.rounded(totals.worstConvergence)) s; commit \(commit)")
            return
        }
        let object: JSONValue = [
            "schema": "starling/simulator/2", "seeds": .integer(Int64(totals.runs)), "commit": .string(commit),
            "simulatedHours": .number(hours), "faultsInjected": .integer(Int64(clamping: totals.faults)),
            "eventsChecked": .integer(Int64(clamping: totals.checks)),
            "violations": .integer(Int64(totals.violations)), "factor": .number(factor),
            "threads": .integer(Int64(options.workers)), "falseDeaths": .integer(Int64(totals.falseDeaths)),
            "slowestConvergenceSeconds": .number(totals.worstConvergence),
            "slowestNoticeSeconds": .number(totals.worstNotice),
        ]
        SimulatorOutput.write(object.text)
    }
}

extension SimulatorSweep.Totals {
    mutating func add(_ report: SimulationReport) {
        let convergence = report.convergence?.seconds ?? 0
        runs += 1
        failedRuns += report.violations.isEmpty ? 0 : 1
        simulated += report.simulated.seconds
        faults += report.faults
        checks += report.checks
        violations += report.violations.count
        worstConvergence = max(worstConvergence, convergence)
        falseDeaths += report.falseDeaths
        worstNotice = max(worstNotice, report.slowestNotice?.seconds ?? 0)
        var row = scenarios[report.scenario] ?? (0, 0, 0)
        row.runs += 1
        row.failed += report.violations.isEmpty ? 0 : 1
        row.worst = max(row.worst, convergence)
        scenarios[report.scenario] = row
    }
}

extension SimulationReport {
    /// One object a run, for `--json`.
    public var json: JSONValue {
        [
            "schema": "starling/simulation/2", "scenario": .string(scenario), "seed": .integer(Int64(clamping: seed)),
            "nodes": .integer(Int64(nodeCount)), "simulatedSeconds": .number(simulated.seconds),
            "convergenceSeconds": convergence.map { .number($0.seconds) } ?? .null,
            "faults": .integer(Int64(clamping: faults)), "eventsChecked": .integer(Int64(clamping: checks)),
            "messagesSent": .integer(Int64(messagesSent)), "messagesReceived": .integer(Int64(messagesReceived)),
            "attachments": .integer(Int64(attachments)), "falseDeaths": .integer(Int64(falseDeaths)),
            "slowestNoticeSeconds": slowestNotice.map { .number($0.seconds) } ?? .null,
            "trace": .string(Hexadecimal.encode(trace.bytes)),
            "violations": .array(violations.map { .string($0) }),
        ]
    }
}
