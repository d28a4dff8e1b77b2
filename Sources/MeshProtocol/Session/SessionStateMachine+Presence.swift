import MeshBase
import MeshCrypto
import MeshWire

/// What members say about themselves: made, spread, compared.
extension SessionStateMachine {
    // MARK: This node's own record

    /// The next revision, signed. Only its owner raises it.
    mutating func nextOwnPresence(state: PresenceRecord.State) -> PresenceRecord {
        revision &+= 1
        let record = PresenceRecord(
            peer: localPeer, incarnation: identity.incarnation, startCount: startCount, revision: revision,
            state: state,
            capabilities: ownCapabilities, name: name, addresses: advertisedAddresses)
        return record.signed(by: identity.signing, mesh: meshID ?? MeshID(.zero))
    }

    /// Says something new about this node to everybody linked.
    mutating func renewOwnPresence(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard let meshID, list.contains(localPeer) else { return }
        let record = nextOwnPresence(state: .alive)
        _ = list.apply(record, mesh: meshID, isToldFromThisHost: true)
        for peer in linkOrder where list.contains(peer) {
            send(.presences([record]), to: peer, priority: .command, isReliable: true, into: &outbox)
        }
    }

    // MARK: The others' records

    mutating func handlePresences(
        _ presences: [PresenceRecord], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .member || phase == .joining, let link = links[peer] else { return }
        let isThisHost = Paths.isThisHost(link.address, local: localAddresses)
        var news: [PresenceRecord] = []
        for presence in presences {
            let isNew = acceptPresence(
                presence, isToldFromThisHost: isThisHost, source: peer, at: now, into: &outbox)
            if isNew { news.append(presence) }
        }
        forward(news, from: peer, into: &outbox)
    }

    /// Hands news on to those that may not hear the owner itself. In a crowd the owner's own word goes to everybody it
    /// is linked with, and the digests in the keep-alives find the few it misses.
    private func forward(_ news: [PresenceRecord], from source: PeerID, into outbox: inout Outbox<SessionOutput>) {
        let isSmall = list.count <= Self.forwardingLimit
        let worthwhile = news.filter { isSmall || $0.peer != source || $0.state == .left }
        guard !worthwhile.isEmpty else { return }
        for peer in linkOrder where peer != source && list.contains(peer) {
            sendPresences(worthwhile.filter { $0.peer != peer }, to: peer, into: &outbox)
        }
    }

    private static let forwardingLimit = 8

    /// True when the record is news.
    @discardableResult
    mutating func acceptPresence(
        _ presence: PresenceRecord, isToldFromThisHost: Bool, source: PeerID?, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) -> Bool {
        guard let meshID else { return false }
        if presence.peer == localPeer {
            noteOtherLife(presence, mesh: meshID, at: now, into: &outbox)
            return false
        }
        let verdict = list.apply(presence, mesh: meshID, isToldFromThisHost: isToldFromThisHost)
        statistics.presencesEvicted = list.evictedCount
        switch verdict {
        case .stale:
            statistics.presencesStale &+= 1
            if presence.state == .left, presence.peer == source { confirmFarewell(of: presence.peer, into: &outbox) }
            return false
        case .forged:
            statistics.presencesForged &+= 1
            emit(.recordRefused, source, [.init("reason", .text("presence not signed by its owner"))], into: &outbox)
            return false
        case .parked:
            return false
        case .accepted(let change):
            statistics.presencesAccepted &+= 1
            apply(change, of: presence, source: source, at: now, into: &outbox)
            return true
        }
    }

    private mutating func apply(
        _ change: MemberList.Change, of presence: PresenceRecord, source: PeerID?, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        let peer = presence.peer
        outbox.append(.membersChanged)
        if let previous = change.previousName {
            let detail: [ProtocolEvent.Detail] = [
                .init("name", .text(presence.name)), .init("previousName", .text(previous)),
            ]
            emit(.memberRenamed, peer, detail, into: &outbox)
        }
        if change.isConflict { reportConflict(peer, at: now, into: &outbox) }
        if change.isFarewell {
            memberLeft(peer, isDirect: source == peer, at: now, into: &outbox)
        } else if liveness[peer]?.state == .left {
            memberCameBack(peer, at: now, into: &outbox)
        } else if links[peer] == nil || links[peer]?.relay != nil {
            // New addresses are worth a try at once.
            dials.start(peer, at: now, lostSince: now)
        }
    }

    /// A later life of somebody who had left, met before its first datagram: alive by its own fresh signature.
    private mutating func memberCameBack(
        _ peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        liveness[peer] = .unmet(at: now, grace: configuration.startGrace)
        membershipChanged(at: now)
        scheduleMonitor(at: now + configuration.startGrace)
        if links[peer] != nil {
            noteHeard(peer, at: now, into: &outbox)
        } else {
            dials.start(peer, at: now, lostSince: now)
        }
    }

    /// Left, by its own record, and not here with a later life.
    func hasLeft(_ peer: PeerID) -> Bool {
        guard let presence = list[peer]?.presence, presence.state == .left else { return false }
        guard let link = links[peer] else { return true }
        return link.identity.incarnation == presence.incarnation
    }

    private mutating func memberLeft(
        _ peer: PeerID, isDirect: Bool, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard hasLeft(peer) else { return }
        let wasMet = liveness[peer].map { $0.metBy == nil && $0.state != .left } ?? false
        if isDirect { confirmFarewell(of: peer, into: &outbox) }
        links[peer]?.closesAt = now + configuration.leaveTimeout * 2
        liveness[peer]?.state = .left
        liveness[peer]?.since = now
        liveness[peer]?.suspicion = nil
        liveness[peer]?.metBy = nil
        dials.stop(peer)
        meetings.finish(peer)
        membershipChanged(at: now)
        // Who left before this node came is history, not news.
        if wasMet { emit(.memberLeft, peer, into: &outbox) }
        outbox.append(.memberLost(peer))
    }

    private func confirmFarewell(of peer: PeerID, into outbox: inout Outbox<SessionOutput>) {
        guard links[peer] != nil else { return }
        send(.farewellSeen, to: peer, priority: .command, isReliable: true, into: &outbox)
    }

    // MARK: Two processes with one key

    /// A record of this node's own key by another process life.
    ///
    /// An earlier life cannot outrank this one, since the start count grows with every start. If one does, either the
    /// state came from a backup (the other life is over) or two processes run on copies of one state (MEM-02). Both
    /// look the same at first, so this node raises its start count above the other's, once. A dead life does not
    /// answer; a living one raises its own, and then the one that is outbid twice yields, for good: no flapping.
    private mutating func noteOtherLife(
        _ presence: PresenceRecord, mesh: MeshID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .member, presence.incarnation != identity.incarnation, presence.startCount >= startCount else {
            return
        }
        guard presence.isSigned(mesh: mesh) else {
            statistics.presencesForged &+= 1
            return
        }
        let isEqual = presence.startCount == startCount
        if isEqual { reportConflict(localPeer, at: now, into: &outbox) }
        if isEqual, presence.incarnation < identity.incarnation { return }
        guard !outbid.contains(presence.incarnation), outbid.count < Self.maximumOutbid, presence.startCount < .max
        else {
            return yield(at: now, into: &outbox)
        }
        outbid.insert(presence.incarnation)
        startCount = presence.startCount + 1
        persist(at: now, into: &outbox)
        renewOwnPresence(at: now, into: &outbox)
    }

    private static let maximumOutbid = 8

    private mutating func yield(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        statistics.identityConflicts &+= 1
        emit(
            .identityConflict, localPeer,
            [.init("outcome", .text("yielded")), .init("reason", .text("another process runs with this node's key"))],
            into: &outbox)
        stop(in: .yielded, into: &outbox)
        // Without secrets the links answer nobody, so the other process keeps its links.
        outbox.append(.setSecrets([]))
        outbox.append(.membersChanged)
        outbox.append(.yielded)
    }

    /// At most once a minute for each member.
    private mutating func reportConflict(
        _ peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        if let last = list[peer]?.conflictReportedAt, now - last < .seconds(60 as Int64) { return }
        list.update(peer) { $0.conflictReportedAt = now }
        statistics.identityConflicts &+= 1
        emit(
            .identityConflict, peer, [.init("reason", .text("two processes run with one key"))], into: &outbox)
    }

    // MARK: Comparing

    func sendPresences(_ presences: [PresenceRecord], to peer: PeerID, into outbox: inout Outbox<SessionOutput>) {
        let page = SessionMessage.Limits.presencesPerMessage
        for start in stride(from: 0, to: presences.count, by: page) {
            let records = Array(presences[start..<min(start + page, presences.count)])
            send(.presences(records), to: peer, priority: .repair, isReliable: true, into: &outbox)
        }
    }

    mutating func sendSummary(to peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        links[peer]?.lastSummaryAt = now
        links[peer]?.mismatches = 0
        let versions = Array(list.versions.prefix(SessionMessage.Limits.summaryEntries))
        send(.summary(versions), to: peer, priority: .repair, isReliable: true, into: &outbox)
    }

    func handleSummary(
        _ versions: [PresenceVersion], from peer: PeerID, into outbox: inout Outbox<SessionOutput>
    ) {
        let (newerHere, newerThere) = list.difference(from: versions)
        sendPresences(newerHere, to: peer, into: &outbox)
        guard !newerThere.isEmpty else { return }
        let wanted = Array(newerThere.prefix(SessionMessage.Limits.wantEntries))
        send(.want(wanted), to: peer, priority: .repair, isReliable: true, into: &outbox)
    }

    func handleWant(_ peers: [PeerID], from peer: PeerID, into outbox: inout Outbox<SessionOutput>) {
        sendPresences(Set(peers).sorted().compactMap { list[$0]?.presence }, to: peer, into: &outbox)
    }

    /// Two keep-alives in a row whose digest differs lead to a summary, at most one a second: the first difference is
    /// mostly news still on its way.
    mutating func compare(digest: Bytes16, of peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>)
    {
        guard digest != list.digest() else {
            links[peer]?.mismatches = 0
            return
        }
        links[peer]?.mismatches += 1
        guard let link = links[peer], link.mismatches >= 2 else { return }
        if let last = link.lastSummaryAt, now - last < .seconds(1 as Int64) { return }
        sendSummary(to: peer, at: now, into: &outbox)
    }
}
