import MeshBase
import MeshWire

/// Which attachments exist: the added records less those that a removal names.
///
/// A fold that does not depend on the order of arrival: a removal may come before what it removes, and any record more
/// than once. Only records decide; whoever may sign a record may remove any attachment, for everyone.
struct AttachmentCatalog: Sendable {
    struct Entry: Hashable, Sendable {
        var id: RecordID
        var author: PeerID
        var lamport: UInt64
        var incarnation: Incarnation
        var sequence: UInt64
        var body: AttachmentAddedBody

        /// The total order of records.
        static func precedes(_ left: Entry, _ right: Entry) -> Bool {
            (left.lamport, left.author, left.incarnation, left.sequence, left.id)
                < (right.lamport, right.author, right.incarnation, right.sequence, right.id)
        }
    }

    enum Change: Hashable, Sendable {
        case none
        case added(Entry)
        /// The entry when it was live before.
        case removed(RecordID, Entry?)
        /// Not a record of this kind, or the catalogue is full.
        case refused
    }

    private var entries: [RecordID: Entry] = [:]
    private var removed: Set<RecordID> = []
    /// Live attachments in total order.
    private(set) var live: [RecordID] = []
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func entry(_ id: RecordID) -> Entry? { entries[id] }

    /// Whether a removal of it is known, be the attachment itself known or not.
    func isRemoved(_ id: RecordID) -> Bool { removed.contains(id) }

    var liveEntries: [Entry] { live.compactMap { entries[$0] } }

    mutating func accept(_ record: AcceptedRecord) -> Change {
        switch record.kind {
        case .attachmentAdded: acceptAdded(record)
        case .attachmentRemoved: acceptRemoved(record)
        default: .none
        }
    }

    private mutating func acceptAdded(_ record: AcceptedRecord) -> Change {
        guard let body = try? AttachmentAddedBody(decoding: record.body) else { return .refused }  // a malformed body
        guard entries[record.id] == nil, !removed.contains(record.id) else { return .none }
        guard entries.count + removed.count < capacity else { return .refused }
        let entry = Entry(
            id: record.id, author: record.author, lamport: record.lamport, incarnation: record.incarnation,
            sequence: record.sequence, body: body)
        entries[record.id] = entry
        live.insert(record.id, at: position(of: entry))
        return .added(entry)
    }

    private mutating func acceptRemoved(_ record: AcceptedRecord) -> Change {
        guard let body = try? AttachmentRemovedBody(decoding: record.body) else { return .refused }  // a malformed body
        guard !removed.contains(body.attachment) else { return .none }
        guard let entry = entries[body.attachment] else {
            guard entries.count + removed.count < capacity else { return .refused }
            removed.insert(body.attachment)
            return .removed(body.attachment, nil)
        }
        let position = position(of: entry)
        if position < live.count, live[position] == entry.id { live.remove(at: position) }
        entries.removeValue(forKey: entry.id)
        removed.insert(entry.id)
        return .removed(entry.id, entry)
    }

    /// Where the entry stands, or would stand, in `live`.
    private func position(of entry: Entry) -> Int {
        var low = 0
        var high = live.count
        while low < high {
            let middle = (low + high) / 2
            if let other = entries[live[middle]], AttachmentCatalog.Entry.precedes(other, entry) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }
}
