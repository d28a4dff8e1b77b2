/// How much of an area is written.
public enum LogLevel: Int, Sendable, Hashable, Comparable, CaseIterable {
    case off = 0
    /// A human must act.
    case error = 1
    /// Something is wrong that the node copes with.
    case warning = 2
    /// Life cycle.
    case info = 3
    /// Per exchange.
    case debug = 4
    /// Per datagram.
    case trace = 5

    public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }

    public init?(name: String) {
        guard let level = Self.allCases.first(where: { "\($0)" == name }) else { return nil }
        self = level
    }
}

/// Parts of a node that are logged separately.
public enum LogArea: String, Sendable, Hashable, CaseIterable {
    case node, session, messenger, journal, coordinator, system, storage, control
}
