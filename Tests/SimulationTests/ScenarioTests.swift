import Foundation
import MeshBase
import MeshTestKit
import Testing

/// The seeds of `Seeds.txt` that the test suite plays itself: the first of each scenario. The whole list takes
/// minutes in a release build: `starling-simulator run --seeds Tests/SimulationTests/Seeds.txt`.
private func firstSeeds() throws -> [(scenario: Scenario, seed: UInt64)] {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Seeds.txt")
    let list = try SeedList(text: try String(contentsOf: file, encoding: .utf8))
    return list.entries.compactMap { entry in
        Scenario.named(entry.scenario).map { ($0, entry.seeds.lowerBound) }
    }
}

/// Real nodes on virtual time. One at a time: each keeps a core busy.
@Suite(.serialized) struct ScenarioTests {
    @Test(arguments: ["calm", "freeze", "churn", "storm"])
    func `the first listed seed of a scenario converges without a violation`(name: String) throws {
        let run = try #require(try firstSeeds().first { $0.scenario.name == name })

        let report = SimulationRun.run(run.scenario, seed: run.seed)

        #expect(report.violations == [], "starling-simulator run --scenario \(name) --seed \(run.seed)")
        #expect(report.convergence != nil)
        #expect(report.messagesSent > 0)
    }

    @Test func `every listed scenario exists and is listed with seeds`() throws {
        let listed = Set(try firstSeeds().map(\.scenario.name))

        #expect(listed == Set(Scenario.all.map(\.name)))
    }

    @Test func `one seed run twice gives one trace, another seed another`() {
        var short = Scenario.storm
        short.nodeCounts = 3...3
        short.stormSpan = .seconds(2)

        let (first, second) = (SimulationRun.run(short, seed: 11), SimulationRun.run(short, seed: 11))
        let other = SimulationRun.run(short, seed: 12)

        #expect(first == second)
        #expect(first.trace != other.trace)
    }
}
