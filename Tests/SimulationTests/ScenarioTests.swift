import Foundation
import MeshBase
import MeshTestKit
import Testing

/// The scenarios of `Scenarios.txt` that the test suite plays itself, each with its first seed. The whole list takes long
/// in a release build: `starling-simulator run --listed`.
private func listed() throws -> ScenarioFile {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Scenarios.txt")
    return try ScenarioFile(text: try String(contentsOf: file, encoding: .utf8))
}

/// Real nodes on virtual time. One at a time: each keeps a core busy.
@Suite(.serialized) struct ScenarioTests {
    @Test(arguments: ["calm", "churn", "storm"])
    func `the first listed seed of a scenario converges without a violation`(name: String) throws {
        let entry = try #require(try listed().entries.first { $0.scenario.name == name })
        let seed = try #require(entry.allSeeds.first)
        var scenario = entry.scenario
        scenario.nodeCounts = 3...3
        scenario.stormSpan = min(scenario.stormSpan, .seconds(5))

        let report = SimulationRun.run(scenario, seed: seed)

        #expect(report.violations == [], "\(name), seed \(seed)")
        #expect(report.convergence != nil)
        #expect(report.messagesSent > 0)
        #expect(report.checks > 20)
    }

    @Test(arguments: [
        [HostileKind.forger, .equivocator, .lamportLiar], [.replayer, .withholder, .tomorrow, .stranger],
    ])
    func `honest members keep every invariant beside hostile ones`(kinds: [HostileKind]) throws {
        var scenario = Scenario(name: "hostile")
        scenario.nodeCounts = 3...3
        scenario.stormSpan = .seconds(3)
        scenario.hazards = [RecurringHazard(.cut, perMinute: 20)]
        scenario.hostiles = kinds

        let report = SimulationRun.run(scenario, seed: 5)

        #expect(report.violations == [])
        #expect(report.convergence != nil)
    }

    @Test func `every hazard and every role is in a listed scenario`() throws {
        let scenarios = try listed().entries.map(\.scenario)
        let hazards = scenarios.flatMap { $0.hazards.map(\.hazard) + $0.schedule.map(\.hazard) }

        #expect(Set(hazards) == Set(Hazard.allCases))
        #expect(Set(scenarios.flatMap(\.hostiles)) == Set(HostileKind.allCases))
        #expect(scenarios.allSatisfy { !$0.summary.isEmpty })
    }

    @Test func `one seed run twice gives one trace, another seed another`() {
        var short = Scenario(name: "short")
        short.nodeCounts = 2...2
        short.stormSpan = .seconds(1)
        short.conditions = .storm
        short.hazards = Hazard.allCases.map { RecurringHazard($0, perMinute: 30) }
        short.hostiles = [.replayer]

        let (first, second) = (SimulationRun.run(short, seed: 11), SimulationRun.run(short, seed: 11))
        let other = SimulationRun.run(short, seed: 12)

        #expect(first == second)
        #expect(first.trace != other.trace)
    }
}
