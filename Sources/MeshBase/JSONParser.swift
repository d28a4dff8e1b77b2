/// Why a text is not the JSON we accept. Positions are byte offsets from the start of the text.
public enum JSONError: Error, Hashable, Sendable {
    /// The text is longer than the limit, in bytes.
    case tooLong(limit: Int)
    /// Arrays and objects are nested deeper than the limit.
    case tooDeep(limit: Int)
    /// The text ends in the middle of a value.
    case unexpectedEnd
    /// A byte that cannot stand here.
    case unexpectedByte(at: Int)
    /// A string that is not UTF-8, or an escape that names half a surrogate pair.
    case invalidText(at: Int)
    /// A whole number beyond 64 bits, or a real number that no `Double` can hold (1e400).
    case numberOutOfRange(at: Int)
}

extension JSONValue {
    /// Nesting that the control socket, the REPL and configuration files accept.
    public static let defaultDepthLimit = 16
    /// Largest text accepted when the caller names no limit: 16 MiB.
    public static let defaultByteLimit = 16 << 20

    /// Reads exactly one JSON value (RFC 8259, strict), white space around it allowed.
    ///
    /// Whole numbers stay exact; one that does not fit `Int64` is an error, never a rounded value. Of members with
    /// equal names all are kept and the first is found. Cost: one pass; depth of recursion ≤ `depthLimit` (at most 128).
    public static func parse(
        _ bytes: some Collection<UInt8>, depthLimit: Int = defaultDepthLimit, byteLimit: Int = defaultByteLimit
    ) throws(JSONError) -> JSONValue {
        guard bytes.count <= byteLimit else { throw .tooLong(limit: byteLimit) }
        var parser = JSONParser(bytes: Array(bytes), depthLimit: min(max(depthLimit, 0), 128))
        return try parser.document()
    }

    /// Reads exactly one JSON value from text; as the form over bytes.
    public static func parse(
        _ text: some StringProtocol, depthLimit: Int = defaultDepthLimit, byteLimit: Int = defaultByteLimit
    ) throws(JSONError) -> JSONValue {
        try parse(Array(text.utf8), depthLimit: depthLimit, byteLimit: byteLimit)
    }
}

/// A recursive descent over bytes. Every read goes through `peek`, which knows the end.
private struct JSONParser {
    let bytes: [UInt8]
    let depthLimit: Int
    var position = 0

    init(bytes: [UInt8], depthLimit: Int) {
        self.bytes = bytes
        self.depthLimit = depthLimit
    }

    mutating func document() throws(JSONError) -> JSONValue {
        let value = try value(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw .unexpectedByte(at: position) }
        return value
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func next() throws(JSONError) -> UInt8 {
        guard let byte = peek else { throw .unexpectedEnd }
        position += 1
        return byte
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { position += 1 }
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        skipSpace()
        guard let byte = peek else { throw .unexpectedEnd }
        switch byte {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
        default: throw .unexpectedByte(at: position)
        }
    }

    private mutating func word(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for expected in text.description.utf8 {
            let found = try next()
            guard found == expected else { throw .unexpectedByte(at: position - 1) }
        }
        return value
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        guard depth <= depthLimit else { throw .tooDeep(limit: depthLimit) }
        position += 1
        skipSpace()
        var elements: [JSONValue] = []
        if peek == UInt8(ascii: "]") {
            position += 1
            return .array(elements)
        }
        while true {
            elements.append(try value(depth: depth))
            skipSpace()
            switch try next() {
            case UInt8(ascii: ","): continue
            case UInt8(ascii: "]"): return .array(elements)
            default: throw .unexpectedByte(at: position - 1)
            }
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        guard depth <= depthLimit else { throw .tooDeep(limit: depthLimit) }
        position += 1
        skipSpace()
        var members: [JSONValue.Member] = []
        if peek == UInt8(ascii: "}") {
            position += 1
            return .object(members)
        }
        while true {
            skipSpace()
            guard let byte = peek else { throw .unexpectedEnd }
            guard byte == UInt8(ascii: "\"") else { throw .unexpectedByte(at: position) }
            let name = try string()
            skipSpace()
            guard try next() == UInt8(ascii: ":") else { throw .unexpectedByte(at: position - 1) }
            members.append(JSONValue.Member(name, try value(depth: depth)))
            skipSpace()
            switch try next() {
            case UInt8(ascii: ","): continue
            case UInt8(ascii: "}"): return .object(members)
            default: throw .unexpectedByte(at: position - 1)
            }
        }
    }

    // MARK: Strings

    private mutating func string() throws(JSONError) -> String {
        let start = position
        position += 1
        var content: [UInt8] = []
        while true {
            let byte = try next()
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: content, as: UTF8.self) else { throw .invalidText(at: start) }
                return text
            case UInt8(ascii: "\\"): try escape(into: &content)
            case 0x00..<0x20: throw .unexpectedByte(at: position - 1)
            default: content.append(byte)
            }
        }
    }

    private mutating func escape(into content: inout [UInt8]) throws(JSONError) {
        let byte = try next()
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): content.append(byte)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0c)
        case UInt8(ascii: "n"): content.append(0x0a)
        case UInt8(ascii: "r"): content.append(0x0d)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "u"): content.append(contentsOf: Array(String(try scalarEscape()).utf8))
        default: throw .unexpectedByte(at: position - 1)
        }
    }

    private mutating func scalarEscape() throws(JSONError) -> Character {
        let start = position
        let first = try hexadecimalUnit()
        var value = UInt32(first)
        if (0xd800..<0xdc00).contains(first) {
            // A high surrogate needs its low one, written as a second escape.
            guard peek == UInt8(ascii: "\\") else { throw .invalidText(at: start) }
            position += 1
            guard try next() == UInt8(ascii: "u") else { throw .invalidText(at: start) }
            let second = try hexadecimalUnit()
            guard (0xdc00..<0xe000).contains(second) else { throw .invalidText(at: start) }
            value = 0x1_0000 + (UInt32(first) - 0xd800) << 10 + (UInt32(second) - 0xdc00)
        }
        guard let scalar = Unicode.Scalar(value) else { throw .invalidText(at: start) }
        return Character(scalar)
    }

    private mutating func hexadecimalUnit() throws(JSONError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            let byte = try next()
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
            default: throw .unexpectedByte(at: position - 1)
            }
            unit = unit << 4 | UInt16(digit)
        }
        return unit
    }

    // MARK: Numbers

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = position
        var isWhole = true
        if peek == UInt8(ascii: "-") { position += 1 }
        if peek == UInt8(ascii: "0") {
            position += 1
        } else {
            try digits()
        }
        if peek == UInt8(ascii: ".") {
            isWhole = false
            position += 1
            try digits()
        }
        if peek == UInt8(ascii: "e") || peek == UInt8(ascii: "E") {
            isWhole = false
            position += 1
            if peek == UInt8(ascii: "+") || peek == UInt8(ascii: "-") { position += 1 }
            try digits()
        }
        let literal = String(decoding: bytes[start..<position], as: UTF8.self)
        if isWhole {
            guard let value = Int64(literal) else { throw .numberOutOfRange(at: start) }
            return .integer(value)
        }
        guard let value = Double(literal), value.isFinite else { throw .numberOutOfRange(at: start) }
        return .number(value)
    }

    private mutating func digits() throws(JSONError) {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else {
            if peek == nil { throw .unexpectedEnd }
            throw .unexpectedByte(at: position)
        }
    }
}
