import MeshBase
import MeshCrypto
import MeshWire

/// Records, imports, removals and waits: what people and the store tell the journal.
extension JournalStateMachine {
    mutating func setKey(_ value: Bytes32, at now: HostTime, _ outbox: inout Output) {
        guard key == nil else { return }
        key = value
        for id in contents.keys.sorted() { evaluate(id, at: now, &outbox) }
    }

    // MARK: Records

    mutating func accept(_ record: AcceptedRecord, at now: HostTime, _ outbox: inout Output) {
        switch catalog.accept(record) {
        case .none: break
        case .refused: statistics.recordsRefused += 1
        case .added(let entry):
            attach(entry, at: now, &outbox)
            outbox.append(.event(event(.attachmentAdded, entry)))
            answerAdd(entry, record: record, &outbox)
            hasChanged = true
        case .removed(let attachment, let entry):
            if let entry {
                detach(entry, at: now, &outbox)
                outbox.append(.event(event(.attachmentRemoved, entry, by: record.author)))
            }
            answerRemovals(of: attachment, &outbox)
            hasChanged = true
        }
    }

    /// Undoes what a record did that counts no longer.
    mutating func void(_ id: RecordID, at now: HostTime, _ outbox: inout Output) {
        switch catalog.void(id) {
        case .none, .refused: break
        case .added(let entry):
            attach(entry, at: now, &outbox)
            outbox.append(.event(event(.attachmentAdded, entry)))
            hasChanged = true
        case .removed(_, let entry):
            guard let entry else { break }
            detach(entry, at: now, &outbox)
            outbox.append(.event(event(.attachmentRemoved, entry, detail: [.init("reason", .text("fork"))])))
            hasChanged = true
        }
    }

    private mutating func attach(_ entry: AttachmentCatalog.Entry, at now: HostTime, _ outbox: inout Output) {
        guard follow(entry.body.content) else { return }
        let id = entry.body.content
        contents[id]?.attachments.append(entry.id)
        contents[id]?.attachments.sort()
        if contents[id]?.phase == .removing { contents[id]?.isWantedAgain = true }
        evaluate(id, at: now, &outbox)
    }

    /// Whether the content is in the table now.
    private mutating func follow(_ id: ContentID) -> Bool {
        guard contents[id] == nil else { return true }
        guard contents.count < configuration.maximumContents else {
            isOverflowing = true
            return false
        }
        contents[id] = JournalContent(id: id, generation: nextGeneration())
        for peer in peerOrder where peers[peer]?.holder[id]?.hasAnything ?? false { peers[peer]?.addCandidate(id) }
        return true
    }

    mutating func nextGeneration() -> UInt32 {
        generationCounter &+= 1
        return generationCounter
    }

    private mutating func detach(_ entry: AttachmentCatalog.Entry, at now: HostTime, _ outbox: inout Output) {
        let id = entry.body.content
        contents[id]?.attachments.removeAll { $0 == entry.id }
        if let content = contents[id], !content.isWanted, !content.isRestored { drop(id, at: now, &outbox) }
        followOverflow(at: now, &outbox)
    }

    /// There is room again for contents that were too many.
    private mutating func followOverflow(at now: HostTime, _ outbox: inout Output) {
        guard isOverflowing else { return }
        isOverflowing = false
        for entry in catalog.liveEntries where contents[entry.body.content]?.attachments.contains(entry.id) != true {
            attach(entry, at: now, &outbox)
            if isOverflowing { return }
        }
    }

    func event(
        _ kind: ProtocolEvent.Kind, _ entry: AttachmentCatalog.Entry, by subject: PeerID? = nil,
        detail: [ProtocolEvent.Detail] = []
    ) -> ProtocolEvent {
        ProtocolEvent(
            kind, subject: subject ?? entry.author, lamport: entry.lamport,
            detail: [
                ProtocolEvent.Detail("attachment", .text(entry.id.description)),
                ProtocolEvent.Detail("name", .text(entry.body.name)),
                ProtocolEvent.Detail("bytes", .integer(Int64(clamping: entry.body.byteCount))),
            ] + detail)
    }

    // MARK: Add and remove

    mutating func add(
        _ body: AttachmentAddedBody, leaves: [Bytes32], token: CommandToken, at now: HostTime,
        _ outbox: inout Output
    ) throws(CommandError) {
        do throws(CommandError) {
            try check(body)
        } catch {
            // The store keeps nothing that no attachment will name.
            if contents[body.content] == nil { outbox.append(.storage(.remove(body.content))) }
            throw error
        }
        guard follow(body.content) else {
            throw .limitExceeded(limit: configuration.maximumContents, actual: contents.count)
        }
        contents[body.content]?.pendingImports += 1
        adopt(body.content, byteCount: body.byteCount, leaves: leaves, at: now, &outbox)
        let bytes = body.encoded
        pendingAdds.append((bytes, body.content, token))
        outbox.append(.publish(.attachmentAdded, body: bytes, token: token))
    }

    private func check(_ body: AttachmentAddedBody) throws(CommandError) {
        guard body.name.utf8.count <= WireLimits.maximumAttachmentNameBytes else { throw .invalid(field: "name") }
        guard body.note.utf8.count <= WireLimits.maximumNoteBytes else { throw .invalid(field: "note") }
        guard body.byteCount <= configuration.maximumAttachmentBytes else {
            throw .limitExceeded(
                limit: Int(clamping: configuration.maximumAttachmentBytes), actual: Int(clamping: body.byteCount))
        }
        guard pendingAdds.count < configuration.maximumWaits else {
            throw .queueFull(limit: configuration.maximumWaits)
        }
    }

    private mutating func answerAdd(
        _ entry: AttachmentCatalog.Entry, record: AcceptedRecord, _ outbox: inout Output
    ) {
        guard entry.author == identity,
            let position = pendingAdds.firstIndex(where: { $0.body == record.body })
        else { return }
        let pending = pendingAdds.remove(at: position)
        contents[pending.content]?.pendingImports -= 1
        outbox.append(.added(pending.token, summary(entry)))
    }

    mutating func remove(
        _ attachment: RecordID, token: CommandToken, _ outbox: inout Output
    ) throws(CommandError) {
        if catalog.isRemoved(attachment) {
            outbox.append(.removed(token))
            return
        }
        guard catalog.entry(attachment) != nil else { throw .notFound }
        guard pendingRemovals.count < configuration.maximumWaits else {
            throw .queueFull(limit: configuration.maximumWaits)
        }
        pendingRemovals.append((attachment, token))
        let body = AttachmentRemovedBody(attachment: attachment)
        outbox.append(.publish(.attachmentRemoved, body: body.encoded, token: token))
    }

    private mutating func answerRemovals(of attachment: RecordID, _ outbox: inout Output) {
        for pending in pendingRemovals where pending.attachment == attachment {
            outbox.append(.removed(pending.token))
        }
        pendingRemovals.removeAll { $0.attachment == attachment }
    }

    /// Nothing is left behind of what cannot be said: the store keeps no content that no attachment names.
    mutating func publishRefused(
        _ kind: RecordKind, _ body: [UInt8], _ error: CommandError, at now: HostTime, _ outbox: inout Output
    ) {
        if kind == .attachmentAdded, let position = pendingAdds.firstIndex(where: { $0.body == body }) {
            let pending = pendingAdds.remove(at: position)
            contents[pending.content]?.pendingImports -= 1
            if let content = contents[pending.content], !content.isWanted, !content.isRestored {
                drop(pending.content, at: now, &outbox)
            }
            outbox.append(.refused(pending.token, error))
        } else if kind == .attachmentRemoved, let removal = try? AttachmentRemovedBody(decoding: body) {
            for pending in pendingRemovals where pending.attachment == removal.attachment {
                outbox.append(.refused(pending.token, error))
            }
            pendingRemovals.removeAll { $0.attachment == removal.attachment }
        }
    }

    // MARK: Waits

    mutating func wait(
        _ attachment: RecordID, replicas: Int, token: CommandToken, _ outbox: inout Output
    ) throws(CommandError) {
        guard waits.count < configuration.maximumWaits else { throw .queueFull(limit: configuration.maximumWaits) }
        if let outcome = outcome(of: attachment, replicas: replicas) {
            outbox.append(.settled(token, outcome))
        } else {
            waits.append((attachment, replicas, token))
        }
    }

    mutating func settleWaits(_ outbox: inout Output) {
        guard !waits.isEmpty else { return }
        var open: [(attachment: RecordID, replicas: Int, token: CommandToken)] = []
        for wait in waits {
            if let outcome = outcome(of: wait.attachment, replicas: wait.replicas) {
                outbox.append(.settled(wait.token, outcome))
            } else {
                open.append(wait)
            }
        }
        waits = open
    }

    private func outcome(of attachment: RecordID, replicas: Int) -> WaitOutcome? {
        if catalog.isRemoved(attachment) { return .removed }
        guard let entry = catalog.entry(attachment) else { return nil }
        let state = state(of: entry)
        if case .failed(let failure) = state { return .failed(failure) }
        guard state == .complete else { return nil }
        let holderCount = holders(of: entry.body.content).count
        return holderCount >= replicas ? .reached(holders: holderCount) : nil
    }
}
