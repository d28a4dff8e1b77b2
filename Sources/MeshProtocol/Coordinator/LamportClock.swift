/// Lamport's logical clock (1978): the greatest time among all accepted records, so that what this node writes next
/// is ordered after everything it knew. Fed by checked records only; a claimed time never enters it (AB-66).
public struct LamportClock: Hashable, Sendable {
    public private(set) var latest: UInt64 = 0

    public init() {}

    /// The time of a record that would be written now. Saturates, which a checked chain cannot reach.
    public var next: UInt64 { latest == .max ? .max : latest + 1 }

    public mutating func observe(_ lamport: UInt64) { latest = max(latest, lamport) }
}
