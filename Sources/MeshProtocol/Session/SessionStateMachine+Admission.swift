import MeshBase
import MeshCrypto
import MeshWire

/// Tickets and admission, from both sides.
///
/// A newcomer proves the ticket's join secret in the handshake, then says hello; a member publishes its ADMIT record
/// and gives it what it needs to read the mesh. Whoever lacks the secret gets no answer at all, so a wrong, revoked or
/// expired ticket looks like an empty network.
extension SessionStateMachine {
    // MARK: The newcomer

    mutating func join(
        _ ticket: Ticket, extraAddresses: [SocketAddress], at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        guard phase == .idle else { throw .notPermitted }
        phase = .joining
        startedAt = now
        meshID = ticket.meshID
        var joining = Joining(
            ticket: ticket, secret: GroupSecret(secret: ticket.joinSecret), addresses: [])
        let named = extraAddresses + ticket.addresses
        joining.addresses = Paths.dialable(named, local: localAddresses)
        for address in named where !address.isDialable { joining.note(address, .notDialable) }
        self.joining = joining
        outbox.append(.setMesh(ticket.meshID))
        outbox.append(.setSecrets(handshakeSecrets))
        dialForJoining(joining.addresses, into: &outbox)
        timers.join = now + configuration.joinTimeout
        timers.hello = now + configuration.redialInterval
        if configuration.isDiscoveryEnabled { discovery.startBurst(at: now) }
    }

    mutating func dialForJoining(_ addresses: [SocketAddress], into outbox: inout Outbox<SessionOutput>) {
        guard var joining, !addresses.isEmpty else { return }
        for address in addresses where !joining.tried.contains(where: { $0.address == address }) {
            joining.note(address, .noAnswer)
        }
        self.joining = joining
        statistics.dials &+= 1
        outbox.append(.dial(DialRequest(addresses: addresses, secretID: joining.secret.id)))
    }

    /// Says hello on the next link, or dials again when there is none.
    mutating func sendHello(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .joining, var joining else {
            timers.hello = nil
            return
        }
        guard !linkOrder.isEmpty else {
            timers.hello = now + configuration.redialInterval
            return dialForJoining(joining.addresses, into: &outbox)
        }
        timers.hello = now + configuration.helloInterval
        let target = linkOrder[joining.nextTarget % linkOrder.count]
        joining.nextTarget = (joining.nextTarget + 1) % linkOrder.count
        self.joining = joining
        send(.hello(nextOwnPresence(state: .alive)), to: target, priority: .command, isReliable: true, into: &outbox)
    }

    mutating func handleWelcome(
        _ welcome: Welcome, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .joining, var joining, !joining.isWelcomed else { return }
        guard Self.isGenesis(welcome.genesis, of: joining.ticket.meshID) else {
            statistics.malformedMessages &+= 1
            return
        }
        joining.isWelcomed = true
        self.joining = joining
        genesis = welcome.genesis
        epochSecrets = welcome.epochSecrets.map { GroupSecret(secret: SecretBytes(copying: $0.bytes)) }
        outbox.append(.setSecrets(handshakeSecrets))
        outbox.append(.adoptMesh(joining.ticket.meshID, genesis: welcome.genesis))
        finishJoining(at: now, into: &outbox)
    }

    /// The mesh's name is the id of its GENESIS record: the hash of all its bytes before the signature.
    static func isGenesis(_ bytes: [UInt8], of mesh: MeshID) -> Bool {
        bytes.count > Signature.byteCount
            && Digest.hash32(Array(bytes.dropLast(Signature.byteCount))) == mesh.value
    }

    mutating func handleRefusal(
        _ refusal: SessionMessage.Refusal, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .joining, joining?.isWelcomed == false else { return }
        failJoining(.refused(refusal), into: &outbox)
    }

    mutating func joinTimedOut(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        timers.join = nil
        guard phase == .joining, var joining else { return }
        for peer in linkOrder {
            if let address = links[peer]?.address { joining.note(address, .noWelcome) }
        }
        let isMismatch = joining.isVersionMismatch && linkOrder.isEmpty
        failJoining(
            isMismatch ? .versionMismatch(tried: joining.tried) : .noAnswer(tried: joining.tried), into: &outbox)
    }

    mutating func failJoining(_ failure: JoinFailure, into outbox: inout Outbox<SessionOutput>) {
        stop(in: .idle, into: &outbox)
        meshID = nil
        epochSecrets = []
        genesis = []
        outbox.append(.joinFailed(failure))
        emit(.joinFailed, into: &outbox)
    }

    /// A member needs both: the secrets to read with, and the record that every other member will see.
    private mutating func finishJoining(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .joining, let joining, joining.isWelcomed, joining.isAdmitted, let meshID else { return }
        becomeMember(at: now, into: &outbox)
        outbox.append(.setSecrets(handshakeSecrets))
        outbox.append(.joined(meshID))
        emit(.meshJoined, nil, [.init("label", .text(label))], into: &outbox)
    }

    // MARK: The member that lets it in

    mutating func handleHello(
        _ presence: PresenceRecord, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        // Nothing is said before this node can say all of it: the newcomer asks again.
        guard phase == .member, let meshID, let link = links[peer], !genesis.isEmpty else { return }
        if membership.removals[peer] != nil { return turnAway(peer, because: .removed, at: now, into: &outbox) }
        if isEnding { return turnAway(peer, because: .ended, at: now, into: &outbox) }
        let isKnown = list.contains(peer)
        // A link under a secret that was revoked since, or has expired, counts for nothing.
        guard isKnown || invitesInForce.contains(where: { $0.id == link.identity.secretID }) else {
            return turnAway(peer, because: .inviteVoid, at: now, into: &outbox)
        }
        guard presence.peer == peer, presence.incarnation == link.identity.incarnation,
            presence.isSigned(mesh: meshID)
        else { return refuse(peer, .invalidPresence, into: &outbox) }
        guard isKnown || list.count < configuration.maximumMembers else {
            return refuse(peer, .meshFull, into: &outbox)
        }
        if !isKnown, admission.shouldPublish(peer, at: now) {
            let body = AdmitBody(subject: peer, secretID: link.identity.secretID, name: presence.name)
            outbox.append(.publish(.admit, body: body.encoded, token: nil))
        }
        welcome(peer, into: &outbox)
        handlePresences([presence], from: peer, at: now, into: &outbox)
    }

    private mutating func refuse(
        _ peer: PeerID, _ refusal: SessionMessage.Refusal, into outbox: inout Outbox<SessionOutput>
    ) {
        statistics.admissionsRefused &+= 1
        send(.refusal(refusal), to: peer, priority: .command, isReliable: true, into: &outbox)
        emit(.memberRefused, peer, [.init("reason", .text(String(describing: refusal)))], into: &outbox)
    }

    /// Says why, and closes the link when that has had time to arrive.
    private mutating func turnAway(
        _ peer: PeerID, because refusal: SessionMessage.Refusal, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        if links[peer]?.closesAt == nil { links[peer]?.closesAt = now + configuration.leaveTimeout }
        refuse(peer, refusal, into: &outbox)
    }

    /// After an invite has ended: whoever is here by it alone, and did not become a member, is here no longer.
    mutating func turnAwayStrangers(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member else { return }
        for peer in linkOrder where !list.contains(peer) {
            guard let link = links[peer], link.closesAt == nil,
                !handshakeSecrets.contains(where: { $0.id == link.identity.secretID })
            else { continue }
            turnAway(peer, because: .inviteVoid, at: now, into: &outbox)
        }
    }

    private mutating func welcome(_ peer: PeerID, into outbox: inout Outbox<SessionOutput>) {
        let secrets = epochSecrets.prefix(SessionMessage.Limits.epochSecrets).compactMap {
            Bytes32($0.secret.revealed())
        }
        let welcome = Welcome(epochSecrets: secrets, genesis: genesis)
        send(.welcome(welcome), to: peer, priority: .command, isReliable: true, into: &outbox)
        sendPresences(list.presences, to: peer, into: &outbox)
    }

    // MARK: Records

    mutating func admitAccepted(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let body = try? AdmitBody(decoding: record.body) else { return }
        // Records come in causal order, so whoever may admit is known as a member before.
        guard list.contains(record.author) else {
            // By a member that was removed since, and before that: the membership as a whole is told besides.
            guard membership.standings[record.author] == nil else { return noteAdmission(of: body.subject) }
            statistics.admissionsRefused &+= 1
            return emit(.recordRefused, record.author, [.init("reason", .text("not a member"))], into: &outbox)
        }
        noteAdmission(of: body.subject)
        guard membership.removals[body.subject] == nil else { return }
        enlist(
            body.subject, name: body.name,
            admission: MemberList.Admission(by: record.author, lamport: record.lamport, record: record.id), at: now,
            into: &outbox)
        if body.subject == localPeer, phase == .joining {
            joining?.isAdmitted = true
            finishJoining(at: now, into: &outbox)
        }
    }

    private mutating func noteAdmission(of peer: PeerID) {
        admission.noteAdmitted(peer)
        readmissions.cancel(peer)
    }

    /// Adds a member to the list, with what is known about it already.
    mutating func enlist(
        _ peer: PeerID, name: String, admission: MemberList.Admission?, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard list.contains(peer) || list.count < configuration.maximumMembers else {
            return emit(.limitReached, peer, [.init("limit", .text("members"))], into: &outbox)
        }
        guard list.admit(peer, name: name, admission: admission) else { return }
        statistics.admissions &+= 1
        for address in (inheritedContacts.removeValue(forKey: peer) ?? []).reversed() {
            list.note(contact: address, of: peer)
        }
        guard peer != localPeer else { return }
        // The link of whoever was let in here is older than its membership.
        if let address = links[peer]?.address { list.note(contact: address, of: peer) }
        links[peer]?.closesAt = nil
        schedulePersist(at: now + configuration.keepAliveInterval)
        // A member that was let in while this node is up is alive by the word of who let it in; that word runs out.
        // Shortly after a join or a return, admissions are history that is being caught up with, and no news.
        let isLive = phase == .member && (!hasHistory || now - startedAt > configuration.helloInterval)
        var life = Liveness.unmet(at: now, grace: configuration.startGrace)
        if isLive, let admission { life = .admittedNow(at: now, by: admission.by) }
        liveness[peer] = life
        membershipChanged(at: now)
        guard phase == .member else { return }
        scheduleMonitor(at: now + configuration.keepAliveInterval)
        if isLive { announce(peer, name: name, into: &outbox) }
        outbox.append(.membersChanged)
        if links[peer] != nil {
            noteHeard(peer, at: now, into: &outbox)
            introduce(to: peer, at: now, into: &outbox)
        } else {
            let delay = isLive ? random.jittered(configuration.newcomerDialDelay) : .zero
            dials.start(peer, at: now + delay, lostSince: now)
        }
        if let waiting = list.takeParked(peer) {
            acceptPresence(
                waiting.presence, isToldFromThisHost: waiting.isToldFromThisHost, source: nil, at: now, into: &outbox)
        }
    }

    private func announce(_ peer: PeerID, name: String, into outbox: inout Outbox<SessionOutput>) {
        var detail: [ProtocolEvent.Detail] = [.init("name", .text(name))]
        // A known name with a new key is said aloud: it may be somebody posing as another (MEM-22).
        let twin = list.order.first { other in
            other != peer && !name.isEmpty && (other == localPeer ? self.name : list[other]?.name ?? "") == name
        }
        if let twin { detail.append(.init("sameNameAs", .text(twin.shortDescription))) }
        emit(.memberAdmitted, peer, detail, into: &outbox)
    }

    // MARK: Invites

    mutating func createInvite(
        expiresAfter: TimeSpan?, token: CommandToken, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        try requireMember()
        guard inviteTable.count < configuration.maximumJoinSecrets else {
            throw .limitExceeded(limit: configuration.maximumJoinSecrets, actual: inviteTable.count + 1)
        }
        if let expiresAfter, expiresAfter <= .zero { throw .invalid(field: "expires") }
        let seconds = expiresAfter.map { UInt64(max(1, ($0.nanoseconds - 1) / 1_000_000_000 + 1)) }
        publishInvite(lifetimeSeconds: seconds ?? 0, token: token, into: &outbox)
    }

    mutating func publishInvite(
        lifetimeSeconds: UInt64, token: CommandToken?, into outbox: inout Outbox<SessionOutput>
    ) {
        let secret = GroupSecret(secret: random.secret())
        guard let bytes = Bytes32(secret.secret.revealed()) else { return }
        inviteTable.beginCreating(secret.id, token: token)
        let body = InviteBody(joinSecret: bytes, lifetimeSeconds: lifetimeSeconds)
        // The token is answered with `inviteReady`, once the record is accepted.
        outbox.append(.publish(.invite, body: body.encoded, token: nil))
    }

    mutating func revokeInvite(
        _ id: SecretID, token: CommandToken, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        try requireMember()
        guard inviteTable[id] != nil else { throw .notFound }
        inviteTable.beginRevoking(id, token: token)
        outbox.append(.publish(.revoke, body: RevokeBody(secretID: id).encoded, token: nil))
    }

    /// What has run out is honoured no more at once; its REVOKE, which tells whoever's timer began later, is published
    /// by one member first and by the others only if they do not see it.
    mutating func expireInvites(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        let expired = inviteTable.takeExpired(at: now)
        for invite in expired {
            let delay = configuration.turnInterval * Int64(turn(after: invite.author))
            inviteTable.planRevocation(of: invite.id, at: now + delay)
        }
        if !expired.isEmpty { invitesChanged(at: now, into: &outbox) }
        guard phase == .member else { return }
        for id in inviteTable.takeRevocationsDue(at: now) {
            outbox.append(.publish(.revoke, body: RevokeBody(secretID: id).encoded, token: nil))
        }
    }

    /// Nothing is left behind of an invite whose record cannot be made; an expiry is tried again.
    mutating func publishRefused(
        _ kind: RecordKind, _ body: [UInt8], _ error: CommandError, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        var token: CommandToken?
        if kind == .invite, let invite = try? InviteBody(decoding: body) {
            token = inviteTable.cancelCreating(GroupSecret(secret: SecretBytes(copying: invite.joinSecret.bytes)).id)
        } else if kind == .revoke, let revocation = try? RevokeBody(decoding: body) {
            token = inviteTable.cancelRevoking(revocation.secretID, retryAt: now + .seconds(10 as Int64))
        }
        if let token { outbox.append(.refused(token, error)) }
    }

    /// This node's place among the members alive, of which one is to act: `first`, if it is here, then by their ids. At
    /// most 15, so that what all wait for comes in bounded time.
    func turn(after first: PeerID?) -> Int {
        guard first != localPeer else { return 0 }
        let ahead = list.order.count { peer in
            peer != localPeer && liveness[peer]?.state == .alive && (peer == first || peer < localPeer)
        }
        return min(ahead, 15)
    }

    mutating func invitesChanged(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        outbox.append(.setSecrets(handshakeSecrets))
        turnAwayStrangers(at: now, into: &outbox)
    }

    private func requireMember() throws(CommandError) {
        if isEnding { throw .ended }
        switch phase {
        case .member: return
        case .ended, .leaving, .yielded: throw .ended
        case .idle, .founding, .joining: throw .noMesh
        }
    }

    mutating func inviteAccepted(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard list.contains(record.author), let body = try? InviteBody(decoding: record.body) else { return }
        let secret = GroupSecret(secret: SecretBytes(copying: body.joinSecret.bytes))
        let invite = Invites.Invite(secret: secret, author: record.author, lamport: record.lamport, record: record.id)
        let lifetime = body.lifetimeSeconds == 0 ? nil : Self.lifetime(seconds: body.lifetimeSeconds)
        let (isActive, token) = inviteTable.add(invite, lifetime: lifetime, at: now)
        guard isActive else { return }
        invitesChanged(at: now, into: &outbox)
        if phase == .member {
            emit(.inviteCreated, record.author, [.init("id", .text(secret.id.description))], into: &outbox)
        }
        if let token, let ticket = ticket(for: invite) { outbox.append(.inviteReady(token, ticket)) }
        if lifetime != nil { schedulePersist(at: now) }
    }

    private static func lifetime(seconds: UInt64) -> TimeSpan {
        .seconds(Int64(min(seconds, UInt64(Invites.maximumLifetime.nanoseconds / 1_000_000_000))))
    }

    mutating func revokeAccepted(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard list.contains(record.author), let body = try? RevokeBody(decoding: record.body) else { return }
        let (isNew, token) = inviteTable.revoke(body.secretID, lamport: record.lamport, record: record.id)
        if isNew {
            invitesChanged(at: now, into: &outbox)
            if phase == .member {
                emit(.inviteRevoked, record.author, [.init("id", .text(body.secretID.description))], into: &outbox)
            }
        }
        if let token { outbox.append(.inviteRevoked(token, body.secretID)) }
    }
}
