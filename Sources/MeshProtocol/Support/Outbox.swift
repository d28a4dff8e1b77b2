/// What a machine wants done, in the order it decided it. Owned by the caller and reused, so that a steady state
/// allocates nothing and a test compares one array.
public struct Outbox<Output> {
    public private(set) var items: [Output] = []

    public init() {}

    public var isEmpty: Bool { items.isEmpty }

    public mutating func append(_ output: Output) { items.append(output) }

    /// Takes everything, keeping the capacity for the next turn.
    public mutating func drain(_ body: (Output) throws -> Void) rethrows {
        for item in items { try body(item) }
        items.removeAll(keepingCapacity: true)
    }

    public mutating func removeAll() { items.removeAll(keepingCapacity: true) }
}

extension Outbox: Sendable where Output: Sendable {}
