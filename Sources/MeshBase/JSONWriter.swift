extension JSONValue {
    /// The value as JSON on one line, without spaces; members keep their order.
    ///
    /// Control characters, line and paragraph separators are escaped, so the text never contains a line break of any
    /// kind and can be framed by newlines; and so are the marks that turn the direction of writing, so that a name shown
    /// as raw JSON on a terminal cannot reorder what stands around it (ATT-05). A number that JSON cannot say (not a
    /// number, infinite) becomes `null`.
    public var text: String {
        var output: [UInt8] = []
        write(to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    /// As `text`, appended as UTF-8.
    public func write(to output: inout [UInt8]) {
        switch self {
        case .null: output.append(contentsOf: "null".utf8)
        case .bool(let value): output.append(contentsOf: (value ? "true" : "false").utf8)
        case .integer(let value): output.append(contentsOf: String(value).utf8)
        case .number(let value): output.append(contentsOf: Self.literal(value).utf8)
        case .string(let value): Self.write(value, to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (position, element) in elements.enumerated() {
                if position > 0 { output.append(UInt8(ascii: ",")) }
                element.write(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let members):
            output.append(UInt8(ascii: "{"))
            for (position, member) in members.enumerated() {
                if position > 0 { output.append(UInt8(ascii: ",")) }
                Self.write(member.name, to: &output)
                output.append(UInt8(ascii: ":"))
                member.value.write(to: &output)
            }
            output.append(UInt8(ascii: "}"))
        }
    }

    private static func literal(_ value: Double) -> String {
        guard value.isFinite else { return "null" }
        // Swift's shortest round-trip form ("1e-07", "5e+20", "0.25") is valid JSON as it stands.
        return value.description
    }

    private static func write(_ text: String, to output: inout [UInt8]) {
        output.append(UInt8(ascii: "\""))
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22, 0x5c:
                output.append(UInt8(ascii: "\\"))
                output.append(UInt8(truncatingIfNeeded: scalar.value))
            case 0x0a: output.append(contentsOf: #"\n"#.utf8)
            case 0x0d: output.append(contentsOf: #"\r"#.utf8)
            case 0x09: output.append(contentsOf: #"\t"#.utf8)
            case 0x00..<0x20, 0x7f..<0xa0, 0x061c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069:
                let digits = String(scalar.value, radix: 16)
                output.append(contentsOf: (#"\u"# + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            default: output.append(contentsOf: Array(String(Character(scalar)).utf8))
            }
        }
        output.append(UInt8(ascii: "\""))
    }
}
