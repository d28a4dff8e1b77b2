import CMeshSystem
import Glibc
public import MeshBase

/// Writes lines `time level area message key=value …` to stderr or a file, one `write` each, so that lines of several
/// processes do not mix. A reader that has gone away is ignored. Never given secrets or payloads: keys and values are
/// chosen where it is called.
public final class Logger: Sendable {
    private struct State {
        var levels: [LogArea: LogLevel] = [:]
        var standard = LogLevel.warning
    }

    private let state: Lock<State>
    private let sink: Sink

    private enum Sink: Sendable {
        case nowhere
        case standardError
        case file(OpenFile)
        case closure(@Sendable (String) -> Void)
    }

    /// To stderr.
    public init(level: LogLevel = .warning) {
        sink = .standardError
        state = Lock(State(standard: level))
    }

    /// Appends to a file, made private (0600) if it is new.
    public init(path: String, level: LogLevel = .info) throws(StorageError) {
        sink = .file(try OpenFile(path, flags: O_WRONLY | O_CREAT | O_APPEND))
        state = Lock(State(standard: level))
    }

    /// To whoever wants lines: tests, and `events`.
    public init(level: LogLevel = .trace, _ receive: @escaping @Sendable (String) -> Void) {
        sink = .closure(receive)
        state = Lock(State(standard: level))
    }

    private init() {
        sink = .nowhere
        state = Lock(State(standard: .off))
    }

    public static var silent: Logger { Logger() }

    /// Reads `AREA=LEVEL,AREA=LEVEL`; the area `all`, or a bare `LEVEL`, is every one. What is wrong with it, or `nil`: then it applies.
    public func configure(_ text: String) -> String? {
        var wanted: [(LogArea?, LogLevel)] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: true) {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard let level = LogLevel(name: sides[sides.count - 1]) else {
                return
                    "unknown level in \"\(part)\"; levels are off, error, warning, info, debug, trace"
            }
            if sides.count == 1 || sides[0] == "all" {
                wanted.append((nil, level))
            } else if let area = LogArea(rawValue: sides[0]) {
                wanted.append((area, level))
            } else {
                let areas = (["all"] + LogArea.allCases.map(\.rawValue)).joined(separator: ", ")
                return "unknown area in \"\(part)\"; areas are \(areas)"
            }
        }
        state.withLock { state in
            for (area, level) in wanted {
                if let area {
                    state.levels[area] = level
                } else {
                    state.standard = level
                    state.levels = [:]
                }
            }
        }
        return nil
    }

    public func level(of area: LogArea) -> LogLevel { state.withLock { $0.levels[area] ?? $0.standard } }

    public func setLevel(_ level: LogLevel, for area: LogArea) { state.withLock { $0.levels[area] = level } }

    public func isEnabled(_ level: LogLevel, _ area: LogArea) -> Bool {
        state.withLock { state in level != .off && level <= state.levels[area] ?? state.standard }
    }

    /// `message` is constant text; what varies stands in `details`. Both are built only when the level is on.
    public func log(
        _ level: LogLevel, _ area: LogArea, _ message: @autoclosure () -> String,
        _ details: @autoclosure () -> KeyValuePairs<String, String> = [:]
    ) {
        guard isEnabled(level, area) else { return }
        log(level, area, message(), details: details().map { ($0.key, $0.value) })
    }

    /// As above, for details whose names are only known when it runs. Whoever calls asks `isEnabled` first.
    public func log(_ level: LogLevel, _ area: LogArea, _ message: String, details: [(String, String)]) {
        guard isEnabled(level, area) else { return }
        var line = "\(Self.timestamp()) \(level) \(area.rawValue) \(message)"
        for (key, value) in details { line += " \(key)=\(Self.quoted(value))" }
        switch sink {
        case .nowhere: break
        case .standardError: Self.write(line, to: STDERR_FILENO)
        case .file(let file): Self.write(line, to: file.descriptor)
        case .closure(let receive): receive(line)
        }
    }

    private static func write(_ line: String, to descriptor: Int32) {
        let bytes = Array((line + "\n").utf8)
        var done = 0
        while done < bytes.count {
            let put = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress! + done, $0.count - done)
            }
            if put < 0 && errno == EINTR { continue }
            // A closed pipe or a full disk must not take the node with it.
            guard put > 0 else { return }
            done += put
        }
    }

    /// Wall-clock time in UTC: logs are for people.
    private static func timestamp() -> String {
        let now = mesh_realtime_nanoseconds()
        var seconds = time_t(now / 1_000_000_000)
        var parts = unsafe tm()
        unsafe gmtime_r(&seconds, &parts)
        func padded(_ number: some BinaryInteger, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let date =
            unsafe "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1, 2))-\(padded(parts.tm_mday, 2))"
        let time = unsafe "\(padded(parts.tm_hour, 2)):\(padded(parts.tm_min, 2)):\(padded(parts.tm_sec, 2))"
        return "\(date)T\(time).\(padded(now % 1_000_000_000 / 1_000_000, 3))Z"
    }

    private static func quoted(_ value: String) -> String {
        let isPlain = !value.isEmpty && value.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != 0x22 && $0 != 0x3d }
        if isPlain { return value }
        let escaped = value.unicodeScalars.map { scalar in
            switch scalar {
            case "\"": "\\\""
            case "\\": "\\\\"
            case _ where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value):
                "\\u{" + String(scalar.value, radix: 16) + "}"
            default: String(scalar)
            }
        }
        return "\"" + escaped.joined() + "\""
    }
}
