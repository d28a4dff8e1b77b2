import MeshBase

/// Turns an invocation into what the node is sent, one object a request.
public enum ControlRequest {
    /// What the table does not know: where the command runs, and what stood on standard input.
    public struct Surroundings: Sendable {
        /// Absolute, for paths that are not.
        public var currentDirectory: String
        /// For `~/` typed at the REPL, where no shell replaces it.
        public var homeDirectory: String?
        /// The text for `send -`.
        public var input: String?

        public init(currentDirectory: String, homeDirectory: String? = nil, input: String? = nil) {
            self.currentDirectory = currentDirectory
            self.homeDirectory = homeDirectory
            self.input = input
        }

        /// `path` from the root, without touching the file system.
        public func absolute(_ path: String) -> String {
            if path.hasPrefix("/") { return path }
            if let homeDirectory, path == "~" || path.hasPrefix("~/") { return homeDirectory + path.dropFirst() }
            var rest = Substring(path)
            while rest.hasPrefix("./") { rest = rest.dropFirst(2) }
            if rest.isEmpty || rest == "." { return currentDirectory }
            return (currentDirectory == "/" ? "" : currentDirectory) + "/" + rest
        }
    }

    /// Seconds an answer is waited for when nobody says.
    public static let defaultTimeoutSeconds = 30.0

    /// The requests of a verb, in order; `nil` when no node carries it out.
    public static func make(_ invocation: Invocation, _ surroundings: Surroundings) -> [JSONValue]? {
        switch invocation.verb {
        case "status", "peers", "members", "links", "clock", "session", "metrics", "leave", "end", "down":
            return [["verb": .string(invocation.verb)]]
        case "remove": return [["verb": "remove", "name": text(invocation.argument(0))]]
        case "why": return [["verb": "why", "name": text(invocation.argument(0))]]
        case "events": return [events(invocation)]
        case "send": return [send(invocation, surroundings)]
        case "inbox":
            return [
                [
                    "verb": "inbox", "follow": .bool(invocation.flag("follow")), "backlog": true,
                    "count": .bool(invocation.flag("count")),
                ]
            ]
        case "invite": return [invite(invocation)]
        case "invite ls": return [["verb": "invite.ls"]]
        case "invite revoke": return [["verb": "invite.revoke", "id": text(invocation.argument(0))]]
        case "complete": return [["verb": "complete", "kind": text(invocation.argument(0))]]
        case "log": return [log(invocation)]
        default: return journal(invocation, surroundings)
        }
    }

    /// Messages from now on, for the REPL's upper half.
    public static let incomingMessages: JSONValue = ["verb": "inbox", "follow": true, "backlog": false, "count": false]
    /// Events from now on, for the REPL's upper half.
    public static let incomingEvents: JSONValue = ["verb": "events", "follow": true, "sinceSeconds": 0]

    private static func journal(_ invocation: Invocation, _ surroundings: Surroundings) -> [JSONValue]? {
        let id = text(invocation.argument(0))
        let timeout = seconds(invocation.options["timeout"])
        switch invocation.verb {
        case "journal add":
            return invocation.argumentTexts.map { path in
                [
                    "verb": "journal.add", "path": .string(surroundings.absolute(path)),
                    "note": text(invocation.text("note")), "timeoutSeconds": timeout,
                ]
            }
        case "journal ls": return [["verb": "journal.ls", "follow": .bool(invocation.flag("follow"))]]
        case "journal get":
            return [
                [
                    "verb": "journal.get", "id": id,
                    "directory": .string(surroundings.absolute(invocation.text("output") ?? ".")),
                    "force": .bool(invocation.flag("force")), "timeoutSeconds": timeout,
                ]
            ]
        case "journal wait":
            var members: [JSONValue.Member] = [.init("verb", "journal.wait"), .init("id", id)]
            if let replicas = invocation.options["replicas"] { members.append(.init("replicas", replicas)) }
            return [.object(members + [.init("timeoutSeconds", timeout)])]
        case "journal rm": return [["verb": "journal.rm", "id": id]]
        case "journal verify": return [["verb": "journal.verify", "id": id, "timeoutSeconds": timeout]]
        default: return nil
        }
    }

    private static func events(_ invocation: Invocation) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init("verb", "events"), .init("follow", .bool(invocation.flag("follow"))),
        ]
        if let since = invocation.options["since"] { members.append(.init("sinceSeconds", since)) }
        return .object(members)
    }

    private static func invite(_ invocation: Invocation) -> JSONValue {
        var members: [JSONValue.Member] = [.init("verb", "invite")]
        if let expires = invocation.options["expires"] { members.append(.init("expiresSeconds", expires)) }
        return .object(members)
    }

    private static func log(_ invocation: Invocation) -> JSONValue {
        var members: [JSONValue.Member] = [.init("verb", "log")]
        if let levels = invocation.arguments.first { members.append(.init("levels", levels)) }
        return .object(members)
    }

    private static func send(_ invocation: Invocation, _ surroundings: Surroundings) -> JSONValue {
        let argument = invocation.argument(0) ?? ""
        let mode: JSONValue =
            invocation.flag("unreliable") ? "unreliable" : invocation.flag("ordered") ? "ordered" : "reliable"
        var request: JSONValue = [
            "verb": "send", "text": .string(argument == "-" ? surroundings.input ?? "" : argument),
            "to": .array(invocation.texts("to").map(JSONValue.string)), "mode": mode,
            "repeat": .integer(invocation.integer("repeat") ?? 1), "sizeBytes": invocation.options["size"] ?? .null,
        ]
        if let deadline = invocation.options["deadline"], case .object(let members) = request {
            request = .object(members + [.init("deadlineSeconds", deadline)])
        }
        return request
    }

    private static func text(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }

    private static func seconds(_ value: JSONValue?) -> JSONValue {
        value ?? .integer(Int64(defaultTimeoutSeconds))
    }
}
