import MeshBase

/// Where nodes of this user keep state and sockets, from the environment alone.
public struct NodePaths: Hashable, Sendable {
    /// `$STARLING_STATE`, or `$XDG_STATE_HOME/starling`, or `~/.local/state/starling`; `nil` without any of them.
    public var stateRoot: String?
    /// `$XDG_RUNTIME_DIR/starling`; `nil` when it is not set or cannot be used: sockets are in the state directories.
    public var runtimeRoot: String?
    /// `$XDG_CONFIG_HOME/starling/config.json` or `~/.config/starling/config.json`.
    public var configFile: String?

    /// The longest path that a Unix socket takes on Linux, in bytes.
    public static let socketPathLimit = 107

    public init(stateRoot: String?, runtimeRoot: String?, configFile: String?) {
        self.stateRoot = stateRoot
        self.runtimeRoot = runtimeRoot
        self.configFile = configFile
    }

    /// - Parameters:
    ///   - homeDirectory: of the account, for when `HOME` says nothing.
    ///   - isUsable: whether a runtime directory is there and ours; sudo often leaves one that is not.
    public init(
        environment: (String) -> String?, homeDirectory: String? = nil, isUsable: (String) -> Bool = { _ in true }
    ) {
        // The base directory specification: a path that is not absolute counts as not set.
        func absolute(_ name: String) -> String? {
            environment(name).flatMap { $0.hasPrefix("/") ? Self.trimmed($0) : nil }
        }
        let home = absolute("HOME") ?? homeDirectory.flatMap { $0.hasPrefix("/") ? Self.trimmed($0) : nil }
        stateRoot =
            absolute("STARLING_STATE") ?? absolute("XDG_STATE_HOME").map { $0 + "/starling" }
            ?? home.map { $0 + "/.local/state/starling" }
        runtimeRoot = absolute("XDG_RUNTIME_DIR").flatMap { isUsable($0) ? $0 + "/starling" : nil }
        configFile = (absolute("XDG_CONFIG_HOME") ?? home.map { $0 + "/.config" }).map { $0 + "/starling/config.json" }
    }

    private static func trimmed(_ path: String) -> String {
        var path = path
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path == "/" ? "" : path
    }

    /// The state directory of a node, or what is missing to have one.
    public func stateDirectory(of name: String) throws(CommandFailure) -> String {
        guard let stateRoot else {
            throw CommandFailure(
                code: "noStateDirectory",
                message:
                    "there is no place for the node's state: none of STARLING_STATE, XDG_STATE_HOME and HOME is set",
                hint: "STARLING_STATE=/var/lib/starling starling up", exit: .storage)
        }
        return stateRoot + "/" + name
    }

    /// Where the control socket of `name` may be, best first.
    public func socketCandidates(for name: String) -> [String] {
        let paths = [runtimeRoot.map { "\($0)/\(name).sock" }, stateRoot.map { "\($0)/\(name)/control.sock" }]
        return paths.compactMap { $0 }.filter { $0.utf8.count <= Self.socketPathLimit }
    }

    /// Where a new node puts its control socket: the first place whose path is short enough (CLI-07).
    public func controlSocket(for name: String) throws(CommandFailure) -> String {
        if let path = socketCandidates(for: name).first { return path }
        let longest = stateRoot.map { "\($0)/\(name)/control.sock" } ?? name
        guard stateRoot != nil || runtimeRoot != nil else { return try stateDirectory(of: name) + "/control.sock" }
        throw CommandFailure(
            code: "socketPathTooLong",
            message: "the control socket's path has \(longest.utf8.count) bytes, Linux takes \(Self.socketPathLimit): "
                + SafeText.escaped(longest, limit: 60),
            hint: "XDG_RUNTIME_DIR=/run/user/$(id -u) starling up, or a shorter STARLING_STATE", exit: .storage)
    }
}
