import MeshBase
import MeshWire

/// The one order in which every node folds records into state: (lamport, author, incarnation, sequence).
///
/// A record's Lamport time is greater than that of each of its causes, so this order never puts an effect before its
/// cause, and equal sets of records give equal lists.
public struct RecordOrder: Hashable, Comparable, Sendable {
    public var lamport: UInt64
    public var author: PeerID
    public var incarnation: Incarnation
    public var sequence: UInt64

    public init(lamport: UInt64, author: PeerID, incarnation: Incarnation, sequence: UInt64) {
        self.lamport = lamport
        self.author = author
        self.incarnation = incarnation
        self.sequence = sequence
    }

    public init(_ record: AcceptedRecord) {
        self.init(
            lamport: record.lamport, author: record.author, incarnation: record.incarnation, sequence: record.sequence)
    }

    init(_ envelope: Envelope) {
        self.init(
            lamport: envelope.lamport, author: envelope.author, incarnation: envelope.incarnation,
            sequence: envelope.sequence)
    }

    public static func < (left: RecordOrder, right: RecordOrder) -> Bool {
        if left.lamport != right.lamport { return left.lamport < right.lamport }
        if left.author != right.author { return left.author < right.author }
        return (left.incarnation, left.sequence) < (right.incarnation, right.sequence)
    }
}
