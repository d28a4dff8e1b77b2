import MeshBase
import MeshWire

/// What the journal knows now.
extension JournalStateMachine {
    /// All live attachments in total order (lamport, author, incarnation, sequence).
    public var attachments: [AttachmentSummary] { catalog.liveEntries.map { summary($0) } }

    /// The live attachments whose id begins with `prefixOrName` (at least 4 hexadecimal digits, either case) or that
    /// are called so. Names compare by canonical equivalence: both forms of "é" are found by either (ATT-17).
    public func attachment(matching prefixOrName: String) -> [AttachmentSummary] {
        let prefix = prefixOrName.utf8.count >= 4 ? prefixOrName.lowercased() : nil
        return catalog.liveEntries
            .filter { entry in
                entry.body.name == prefixOrName || (prefix.map { entry.id.description.hasPrefix($0) } ?? false)
            }
            .map { summary($0) }
    }

    func summary(_ entry: AttachmentCatalog.Entry) -> AttachmentSummary {
        let content = contents[entry.body.content]
        let state = state(of: entry)
        return AttachmentSummary(
            id: entry.id, name: entry.body.name, note: entry.body.note, byteCount: entry.body.byteCount,
            content: entry.body.content, addedBy: entry.author, lamport: entry.lamport,
            isPresent: state == .complete, fraction: content?.fraction ?? 0,
            holders: holders(of: entry.body.content), isDurable: state == .complete, state: state,
            bytesPerSecond: state == .fetching ? content?.rate.bytesPerSecond ?? 0 : 0)
    }

    func state(of entry: AttachmentCatalog.Entry) -> AttachmentState {
        guard let content = contents[entry.body.content] else {
            return .failed(.tooManyContents(limit: configuration.maximumContents))
        }
        if let byteCount = content.byteCount, byteCount != entry.body.byteCount {
            return .failed(.sizeMismatch(byteCount: byteCount))
        }
        if content.isComplete { return .complete }
        if let failure = content.failure { return .failed(failure) }
        return content.sourcelessSince == nil ? .fetching : .waitingForHolder
    }

    /// Members known to hold all of it, this node included, ascending.
    func holders(of id: ContentID) -> [PeerID] {
        var output = peerOrder.filter { holding(of: id, by: $0)?.isComplete ?? false }
        if contents[id]?.isComplete ?? false {
            output.insert(identity, at: output.firstIndex { $0 > identity } ?? output.count)
        }
        return output
    }
}
