import MeshBase

/// What went wrong with a command: a stable word for scripts, a sentence, the next thing to type, and the exit code.
public struct CommandFailure: Error, Hashable, Sendable {
    /// Stable words: they stand in `starling/error/1`.
    public var code: String
    /// One sentence. May hold text from outside: escaped when shown.
    public var message: String
    /// The next thing to type, empty when there is none.
    public var hint: String
    public var exit: ExitCode
    /// Further members that the node sent with the error, in order.
    public var detail: [JSONValue.Member]

    public init(
        code: String, message: String, hint: String = "", exit: ExitCode, detail: [JSONValue.Member] = []
    ) {
        self.code = code
        self.message = message
        self.hint = hint
        self.exit = exit
        self.detail = detail
    }

    /// A command line that cannot be understood; nothing was changed.
    public static func usage(_ message: String, hint: String) -> CommandFailure {
        CommandFailure(code: "usage", message: message, hint: hint, exit: .usage)
    }

    /// The form on standard error with `--json`, and on the control socket.
    public var json: JSONValue {
        .object(
            [
                JSONValue.Member("schema", "starling/error/1"),
                JSONValue.Member("code", .string(code)),
                JSONValue.Member("message", .string(message)),
                JSONValue.Member("hint", .string(hint)),
                JSONValue.Member("exit", .integer(Int64(exit.rawValue))),
            ] + detail)
    }

    /// Reads what a node sent; `nil` when `value` is not an error object.
    public init?(json value: JSONValue) {
        guard value["schema"]?.stringValue == "starling/error/1", case .object(let members) = value else { return nil }
        let known: Set<String> = ["schema", "code", "message", "hint", "exit"]
        self.init(
            code: value["code"]?.stringValue ?? "failed",
            message: value["message"]?.stringValue ?? "the node could not do it and did not say why",
            hint: value["hint"]?.stringValue ?? "",
            exit: ExitCode(clamping: value["exit"]?.integerValue ?? 1),
            detail: members.filter { !known.contains($0.name) })
    }
}

/// The exit codes of the command, a contract with scripts.
public enum ExitCode: Int32, Hashable, Sendable {
    case done = 0
    case failed = 1
    case usage = 2
    case noSuchNode = 3
    case unreachable = 4
    case refused = 5
    case notFound = 6
    case storage = 7
    case interrupted = 130

    /// An unknown number from a newer node is a plain failure.
    init(clamping value: Int64) {
        let known = Int32(exactly: value).flatMap(ExitCode.init(rawValue:))
        self = known == .done ? .failed : known ?? .failed
    }
}
