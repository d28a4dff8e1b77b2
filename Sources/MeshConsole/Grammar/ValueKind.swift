import MeshBase

/// What a value on the command line means: how it is checked, and what completes it.
public enum ValueKind: Hashable, Sendable {
    /// Any text.
    case text
    /// The name of a node of this user: fit to be a directory.
    case nodeName
    /// A member of the mesh, by name or id.
    case peer
    /// An attachment, by name or a prefix of its id.
    case attachment
    /// An invite's id.
    case inviteID
    case file
    case directory
    /// `90`, `30s`, `10m`, `2h`, `1d`, `500ms`; becomes seconds.
    case duration
    /// As `duration`, and `0`.
    case age
    /// A whole number in the range.
    case count(ClosedRange<Int64>)
    /// `512`, `64k`, `20MB`, `1GiB`; becomes bytes.
    case size
    /// 1…65535.
    case port
    /// A numeric address or an interface name.
    case bindAddress
    /// `HOST:PORT`; `[v6]:PORT`.
    case hostAndPort
    /// `OFFSET_NANOSECONDS,PPM`; becomes an object.
    case hostClock
    /// An invite, or `-` for standard input.
    case invite
    /// `AREA=LEVEL,…`; becomes an object.
    case logLevels
    case choice([String])
    /// A verb, for `help`.
    case verb

    static let levelNames = LogLevel.allCases.map { "\($0)" }
    static let areaNames = ["all"] + LogArea.allCases.map(\.rawValue)
    /// The longest duration taken, ten years: far from any overflow of nanoseconds.
    static let maximumSeconds = 315_360_000.0

    /// The value read from `text`, or a sentence that says what would be right.
    func parse(_ text: String) -> Result<JSONValue, InvalidValue> {
        switch self {
        case .text, .verb: .success(.string(text))
        case .nodeName: Self.nodeName(text)
        case .peer, .attachment, .inviteID, .bindAddress: Self.word(text)
        case .file, .directory: Self.path(text)
        case .duration: Self.duration(text)
        case .age: text == "0" ? .success(.integer(0)) : Self.duration(text)
        case .count(let range): Self.count(text, range)
        case .size: Self.size(text)
        case .port: Self.count(text, 1...65_535)
        case .hostAndPort: Self.hostAndPort(text)
        case .hostClock: Self.hostClock(text)
        case .invite: Self.invite(text)
        case .logLevels: Self.levels(text)
        case .choice(let words): Self.choice(text, words)
        }
    }

    /// Whether `name` can name a node: a safe, visible file name of at most 64 bytes.
    public static func isNodeName(_ name: String) -> Bool {
        guard !name.isEmpty, name.utf8.count <= 64, !name.hasPrefix("."), !name.hasPrefix("-") else { return false }
        return !name.contains("/") && !name.contains(" ") && SafeText.escaped(name) == name
    }

    private static func nodeName(_ text: String) -> Result<JSONValue, InvalidValue> {
        isNodeName(text)
            ? .success(.string(text))
            : .failure("a node's name has 1 to 64 bytes, no spaces, slashes or control codes, and no dot or dash first")
    }

    private static func word(_ text: String) -> Result<JSONValue, InvalidValue> {
        guard !text.isEmpty else { return .failure("it must not be empty") }
        guard text.utf8.count <= 1024 else { return .failure("at most 1024 bytes") }
        return .success(.string(text))
    }

    private static func path(_ text: String) -> Result<JSONValue, InvalidValue> {
        guard !text.isEmpty else { return .failure("it must not be empty") }
        guard text.utf8.count < 4096 else { return .failure("a path has fewer than 4096 bytes") }
        guard !text.utf8.contains(0) else { return .failure("a path cannot hold a zero byte") }
        return .success(.string(text))
    }

    private static func count(_ text: String, _ range: ClosedRange<Int64>) -> Result<JSONValue, InvalidValue> {
        guard isPlainNumber(text), let value = Int64(text), range.contains(value) else {
            return .failure("a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return .success(.integer(value))
    }

    private static func choice(_ text: String, _ words: [String]) -> Result<JSONValue, InvalidValue> {
        guard !words.contains(text) else { return .success(.string(text)) }
        let list = "one of " + words.joined(separator: ", ")
        let near = Suggestion.nearest(to: text, among: words).map { "; did you mean \($0)?" } ?? ""
        return .failure(InvalidValue(reason: list + near))
    }

    private static func invite(_ text: String) -> Result<JSONValue, InvalidValue> {
        let trimmed = text.filter { !$0.isWhitespace }
        guard trimmed == "-" || trimmed.hasPrefix("starling:") else {
            return .failure("an invite begins with starling: — copy the whole line that `starling invite` printed")
        }
        guard trimmed.utf8.count <= 4096 else { return .failure("an invite has at most 4096 bytes") }
        return .success(.string(trimmed))
    }

    // MARK: Quantities

    /// ASCII digits with an optional sign: what `Int64` and `Double` read, without `0x10`, `nan`, `inf` or spaces.
    private static func isPlainNumber(_ text: String, fraction: Bool = false) -> Bool {
        guard !text.isEmpty, text.utf8.count <= 40 else { return false }
        var hasDigit = false
        var hasPoint = false
        for (position, byte) in text.utf8.enumerated() {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): hasDigit = true
            case UInt8(ascii: "-"), UInt8(ascii: "+"): if position != 0 { return false }
            case UInt8(ascii: "."):
                guard fraction, !hasPoint else { return false }
                hasPoint = true
            default: return false
            }
        }
        return hasDigit
    }

    /// The number before a unit, and the unit.
    private static func split(_ text: String) -> (number: Double, unit: String)? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == "." || $0 == "-" || $0 == "+") }
        guard isPlainNumber(String(digits), fraction: true), let number = Double(String(digits)), number.isFinite else {
            return nil
        }
        return (number, text[digits.endIndex...].lowercased())
    }

    private static func duration(_ text: String) -> Result<JSONValue, InvalidValue> {
        let factors = ["": 1.0, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400]
        guard let (number, unit) = split(text), let factor = factors[unit] else {
            return .failure("a time such as 30s, 10m, 2h or 500ms (without a unit: seconds)")
        }
        let seconds = number * factor
        guard seconds > 0, seconds <= maximumSeconds else {
            return .failure("more than zero and at most ten years")
        }
        let whole = Int64(seconds)
        return .success(Double(whole) == seconds ? .integer(whole) : .number(seconds))
    }

    private static func size(_ text: String) -> Result<JSONValue, InvalidValue> {
        let factors: [String: Double] = [
            "": 1, "b": 1, "k": 1e3, "kb": 1e3, "kib": 1024, "m": 1e6, "mb": 1e6, "mib": 1_048_576, "g": 1e9,
            "gb": 1e9, "gib": 1_073_741_824,
        ]
        guard let (number, unit) = split(text), let factor = factors[unit] else {
            return .failure("a size such as 512, 64k, 20MB or 1GiB")
        }
        let bytes = number * factor
        guard bytes >= 0, bytes <= 1e15 else { return .failure("from zero to 1000 TB") }
        return .success(.integer(Int64(bytes + 0.5)))
    }

    private static func hostClock(_ text: String) -> Result<JSONValue, InvalidValue> {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, isPlainNumber(parts[0]), let offset = Int64(parts[0]),
            isPlainNumber(parts[1], fraction: true), let rate = Double(parts[1])
        else {
            return .failure("OFFSET_NANOSECONDS,PPM such as 5000000000,40 or -250000000,-15.5")
        }
        // A century and half the clock's rate: what no test needs, and no sum of it overflows.
        guard offset.magnitude <= 3_155_760_000_000_000_000, abs(rate) <= 100_000 else {
            return .failure("the offset at most a century, the rate at most 100000 ppm, each in either direction")
        }
        return .success(["offsetNanoseconds": .integer(offset), "partsPerMillion": .number(rate)])
    }

    private static func hostAndPort(_ text: String) -> Result<JSONValue, InvalidValue> {
        let wanted: InvalidValue = "HOST:PORT such as 192.0.2.14:47800 or [2001:db8::1]:47800"
        guard !text.isEmpty, text.utf8.count <= 300, !text.contains(where: \.isWhitespace) else {
            return .failure(wanted)
        }
        let host: Substring
        let rest: Substring
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { return .failure(wanted) }
            host = text[text.index(after: text.startIndex)..<close]
            rest = text[text.index(after: close)...]
        } else {
            let colons = text.filter { $0 == ":" }.count
            // An IPv6 address without brackets has no port that could be told from it.
            guard colons <= 1 else {
                return SocketAddress(text) != nil ? .success(.string("[\(text)]:47800")) : .failure(wanted)
            }
            host = text.prefix { $0 != ":" }
            rest = text[host.endIndex...]
        }
        guard !host.isEmpty else { return .failure(wanted) }
        guard !rest.isEmpty else { return .success(.string(text + ":47800")) }
        guard rest.first == ":", case .success = count(String(rest.dropFirst()), 1...65_535) else {
            return .failure(wanted)
        }
        return .success(.string(text))
    }

    private static func levels(_ text: String) -> Result<JSONValue, InvalidValue> {
        var members: [JSONValue.Member] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = part.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
            let (area, level) = sides.count == 1 ? ("all", sides[0]) : (sides[0], sides.count == 2 ? sides[1] : "")
            guard levelNames.contains(level) else {
                return .failure(
                    "AREA=LEVEL,… such as messenger=debug; a level is one of \(levelNames.joined(separator: ", "))")
            }
            guard areaNames.contains(area) else {
                return .failure("an area is one of \(areaNames.joined(separator: ", "))")
            }
            members.append(JSONValue.Member(area, .string(level)))
        }
        return .success(.object(members))
    }
}

/// What would have been right, as the end of the sentence "… is not valid: ".
struct InvalidValue: Error, Hashable, ExpressibleByStringInterpolation {
    var reason: String
    init(reason: String) { self.reason = reason }
    init(stringLiteral value: String) { reason = value }
}
