import MeshBase

/// The running nodes of this user, found by their control sockets.
public struct NodeFinder: Sendable {
    public let paths: NodePaths

    public init(paths: NodePaths) {
        self.paths = paths
    }

    /// Names that have a socket, sorted, whether or not anybody listens there.
    func names() -> [String] {
        var names: Set<String> = []
        if let root = paths.runtimeRoot {
            for file in ProcessEnvironment.names(in: root) where file.hasSuffix(".sock") {
                names.insert(String(file.dropLast(5)))
            }
        }
        if let root = paths.stateRoot { names.formUnion(ProcessEnvironment.names(in: root)) }
        return names.filter(ValueKind.isNodeName).sorted()
    }

    /// A connection to each node that listens, sorted by name.
    public func running() -> [ControlConnection] { names().compactMap(connection) }

    /// A connection to `name`; `nil` when it does not run.
    public func connection(to name: String) -> ControlConnection? {
        guard ValueKind.isNodeName(name) else { return nil }
        for path in paths.socketCandidates(for: name) {
            if let connection = ControlConnection(path: path, nodeName: name) { return connection }
        }
        return nil
    }

    /// The node that was asked for, or the only running one.
    public func pick(_ name: String?) throws(CommandFailure) -> ControlConnection {
        if let name {
            if let connection = connection(to: name) { return connection }
            let others = running().map(\.nodeName)
            throw CommandFailure(
                code: "noSuchNode", message: "no node \(CommandLineParser.shown(name)) is running",
                hint: others.isEmpty ? "starling up --name \(SafeText.escaped(name, limit: 64))" : Self.list(others),
                exit: .noSuchNode)
        }
        let running = running()
        guard let first = running.first else {
            throw CommandFailure(
                code: "noSuchNode", message: "no node is running",
                hint: "starling up, or to try it out: starling demo", exit: .noSuchNode)
        }
        guard running.count == 1 else {
            throw CommandFailure(
                code: "noSuchNode", message: "\(running.count) nodes are running; which one?",
                hint: Self.list(running.map(\.nodeName)), exit: .noSuchNode)
        }
        return first
    }

    private static func list(_ names: [String]) -> String {
        let shown = names.prefix(8).map { "-n " + SafeText.escaped($0, limit: 64) }.joined(separator: ", ")
        return "running: \(shown)" + (names.count > 8 ? ", … (starling nodes)" : "")
    }
}
