import MeshBase
import MeshCrypto
import MeshWire

/// Answering what peers ask for, within what the link's queue and the store take.
extension JournalStateMachine {
    mutating func receiveRequest(
        _ id: ContentID, chunks: [UInt32], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard !isMuted(peer, at: now) else {
            statistics.requestsDropped += chunks.count
            return
        }
        var absent: [UInt32] = []
        var wasted = 0
        for chunk in chunks {
            guard contents[id]?.canServe(Int(chunk)) ?? false else {
                absent.append(chunk)
                wasted += 1
                continue
            }
            switch peers[peer]?.serving.enqueue(.chunk(id, chunk), limit: configuration.maximumPendingPerPeer) {
            case .queued: break
            case .repeated: wasted += 1
            case .full, nil: statistics.requestsDropped += 1
            }
        }
        if !absent.isEmpty {
            let hasNothing = (contents[id]?.presentCount ?? 0) == 0
            send(.notHere(id, chunks: hasNothing ? [] : absent), to: peer, &outbox)
        }
        charge(peer, wasted, at: now, &outbox)
        serve(peer, at: now, &outbox)
    }

    mutating func receiveWant(
        _ item: ServeQueue.Item, from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard !isMuted(peer, at: now) else {
            statistics.requestsDropped += 1
            return
        }
        guard (contents[item.content]?.presentCount ?? 0) > 0 || isEmptyFile(item.content) else {
            send(.notHere(item.content, chunks: []), to: peer, &outbox)
            charge(peer, 1, at: now, &outbox)
            return
        }
        switch peers[peer]?.serving.enqueue(item, limit: configuration.maximumPendingPerPeer) {
        case .queued: break
        case .repeated: charge(peer, 1, at: now, &outbox)
        case .full, nil: statistics.requestsDropped += 1
        }
        serve(peer, at: now, &outbox)
    }

    private func isEmptyFile(_ id: ContentID) -> Bool {
        contents[id]?.isComplete == true && contents[id]?.byteCount == 0
    }

    mutating func receiveCancel(
        _ id: ContentID, chunks: [UInt32], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        let cancelled = peers[peer]?.serving.cancel(id, chunks: chunks) ?? 0
        charge(peer, cancelled, at: now, &outbox)
        serve(peer, at: now, &outbox)
    }

    private func isMuted(_ peer: PeerID, at now: HostTime) -> Bool {
        peers[peer]?.serving.isMuted(at: now) ?? true
    }

    /// Requests that came to nothing cost their sender (AB-39).
    private mutating func charge(_ peer: PeerID, _ count: Int, at now: HostTime, _ outbox: inout Output) {
        guard count > 0,
            peers[peer]?.serving.waste(count, at: now, configuration: configuration) ?? false
        else { return }
        statistics.floodMutes += 1
        let detail = [ProtocolEvent.Detail("limit", .text("attachmentRequests"))]
        outbox.append(.event(ProtocolEvent(.limitReached, subject: peer, detail: detail)))
    }

    // MARK: The queue

    /// Hands the peer's requests on while its link takes more: a read for each chunk, hashes at once.
    mutating func serve(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        while let item = peers[peer]?.serving.next {
            let isServed =
                if case .chunk(let id, let chunk) = item {
                    serveChunk(ChunkKey(content: id, chunk: chunk), to: peer, &outbox)
                } else {
                    serveHashes(item, to: peer, &outbox)
                }
            guard isServed else { return }
        }
    }

    /// Whether the queue moves on.
    private mutating func serveChunk(_ key: ChunkKey, to peer: PeerID, _ outbox: inout Output) -> Bool {
        guard let size = servableSize(key) else {
            peers[peer]?.serving.removeNext()
            send(.notHere(key.content, chunks: [key.chunk]), to: peer, &outbox)
            return true
        }
        guard readsInFlight < configuration.maximumReads,
            peers[peer]?.serving.takesRead(of: size, limit: configuration.maximumReadsPerPeer) ?? false
        else { return false }
        peers[peer]?.serving.removeNext()
        peers[peer]?.serving.readStarted(key, byteCount: size)
        readsInFlight += 1
        outbox.append(.storage(.read(key.content, chunk: UInt64(key.chunk), for: peer)))
        return true
    }

    /// Whether the queue moves on.
    private mutating func serveHashes(_ item: ServeQueue.Item, to peer: PeerID, _ outbox: inout Output) -> Bool {
        guard let message = hashMessage(item) else {
            peers[peer]?.serving.removeNext()
            send(.notHere(item.content, chunks: []), to: peer, &outbox)
            return true
        }
        let size = message.hashCount * Bytes32.byteCount + 64
        // The whole list or nothing; one that is larger than half a fresh link's queue goes when that much is free.
        let needed = min(size, configuration.initialSendQueueBytes / 2)
        guard let credit = peers[peer]?.serving.credit, credit >= needed else { return false }
        peers[peer]?.serving.removeNext()
        peers[peer]?.serving.spend(size)
        send(message, to: peer, &outbox)
        return true
    }

    private func servableSize(_ key: ChunkKey) -> Int? {
        guard contents[key.content]?.canServe(Int(key.chunk)) ?? false,
            let byteCount = contents[key.content]?.byteCount
        else { return nil }
        return ChunkTree.chunkByteCount(at: UInt64(key.chunk), byteCount: byteCount)
    }

    private mutating func hashMessage(_ item: ServeQueue.Item) -> JournalMessage? {
        let id = item.content
        guard let key, let content = contents[id], let byteCount = content.byteCount, let leaves = content.leaves,
            content.phase == .complete || content.phase == .fetching || content.phase == .finishing
        else { return nil }
        if case .page(_, let page) = item {
            let start = Int(page) * ChunkTree.leavesPerPage
            guard start < leaves.count else { return nil }
            let end = min(start + ChunkTree.leavesPerPage, leaves.count)
            return .page(id, page: page, leaves: Array(leaves[start..<end]))
        }
        if leaves.count <= ChunkTree.leavesPerPage { return .manifest(id, byteCount: byteCount, hashes: leaves) }
        if content.pageRoots.isEmpty {
            contents[id]?.pageRoots = ChunkTree.pageRoots(key: key, leaves: leaves)
        }
        return .manifest(id, byteCount: byteCount, hashes: contents[id]?.pageRoots ?? [])
    }

    // MARK: Reads

    mutating func readEnded(
        _ id: ContentID, chunk: UInt64, for peer: PeerID, bytes: [UInt8], at now: HostTime, _ outbox: inout Output
    ) {
        defer { serveAfterRead(peer, at: now, &outbox) }
        guard let chunk = UInt32(exactly: chunk) else { return }
        let key = ChunkKey(content: id, chunk: chunk)
        let isServable = contents[id]?.canServe(Int(chunk)) ?? false
        // Bit rot is found here and not by the receiver: what is damaged is never spread (AB-79).
        let isSound = isServable && isGood(key, bytes)
        guard peers[peer]?.serving.readEnded(key, isSent: isSound) ?? false else { return }
        guard isSound else {
            send(.notHere(id, chunks: [chunk]), to: peer, &outbox)
            if isServable { suspect(id, at: now, &outbox) }
            return
        }
        statistics.chunksServed += 1
        statistics.bytesServed &+= UInt64(bytes.count)
        let message = JournalMessage.chunk(id, index: chunk, bytes: bytes)
        outbox.append(.send(message, to: peer, priority: .attachment, isReliable: true))
    }

    mutating func readFailed(
        _ id: ContentID, chunk: UInt64, for peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        defer { serveAfterRead(peer, at: now, &outbox) }
        statistics.storageFailures += 1
        guard let chunk = UInt32(exactly: chunk) else { return }
        if peers[peer]?.serving.readEnded(ChunkKey(content: id, chunk: chunk), isSent: false) ?? false {
            send(.notHere(id, chunks: [chunk]), to: peer, &outbox)
        }
        suspect(id, at: now, &outbox)
    }

    /// The next read for this peer; when the bound on all reads was reached, for the others as well, in turn.
    private mutating func serveAfterRead(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        let wasFull = readsInFlight >= configuration.maximumReads
        readsInFlight = max(0, readsInFlight - 1)
        guard wasFull, !peerOrder.isEmpty else {
            serve(peer, at: now, &outbox)
            return
        }
        servingTurn &+= 1
        for step in peerOrder.indices { serve(peerOrder[(servingTurn &+ step) % peerOrder.count], at: now, &outbox) }
    }
}

extension JournalMessage {
    /// Hashes carried.
    fileprivate var hashCount: Int {
        switch self {
        case .manifest(_, _, let hashes): hashes.count
        case .page(_, _, let leaves): leaves.count
        default: 0
        }
    }
}
