import MeshBase
import MeshWire

/// Links that come and go, and who holds what.
extension JournalStateMachine {
    /// Bytes of one announcement, below what a link message carries.
    private static let announcementBytes = 128 << 10

    mutating func linkUp(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard peer != identity else { return }
        if peers[peer] == nil {
            peers[peer] = JournalPeer(configuration: configuration)
            peerOrder.insert(peer, at: peerOrder.firstIndex { $0 > peer } ?? peerOrder.count)
        } else {
            // What was asked may be lost with the queues of the first link.
            releaseAllAsks(of: peer)
            peers[peer]?.window.heardAgain()
            holderHeard(peer, at: now, &outbox)
            lookElsewhere(peers[peer]?.candidates ?? [], at: now, &outbox)
        }
        let entries = contents.keys.sorted().compactMap { fullEntry($0) }
        for entry in entries { contents[entry.content]?.isAnnounced = true }
        announce(entries, to: peer, &outbox)
    }

    mutating func linkDown(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard let state = peers[peer] else { return }
        releaseAllAsks(of: peer)
        if !state.isSilent { discountHoldings(of: state) }
        peers[peer] = nil
        peerOrder.removeAll { $0 == peer }
        lookElsewhere(state.candidates, at: now, &outbox)
        hasChanged = true
    }

    // MARK: Saying what is here

    /// Everything this node can serve of the content; `nil` when that is nothing.
    private func fullEntry(_ id: ContentID) -> HaveEntry? {
        guard let content = contents[id] else { return nil }
        if content.isComplete {
            return HaveEntry(content: id, generation: content.generation, chunks: .complete)
        }
        guard content.presentCount > 0, let transfer = content.transfer else { return nil }
        return HaveEntry(
            content: id, generation: content.generation, chunks: .bitfield(transfer.present.bitfield))
    }

    /// `isUrgent`: nobody can ask before it is known, and nothing follows that could ride along.
    mutating func markAnnouncing(_ id: ContentID, isUrgent: Bool = false, at now: HostTime) {
        if announcingSet.insert(id).inserted { announcing.append(id) }
        deadlines.arm(.announce, at: isUrgent ? now : now + configuration.announceDelay)
    }

    /// Tells everybody what was written since the last time; members that have all of it hear only of the end.
    mutating func announce(at now: HostTime, _ outbox: inout Output) {
        let news = announcing
        announcing = []
        announcingSet = []
        var complete: [HaveEntry] = []
        var partial: [HaveEntry] = []
        for id in news {
            guard let content = contents[id], content.presentCount > 0 || content.isComplete else { continue }
            if content.isComplete || !content.isAnnounced {
                guard let entry = fullEntry(id) else { continue }
                if content.isComplete { complete.append(entry) } else { partial.append(entry) }
            } else {
                let ranges = ChunkSet.ranges(of: content.unannounced.sorted())
                guard !ranges.isEmpty, ranges.count <= JournalLimits.maximumRangesPerEntry else { continue }
                partial.append(HaveEntry(content: id, generation: content.generation, chunks: .ranges(ranges)))
            }
            contents[id]?.unannounced = []
            contents[id]?.isAnnounced = true
        }
        for peer in peerOrder {
            let fitting = partial.filter { peers[peer]?.holder[$0.content]?.isComplete != true }
            announce(complete + fitting, to: peer, &outbox)
        }
        hasChanged = true
    }

    private func announce(_ entries: [HaveEntry], to peer: PeerID, _ outbox: inout Output) {
        var batch: [HaveEntry] = []
        var size = 0
        for entry in entries {
            if size + entry.byteCount > Self.announcementBytes || batch.count == JournalLimits.maximumContentsPerMessage
            {
                if !batch.isEmpty { send(.have(batch), to: peer, &outbox) }
                batch = []
                size = 0
            }
            batch.append(entry)
            size += entry.byteCount
        }
        if !batch.isEmpty { send(.have(batch), to: peer, &outbox) }
    }

    /// Takes back everything said about the content.
    mutating func withdraw(_ id: ContentID, _ outbox: inout Output) {
        let generation = nextGeneration()
        contents[id]?.generation = generation
        contents[id]?.unannounced = []
        contents[id]?.isAnnounced = false
        let entry = HaveEntry(content: id, generation: generation, chunks: .ranges([]))
        for peer in peerOrder { send(.have([entry]), to: peer, &outbox) }
    }

    // MARK: Hearing what is elsewhere

    mutating func receiveHave(
        _ entries: [HaveEntry], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        for entry in entries {
            let limit = contents[entry.content]?.chunkCount
            guard
                let update = peers[peer]?.holder.apply(entry, chunkLimit: limit, configuration: configuration)
            else { return }
            switch update {
            case .ignored(let isRefused):
                if isRefused { statistics.announcementsDropped += 1 }
            case .changed(let gained, let lost):
                holdingChanged(entry.content, of: peer, gained: gained, lost: lost, at: now, &outbox)
            }
        }
        fill(peer, at: now, &outbox)
    }

    private mutating func holdingChanged(
        _ id: ContentID, of peer: PeerID, gained: ChunkSet, lost: ChunkSet, at now: HostTime, _ outbox: inout Output
    ) {
        guard let phase = contents[id]?.phase else { return }
        if peers[peer]?.holder[id]?.isComplete ?? false { hasChanged = true }
        guard phase != .complete, phase != .removing else { return }
        // Of a silent peer what it holds is only noted; it counts when the peer is heard.
        if contents[id]?.transfer != nil, peers[peer]?.isSilent != true {
            for chunk in lost.members { contents[id]?.transfer?.holderLost(chunk) }
            for chunk in gained.members { contents[id]?.transfer?.holderGained(chunk) }
        }
        if peers[peer]?.holder[id]?.hasAnything ?? false { peers[peer]?.addCandidate(id) }
        if phase == .hashing { askForHashes(id, at: now, &outbox) }
        updateSource(id, at: now)
    }

    /// At most one answer a second to one peer.
    mutating func receiveAsk(
        _ asked: [ContentID], from peer: PeerID, at now: HostTime, _ outbox: inout Output
    ) {
        guard let last = peers[peer]?.lastAskAnswered, now - last >= .seconds(1) else {
            statistics.requestsDropped += 1
            return
        }
        peers[peer]?.lastAskAnswered = now
        announce(asked.compactMap { fullEntry($0) }, to: peer, &outbox)
    }
}

extension HaveEntry {
    /// Bytes on the wire.
    fileprivate var byteCount: Int {
        switch chunks {
        case .complete: 37
        case .bitfield(let bytes): 41 + bytes.count
        case .ranges(let ranges): 39 + 8 * ranges.count
        }
    }
}
