import MeshBase
import MeshCrypto
import MeshWire

/// How a mesh begins for this node, goes on after a restart, and ends.
extension SessionStateMachine {
    mutating func found(
        label: String, policies: MeshPolicies, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        guard phase == .idle else { throw .notPermitted }
        guard label.utf8.count <= WireLimits.maximumNameBytes else {
            throw .limitExceeded(limit: WireLimits.maximumNameBytes, actual: label.utf8.count)
        }
        let epoch = GroupSecret(secret: random.secret())
        guard let nonce = Bytes32(random.bytes(32)), let journalKey = Bytes32(random.bytes(32)) else { return }
        phase = .founding
        startedAt = now
        hasHistory = false
        self.label = label
        epochSecrets = [epoch]
        outbox.append(.setSecrets(handshakeSecrets))
        let body = GenesisBody(nonce: nonce, journalKey: journalKey, label: label, policies: policies)
        outbox.append(.foundMesh(body, epoch))
    }

    mutating func resume(
        _ state: SessionState, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        guard phase == .idle else { throw .notPermitted }
        meshID = state.mesh
        label = state.label
        genesis = state.genesis
        epochSecrets = state.epochSecrets.map { GroupSecret(secret: SecretBytes(copying: $0.bytes)) }
        // The next start count, on disk before anybody sees it: this life supersedes every earlier one (MEM-03).
        startCount = max(state.startCount, state.startCount &+ 1)
        for invite in state.expiringInvites { inviteTable.inherit(invite.id, expiresAt: now + invite.remaining) }
        for contact in state.contacts { inherit(contact) }
        _ = list.admit(localPeer, name: name, admission: nil)
        outbox.append(.setMesh(state.mesh))
        outbox.append(.setSecrets(handshakeSecrets))
        becomeMember(at: now, into: &outbox)
    }

    private mutating func inherit(_ contact: SessionState.Contact) {
        guard list.contains(contact.peer) else {
            inheritedContacts[contact.peer] = contact.addresses
            return
        }
        for address in contact.addresses.reversed() { list.note(contact: address, of: contact.peer) }
    }

    /// From here on this node is a member: it shows itself, watches the others and dials them.
    mutating func becomeMember(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        phase = .member
        startedAt = now
        joining = nil
        timers.join = nil
        timers.hello = nil
        for peer in linkOrder {
            if let address = links[peer]?.address { list.note(contact: address, of: peer) }
        }
        persist(at: now, into: &outbox)
        schedulePersist(at: now + configuration.redialInterval)
        renewOwnPresence(at: now, into: &outbox)
        for peer in list.order where peer != localPeer {
            if liveness[peer]?.lastHeard == nil {
                liveness[peer] = .unmet(at: now, grace: configuration.startGrace)
            }
            if links[peer] == nil { dials.start(peer, at: now, lostSince: now) }
        }
        for peer in linkOrder {
            noteHeard(peer, at: now, into: &outbox)
            introduce(to: peer, at: now, into: &outbox)
        }
        membershipChanged(at: now)
        timers.tick = grid.next(after: now)
        scheduleMonitor(at: now + configuration.keepAliveInterval)
        if configuration.isDiscoveryEnabled { discovery.startBurst(at: now) }
        outbox.append(.membersChanged)
    }

    // MARK: Records

    mutating func recordAccepted(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        switch record.kind {
        case .genesis: genesisAccepted(record, at: now, into: &outbox)
        case .admit: admitAccepted(record, at: now, into: &outbox)
        case .invite: inviteAccepted(record, at: now, into: &outbox)
        case .revoke: revokeAccepted(record, at: now, into: &outbox)
        default: break
        }
    }

    private mutating func genesisAccepted(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let body = try? GenesisBody(decoding: record.body) else { return }
        let mesh = MeshID(record.id.value)
        guard meshID == nil || meshID == mesh else { return }
        label = body.label
        // The founder has no ADMIT record: GENESIS is its admission.
        let founderName = record.author == localPeer ? name : ""
        enlist(record.author, name: founderName, admission: nil, at: now, into: &outbox)
        list.update(record.author) { $0.isFounder = true }
        guard phase == .founding, record.author == localPeer else { return }
        meshID = mesh
        outbox.append(.setMesh(mesh))
        becomeMember(at: now, into: &outbox)
        emit(.meshFounded, nil, [.init("label", .text(label))], into: &outbox)
        publishInvite(lifetimeSeconds: 0, token: nil, into: &outbox)
    }

    mutating func setGenesis(_ bytes: [UInt8], at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard genesis.isEmpty, bytes.count <= SessionMessage.Limits.genesisBytes else { return }
        genesis = bytes
        if phase == .member { persist(at: now, into: &outbox) }
    }

    // MARK: Leaving

    /// Says farewell to everybody linked, with this node's own signature: nobody can say it for another (AB-73).
    mutating func leave(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member else {
            if phase != .leaving { finishLeaving(at: now, into: &outbox) }
            return
        }
        phase = .leaving
        let farewell = nextOwnPresence(state: .left)
        farewellWaiting = []
        for peer in linkOrder where list.contains(peer) {
            farewellWaiting.insert(peer)
            send(.presences([farewell]), to: peer, priority: .command, isReliable: true, into: &outbox)
        }
        timers = Timers()
        discovery.stop()
        dials.removeAll()
        timers.leave = now + configuration.leaveTimeout
        if farewellWaiting.isEmpty { finishLeaving(at: now, into: &outbox) }
    }

    mutating func handleFarewellSeen(
        from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .leaving, farewellWaiting.remove(peer) != nil, farewellWaiting.isEmpty else { return }
        finishLeaving(at: now, into: &outbox)
    }

    mutating func finishLeaving(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase != .ended else { return }
        stop(in: .ended, into: &outbox)
        outbox.append(.left)
    }

    /// Closes every link and stops every clock.
    mutating func stop(in phase: Phase, into outbox: inout Outbox<SessionOutput>) {
        self.phase = phase
        for peer in linkOrder { outbox.append(.closeLink(peer)) }
        links = [:]
        linkOrder = []
        probeTasks = []
        joining = nil
        timers = Timers()
        discovery.stop()
        dials.removeAll()
    }

    mutating func rename(
        _ newName: String, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        guard let accepted = Self.acceptable(newName) else { throw .invalid(field: "name") }
        guard accepted != name else { return }
        name = accepted
        guard phase == .member else { return }
        renewOwnPresence(at: now, into: &outbox)
        persist(at: now, into: &outbox)
        outbox.append(.membersChanged)
    }
}
