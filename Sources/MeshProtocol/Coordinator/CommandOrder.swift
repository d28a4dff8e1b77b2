import MeshBase
import MeshWire

/// The log of all records in the one order that every member computes alike: (lamport, author, incarnation,
/// sequence). A pure function of the set of records: the order of arrival leaves no trace.
///
/// Bounded: of more than `capacity` records the greatest stay, which is again a function of the set alone.
public struct CommandOrder: Hashable, Sendable {
    /// One record's place.
    public struct Entry: Hashable, Comparable, Sendable {
        public var lamport: UInt64
        public var author: PeerID
        public var incarnation: Incarnation
        public var sequence: UInt64
        public var id: RecordID
        public var kind: RecordKind

        public init(_ record: AcceptedRecord) {
            lamport = record.lamport
            author = record.author
            incarnation = record.incarnation
            sequence = record.sequence
            id = record.id
            kind = record.kind
        }

        /// The id comes last only so that two records that claim one place (a fork, which gossip makes void) still
        /// stand in the same order everywhere.
        public static func < (left: Entry, right: Entry) -> Bool {
            (left.lamport, left.author, left.incarnation, left.sequence, left.id)
                < (right.lamport, right.author, right.incarnation, right.sequence, right.id)
        }
    }

    public let capacity: Int
    public private(set) var entries: [Entry] = []
    /// Entries that gave way because the log was full: the least ones.
    public private(set) var droppedCount: UInt64 = 0

    public init(capacity: Int) { self.capacity = max(1, capacity) }

    /// Puts a record in its place; `false` when it was there already or is older than all of a full log.
    /// O(log n) comparisons, and O(1) moves for a record that comes in order.
    @discardableResult
    public mutating func insert(_ entry: Entry) -> Bool {
        let place = position(of: entry)
        if place < entries.count, entries[place] == entry { return false }
        if entries.count < capacity {
            entries.insert(entry, at: place)
            return true
        }
        droppedCount &+= 1
        guard place > 0 else { return false }
        entries.insert(entry, at: place)
        entries.removeFirst()
        return true
    }

    /// Takes a void record out; `false` when it is not here. What gave way for it before does not come back.
    public mutating func remove(_ id: RecordID) -> Bool {
        guard let place = entries.lastIndex(where: { $0.id == id }) else { return false }
        entries.remove(at: place)
        return true
    }

    private func position(of entry: Entry) -> Int {
        if let last = entries.last, last < entry { return entries.count }
        return entries.partitionPoint { $0 < entry }
    }
}
