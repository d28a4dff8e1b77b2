import MeshBase
import MeshWire

/// Peers that say nothing: for a moment, with chunks asked of them, or for so long that they count as dead while their
/// link is still kept for their return.
extension JournalStateMachine {
    /// The peer has been silent with chunks asked of it: they are asked of others, and it rests.
    mutating func lookAtPeer(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard let state = peers[peer] else { return }
        if !state.asked.isEmpty {
            let deadline = state.window.stallDeadline(configuration)
            guard now >= deadline else {
                deadlines.arm(.peer(peer), at: deadline)
                return
            }
            statistics.stalls += 1
            peers[peer]?.window.stalled(at: now, configuration: configuration)
            for id in Set(state.asked.keys.map(\.content)).sorted() {
                releaseAsks(of: peer, content: id)
                fillAll(id, at: now, &outbox)
                updateSource(id, at: now)
            }
        }
        fill(peer, at: now, &outbox)
    }

    /// The peer counts as dead: what was asked of it is asked of others at once, and it is no holder until it is heard.
    /// What it announced, and still announces, is kept for that moment.
    mutating func holderSilent(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard let state = peers[peer], !state.isSilent else { return }
        statistics.silences += 1
        releaseAllAsks(of: peer)
        discountHoldings(of: state)
        peers[peer]?.isSilent = true
        lookElsewhere(state.candidates, at: now, &outbox)
        hasChanged = true
    }

    /// The peer was heard again over the link that it had: all it holds counts again, and it is asked at once.
    mutating func holderHeard(_ peer: PeerID, at now: HostTime, _ outbox: inout Output) {
        guard let state = peers[peer], state.isSilent else { return }
        peers[peer]?.isSilent = false
        peers[peer]?.window.heardAgain()
        for (id, holding) in state.holder.holdings {
            for chunk in holding.chunks.members { contents[id]?.transfer?.holderGained(chunk) }
        }
        lookElsewhere(state.candidates, at: now, &outbox)
        hasChanged = true
    }

    /// What the peer holds counts no longer: it is gone, or says nothing.
    mutating func discountHoldings(of state: JournalPeer) {
        for (id, holding) in state.holder.holdings {
            for chunk in holding.chunks.members { contents[id]?.transfer?.holderLost(chunk) }
        }
    }

    /// Asks whoever is left, or is back, for what is missing of these contents.
    mutating func lookElsewhere(_ ids: [ContentID], at now: HostTime, _ outbox: inout Output) {
        for id in ids.sorted() {
            guard let phase = contents[id]?.phase else { continue }
            if phase == .hashing { askForHashes(id, at: now, &outbox) }
            if phase == .fetching { fillAll(id, at: now, &outbox) }
            updateSource(id, at: now)
        }
    }

    /// Chunks and hashes asked of the peer may be asked of others, or once more of it.
    mutating func releaseAllAsks(of peer: PeerID) {
        for id in Set((peers[peer]?.asked ?? [:]).keys.map(\.content)).sorted() { releaseAsks(of: peer, content: id) }
        for key in peers[peer]?.hashesAsked ?? [] {
            if let page = key.page {
                contents[key.content]?.hashes.pageAsks.removeValue(forKey: page)
            } else {
                contents[key.content]?.hashes.manifestAsk = nil
            }
        }
        peers[peer]?.hashesAsked = []
    }

    /// What the peer has of the content, while it counts as a holder.
    func holding(of id: ContentID, by peer: PeerID) -> HolderTable.Holding? {
        guard let state = peers[peer], !state.isSilent else { return nil }
        return state.holder[id]
    }
}
