import MeshBase
import MeshCrypto
import MeshWire

/// From arrival to verdict: what must hold, and what follows when it does.
extension RecordLog {
    /// Accepts what can be, and whatever that sets free, without recursion.
    mutating func process(_ arrivals: [Pending], at now: HostTime, into changes: inout [Change]) {
        var queue = arrivals
        var position = 0
        while position < queue.count {
            let candidate = queue[position]
            position += 1
            let released = consider(candidate, into: &changes)
            queue.append(contentsOf: released)
        }
    }

    /// One record: accepted, refused or put to wait. Returns what its acceptance sets free.
    mutating func consider(_ candidate: Pending, into changes: inout [Change]) -> [Pending] {
        let record = candidate.record
        let author = record.envelope.author
        let missing = record.causes.filter { stored[$0] == nil }
        guard missing.isEmpty else {
            hold(candidate, for: .causes(Set(missing)), into: &changes)
            return []
        }
        guard record.envelope.kind == .genesis || authorised.contains(author) else {
            hold(candidate, for: .admission, into: &changes)
            return []
        }
        guard let secret = secrets[record.envelope.epoch] else {
            hold(candidate, for: .secret, into: &changes)
            return []
        }
        noteForkIfRivalled(record, into: &changes)
        if let refusal = refusalByCauses(record) {
            changes.append(.refused(record.id, author: author, refusal, source: candidate.source))
            forgetNumber(record)
            return []
        }
        guard let body = record.openBody(with: secret) else {
            changes.append(.refused(record.id, author: author, .sealBroken, source: candidate.source))
            forgetNumber(record)
            return []
        }
        guard let admitted = admittedPeer(by: record, body: body) else {
            changes.append(.refused(record.id, author: author, .badBody, source: candidate.source))
            forgetNumber(record)
            return []
        }
        return accept(record, body: body, admitted: admitted, into: &changes)
    }

    /// Checked, not believed: a Lamport time is exactly one more than the greatest of the causes (AB-66), and a chain
    /// has no gap and no second branch.
    func refusalByCauses(_ record: SignedRecord) -> Refusal? {
        let envelope = record.envelope
        guard envelope.kind != .genesis else { return nil }
        let greatest = record.causes.compactMap { stored[$0]?.order.lamport }.max() ?? 0
        guard greatest < .max, envelope.lamport == greatest + 1 else { return .wrongLamport }
        // A rival of GENESIS has a number that is taken and yet not void.
        if let chain = chains[record.chain], !chain.isVoid(envelope.sequence), envelope.sequence <= chain.contiguous {
            return .notContinuous
        }
        guard envelope.sequence > 1 else { return nil }
        guard let previous = stored[envelope.previous], previous.order.author == envelope.author,
            previous.order.incarnation == envelope.incarnation, previous.order.sequence == envelope.sequence - 1
        else { return .notContinuous }
        return nil
    }

    /// Whom the record lets write: its subject for ADMIT, its author for GENESIS, nobody (an empty list) for others.
    /// Nil when the body is not what its kind says.
    func admittedPeer(by record: SignedRecord, body: [UInt8]) -> [PeerID]? {
        switch record.envelope.kind {
        case .genesis:
            return (try? GenesisBody(decoding: body)) == nil ? nil : [record.envelope.author]
        case .admit:
            guard let admission = try? AdmitBody(decoding: body) else { return nil }
            return [admission.subject]
        case .remove: return (try? RemoveBody(decoding: body)) == nil ? nil : []
        case .epoch: return (try? EpochBody(decoding: body)) == nil ? nil : []
        case .end: return (try? EndBody(decoding: body)) == nil ? nil : []
        default:
            return []
        }
    }

    mutating func accept(
        _ record: SignedRecord, body: [UInt8], admitted: [PeerID], into changes: inout [Change]
    ) -> [Pending] {
        let envelope = record.envelope
        createChain(record.chain)
        let isVoid = chains[record.chain]?.isVoid(envelope.sequence) ?? false
        stored[record.id] = Stored(
            bytes: record.bytes, order: record.order, kind: envelope.kind, epoch: envelope.epoch, isVoid: isVoid)
        recordCounts[envelope.author, default: 0] += 1
        greatestLamport = max(greatestLamport, envelope.lamport)
        if isVoid {
            changes.append(.knownVoid(acceptedRecord(record, body: body), bytes: record.bytes))
        } else {
            chains[record.chain]?.accepted.append(record.id)
            chains[record.chain]?.waiting[envelope.sequence] = nil
            for cause in record.causes { heads.remove(cause) }
            heads.insert(record.id)
            cachedHead = nil
            if envelope.kind == .genesis { genesisID = record.id }
            changes.append(.accepted(acceptedRecord(record, body: body), bytes: record.bytes))
        }
        // Admission by a void record still counts: the newcomer did nothing wrong, and a right to write never lapses by
        // arrival order.
        for peer in admitted { authorised.insert(peer) }
        noteEpoch(record, body: body)
        return release(after: record.id, admitted: admitted) + deriveSecrets()
    }

    func acceptedRecord(_ record: SignedRecord, body: [UInt8]) -> AcceptedRecord {
        AcceptedRecord(
            id: record.id, kind: record.envelope.kind, author: record.envelope.author,
            incarnation: record.envelope.incarnation, sequence: record.envelope.sequence,
            lamport: record.envelope.lamport, body: body, epoch: record.envelope.epoch)
    }
}
