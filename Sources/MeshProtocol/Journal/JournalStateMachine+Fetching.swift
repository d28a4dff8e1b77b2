import MeshBase
import MeshCrypto
import MeshWire

/// Asking for hashes and chunks, and what comes back.
extension JournalStateMachine {
    private static let maximumHashAsksPerPeer = 16
    private static let maximumPageAsks = 4
    /// Candidates looked at in one go; the rest get their turn later.
    private static let maximumVisits = 256

    // MARK: Hashes

    /// Asks one holder for the manifest, then holders for the pages.
    mutating func askForHashes(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        guard let content = contents[id], content.phase == .hashing else { return }
        if content.hashes.pageRoots.isEmpty {
            guard content.hashes.manifestAsk == nil, let peer = hashSource(id, at: now) else { return }
            contents[id]?.hashes.manifestAsk = JournalContent.Hashes.Ask(peer: peer, time: now)
            peers[peer]?.hashesAsked.insert(JournalPeer.HashKey(content: id, page: nil))
            send(.wantManifest(id), to: peer, &outbox)
        } else {
            for page in 0..<UInt32(content.hashes.pageRoots.count) {
                guard (contents[id]?.hashes.pageAsks.count ?? 0) < Self.maximumPageAsks else { break }
                guard content.hashes.pages[page] == nil, content.hashes.pageAsks[page] == nil else { continue }
                guard let peer = hashSource(id, at: now) else { break }
                contents[id]?.hashes.pageAsks[page] = JournalContent.Hashes.Ask(peer: peer, time: now)
                peers[peer]?.hashesAsked.insert(JournalPeer.HashKey(content: id, page: page))
                send(.wantPage(id, page: page), to: peer, &outbox)
            }
        }
        deadlines.arm(.content(id), at: now + configuration.hashTimeout)
    }

    /// A holder at random, so that a bad one is not asked again and again.
    private mutating func hashSource(_ id: ContentID, at now: HostTime) -> PeerID? {
        let sources = peerOrder.filter { peer in
            guard let state = peers[peer] else { return false }
            return (holding(of: id, by: peer)?.hasAnything ?? false) && !state.isMuted(for: id, at: now)
                && state.hashesAsked.count < Self.maximumHashAsksPerPeer
        }
        return sources.isEmpty ? nil : sources[random.below(sources.count)]
    }

    /// Forgets what was asked too long ago.
    mutating func expireHashAsks(_ id: ContentID, at now: HostTime) {
        guard let hashes = contents[id]?.hashes else { return }
        let limit = now - configuration.hashTimeout
        if let ask = hashes.manifestAsk, ask.time <= limit {
            contents[id]?.hashes.manifestAsk = nil
            peers[ask.peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: nil))
            statistics.stalls += 1
        }
        for (page, ask) in hashes.pageAsks where ask.time <= limit {
            contents[id]?.hashes.pageAsks.removeValue(forKey: page)
            peers[ask.peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: page))
            statistics.stalls += 1
        }
    }

    /// Forgets all hash requests of a content; returns who had any, ascending.
    @discardableResult
    mutating func forgetHashAsks(_ id: ContentID) -> [PeerID] {
        guard let hashes = contents[id]?.hashes else { return [] }
        var asked: Set<PeerID> = []
        if let ask = hashes.manifestAsk {
            peers[ask.peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: nil))
            asked.insert(ask.peer)
        }
        for (page, ask) in hashes.pageAsks {
            peers[ask.peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: page))
            asked.insert(ask.peer)
        }
        contents[id]?.hashes = JournalContent.Hashes()
        return asked.sorted()
    }

    mutating func receiveManifest(
        _ id: ContentID, byteCount: UInt64, hashes: [Bytes32], from peer: PeerID, at now: HostTime,
        _ outbox: inout Output
    ) {
        guard let key, contents[id]?.phase == .hashing,
            peers[peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: nil)) != nil
        else { return }
        contents[id]?.hashes.manifestAsk = nil
        let isOnePage = ChunkTree.pageCount(byteCount: byteCount) <= 1
        let proven =
            isOnePage
            ? ChunkTree.contentID(key: key, leaves: hashes, byteCount: byteCount)
            : ChunkTree.contentID(key: key, pageRoots: hashes, byteCount: byteCount)
        guard proven == id else {
            rejectHashes(id, from: peer, at: now, &outbox)
            return
        }
        contents[id]?.byteCount = byteCount
        guard byteCount <= min(configuration.maximumFetchBytes, JournalLimits.maximumContentBytes) else {
            contents[id]?.phase = .idle
            fail(id, .tooLarge(byteCount: byteCount, limit: configuration.maximumFetchBytes), &outbox)
            return
        }
        if isOnePage {
            completeHashes(id, byteCount: byteCount, leaves: hashes, &outbox)
        } else {
            contents[id]?.hashes.pageRoots = hashes
            askForHashes(id, at: now, &outbox)
        }
    }

    mutating func receivePage(
        _ id: ContentID, page: UInt32, leaves: [Bytes32], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard let key, let content = contents[id], content.phase == .hashing, let byteCount = content.byteCount,
            peers[peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: page)) != nil,
            Int(page) < content.hashes.pageRoots.count
        else { return }
        contents[id]?.hashes.pageAsks.removeValue(forKey: page)
        let root = content.hashes.pageRoots[Int(page)]
        // One bad leaf refuses the page as a whole: nothing of it is kept (AB-75).
        guard ChunkTree.verify(leaves: leaves, ofPage: UInt64(page), byteCount: byteCount, pageRoot: root, key: key)
        else {
            rejectHashes(id, from: peer, at: now, &outbox)
            return
        }
        contents[id]?.hashes.pages[page] = leaves
        let pages = contents[id]?.hashes.pages ?? [:]
        guard pages.count == content.hashes.pageRoots.count else {
            askForHashes(id, at: now, &outbox)
            return
        }
        let all = pages.keys.sorted().flatMap { pages[$0] ?? [] }
        contents[id]?.pageRoots = content.hashes.pageRoots
        completeHashes(id, byteCount: byteCount, leaves: all, &outbox)
    }

    private mutating func completeHashes(
        _ id: ContentID, byteCount: UInt64, leaves: [Bytes32], _ outbox: inout Output
    ) {
        forgetHashAsks(id)
        contents[id]?.byteCount = byteCount
        contents[id]?.leaves = leaves
        prepareTransfer(id, chunkCount: leaves.count, present: ChunkSet())
        begin(id, byteCount: byteCount, leaves: leaves, &outbox)
        hasChanged = true
    }

    private mutating func rejectHashes(
        _ id: ContentID, from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        statistics.rejectedHashes += 1
        strike(peer, for: id, what: "hashes", at: now, &outbox)
        askForHashes(id, at: now, &outbox)
        updateSource(id, at: now)
    }

    private mutating func strike(
        _ peer: PeerID, for id: ContentID, what: String, at now: HostTime, _ outbox: inout Output
    ) {
        let mutedUntil = peers[peer]?.strike(id, at: now, configuration: configuration)
        if let mutedUntil { deadlines.arm(.content(id), at: mutedUntil) }
        let detail = [
            ProtocolEvent.Detail("content", .text(id.description)), ProtocolEvent.Detail("what", .text(what)),
        ]
        outbox.append(.event(ProtocolEvent(.chunkRejected, subject: peer, detail: detail)))
    }

    // MARK: Asking for chunks

    /// Lets every holder of the content use its window.
    mutating func fillAll(_ id: ContentID, at now: HostTime, _ outbox: inout Output) {
        for peer in peerOrder {
            guard holding(of: id, by: peer)?.hasAnything ?? false else { continue }
            peers[peer]?.addCandidate(id)
            fill(peer, at: now, &outbox)
        }
    }

    /// Asks the peer for as much as its window takes, over all contents of which it has something.
    mutating func fill(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard peers[peer]?.isSilent == false, peers[peer]?.candidates.isEmpty == false else { return }
        if let rest = peers[peer]?.window.restsUntil, now < rest {
            deadlines.arm(.peer(peer), at: rest)
            return
        }
        var position = 0
        var visits = 0
        while let room = room(for: peer), room > 0, visits < Self.maximumVisits {
            guard let id = peers[peer]?.candidate(at: position) else { return }
            visits += 1
            guard let phase = contents[id]?.phase, phase != .complete, phase != .removing else {
                peers[peer]?.removeCandidate(at: position)
                continue
            }
            position += 1
            if phase == .hashing {
                askForHashes(id, at: now, &outbox)
            } else if phase == .fetching {
                ask(peer, for: id, room: room, at: now, &outbox)
            }
        }
        if visits == Self.maximumVisits { peers[peer]?.rotateCandidates(by: position) }
    }

    private func room(for peer: PeerID) -> Int? {
        guard let size = peers[peer]?.window.size, let askedHere = peers[peer]?.asked.count else { return nil }
        let incoming = askedCount + (writeQueue.count - writeHead) + writesInFlight
        return min(size - askedHere, configuration.maximumIncomingChunks - incoming)
    }

    private mutating func ask(
        _ peer: PeerID, for id: ContentID, room: Int, at now: HostTime, _ outbox: inout Output
    ) {
        guard contents[id]?.failure == nil, let holding = peers[peer]?.holder[id], holding.hasAnything,
            peers[peer]?.isMuted(for: id, at: now) != true
        else { return }
        let count = min(room, JournalLimits.maximumChunksPerRequest)
        var chunks = pick(id, holding, count: count, at: now)
        if chunks.isEmpty { chunks = pickDuplicates(id, holding, of: peer, count: count, at: now) }
        guard !chunks.isEmpty else { return }
        for chunk in chunks {
            contents[id]?.transfer?.asked(chunk, of: peer, at: now)
            let isFirst = peers[peer]?.asked.isEmpty ?? true
            guard let ask = peers[peer]?.window.ask(at: now, isFirst: isFirst) else { continue }
            peers[peer]?.asked[ChunkKey(content: id, chunk: chunk)] = ask
            peers[peer]?.late.removeValue(forKey: ChunkKey(content: id, chunk: chunk))
            askedCount += 1
        }
        if let deadline = peers[peer]?.window.stallDeadline(configuration) { deadlines.arm(.peer(peer), at: deadline) }
        send(.request(id, chunks: chunks), to: peer, &outbox)
    }

    private mutating func pick(
        _ id: ContentID, _ holding: HolderTable.Holding, count: Int, at now: HostTime
    ) -> [UInt32] {
        guard contents[id]?.transfer?.isAllTaken == false else { return [] }
        guard holding.isComplete else {
            return contents[id]?.transfer?.pick(fromPartial: holding.chunks, count: count, random: &random) ?? []
        }
        let rank = rank(for: id)
        let picked = contents[id]?.transfer?.pick(
            fromCompleteAs: rank, count: count, at: now, patience: configuration.spreadDelay, random: &random)
        if let retryAt = picked?.retryAt { deadlines.arm(.content(id), at: retryAt) }
        return picked?.chunks ?? []
    }

    /// This node's place among the linked members that are heard and lack the content: everybody fetches everything.
    private func rank(for id: ContentID) -> ChunkTransfer.Rank {
        var index = 0
        var count = 1
        for peer in peerOrder where peers[peer]?.isSilent == false && peers[peer]?.holder[id]?.isComplete != true {
            count += 1
            if peer < identity { index += 1 }
        }
        return ChunkTransfer.Rank(index: index, count: count)
    }

    private mutating func pickDuplicates(
        _ id: ContentID, _ holding: HolderTable.Holding, of peer: PeerID, count: Int, at now: HostTime
    ) -> [UInt32] {
        guard contents[id]?.transfer?.isEndgame ?? false else { return [] }
        // Twice what this peer usually takes: asking it is worth it then, whoever was asked first.
        let usual = peers[peer]?.window.serviceTime ?? configuration.minimumStallTimeout
        let age = max(usual * 2, configuration.announceDelay)
        deadlines.arm(.content(id), at: now + age)
        return contents[id]?.transfer?.duplicates(
            heldIn: holding.isComplete ? nil : holding.chunks, notAskedOf: peer, count: count, age: age, at: now) ?? []
    }

    // MARK: What comes back

    mutating func receiveChunk(
        _ key: ChunkKey, bytes: [UInt8], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard let ask = takeAsk(key, of: peer) else {
            statistics.unexpectedChunks += 1
            return
        }
        peers[peer]?.window.chunkArrived(byteCount: bytes.count, ask: ask, at: now, configuration: configuration)
        statistics.chunksReceived += 1
        defer { fill(peer, at: now, &outbox) }
        guard contents[key.content]?.expects(key.chunk) ?? false else {
            statistics.duplicateChunks += 1
            return
        }
        guard isGood(key, bytes) else {
            rejectChunk(key, from: peer, at: now, &outbox)
            return
        }
        guard let asked = contents[key.content]?.transfer?.arrived(key.chunk) else {
            statistics.duplicateChunks += 1
            return
        }
        statistics.bytesReceived &+= UInt64(bytes.count)
        contents[key.content]?.rate.add(bytes.count, at: now)
        for other in asked where other.peer != peer {
            giveUp(key, of: other.peer)
            send(.cancel(key.content, chunks: [key.chunk]), to: other.peer, &outbox)
        }
        write(key, bytes: bytes, &outbox)
    }

    private mutating func takeAsk(_ key: ChunkKey, of peer: PeerID) -> TransferWindow.Ask? {
        if let ask = peers[peer]?.asked.removeValue(forKey: key) {
            askedCount -= 1
            return ask
        }
        return peers[peer]?.late.removeValue(forKey: key)
    }

    /// Whether the bytes are the chunk's, by length and hash.
    func isGood(_ chunk: ChunkKey, _ bytes: [UInt8]) -> Bool {
        guard let key, let content = contents[chunk.content], let byteCount = content.byteCount,
            let leaves = content.leaves, Int(chunk.chunk) < leaves.count,
            bytes.count == ChunkTree.chunkByteCount(at: UInt64(chunk.chunk), byteCount: byteCount)
        else { return false }
        return ChunkTree.leaf(key: key, index: UInt64(chunk.chunk), chunk: bytes.span) == leaves[Int(chunk.chunk)]
    }

    /// A bad chunk costs its sender, not the file.
    private mutating func rejectChunk(
        _ key: ChunkKey, from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        statistics.rejectedChunks += 1
        contents[key.content]?.transfer?.released(key.chunk, by: peer)
        strike(peer, for: key.content, what: "chunk", at: now, &outbox)
        if peers[peer]?.isMuted(for: key.content, at: now) ?? false {
            releaseAsks(of: peer, content: key.content)
            send(.cancel(key.content, chunks: []), to: peer, &outbox)
        }
        fillAll(key.content, at: now, &outbox)
        updateSource(key.content, at: now)
    }

    /// The peer is not expected to bring what it was asked for of this content.
    mutating func releaseAsks(of peer: PeerID, content id: ContentID) {
        let keys = (peers[peer]?.asked.keys.filter { $0.content == id } ?? []).sorted { $0.chunk < $1.chunk }
        for key in keys {
            giveUp(key, of: peer)
            contents[id]?.transfer?.released(key.chunk, by: peer)
        }
    }

    mutating func receiveNotHere(
        _ id: ContentID, chunks: [UInt32], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard let phase = contents[id]?.phase, phase != .complete else { return }
        if chunks.isEmpty {
            forgetHolding(of: id, by: peer)
            releaseAsks(of: peer, content: id)
        } else {
            for chunk in chunks where takeAsk(ChunkKey(content: id, chunk: chunk), of: peer) != nil {
                contents[id]?.transfer?.released(chunk, by: peer)
                if peers[peer]?.holder[id]?.isComplete ?? false {
                    // It said it had all; what it has is unknown until it says so again.
                    forgetHolding(of: id, by: peer)
                } else if peers[peer]?.holder.remove(Int(chunk), of: id) ?? false, peers[peer]?.isSilent == false {
                    contents[id]?.transfer?.holderLost(Int(chunk))
                }
            }
        }
        if contents[id]?.phase == .hashing {
            askForHashes(id, at: now, &outbox)
        } else {
            fillAll(id, at: now, &outbox)
        }
        updateSource(id, at: now)
    }

    private mutating func forgetHolding(of id: ContentID, by peer: PeerID) {
        let lost = peers[peer]?.holder.removeAll(of: id)?.chunks.members ?? []
        if peers[peer]?.isSilent == false { for chunk in lost { contents[id]?.transfer?.holderLost(chunk) } }
        guard let hashes = contents[id]?.hashes else { return }
        if hashes.manifestAsk?.peer == peer { contents[id]?.hashes.manifestAsk = nil }
        peers[peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: nil))
        for (page, ask) in hashes.pageAsks where ask.peer == peer {
            contents[id]?.hashes.pageAsks.removeValue(forKey: page)
            peers[peer]?.hashesAsked.remove(JournalPeer.HashKey(content: id, page: page))
        }
    }
}
