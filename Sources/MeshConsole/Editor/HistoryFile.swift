import Glibc

/// The lines typed before, kept for this user alone: mode 0600, replaced by a rename.
public struct HistoryFile: Sendable {
    public let path: String?

    /// Beside the state directories; without a state root nothing is kept.
    public init(paths: NodePaths) {
        path = paths.stateRoot.map { $0 + "/history" }
    }

    /// What can be read; a damaged or foreign file counts as empty.
    public func load() -> History {
        guard let path, let bytes = ProcessEnvironment.file(path, limit: 8 << 20),
            let text = String(validating: bytes, as: UTF8.self)
        else { return History() }
        return History(lines: text.split(separator: "\n").map(String.init))
    }

    /// Writes the history; a failure is no reason to disturb anybody.
    public func save(_ history: History) {
        guard let path, let end = path.lastIndex(of: "/") else { return }
        guard ProcessEnvironment.makeDirectories(String(path[..<end])) == 0 else { return }
        _ = ProcessEnvironment.replaceFile(path, with: Array(history.lines.map { $0 + "\n" }.joined().utf8))
    }
}
