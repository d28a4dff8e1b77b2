import MeshBase
import MeshCrypto
import MeshWire

/// What goes to the store, and what the store says.
extension JournalStateMachine {
    // MARK: Writes

    /// Hands a verified chunk to the store, or queues it behind those that are there.
    mutating func write(_ key: ChunkKey, bytes: [UInt8], _ outbox: inout Output) {
        writeQueue.append((key, bytes))
        pumpWrites(&outbox)
    }

    private mutating func pumpWrites(_ outbox: inout Output) {
        while writesInFlight < configuration.maximumWrites, writeHead < writeQueue.count {
            let next = writeQueue[writeHead]
            // The bytes belong to the request from here on: an entry that was handed out keeps none.
            writeQueue[writeHead].bytes = []
            writeHead += 1
            writesInFlight += 1
            outbox.append(.storage(.write(next.key.content, chunk: UInt64(next.key.chunk), bytes: next.bytes)))
        }
        if writeHead == writeQueue.count {
            writeQueue.removeAll(keepingCapacity: true)
            writeHead = 0
        } else if writeHead >= 256 {
            writeQueue.removeSubrange(0..<writeHead)
            writeHead = 0
        }
    }

    mutating func dropQueuedWrites(of id: ContentID) {
        writeQueue.removeSubrange(0..<writeHead)
        writeHead = 0
        for item in writeQueue where item.key.content == id { contents[id]?.transfer?.putBack(item.key.chunk) }
        writeQueue.removeAll { $0.key.content == id }
    }

    // MARK: Completions

    mutating func complete(_ completion: StorageCompletion, at now: HostTime, _ outbox: inout Output) {
        switch completion {
        case .began(let id): began(id, at: now, &outbox)
        case .wrote(let id, let chunk): wrote(id, chunk: chunk, at: now, &outbox)
        case .read(let id, let chunk, let peer, let bytes):
            readEnded(id, chunk: chunk, for: peer, bytes: bytes, at: now, &outbox)
        case .finished(let id): finished(id, at: now, &outbox)
        case .removed(let id): removed(id, at: now, &outbox)
        case .verified(let id, let good): verified(id, good: good, at: now, &outbox)
        case .failed(let request, let failure): failed(request, failure, at: now, &outbox)
        }
    }

    private mutating func began(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard contents[id]?.phase == .beginning else { return }
        storeRecovered(id, &outbox)
        startFetching(id, at: now, &outbox)
    }

    private mutating func wrote(_ id: ContentID, chunk: UInt64, at now: HostTime, _ outbox: inout Output) {
        writesInFlight = max(0, writesInFlight - 1)
        pumpWrites(&outbox)
        guard contents[id]?.phase == .fetching, let chunk = UInt32(exactly: chunk) else { return }
        let isProbe = contents[id]?.failure != nil && contents[id]?.retryAt == nil
        guard contents[id]?.transfer?.wrote(chunk) ?? false else { return }
        statistics.chunksWritten += 1
        contents[id]?.unannounced.append(Int(chunk))
        contents[id]?.isWaitingSaid = false
        markAnnouncing(id, at: now)
        if isProbe { storeRecovered(id, &outbox) }
        if contents[id]?.transfer?.isComplete ?? false {
            finish(id, &outbox)
        } else if isProbe {
            fillAll(id, at: now, &outbox)
        } else if contents[id]?.transfer?.asks.isEmpty ?? false {
            fillAll(id, at: now, &outbox)
            updateSource(id, at: now)
        } else if askedCount + writesInFlight + 1 >= configuration.maximumIncomingChunks {
            // The bound on chunks in memory held the windows down: they have room for one again.
            fillAll(id, at: now, &outbox)
        }
    }

    private mutating func finished(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard contents[id]?.phase == .finishing else { return }
        storeRecovered(id, &outbox)
        let wasComplete = contents[id]?.wasComplete ?? false
        contents[id]?.wasComplete = false
        becomeComplete(id, at: now)
        for attachment in contents[id]?.attachments ?? [] {
            guard let entry = catalog.entry(attachment) else { continue }
            let kind = wasComplete ? ProtocolEvent.Kind.storageRecovered : .attachmentComplete
            outbox.append(.event(event(kind, entry, by: identity)))
        }
    }

    private mutating func removed(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], content.phase == .removing else { return }
        guard content.isWanted else {
            contents.removeValue(forKey: id)
            return
        }
        // Wanted again meanwhile: from the beginning, with what was imported if the store still has it.
        var fresh = JournalContent(id: id, generation: nextGeneration())
        fresh.attachments = content.attachments
        fresh.pendingImports = content.pendingImports
        fresh.byteCount = content.byteCount
        fresh.leaves = content.leaves
        fresh.isStored = content.leaves != nil
        contents[id] = fresh
        evaluate(id, at: now, &outbox)
    }

    /// What the store really has, chunk by chunk (ATT-12, AB-79).
    private mutating func verified(_ id: ContentID, good: [Bool], at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], content.phase == .verifying, let leaves = content.leaves,
            let byteCount = content.byteCount
        else { return }
        let present = ChunkSet(Array(good.prefix(leaves.count)))
        if present.count == leaves.count, content.wasComplete {
            contents[id]?.wasComplete = false
            becomeComplete(id, at: now)
            return
        }
        prepareTransfer(id, chunkCount: leaves.count, present: present)
        guard content.wasComplete else {
            begin(id, byteCount: byteCount, leaves: leaves, &outbox)
            return
        }
        let badCount = Int64(leaves.count - present.count)
        let detail = [
            ProtocolEvent.Detail("content", .text(id.description)),
            ProtocolEvent.Detail("badChunks", .integer(badCount)),
        ]
        outbox.append(.event(ProtocolEvent(.storageFailed, detail: detail)))
        // The damaged chunks are taken back before anybody asks for them.
        withdraw(id, &outbox)
        contents[id]?.phase = .beginning
        outbox.append(.storage(.reopen(id)))
        hasChanged = true
    }

    // MARK: Failures

    private mutating func failed(
        _ request: StorageRequest, _ failure: StorageFailure, at now: HostTime, _ outbox: inout Output
    ) {
        let id = request.content
        switch request {
        case .begin, .reopen:
            if contents[id]?.phase == .beginning { pause(id, failure, at: now, &outbox) }
        case .finish:
            guard contents[id]?.phase == .finishing else { return }
            if failure == .corrupt || failure == .unreadable {
                statistics.storageFailures += 1
                verify(id, at: now, &outbox)
            } else {
                pause(id, failure, at: now, &outbox)
            }
        case .write(_, let chunk, let bytes):
            writeFailed(id, chunk: chunk, bytes: bytes, failure, at: now, &outbox)
        case .read(_, let chunk, let peer):
            readFailed(id, chunk: chunk, for: peer, at: now, &outbox)
        case .verify:
            statistics.storageFailures += 1
            verified(id, good: [], at: now, &outbox)
        case .remove:
            statistics.storageFailures += 1
            removed(id, at: now, &outbox)
        }
    }

    private mutating func writeFailed(
        _ id: ContentID, chunk: UInt64, bytes: [UInt8], _ failure: StorageFailure, at now: HostTime,
        _ outbox: inout Output
    ) {
        writesInFlight = max(0, writesInFlight - 1)
        defer { pumpWrites(&outbox) }
        guard contents[id]?.phase == .fetching, let chunk = UInt32(exactly: chunk) else { return }
        contents[id]?.transfer?.putBack(chunk)
        guard contents[id]?.probe == nil, contents[id]?.retryAt == nil else { return }
        // Stop the flow, keep what is written, and this one chunk to try again with.
        cancelFetch(id, at: now, &outbox)
        contents[id]?.probe = (chunk, bytes)
        pause(id, failure, at: now, &outbox)
    }

    /// A content that cannot be read back is looked at as a whole; nothing of it is served meanwhile.
    mutating func suspect(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], content.phase == .complete || content.phase == .fetching,
            content.lastVerifyAt.map({ now >= $0 + configuration.verifyInterval }) ?? true
        else { return }
        contents[id]?.wasComplete = content.phase == .complete
        cancelFetch(id, at: now, &outbox)
        verify(id, at: now, &outbox)
        hasChanged = true
    }
}
