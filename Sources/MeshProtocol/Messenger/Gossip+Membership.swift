import MeshBase
import MeshCrypto
import MeshWire

/// Which epoch secret seals now, and what is missing for it.
struct Sealing: Sendable {
    /// Known to members alone; nil until one is here.
    var current: GroupSecret?
    /// As last told: all secrets and the safe ones.
    var told: (all: [SecretID], safe: [SecretID])?
    /// When this node makes the secret that others should have made.
    var renewAt: HostTime?
    /// When missing secrets are asked for next, and since when they are missing.
    var askAt: HostTime?
    var lackingSince: HostTime?
    var turn = 0
    /// Records came from the disk and nothing was decided by them yet.
    var isUnsettled = false
}

/// Who is a member, and what follows when that changes.
extension Gossip {
    // MARK: Verdicts

    /// Takes what a record says of the membership into the fold.
    mutating func learn(_ record: AcceptedRecord) {
        if let fact = MembershipFact(record) { fold.insert(fact) }
    }

    /// Whether a stored record has an effect as far as the membership is concerned.
    func isEffective(_ id: RecordID) -> Bool { log.stored[id].map { isEffective($0, id) } ?? false }

    private func isEffective(_ stored: RecordLog.Stored, _ id: RecordID) -> Bool {
        switch stored.kind {
        case .genesis: true
        case .admit: fold.admissions.contains(id)
        // Whoever was removed has read every join secret that was sealed under a secret it knew.
        case .invite:
            fold.counts(stored.order) && fold.membership.mayInvite(stored.order.author) && fold.isSafe(stored.epoch)
        default: fold.counts(stored.order)
        }
    }

    /// Brings everything up to date with the records: what counts, who is told, and who is shown the door.
    mutating func settleMembership(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        let before = fold.membership
        guard fold.refresh() else { return }
        sealing.current = nil
        reviewRecords(into: &outbox)
        let after = fold.membership
        let isLost = before.standings.keys.contains { after.standings[$0] == nil }
        guard isLost || before.removals != after.removals || before.ending != after.ending else { return }
        outbox.append(.membership(after))
        for (peer, removal) in after.removals.sorted(by: { $0.key < $1.key }) where before.removals[peer] == nil {
            tellRemoved(peer, removal, into: &outbox)
        }
    }

    /// Tells the machines above of every record whose verdict changed. Cost: all records; removals are rare.
    private mutating func reviewRecords(into outbox: inout Outbox<GossipOutput>) {
        let changed = log.stored.filter { id, stored in
            !stored.isVoid && isEffective(stored, id) == stored.isMuted
        }
        for (id, stored) in changed.sorted(by: { $0.value.order < $1.value.order }) {
            log.stored[id]?.isMuted = !stored.isMuted
            if !stored.isMuted {
                outbox.append(.recordMuted(id, stored.kind))
            } else if let record = try? SignedRecord(decoding: stored.bytes), let secret = log.secrets[stored.epoch],
                let body = record.openBody(with: secret)
            {
                outbox.append(.recordAccepted(log.acceptedRecord(record, body: body)))
            }
        }
    }

    /// A removed member is told once: by the record itself, and what must come before it.
    private mutating func tellRemoved(
        _ peer: PeerID, _ removal: Membership.Removal, into outbox: inout Outbox<GossipOutput>
    ) {
        guard let link = links[peer], let limit = log.order(of: removal.record) else { return }
        let lacking = log.stored.filter { _, stored in
            !stored.isVoid && stored.order <= limit && stored.order.author != peer
                && link.held[ChainKey(author: stored.order.author, incarnation: stored.order.incarnation)] ?? 0
                    < stored.order.sequence
        }
        let records = lacking.map { ($0.value.order, $0.key) }.sorted { $0.0 < $1.0 }
        sendRecords(records, to: peer, priority: .command, limitToOneBundle: false, into: &outbox)
    }

    /// Only what was there before its removal, so that it can read why.
    mutating func receiveOfRemoved(
        _ message: GossipMessage, from peer: PeerID, into outbox: inout Outbox<GossipOutput>
    ) {
        guard case .want(let ids) = message, let removal = fold.membership.removals[peer],
            let limit = log.order(of: removal.record)
        else {
            counters.fromStrangers += 1
            return
        }
        let records = ids.prefix(16).compactMap { id -> [UInt8]? in
            log.order(of: id).map { $0 <= limit } == true ? log.bytes(of: id) : nil
        }
        guard !records.isEmpty else { return }
        let bundle = GossipMessage.records(RecordBundle(hasMore: false, records: records))
        send(bundle, to: peer, priority: .repair, isReliable: true, into: &outbox)
    }

    // MARK: Commands

    /// What the subject wrote so far counts; nothing else it wrote or will write.
    mutating func remove(
        _ subject: PeerID, token: CommandToken?, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard log.genesisID != nil else { throw .noMesh }
        guard fold.membership.isMember(subject) else { throw .notFound }
        guard fold.membership.isMember(identity.peerID), fold.membership.mayRemove(identity.peerID, subject) else {
            throw .notPermitted
        }
        guard fold.epochs.list.count < EpochTree.maximumEpochs else {
            throw .limitExceeded(limit: EpochTree.maximumEpochs, actual: fold.epochs.list.count + 1)
        }
        let lives = log.chains.filter { $0.key.author == subject && $0.value.contiguous > 0 }
            .map { RemoveBody.Life(incarnation: $0.key.incarnation, sequence: $0.value.contiguous) }
            .sorted { $0.incarnation < $1.incarnation }
        let body = RemoveBody(subject: subject, lives: Array(lives.prefix(RemoveBody.maximumLives)))
        try publish(.remove, body: body.encoded, token: token, at: now, into: &outbox)
        _ = try sealingSecret(at: now, into: &outbox)
    }

    mutating func end(
        token: CommandToken?, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard log.genesisID != nil else { throw .noMesh }
        guard fold.membership.ending == nil else { throw .ended }
        guard fold.membership.isMember(identity.peerID), fold.membership.mayEnd(identity.peerID) else {
            throw .notPermitted
        }
        try publish(.end, body: EndBody().encoded, token: token, at: now, into: &outbox)
    }
}
