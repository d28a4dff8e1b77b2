import MeshBase
import MeshWire

/// Which attachments exist: the added records less those that a removal names.
///
/// A fold that does not depend on the order of arrival: a removal may come before what it removes, any record more than
/// once, and a record that turns out void leaves no trace. Only records decide; whoever may sign a record may remove any
/// attachment, for everyone.
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

    /// Removed ones too: a removal may turn out void.
    private var entries: [RecordID: Entry] = [:]
    /// Which attachment each removal names.
    private var removals: [RecordID: RecordID] = [:]
    private var removalCounts: [RecordID: Int] = [:]
    /// Removals of attachments that are not here.
    private var strayCount = 0
    /// Live attachments in total order.
    private(set) var live: [RecordID] = []
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    /// A live attachment.
    func entry(_ id: RecordID) -> Entry? { isRemoved(id) ? nil : entries[id] }

    /// Whether a removal of it is known, be the attachment itself known or not.
    func isRemoved(_ id: RecordID) -> Bool { removalCounts[id] != nil }

    var liveEntries: [Entry] { live.compactMap { entries[$0] } }

    /// What is here can always be removed, and what a removal waits for can always come.
    private var isFull: Bool { entries.count + strayCount >= capacity }

    mutating func accept(_ record: AcceptedRecord) -> Change {
        switch record.kind {
        case .attachmentAdded: acceptAdded(record)
        case .attachmentRemoved: acceptRemoved(record)
        default: .none
        }
    }

    private mutating func acceptAdded(_ record: AcceptedRecord) -> Change {
        guard let body = try? AttachmentAddedBody(decoding: record.body) else { return .refused }  // a malformed body
        guard entries[record.id] == nil else { return .none }
        guard !isFull || isRemoved(record.id) else { return .refused }
        let entry = Entry(
            id: record.id, author: record.author, lamport: record.lamport, incarnation: record.incarnation,
            sequence: record.sequence, body: body)
        entries[record.id] = entry
        strayCount -= removalCounts[record.id] ?? 0
        guard !isRemoved(record.id) else { return .none }
        live.insert(record.id, at: position(of: entry))
        return .added(entry)
    }

    private mutating func acceptRemoved(_ record: AcceptedRecord) -> Change {
        guard let body = try? AttachmentRemovedBody(decoding: record.body) else { return .refused }  // a malformed body
        guard removals[record.id] == nil else { return .none }
        guard !isFull || entries[body.attachment] != nil else { return .refused }
        let wasRemoved = isRemoved(body.attachment)
        removals[record.id] = body.attachment
        removalCounts[body.attachment, default: 0] += 1
        let entry = entries[body.attachment]
        if entry == nil { strayCount += 1 }
        guard !wasRemoved else { return .none }
        if let entry { removeFromLive(entry) }
        return .removed(body.attachment, entry)
    }

    /// Takes a record back: `removed` when an attachment went with it, `added` when one returned.
    mutating func void(_ record: RecordID) -> Change {
        if let entry = entries.removeValue(forKey: record) {
            strayCount += removalCounts[record] ?? 0
            guard !isRemoved(record) else { return .none }
            removeFromLive(entry)
            return .removed(record, entry)
        }
        guard let attachment = removals.removeValue(forKey: record) else { return .none }
        let count = (removalCounts[attachment] ?? 1) - 1
        removalCounts[attachment] = count > 0 ? count : nil
        if entries[attachment] == nil { strayCount -= 1 }
        guard count == 0, let entry = entries[attachment] else { return .none }
        live.insert(attachment, at: position(of: entry))
        return .added(entry)
    }

    private mutating func removeFromLive(_ entry: Entry) {
        let position = position(of: entry)
        if position < live.count, live[position] == entry.id { live.remove(at: position) }
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
