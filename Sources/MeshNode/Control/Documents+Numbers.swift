import MeshBase

/// Numbers as they stand in documents: rounded to what was measured, never beyond what JSON readers hold exactly.
extension Documents {
    static func rounded(_ value: Double, _ places: Int) -> Double {
        guard value.isFinite else { return 0 }
        var factor = 1.0
        for _ in 0..<places { factor *= 10 }
        return (value * factor).rounded() / factor
    }

    static func integer(_ value: Double) -> Int64 { Int64(exactly: value.rounded()) ?? 0 }

    static func count(_ value: UInt64) -> JSONValue { .integer(Int64(clamping: value)) }

    static func microseconds(_ span: TimeSpan?) -> JSONValue {
        span.map { .number(rounded($0.microseconds, 1)) } ?? .null
    }

    static func hexadecimal(_ value: UInt64) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }

    static func byText(_ left: JSONValue, _ right: JSONValue) -> Bool {
        (left.stringValue ?? "") < (right.stringValue ?? "")
    }
}
