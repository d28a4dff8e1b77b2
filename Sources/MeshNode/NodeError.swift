import MeshBase
import MeshProtocol
import MeshSystem

/// How a node refuses: a stable word for programs, a sentence for people, and the next thing to type.
public struct NodeError: Error, Hashable, Sendable {
    /// Stable: stands in `--json` errors.
    public var code: String
    public var message: String
    public var hint: String
    /// Exit code of the command, as Docs/Command.md lists them.
    public var exit: Int32
    /// Further members of the error object, by code.
    public var facts: [JSONValue.Member]

    public init(_ code: String, _ message: String, hint: String, exit: Int32, facts: [JSONValue.Member] = []) {
        self.code = code
        self.message = message
        self.hint = hint
        self.exit = exit
        self.facts = facts
    }

    public var json: JSONValue {
        let members: [JSONValue.Member] = [
            .init("schema", "starling/error/1"), .init("code", .string(code)), .init("message", .string(message)),
            .init("hint", .string(hint)), .init("exit", .integer(Int64(exit))),
        ]
        return .object(members + facts)
    }

    static func usage(_ message: String, hint: String) -> NodeError {
        NodeError("usage", message, hint: hint, exit: 2)
    }

    static func timedOut(_ message: String, hint: String) -> NodeError {
        NodeError("timedOut", message, hint: hint, exit: 4)
    }

    static func notFound(_ message: String, hint: String) -> NodeError {
        NodeError("notFound", message, hint: hint, exit: 6)
    }
}

extension NodeError {
    init(_ error: CommandError) {
        switch error {
        case .noMesh:
            self.init(
                "notMember", "this node is in no mesh yet", hint: "wait for the join to finish: starling status",
                exit: 5)
        case .notFound:
            self = .notFound("there is nothing by that name", hint: "starling journal ls · starling members")
        case .notConnected:
            self.init(
                "unreachable", "no link to that member now", hint: "starling peers shows who is reachable", exit: 4)
        case .limitExceeded(let limit, let actual):
            self.init(
                "limitExceeded", "\(actual) is over the limit of \(limit)",
                hint: "send less at once, or add it as an attachment: starling journal add FILE", exit: 1)
        case .queueFull(let limit, let unit):
            self.init(
                "queueFull", "a queue of \(limit)\(unit == .bytes ? " bytes" : "") is full",
                hint: "try again in a moment; starling links shows who is slow",
                exit: 1)
        case .ended:
            self.init(
                "meshEnded", "the mesh has ended, or this node has left it", hint: "starling up starts anew", exit: 5)
        case .notPermitted:
            self.init("notPermitted", "the mesh does not allow that", hint: "starling members shows who may", exit: 5)
        case .invalid(let field):
            self.init("usage", "\(field) is not valid", hint: "see starling help", exit: 2)
        }
    }

    init(_ error: StorageError) {
        switch error {
        case .inUse(let path, let pid):
            let holder = pid.map { "process \($0)" } ?? "another process"
            self.init(
                "stateInUse", "\(path) is in use by \(holder)",
                hint: pid.map { "stop it first: starling down, or kill \($0)" } ?? "stop it first: starling down",
                exit: 7)
        case .noSpace(let path, let needed, let available):
            let numbers = [needed.map { "\($0) bytes are needed" }, available.map { "\($0) are free" }]
            let facts = numbers.compactMap(\.self).joined(separator: ", ")
            self.init(
                "storageFull", "no space at \(path)" + (facts.isEmpty ? "" : ": " + facts),
                hint: "free some space; transfers go on by themselves", exit: 7)
        case .readOnly(let path):
            self.init(
                "storageUnreadable", "\(path) is on a read-only file system",
                hint: "make it writable, or use another directory: STARLING_STATE=DIR", exit: 7)
        case .permissionDenied(let path):
            self.init(
                "storageUnreadable", "no permission for \(path)", hint: "check its owner and mode: ls -ld \(path)",
                exit: 7)
        case .notFound(let path):
            self = .notFound("\(path) does not exist", hint: "check the name: ls -l \(path)")
        case .noDirectory(let path):
            self = .notFound(error.message, hint: "mkdir -p \(path)")
        case .notADirectory:
            self.init("usage", error.message, hint: "name a directory: -o DIRECTORY", exit: 2)
        case .notAFile(let path, let kind):
            let hint =
                kind == .directory
                ? "add the files in it one by one, or an archive of it" : "only regular files can be added"
            self.init("usage", "\(path) is not a regular file (\(kind.rawValue))", hint: hint, exit: 2)
        case .tooLarge(let path, let byteCount, let limit):
            self.init(
                "limitExceeded", "\(path) has \(byteCount) bytes, the limit is \(limit)",
                hint: "start the node with --max-attachment BYTES", exit: 1)
        case .fileChanged(let path):
            self.init(
                "fileChanged", "\(path) changed while it was being read; nothing was added",
                hint: "add it again when it is finished", exit: 1)
        case .exists(let path):
            self.init(
                "exists", "\(path) is there already with other content",
                hint: "use --force to replace it, or -o DIR for another place", exit: 1)
        case .unknownContent, .incompleteContent:
            self = .notFound("that content is not here", hint: "starling journal ls shows what is here and who has it")
        case .corrupt(let path) where path.hasSuffix(".sqlite"):
            self.init(
                "storageCorrupt", "the catalogue \(path) is damaged",
                hint: "restore it from a backup: this node's identity and membership are in it. "
                    + "Without it: starling join INVITE --name OTHER makes a new node", exit: 7)
        case .invalidChunk, .corrupt:
            self.init(
                "storageCorrupt", "stored bytes are damaged",
                hint: "they are fetched again from a holder: starling journal ls", exit: 7)
        case .newerSchema(let path, let found, let supported):
            self.init(
                "storageUnreadable",
                "\(path) has format \(found), this build reads up to \(supported); nothing was changed",
                hint: "use the newer starling, or another state directory: STARLING_STATE=DIR", exit: 7)
        case .syncFailed:
            self.init(
                "storageUnreadable", error.message + "; the store has stopped",
                hint: "check the disk, then start the node again", exit: 7)
        case .stopped:
            self.init(
                "storageUnreadable", "the store has stopped after an earlier error",
                hint: "check the disk, then start the node again", exit: 7)
        case .callFailed:
            self.init(
                "storageUnreadable", error.message,
                hint: "check the disk and its permissions", exit: 7)
        case .catalogueFailed(let path, _, let text):
            self.init(
                "storageUnreadable", "the catalogue \(path) cannot be used: \(text)",
                hint: "check the disk, then start again. Do not move it away: this node's identity and membership "
                    + "are in it", exit: 7)
        }
    }

    init(_ error: SystemError) {
        let (code, exit): (String, Int32) =
            switch error {
            case .socketInUse, .socketForeign: ("stateInUse", 7)
            case .socketPathTooLong: (error.code, 7)
            default: (error.code, 1)
            }
        self.init(code, error.message, hint: error.hint ?? "starling doctor", exit: exit)
    }
}
