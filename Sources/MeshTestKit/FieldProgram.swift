import MeshBase
import MeshSystem

/// `starling-simulator field`: how gossip spreads in a large mesh.
struct FieldOptions {
    var nodes = 1_000
    var messages = 20
    var rounds = 6
    var seed: UInt64 = 1
    var isJSON = false

    init?(_ arguments: [String]) {
        var rest = arguments[...]
        while let word = rest.popFirst() {
            switch word {
            case "--json": isJSON = true
            case "--nodes":
                guard let count = rest.popFirst().flatMap({ Int($0) }), (2...10_000).contains(count) else { return nil }
                nodes = count
            case "--messages":
                guard let count = rest.popFirst().flatMap({ Int($0) }), (1...1_000).contains(count) else { return nil }
                messages = count
            case "--seed":
                guard let number = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                seed = number
            default: return nil
            }
        }
        messages = min(messages, nodes)
    }
}

enum FieldProgram {
    static func run(_ options: FieldOptions) -> Int32 {
        let clock = MonotonicClock()
        let started = clock.now()
        let report: FieldReport
        do {
            let field = try GossipField(count: options.nodes, seed: options.seed)
            field.run(for: .seconds(3))
            report = try field.measure(sources: options.messages, rounds: options.rounds)
        } catch {
            SimulatorOutput.talk("the field could not be made: \(error)")
            return 1
        }
        tell(report, options, seconds: clock.now().since(started).seconds)
        return report.deliveries.allSatisfy { $0.reached == options.nodes - 1 } ? 0 : 1
    }

    private static func tell(_ report: FieldReport, _ options: FieldOptions, seconds: Double) {
        let lasts = report.deliveries.map(\.last).sorted()
        let middle = lasts.isEmpty ? .zero : lasts[lasts.count / 2]
        let worst = lasts.last ?? .zero
        let reached = report.deliveries.map(\.reached).min() ?? 0
        guard options.isJSON else {
            return SimulatorOutput.write(
                "\(report.nodeCount) nodes, \(report.deliveries.count) records: each reached \(reached) others; last receiver "
                    + "after \(SimulatorOutput.rounded(middle.seconds * 1_000)) ms (median), "
                    + "\(SimulatorOutput.rounded(worst.seconds * 1_000)) ms (worst); redundancy "
                    + "\(SimulatorOutput.rounded(report.redundancy, 4)); "
                    + "\(SimulatorOutput.rounded(report.bytesPerDelivery)) bytes a delivery; "
                    + "\(SimulatorOutput.rounded(seconds)) s")
        }
        let object: JSONValue = [
            "schema": "starling/field/1", "nodes": .integer(Int64(report.nodeCount)),
            "records": .integer(Int64(report.deliveries.count)), "leastReached": .integer(Int64(reached)),
            "lastReceiverMedianMilliseconds": .number(middle.seconds * 1_000),
            "lastReceiverWorstMilliseconds": .number(worst.seconds * 1_000),
            "redundancy": .number(report.redundancy), "bytesPerDelivery": .number(report.bytesPerDelivery),
        ]
        SimulatorOutput.write(object.text)
    }
}
