/// Lines typed before, oldest first: bounded, without repeats in a row, without secrets.
public struct History: Hashable, Sendable {
    public static let maximumLines = 1_000
    /// Longer lines are data, not commands.
    public static let maximumLineBytes = 4_096

    public private(set) var lines: [String]

    public init(lines: [String] = []) {
        self.lines = []
        for line in lines.suffix(Self.maximumLines) { _ = add(line) }
    }

    /// Keeps `line` if it is worth it; returns whether it was kept. The oldest makes room.
    public mutating func add(_ line: String) -> Bool {
        var line = line
        while line.last == " " { line.removeLast() }
        guard Self.isKept(line), line != lines.last else { return false }
        if lines.count >= Self.maximumLines { lines.removeFirst(lines.count - Self.maximumLines + 1) }
        lines.append(line)
        return true
    }

    /// Nothing empty, nothing begun with a space (as shells have it), and nothing that holds an invite.
    static func isKept(_ line: String) -> Bool {
        guard let first = line.first, first != " ", line.utf8.count <= maximumLineBytes else { return false }
        guard !line.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) else { return false }
        return line.lowercased().firstRange(of: "starling:") == nil
    }
}
