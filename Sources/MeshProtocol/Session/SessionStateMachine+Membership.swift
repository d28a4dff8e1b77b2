import MeshBase
import MeshCrypto
import MeshWire

/// What the records say of the membership beyond admissions: who is out, whether the mesh is over, which secret opens a
/// handshake now.
extension SessionStateMachine {
    // MARK: Who is out

    mutating func adopt(_ new: Membership, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        let before = membership
        membership = new
        guard phase == .member || phase == .joining else { return }
        let isLocalLost = before.isMember(localPeer) && !new.isMember(localPeer)
        if new.removals[localPeer] != nil || isLocalLost { return becomeRemoved(into: &outbox) }
        for peer in list.order where peer != localPeer {
            let isOut = new.removals[peer] != nil || (before.isMember(peer) && !new.isMember(peer))
            if isOut { delist(peer, by: new.removals[peer]?.by, at: now, into: &outbox) }
        }
        for peer in new.members where !list.contains(peer) {
            guard let standing = new.standings[peer] else { continue }
            let admission = standing.admittedBy.map {
                MemberList.Admission(by: $0, lamport: standing.order.lamport, record: standing.record)
            }
            enlist(peer, name: standing.name, admission: admission, at: now, into: &outbox)
        }
        adoptEnding(new.ending, at: now, into: &outbox)
    }

    /// A member is out: nothing of it stays but its records. Its link is closed when it has had time to hear why.
    private mutating func delist(
        _ peer: PeerID, by remover: PeerID?, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        let name = list[peer]?.name ?? ""
        list.remove(peer)
        liveness[peer] = nil
        inheritedContacts[peer] = nil
        pairSecrets[peer] = nil
        probeTasks.removeAll { $0.subject == peer || $0.requester == peer }
        dials.stop(peer)
        meetings.finish(peer)
        if links[peer] != nil { links[peer]?.closesAt = now + configuration.leaveTimeout }
        membershipChanged(at: now)
        schedulePersist(at: now + configuration.keepAliveInterval)
        // What happened before this node came, or while it was away, is history that is being caught up with.
        if phase == .member, now - startedAt > configuration.helloInterval || !hasHistory {
            emit(.memberRemoved, peer, removalDetail(name: name, by: remover), into: &outbox)
        }
        outbox.append(.memberLost(peer))
        outbox.append(.membersChanged)
    }

    private func removalDetail(name: String, by remover: PeerID?) -> [ProtocolEvent.Detail] {
        var detail: [ProtocolEvent.Detail] = [.init("name", .text(name))]
        if let remover { detail.append(.init("by", .text(spokenName(of: remover)))) }
        return detail
    }

    private func spokenName(of peer: PeerID) -> String {
        let known = peer == localPeer ? name : list[peer]?.name ?? ""
        return known.isEmpty ? peer.shortDescription : known
    }

    /// This node is out. It says nothing more to anybody: who is here by then has shown it the door.
    private mutating func becomeRemoved(into outbox: inout Outbox<SessionOutput>) {
        if phase == .joining { return failJoining(.refused(.removed), into: &outbox) }
        let remover = membership.removals[localPeer]?.by
        emit(.memberRemoved, localPeer, removalDetail(name: name, by: remover), into: &outbox)
        stop(in: .ended, into: &outbox)
        outbox.append(.setSecrets([]))
        outbox.append(.membersChanged)
        outbox.append(.removed(by: remover.map(spokenName)))
    }

    // MARK: The end

    /// The mesh is over. This node stays a little: whoever has not heard it is told, and dialled for that.
    private mutating func adoptEnding(
        _ ending: Membership.Ending?, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let ending else {
            // Whoever ended it had been removed, and this node learns that only now.
            if isEnding { outbox.append(.ending(by: nil)) }
            timers.end = nil
            return
        }
        if phase == .joining { return failJoining(.refused(.ended), into: &outbox) }
        guard timers.end == nil else { return }
        timers.end = now + configuration.endLinger
        dials.bringForward(to: now)
        let name = spokenName(of: ending.by)
        emit(.meshEnded, ending.by, [.init("by", .text(name))], into: &outbox)
        outbox.append(.ending(by: name))
    }

    mutating func finishEnding(into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member, let ending = membership.ending else { return }
        let name = spokenName(of: ending.by)
        stop(in: .ended, into: &outbox)
        outbox.append(.ended(by: name))
    }

    var isEnding: Bool { timers.end != nil }

    // MARK: Secrets

    mutating func adoptSecrets(
        _ all: [GroupSecret], safe: [GroupSecret], at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase != .ended, phase != .yielded else { return }
        let isRenewed = all.first.map { new in epochSecrets.first.map { $0.id != new.id } ?? true } ?? false
        let isNews = all.map(\.id) != epochSecrets.map(\.id)
        epochSecrets = Array(all.prefix(SessionMessage.Limits.epochSecrets))
        safeEpochs = Set(safe.map(\.id))
        outbox.append(.setSecrets(handshakeSecrets))
        guard isNews, phase == .member else { return }
        persist(at: now, into: &outbox)
        if isRenewed, now - startedAt > configuration.helloInterval { emit(.secretRenewed, into: &outbox) }
        turnAwayStrangers(at: now, into: &outbox)
    }

    /// Those that nobody who was removed can know, the one that seals first. Few: one, or some made at once.
    var handshakeEpochs: ArraySlice<GroupSecret> {
        guard let safeEpochs else { return epochSecrets.prefix(Self.maximumHandshakeEpochs) }
        return epochSecrets.filter { safeEpochs.contains($0.id) }.prefix(Self.maximumHandshakeEpochs)
    }

    private static let maximumHandshakeEpochs = 4

    /// Under which secret to dial a member. It may have missed a change of the epoch secret while it was away, or this
    /// node may: so every second attempt is under the secret of the two alone.
    mutating func dialSecret(for peer: PeerID) -> GroupSecret? {
        let current = handshakeEpochs.first
        // A better way to somebody who is linked: the two have told each other of every secret.
        if let current, links[peer] != nil { return current }
        let turn = dialTurns[peer, default: 0]
        dialTurns[peer] = turn &+ 1
        let isBehind = linkedUnder[peer].map { $0 != current?.id } ?? false
        let usesPair = current == nil || (turn % 2 == 1) != isBehind
        return usesPair ? pairSecret(with: peer) ?? current : current
    }

    private mutating func pairSecret(with peer: PeerID) -> GroupSecret? {
        if let known = pairSecrets[peer] { return known }
        guard let meshID, let secret = PairSecret.between(identity.signing, peer, mesh: meshID) else { return nil }
        pairSecrets[peer] = secret
        return secret
    }

    mutating func noteLinkedSecret(_ peer: PeerID) {
        guard list.contains(peer) else { return }
        linkedUnder[peer] = handshakeEpochs.first?.id
        dialTurns[peer] = nil
    }
}
