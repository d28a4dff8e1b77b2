import MeshBase
import MeshCrypto
import MeshWire

/// From a name in a record to a file in the store, and back: the phases of a content.
extension JournalStateMachine {
    // MARK: What the store has

    mutating func restore(_ stored: [StoredContentSummary], at now: HostTime, _ outbox: inout Output) {
        for summary in stored.sorted(by: { $0.id < $1.id }) {
            if contents[summary.id] == nil {
                guard contents.count < configuration.maximumContents else { continue }
                contents[summary.id] = JournalContent(id: summary.id, generation: nextGeneration())
            }
            guard let phase = contents[summary.id]?.phase, phase == .idle || phase == .hashing else { continue }
            forgetHashAsks(summary.id)
            contents[summary.id]?.phase = .idle
            contents[summary.id]?.isStored = true
            contents[summary.id]?.isRestored = true
            contents[summary.id]?.byteCount = summary.byteCount
            contents[summary.id]?.leaves = Self.usableLeaves(summary)
            if summary.isComplete, contents[summary.id]?.leaves != nil {
                becomeComplete(summary.id, at: now)
            }
            evaluate(summary.id, at: now, &outbox)
        }
        if !stored.isEmpty { deadlines.arm(.sweep, at: now + configuration.sweepDelay) }
        hasChanged = true
    }

    /// Leaves that are as many as the size demands; `nil` otherwise.
    private static func usableLeaves(_ summary: StoredContentSummary) -> [Bytes32]? {
        guard let leaves = summary.leaves,
            UInt64(leaves.count) == ChunkTree.chunkCount(byteCount: summary.byteCount)
        else { return nil }
        return leaves
    }

    mutating func sweepOrphans(at now: HostTime, _ outbox: inout Output) {
        for id in contents.keys.sorted() {
            contents[id]?.isRestored = false
            if let content = contents[id], !content.isWanted { drop(id, at: now, &outbox) }
        }
    }

    /// The store has the whole content, from a local file.
    mutating func adopt(
        _ id: ContentID, byteCount: UInt64, leaves: [Bytes32], at now: HostTime, _ outbox: inout Output
    ) {
        switch contents[id]?.phase {
        case .removing: contents[id]?.isWantedAgain = true
        case .complete, nil: return
        default:
            cancelFetch(id, at: now, &outbox)
            contents[id]?.isStored = true
            contents[id]?.byteCount = byteCount
            contents[id]?.leaves = leaves
            becomeComplete(id, at: now)
            markAnnouncing(id, isUrgent: true, at: now)
        }
    }

    mutating func becomeComplete(_ id: ContentID, at now: HostTime) {
        contents[id]?.phase = .complete
        contents[id]?.transfer = nil
        contents[id]?.failure = nil
        contents[id]?.retryAt = nil
        contents[id]?.probe = nil
        contents[id]?.hashes = JournalContent.Hashes()
        contents[id]?.rate.reset()
        contents[id]?.unannounced = []
        markAnnouncing(id, at: now)
        hasChanged = true
    }

    // MARK: Phases

    /// Starts what can be started for an idle content that somebody wants.
    mutating func evaluate(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let key, let content = contents[id], content.phase == .idle, content.isWanted else { return }
        if let failure = sizeFailure(of: content) {
            fail(id, failure, &outbox)
            return
        }
        contents[id]?.failure = nil
        if content.isStored, content.leaves != nil {
            verify(id, at: now, &outbox)
        } else if let byteCount = content.byteCount, let leaves = content.leaves {
            begin(id, byteCount: byteCount, leaves: leaves, &outbox)
        } else if ChunkTree.contentID(key: key, leaves: [], byteCount: 0) == id {
            // The empty file has one name in a mesh: nothing needs to be fetched to have it (ATT-01).
            contents[id]?.byteCount = 0
            contents[id]?.leaves = []
            begin(id, byteCount: 0, leaves: [], &outbox)
        } else {
            contents[id]?.phase = .hashing
            askForHashes(id, at: now, &outbox)
            updateSource(id, at: now)
        }
    }

    private func sizeFailure(of content: JournalContent) -> AttachmentFailure? {
        let claims = content.attachments.compactMap { catalog.entry($0)?.body.byteCount }
        let byteCount = content.byteCount ?? claims.min() ?? 0
        let limit = min(configuration.maximumFetchBytes, JournalLimits.maximumContentBytes)
        return byteCount > limit ? .tooLarge(byteCount: byteCount, limit: limit) : nil
    }

    mutating func begin(_ id: ContentID, byteCount: UInt64, leaves: [Bytes32], _ outbox: inout Output) {
        contents[id]?.phase = .beginning
        contents[id]?.isStored = true
        outbox.append(.storage(.begin(id, byteCount: byteCount, leaves: leaves)))
    }

    mutating func verify(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        contents[id]?.phase = .verifying
        contents[id]?.lastVerifyAt = now
        outbox.append(.storage(.verify(id)))
    }

    /// All hashes are proven: a place for the chunks, with what the peers said they have.
    mutating func prepareTransfer(_ id: ContentID, chunkCount: Int, present: ChunkSet) {
        var transfer = ChunkTransfer(chunkCount: chunkCount, present: present)
        for peer in peerOrder {
            peers[peer]?.holder.truncate(id, to: chunkCount)
            for chunk in holding(of: id, by: peer)?.chunks.members ?? [] { transfer.holderGained(chunk) }
            if peers[peer]?.holder[id]?.hasAnything ?? false { peers[peer]?.addCandidate(id) }
        }
        contents[id]?.transfer = transfer
    }

    /// Chunks may be asked for from now on; or there was nothing to ask for.
    mutating func startFetching(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let leaves = contents[id]?.leaves else { return }
        if contents[id]?.transfer == nil { prepareTransfer(id, chunkCount: leaves.count, present: ChunkSet()) }
        contents[id]?.phase = .fetching
        if (contents[id]?.presentCount ?? 0) > 0 { markAnnouncing(id, at: now) }
        if contents[id]?.transfer?.isComplete ?? false {
            finish(id, &outbox)
        } else {
            fillAll(id, at: now, &outbox)
            updateSource(id, at: now)
        }
    }

    mutating func finish(_ id: ContentID, _ outbox: inout Output) {
        contents[id]?.phase = .finishing
        outbox.append(.storage(.finish(id)))
    }

    /// No attachment names the content any more: stop everything and forget it (ATT-13).
    mutating func drop(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], content.phase != .removing else { return }
        cancelFetch(id, at: now, &outbox)
        if content.isAnnounced { withdraw(id, &outbox) }
        for peer in peerOrder where (peers[peer]?.serving.cancel(id, chunks: []) ?? 0) > 0 {
            send(.notHere(id, chunks: []), to: peer, &outbox)
        }
        guard content.isStored else {
            contents.removeValue(forKey: id)
            return
        }
        contents[id]?.phase = .removing
        outbox.append(.storage(.remove(id)))
    }

    /// Takes back everything that was asked of the peers, and the chunks that wait for the store.
    mutating func cancelFetch(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        for peer in forgetHashAsks(id) { send(.cancel(id, chunks: []), to: peer, &outbox) }
        var asked: Set<PeerID> = []
        for item in contents[id]?.transfer?.releaseAll() ?? [] {
            for ask in item.asks {
                asked.insert(ask.peer)
                giveUp(ChunkKey(content: id, chunk: item.chunk), of: ask.peer)
            }
        }
        for peer in asked.sorted() { send(.cancel(id, chunks: []), to: peer, &outbox) }
        dropQueuedWrites(of: id)
        contents[id]?.probe = nil
    }

    /// A chunk is no longer expected, but welcome.
    mutating func giveUp(_ key: ChunkKey, of peer: PeerID) {
        guard let ask = peers[peer]?.asked.removeValue(forKey: key) else { return }
        askedCount -= 1
        peers[peer]?.remember(late: key, ask)
    }

    // MARK: Failures

    mutating func fail(_ id: ContentID, _ failure: AttachmentFailure, _ outbox: inout Output) {
        let isNews = contents[id]?.failure == nil
        contents[id]?.failure = failure
        hasChanged = true
        guard isNews else { return }
        for attachment in contents[id]?.attachments ?? [] {
            guard let entry = catalog.entry(attachment) else { continue }
            let event = event(.attachmentFailed, entry, by: identity, detail: failure.detail)
            outbox.append(.event(event))
        }
    }

    /// The store failed: stop the flow, try again later from where it was (ATT-06, ATT-08).
    mutating func pause(_ id: ContentID, _ failure: StorageFailure, at now: HostTime, _ outbox: inout Output) {
        statistics.storageFailures += 1
        if case .noSpace(let needed, let available) = failure {
            fail(id, .noSpace(needed: needed, available: available), &outbox)
        } else {
            fail(id, .storage(failure), &outbox)
        }
        let retryAt = now + configuration.storageRetry
        contents[id]?.retryAt = retryAt
        deadlines.arm(.content(id), at: retryAt)
    }

    /// The store took something again.
    mutating func storeRecovered(_ id: ContentID, _ outbox: inout Output) {
        guard contents[id]?.failure != nil else { return }
        contents[id]?.failure = nil
        contents[id]?.retryAt = nil
        hasChanged = true
        for attachment in contents[id]?.attachments ?? [] {
            guard let entry = catalog.entry(attachment) else { continue }
            outbox.append(.event(event(.storageRecovered, entry, by: identity)))
        }
    }

    // MARK: Deadlines

    mutating func lookAtContent(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id] else { return }
        if let retryAt = content.retryAt {
            guard retryAt <= now else {
                deadlines.arm(.content(id), at: retryAt)
                return
            }
            retry(content, at: now, &outbox)
            return
        }
        guard content.isWanted, content.phase == .hashing || content.phase == .fetching else { return }
        if content.phase == .hashing {
            expireHashAsks(id, at: now)
            askForHashes(id, at: now, &outbox)
        } else {
            contents[id]?.rate.update(at: now)
            fillAll(id, at: now, &outbox)
        }
        updateSource(id, at: now)
        lookForSource(id, at: now, &outbox)
    }

    private mutating func retry(_ content: JournalContent, at now: HostTime, _ outbox: inout Output) {
        contents[content.id]?.retryAt = nil
        switch content.phase {
        case .beginning:
            if content.wasComplete {
                outbox.append(.storage(.reopen(content.id)))
            } else if let byteCount = content.byteCount, let leaves = content.leaves {
                outbox.append(.storage(.begin(content.id, byteCount: byteCount, leaves: leaves)))
            }
        case .fetching:
            if let probe = content.probe {
                contents[content.id]?.probe = nil
                contents[content.id]?.transfer?.hold(probe.chunk)
                write(ChunkKey(content: content.id, chunk: probe.chunk), bytes: probe.bytes, &outbox)
            } else {
                storeRecovered(content.id, &outbox)
                fillAll(content.id, at: now, &outbox)
            }
        case .finishing: outbox.append(.storage(.finish(content.id)))
        default: break
        }
    }

    /// Whether any linked peer that is heard can bring something that is missing; remembers since when nobody can.
    mutating func updateSource(_ id: ContentID, at now: HostTime) {
        guard let content = contents[id], content.phase == .hashing || content.phase == .fetching else { return }
        if hasSource(content, at: now) {
            if content.sourcelessSince != nil { hasChanged = true }
            contents[id]?.sourcelessSince = nil
            return
        }
        guard content.sourcelessSince == nil else { return }
        contents[id]?.sourcelessSince = now
        deadlines.arm(.content(id), at: now + configuration.waitingNotice)
        hasChanged = true
    }

    private func hasSource(_ content: JournalContent, at now: HostTime) -> Bool {
        if let transfer = content.transfer, !transfer.asks.isEmpty { return true }
        return peerOrder.contains { peer in
            guard let holding = holding(of: content.id, by: peer), holding.hasAnything,
                peers[peer]?.isMuted(for: content.id, at: now) != true
            else { return false }
            guard !holding.isComplete, let transfer = content.transfer else { return true }
            return holding.chunks.hasMember(outside: transfer.present)
        }
    }

    /// Nobody has it for a while: say so once, and ask around now and then.
    private mutating func lookForSource(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], let since = content.sourcelessSince else { return }
        guard now >= since + configuration.waitingNotice else {
            deadlines.arm(.content(id), at: since + configuration.waitingNotice)
            return
        }
        if !content.isWaitingSaid {
            contents[id]?.isWaitingSaid = true
            for attachment in content.attachments {
                guard let entry = catalog.entry(attachment) else { continue }
                let detail = [ProtocolEvent.Detail("fraction", .number(content.fraction))]
                outbox.append(.event(event(.attachmentWaiting, entry, by: identity, detail: detail)))
            }
        }
        if content.lastAskAt.map({ now >= $0 + configuration.askInterval }) ?? true {
            contents[id]?.lastAskAt = now
            for peer in peerOrder where peers[peer]?.isSilent == false { send(.ask([id]), to: peer, &outbox) }
        }
        deadlines.arm(.content(id), at: (contents[id]?.lastAskAt ?? now) + configuration.askInterval)
    }
}

extension AttachmentFailure {
    /// The facts for an event: numbers stay numbers.
    var detail: [ProtocolEvent.Detail] {
        switch self {
        case .noSpace(let needed, let available):
            [
                ProtocolEvent.Detail("reason", .text("noSpace")),
                ProtocolEvent.Detail("neededBytes", .integer(Int64(clamping: needed))),
                ProtocolEvent.Detail("availableBytes", .integer(Int64(clamping: available))),
            ]
        case .tooLarge(let byteCount, let limit):
            [
                ProtocolEvent.Detail("reason", .text("tooLarge")),
                ProtocolEvent.Detail("contentBytes", .integer(Int64(clamping: byteCount))),
                ProtocolEvent.Detail("limitBytes", .integer(Int64(clamping: limit))),
            ]
        case .sizeMismatch(let byteCount):
            [
                ProtocolEvent.Detail("reason", .text("sizeMismatch")),
                ProtocolEvent.Detail("contentBytes", .integer(Int64(clamping: byteCount))),
            ]
        case .storage(let failure):
            [ProtocolEvent.Detail("reason", .text(failure.word))]
        case .tooManyContents(let limit):
            [
                ProtocolEvent.Detail("reason", .text("tooManyContents")),
                ProtocolEvent.Detail("limit", .integer(Int64(limit))),
            ]
        }
    }
}

extension StorageFailure {
    /// A stable word for events.
    var word: String {
        switch self {
        case .noSpace: "noSpace"
        case .unreadable: "unreadable"
        case .corrupt: "corrupt"
        case .readOnly: "readOnly"
        case .other: "other"
        }
    }
}
