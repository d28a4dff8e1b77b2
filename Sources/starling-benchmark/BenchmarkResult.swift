import Glibc
import MeshBase

/// The figures of one case: order statistics over its samples.
struct BenchmarkResult {
    var name: String
    var unit: String
    var samples: [Double]

    private var sorted: [Double] { samples.sorted() }

    /// The sample at `fraction` of the sorted ones; nearest rank.
    func quantile(_ fraction: Double) -> Double {
        let values = sorted
        guard !values.isEmpty else { return 0 }
        return values[min(values.count - 1, Int(Double(values.count) * fraction))]
    }

    var json: JSONValue {
        [
            "schema": "starling/benchmark/1", "case": .string(name), "unit": .string(unit),
            "median": .number(rounded(quantile(0.5))), "p99": .number(rounded(quantile(0.99))),
            "min": .number(rounded(sorted.first ?? 0)), "max": .number(rounded(sorted.last ?? 0)),
            "n": .integer(Int64(samples.count)), "load": .number(rounded(Machine.load)),
            "commit": .string(Machine.commit),
        ]
    }

    var text: String {
        let figures = [("median", 0.5), ("p99", 0.99)].map { "\($0.0) \(rounded(quantile($0.1)))" }
        return "\(name): \(figures.joined(separator: ", ")) \(unit) "
            + "[\(rounded(sorted.first ?? 0))…\(rounded(sorted.last ?? 0))], n=\(samples.count)"
    }

    private func rounded(_ value: Double) -> Double {
        guard value.isFinite else { return 0 }
        return (value * 1000).rounded() / 1000
    }
}

/// Facts of the machine that belong beside a figure.
enum Machine {
    static var load: Double {
        var values = [0.0, 0.0, 0.0]
        return unsafe getloadavg(&values, 3) > 0 ? values[0] : 0
    }

    /// What was built, where the environment says so.
    static var commit: String {
        guard let text = unsafe getenv("STARLING_COMMIT") else { return "unknown" }
        return unsafe String(cString: text)
    }

    static func seconds() -> Double {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
