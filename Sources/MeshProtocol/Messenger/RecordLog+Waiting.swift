import MeshBase
import MeshWire

/// Records whose causes, admission or secret is not here yet: few, for a while, and each findable by what it lacks.
extension RecordLog {
    mutating func hold(_ candidate: Pending, for wait: Wait, into changes: inout [Change]) {
        let record = candidate.record
        let author = record.envelope.author
        guard isRestoring || hasRoom(author: author, source: candidate.source) else {
            changes.append(.dropped(record.id, author: author))
            return
        }
        var held = candidate
        if case .causes(let missing) = wait { held.missing = missing } else { held.missing = [] }
        pending[record.id] = held
        pendingByAuthor[author, default: 0] += 1
        if let source = candidate.source { pendingBySource[source, default: 0] += 1 }
        switch wait {
        case .causes(let missing): for cause in missing { waitingForRecord[cause, default: []].append(record.id) }
        case .admission: waitingForAdmission[author, default: []].append(record.id)
        case .secret: waitingForSecret[record.envelope.epoch, default: []].append(record.id)
        }
        // Numbers are remembered for admitted authors only, so strangers leave nothing behind but their place here.
        if authorised.contains(author), chains[record.chain] != nil || !isOverCap(author: author, chain: record.chain) {
            createChain(record.chain)
            if chains[record.chain]?.waiting[record.envelope.sequence] == nil {
                chains[record.chain]?.waiting[record.envelope.sequence] = record.id
            }
        }
    }

    func hasRoom(author: PeerID, source: PeerID?) -> Bool {
        guard pending.count < configuration.maximumPendingRecords,
            pendingByAuthor[author, default: 0] < configuration.maximumPendingRecordsPerAuthor
        else { return false }
        guard let source else { return true }
        return pendingBySource[source, default: 0] < max(1, configuration.maximumPendingRecords / 2)
    }

    /// Removes a waiting record and its place in every index but the one that led here.
    mutating func take(_ id: RecordID) -> Pending? {
        guard let held = pending.removeValue(forKey: id) else { return nil }
        decrement(&pendingByAuthor, held.record.envelope.author)
        if let source = held.source { decrement(&pendingBySource, source) }
        return held
    }

    func decrement(_ table: inout [PeerID: Int], _ peer: PeerID) {
        let count = (table[peer] ?? 0) - 1
        table[peer] = count > 0 ? count : nil
    }

    mutating func release(after id: RecordID, admitted: [PeerID]) -> [Pending] {
        var released: [Pending] = []
        for waiter in waitingForRecord.removeValue(forKey: id) ?? [] {
            pending[waiter]?.missing.remove(id)
            if pending[waiter]?.missing.isEmpty == true, let held = take(waiter) { released.append(held) }
        }
        for peer in admitted {
            let waiters = waitingForAdmission.removeValue(forKey: peer) ?? []
            released.append(contentsOf: waiters.compactMap { take($0) })
        }
        return released
    }

    /// A refused record leaves no number behind.
    mutating func forgetNumber(_ record: SignedRecord) {
        guard chains[record.chain]?.waiting[record.envelope.sequence] == record.id else { return }
        chains[record.chain]?.waiting[record.envelope.sequence] = nil
        dropIfEmpty(record.chain)
    }

    mutating func dropIfEmpty(_ key: ChainKey) {
        guard let chain = chains[key], chain.accepted.isEmpty, chain.waiting.isEmpty, chain.forkedAt == nil else {
            return
        }
        chains[key] = nil
        decrement(&chainCounts, key.author)
    }

    /// Drops what has waited since before `limit`; returns how many. Cost: O(waiting).
    mutating func dropPending(heldBefore limit: HostTime) -> Int {
        let expired = pending.filter { $0.value.since < limit }.map(\.key).sorted()
        for id in expired {
            guard let held = take(id) else { continue }
            for cause in held.missing { removeWaiter(id, from: &waitingForRecord, cause) }
            removeWaiter(id, from: &waitingForAdmission, held.record.envelope.author)
            removeWaiter(id, from: &waitingForSecret, held.record.envelope.epoch)
            forgetNumber(held.record)
        }
        return expired.count
    }

    func removeWaiter<Key: Hashable>(_ id: RecordID, from table: inout [Key: [RecordID]], _ key: Key) {
        guard var waiters = table[key] else { return }
        waiters.removeAll { $0 == id }
        table[key] = waiters.isEmpty ? nil : waiters
    }
}
