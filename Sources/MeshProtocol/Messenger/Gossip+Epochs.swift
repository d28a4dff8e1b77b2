import MeshBase
import MeshCrypto
import MeshWire

/// The epoch secret: which one seals, who makes a new one, and how whoever was not given it gets it.
extension Gossip {
    /// The secret under which to seal now; writes the EPOCH that is needed for it first. Nil while the secret that others
    /// made is still to be asked for.
    mutating func sealingSecret(
        at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) -> GroupSecret? {
        settleSealing(at: now, into: &outbox)
        if let current = sealing.current { return current }
        guard fold.membership.isMember(identity.peerID) else { return nil }
        let heads = knownHeads
        guard !heads.isEmpty || isDoneWaiting(at: now) else { return nil }
        try writeEpoch(on: heads, at: now, into: &outbox)
        settleSealing(at: now, into: &outbox)
        return sealing.current
    }

    private func isDoneWaiting(at now: HostTime) -> Bool {
        sealing.lackingSince.map { now - $0 >= configuration.secretsPatience } ?? false
    }

    private var knownHeads: [EpochTree.Epoch] { fold.epochs.heads.filter { log.secrets[$0.secret] != nil } }

    private func unanswered(_ heads: [EpochTree.Epoch]) -> Set<RecordID> {
        heads.reduce(into: fold.countingRemovals) { $0.subtract($1.coverage) }
    }

    /// Looks which secret seals now, tells what changed, and plans what is to be done about what is missing.
    mutating func settleSealing(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        sealing.isUnsettled = false
        guard log.genesisID != nil else { return }
        let heads = knownHeads
        let isOne = heads.count == 1 && unanswered(heads).isEmpty
        sealing.current = isOne ? log.secrets[heads[0].secret] : nil
        if isOne || !fold.membership.isMember(identity.peerID) {
            sealing.renewAt = nil
        } else if sealing.renewAt == nil {
            sealing.renewAt = now + renewalDelay
        }
        if log.missingSecrets(limit: 1).isEmpty {
            (sealing.askAt, sealing.lackingSince) = (nil, nil)
        } else if sealing.askAt == nil {
            sealing.askAt = now
            sealing.lackingSince = sealing.lackingSince ?? now
        }
        tellSecrets(into: &outbox)
    }

    /// One after the other in the order of admission, so that seldom two make a secret at once.
    private var renewalDelay: TimeSpan {
        let rank = fold.membership.rank(of: identity.peerID)
        return min(configuration.renewalDelay * Int64(rank + 1), configuration.longestRenewalDelay)
    }

    private mutating func tellSecrets(into outbox: inout Outbox<GossipOutput>) {
        let known = fold.epochs.list.reversed().compactMap { log.secrets[$0.secret] }
        var seen: Set<SecretID> = []
        let all = ([sealing.current].compactMap(\.self) + known + epochSecrets).filter { seen.insert($0.id).inserted }
        let safe = all.filter { fold.isSafe($0.id) }
        let ids = (all.map(\.id), safe.map(\.id))
        if sealing.told == nil, ids.0 == epochSecrets.map(\.id), ids.1 == ids.0 {
            sealing.told = ids
        }
        guard sealing.told.map({ $0.all != ids.0 || $0.safe != ids.1 }) ?? true else { return }
        sealing.told = ids
        outbox.append(.epochSecrets(all, safe: safe))
    }

    // MARK: Making one

    /// A fresh secret for all members when somebody is to be kept out, else the known ones hashed into one.
    private mutating func writeEpoch(
        on heads: [EpochTree.Epoch], at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard let mesh = log.mesh else { throw .noMesh }
        // Without any head that is known here, on what is known since the beginning.
        let bases = heads.isEmpty ? fold.epochs.list.filter { log.secrets[$0.secret] != nil }.suffix(1) : heads[...]
        let chosen = bases.suffix(EpochBody.maximumBases).sorted { $0.record < $1.record }
        let secrets = chosen.compactMap { log.secrets[$0.secret]?.secret }
        guard let outer = bases.first.flatMap({ log.secrets[$0.secret] }), secrets.count == chosen.count else {
            throw .noMesh
        }
        let removals = Array(unanswered(heads).sorted().prefix(EpochBody.maximumRemovals))
        let isMerge = removals.isEmpty && chosen.count > 1
        let fresh = isMerge ? nil : random.secret()
        let secret = EpochSecret.combine(fresh: fresh, bases: secrets, mesh: mesh)
        let (key, boxes) = fresh.map { sealed($0, mesh: mesh) } ?? (.zero, [])
        let body = EpochBody(
            secretID: secret.id, bases: chosen.map(\.record), removals: removals, ephemeralKey: key, boxes: boxes)
        log.secrets[secret.id] = secret
        try write(Publication(kind: .epoch, body: body.encoded, token: nil), secret: outer, at: now, into: &outbox)
    }

    /// Cost: 90 µs a member.
    private mutating func sealed(_ fresh: SecretBytes, mesh: MeshID) -> (Bytes32, [EpochBody.Box]) {
        let ephemeral = AgreementKeyPair(secret: random.secret())
        let boxes = fold.membership.members.prefix(EpochBody.maximumBoxes).compactMap { peer in
            EpochSecret.seal(fresh, to: peer, ephemeral: ephemeral, mesh: mesh).map {
                EpochBody.Box(recipient: peer, sealed: $0)
            }
        }
        return (ephemeral.publicKey, boxes)
    }

    // MARK: Asking for one

    /// A member that was admitted while a secret was made is in no box: any other member gives it on request.
    mutating func receiveWantSecrets(_ ids: [SecretID], from peer: PeerID, into outbox: inout Outbox<GossipOutput>) {
        let secrets = ids.compactMap { log.secrets[$0].flatMap { Bytes32($0.secret.revealed()) } }
        guard !secrets.isEmpty else { return }
        send(.secrets(secrets), to: peer, priority: .command, isReliable: true, into: &outbox)
    }

    /// Whoever sends one, its id stands in a record: nothing else is taken.
    mutating func receiveSecrets(_ secrets: [Bytes32], at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        let missing = Set(log.missingSecrets(limit: .max))
        let wanted = secrets.map { GroupSecret(secret: SecretBytes(copying: $0.bytes)) }
            .filter { missing.contains($0.id) }
        guard !wanted.isEmpty else { return }
        apply(log.setSecrets(wanted), from: nil, isLocal: true, at: now, into: &outbox)
    }

    // MARK: Deadlines

    var membershipDeadline: HostTime? { [sealing.renewAt, sealing.askAt].compactMap(\.self).min() }

    mutating func handleMembershipDeadlines(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        if let time = sealing.askAt, time <= now { askForSecrets(at: now, into: &outbox) }
        guard let time = sealing.renewAt, time <= now else { return }
        sealing.renewAt = now + configuration.longestRenewalDelay
        // Refused only where nothing can be written at all; the next turn tries again.
        _ = try? sealingSecret(at: now, into: &outbox)
        writeWaiting(at: now, into: &outbox)
    }

    private mutating func askForSecrets(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        sealing.askAt = now + configuration.secretsInterval
        let missing = log.missingSecrets(limit: GossipMessage.maximumSecrets)
        let peers = sortedLinks.filter { isMember($0) }
        guard !missing.isEmpty, !peers.isEmpty else { return }
        sealing.turn = (sealing.turn + 1) % 65_536
        let peer = peers[sealing.turn % peers.count]
        send(.wantSecrets(missing), to: peer, priority: .command, isReliable: true, into: &outbox)
    }
}
