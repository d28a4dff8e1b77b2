// What is wrong with a text that should be JSON, for the person who wrote it.

extension JSONError {
    /// Where it is wrong, as a byte offset; `nil` when that is nowhere in particular.
    private var offset: Int? {
        switch self {
        case .unexpectedByte(let offset), .invalidText(let offset), .numberOutOfRange(let offset): offset
        case .tooLong, .tooDeep, .unexpectedEnd: nil
        }
    }

    /// The line that is wrong, counted from 1; the last one when `bytes` end too early, `nil` when no line is to blame.
    public func line(in bytes: [UInt8]) -> Int? {
        let end: Int
        switch self {
        case .tooLong, .tooDeep: return nil
        case .unexpectedEnd: end = bytes.count - (bytes.last == UInt8(ascii: "\n") ? 1 : 0)
        default: end = min(offset ?? 0, bytes.count)
        }
        return 1 + bytes.prefix(max(end, 0)).count { $0 == UInt8(ascii: "\n") }
    }

    /// One sentence without a full stop, safe to show.
    public func message(in bytes: [UInt8]) -> String {
        switch self {
        case .tooLong(let limit): "it is longer than \(limit) bytes"
        case .tooDeep(let limit): "it is nested deeper than \(limit)"
        case .unexpectedEnd: "it ends too early: a quote, a comma or a bracket is missing"
        case .unexpectedByte(let offset): "\(Self.shown(bytes, at: offset)) cannot stand there"
        case .invalidText: "a text there is not UTF-8, or has half a surrogate pair"
        case .numberOutOfRange: "a number there is too large"
        }
    }

    private static func shown(_ bytes: [UInt8], at offset: Int) -> String {
        guard bytes.indices.contains(offset) else { return "the end" }
        let text = String(decoding: bytes[offset...].prefix(4), as: UTF8.self)
        return "“" + SafeText.escaped(text.first.map { String($0) } ?? "") + "”"
    }
}
