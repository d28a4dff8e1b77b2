import MeshBase
import MeshCrypto
import MeshWire

/// Who is here, who is suspect, and which paths reach them. No node has a special role.
///
/// The composite of the parts beside it: `MemberList` (who was admitted, and what they say about themselves),
/// `Liveness` and `Suspicion` (who is alive, by this node's own evidence), `Admission`, `Invites`, `Discovery`
/// (beacons), `Paths` and `DialSchedule` (whom to dial where, and when), `Meetings` (whom others
/// must bring together). It decides and asks; the shell performs. Its
/// topics stand in extensions, one a file: `+Founding`, `+Admission`, `+Links`, `+Presence`, `+Monitoring`,
/// `+Discovery`, `+Reflection`, `+Meetings`.
///
/// Bounds: 256 members, 64 presence records of strangers, 64 probes for others, 16 join secrets, 256 recently dialled
/// beacon addresses.
public struct SessionStateMachine: Sendable {
    /// Where this node stands.
    enum Phase: Hashable, Sendable {
        case idle
        /// GENESIS is asked for and not yet accepted.
        case founding
        case joining
        case member
        case leaving
        /// Left in order; nothing happens any more.
        case ended
        /// Another process with the same key goes on in this node's place (MEM-02).
        case yielded
    }

    /// One link, as the session needs to know it.
    struct Link: Sendable {
        var identity: LinkIdentity
        var address: SocketAddress
        var establishedAt: HostTime
        var smoothed = TimeSpan.milliseconds(10)
        var variance = TimeSpan.milliseconds(5)
        /// The peer watches this node, so it gets a keep-alive every interval.
        var isWatchedByPeer = false
        /// Members that the peer does not hear itself.
        var peerAsked: [PeerID] = []
        /// Keep-alives in a row whose digest differed from ours.
        var mismatches = 0
        var lastSummaryAt: HostTime?
        /// Set when the peer has said farewell.
        var closesAt: HostTime?
        /// The member through which the link goes.
        var relay: PeerID?
        /// The member at whose word both sides dialled.
        var introducer: PeerID?
        /// Introductions the peer may ask for.
        var introductions = Allowance(burst: 32, perSecond: 8)
    }

    struct Timers: Sendable {
        var tick: HostTime?
        var monitor: HostTime?
        var join: HostTime?
        var hello: HostTime?
        var leave: HostTime?
        var persist: HostTime?
        var reflection: HostTime?
        /// The mesh is over, and this node stops then.
        var end: HostTime?

        /// `distantFuture` when none is set.
        var least: HostTime {
            let never = HostTime.distantFuture
            let soon = min(tick ?? never, monitor ?? never, join ?? never)
            let late = min(persist ?? never, reflection ?? never, end ?? never)
            return min(soon, hello ?? never, leave ?? never, late)
        }
    }

    let identity: NodeIdentity
    let configuration: SessionConfiguration
    let grid: TickGrid
    var random: RandomStream
    var phase = Phase.idle
    public internal(set) var meshID: MeshID?
    /// The mesh's name for people, from its GENESIS.
    public internal(set) var label = ""
    public internal(set) var statistics = SessionStatistics()
    /// Those that seal records, newest first.
    public internal(set) var epochSecrets: [GroupSecret] = []

    /// Those of them that nobody who was removed can know; nil until the records have been looked at.
    var safeEpochs: Set<SecretID>?
    /// What the records say, as last told.
    var membership = Membership()
    /// Of members dialled more than once. Bounded by the members.
    var pairSecrets: [PeerID: GroupSecret] = [:]
    var dialTurns: [PeerID: Int] = [:]
    /// The epoch secret that was newest here when a member was last linked.
    var linkedUnder: [PeerID: SecretID] = [:]

    /// This node's own name, as its presence record says it.
    public internal(set) var name: String
    var genesis: [UInt8] = []
    var startCount: UInt64 = 1
    var revision: UInt64 = 0
    var startedAt = HostTime.zero
    /// Records of what was before this node came may still be on their way; a founder's mesh has none.
    var hasHistory = true
    /// Other lives of this node's key that its start count was raised above; each at most once.
    var outbid: Set<Incarnation> = []

    var list = MemberList()
    var liveness: [PeerID: Liveness] = [:]
    var links: [PeerID: Link] = [:]
    /// Linked peers in ascending order.
    var linkOrder: [PeerID] = []
    var watched: Set<PeerID> = []
    var probeTasks: [ProbeTask] = []
    var health = LocalHealth()
    var tickCount = 0

    var inviteTable = Invites()
    var readmissions = Readmissions()
    var admission = Admission()
    var joining: Joining?
    var farewellWaiting: Set<PeerID> = []
    var inheritedContacts: [PeerID: [SocketAddress]] = [:]

    var localAddresses: [SocketAddress] = []
    var reflected = ReflectedAddresses()
    var meetings = Meetings()
    var reflectionToldAt = HostTime.distantPast
    var discovery = Discovery()
    var dials = DialSchedule()
    var timers = Timers()

    /// `name` is cut to 64 bytes; an empty one becomes "node".
    public init(identity: NodeIdentity, name: String, configuration: SessionConfiguration, random: RandomStream) {
        self.identity = identity
        self.configuration = configuration
        grid = TickGrid(of: identity.peerID, interval: configuration.keepAliveInterval)
        self.random = random
        self.name = Self.acceptable(name) ?? "node"
    }

    var localPeer: PeerID { identity.peerID }

    private static let expirySavingInterval = TimeSpan.seconds(60 as Int64)

    /// `nil` for a name of nothing.
    static func acceptable(_ name: String) -> String? {
        let name = SafeText.shortened(name, maximumBytes: WireLimits.maximumNameBytes)
        return name.isEmpty ? nil : name
    }

    // MARK: The four verbs

    /// One message of channel `.session` from a linked peer. What is wrong is dropped and counted.
    public mutating func receive(
        _ payload: [UInt8], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard links[peer] != nil else {
            statistics.unexpectedMessages &+= 1
            return
        }
        let message: SessionMessage
        do {
            message = try SessionMessage(decoding: payload)
        } catch {
            statistics.malformedMessages &+= 1
            return
        }
        noteHeard(peer, at: now, into: &outbox)
        handle(message, from: peer, at: now, into: &outbox)
    }

    private mutating func handle(
        _ message: SessionMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        switch message {
        case .hello(let presence): handleHello(presence, from: peer, at: now, into: &outbox)
        case .welcome(let welcome): handleWelcome(welcome, from: peer, at: now, into: &outbox)
        case .refusal(let refusal): handleRefusal(refusal, at: now, into: &outbox)
        case .presences(let presences): handlePresences(presences, from: peer, at: now, into: &outbox)
        case .probe(let nonce): send(.probeAnswer(nonce: nonce), to: peer, priority: .clock, into: &outbox)
        case .probeAnswer: break  // Having heard it is all that counts; `noteHeard` has done the rest.
        case .farewellSeen: handleFarewellSeen(from: peer, at: now, into: &outbox)
        case .yourAddress(let address): handleReflection(address, from: peer, at: now)
        case .summary, .want, .keepAlive, .probeRequest, .probeResult, .suspicion,
            .introductionRequest, .introduction, .introductionRefused:
            guard phase == .member, list.contains(peer) else {
                statistics.unexpectedMessages &+= 1
                return
            }
            handleMemberMessage(message, from: peer, at: now, into: &outbox)
        }
    }

    private mutating func handleMemberMessage(
        _ message: SessionMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        switch message {
        case .summary(let versions): handleSummary(versions, from: peer, into: &outbox)
        case .want(let peers): handleWant(peers, from: peer, into: &outbox)
        case .keepAlive(let keepAlive): handleKeepAlive(keepAlive, from: peer, at: now, into: &outbox)
        case .probeRequest(let subject, let nonce):
            handleProbeRequest(subject, nonce: nonce, from: peer, at: now, into: &outbox)
        case .probeResult(let subject, let nonce, let outcome):
            handleProbeResult(subject, nonce: nonce, outcome: outcome, from: peer, at: now, into: &outbox)
        case .suspicion(let subject): handleWarning(about: subject, at: now, into: &outbox)
        case .introductionRequest(let subject):
            handleIntroductionRequest(subject, from: peer, at: now, into: &outbox)
        case .introduction(let introduction): handleIntroduction(introduction, from: peer, at: now)
        case .introductionRefused(let subject): handleIntroductionRefused(subject, from: peer, at: now)
        default: break
        }
    }

    public mutating func submit(
        _ command: SessionCommand, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {
        switch command {
        case .found(let label, let policies): try found(label: label, policies: policies, at: now, into: &outbox)
        case .resume(let state): try resume(state, at: now, into: &outbox)
        case .join(let ticket, let extra): try join(ticket, extraAddresses: extra, at: now, into: &outbox)
        case .linkEstablished(let link): linkEstablished(link, at: now, into: &outbox)
        case .linkLost(let peer, let loss): linkLost(peer, loss, at: now, into: &outbox)
        case .linkMoved(let peer, let address, let relay):
            linkMoved(peer, to: address, relay: relay, at: now, into: &outbox)
        case .relayRefused(let peer, let relay): relayRefused(peer, by: relay, at: now)
        case .heard(let peers): for peer in peers { noteHeard(peer, at: now, into: &outbox) }
        case .roundTrip(let peer, let smoothed, let variance):
            links[peer]?.smoothed = max(smoothed, .zero)
            links[peer]?.variance = max(variance, .zero)
        case .dialFailed(let request, let failure): dialFailed(request, failure)
        case .recordAccepted(let record): recordAccepted(record, at: now, into: &outbox)
        case .publishRefused(let kind, let body, let error):
            publishRefused(kind, body, error, at: now, into: &outbox)
        case .recordVoided(let id): recordVoided(id, at: now, into: &outbox)
        case .membership(let membership): adopt(membership, at: now, into: &outbox)
        case .epochSecrets(let all, let safe): adoptSecrets(all, safe: safe, at: now, into: &outbox)
        case .voidAdmission(let record): voidAdmission(record, at: now, into: &outbox)
        case .setGenesis(let bytes): setGenesis(bytes, at: now, into: &outbox)
        case .beaconReceived(let datagram, let source): beaconReceived(datagram, from: source, at: now, into: &outbox)
        case .localAddressesChanged(let addresses): localAddressesChanged(addresses, at: now, into: &outbox)
        case .unreachable(let address): unreachable(address, at: now, into: &outbox)
        case .createInvite(let span, let token):
            try createInvite(expiresAfter: span, token: token, at: now, into: &outbox)
        case .revokeInvite(let id, let token): try revokeInvite(id, token: token, into: &outbox)
        case .suspended(let span): inviteTable.age(by: span)
        case .leave: leave(at: now, into: &outbox)
        case .rename(let name): try rename(name, at: now, into: &outbox)
        }
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard let planned = nextDeadline, planned <= now else { return }
        noteLateness(now - planned, at: now)
        if timers.tick.isDue(at: now) { tick(at: now, into: &outbox) }
        if timers.monitor.isDue(at: now) { checkMembers(at: now, into: &outbox) }
        if timers.hello.isDue(at: now) { sendHello(at: now, into: &outbox) }
        if timers.join.isDue(at: now) { joinTimedOut(at: now, into: &outbox) }
        if timers.leave.isDue(at: now) { finishLeaving(at: now, into: &outbox) }
        if discovery.nextAt.isDue(at: now) { callOut(at: now, into: &outbox) }
        if dials.nextDeadline.isDue(at: now) { dialMissing(at: now, into: &outbox) }
        if meetings.nextDeadline.isDue(at: now) { runMeetings(at: now, into: &outbox) }
        if inviteTable.nextDeadline.isDue(at: now) { expireInvites(at: now, into: &outbox) }
        if readmissions.nextDeadline.isDue(at: now) { readmit(at: now, into: &outbox) }
        if timers.reflection.isDue(at: now) { renewReflection(at: now, into: &outbox) }
        if timers.persist.isDue(at: now) { persist(at: now, into: &outbox) }
        if timers.end.isDue(at: now) { finishEnding(into: &outbox) }
    }

    public var nextDeadline: HostTime? {
        let least = min(
            timers.least, discovery.nextAt ?? .distantFuture,
            min(dials.nextDeadline ?? .distantFuture, meetings.nextDeadline ?? .distantFuture),
            min(inviteTable.nextDeadline ?? .distantFuture, readmissions.nextDeadline ?? .distantFuture))
        return least == .distantFuture ? nil : least
    }

    /// `nextDeadline`, asked in place. Changes nothing: it is mutating because a getter is given a copy of the whole.
    public mutating func askNextDeadline() -> HostTime? { nextDeadline }

    // MARK: Queries

    /// Whether records make this peer a member; links made under a join secret need not lead to one.
    public func isAdmitted(_ peer: PeerID) -> Bool { list.contains(peer) }

    /// Everybody admitted, this node included; sorted by name, then id.
    public var members: [Member] {
        list.order.map(member).sorted { ($0.name, $0.peer) < ($1.name, $1.peer) }
    }

    private func member(_ peer: PeerID) -> Member {
        let entry = list[peer]
        let isLocal = peer == localPeer
        let life = liveness[peer]
        let link = links[peer]
        let incarnation = isLocal ? identity.incarnation : link?.identity.incarnation ?? entry?.presence?.incarnation
        var addresses = entry?.presence?.addresses ?? []
        if let link, link.relay == nil { addresses = [link.address] + addresses.filter { $0 != link.address } }
        return Member(
            peer: peer, name: isLocal ? name : entry?.name ?? "", state: isLocal ? .alive : life?.state ?? .suspect,
            incarnation: incarnation ?? Incarnation(0), revision: entry?.presence?.revision ?? 0,
            addresses: addresses, admittedBy: entry?.admission?.by, lastHeardAt: life?.lastHeard,
            since: isLocal ? startedAt : life?.since ?? startedAt, isLocal: isLocal, isLinked: link != nil)
    }

    /// The invites that are worth something now, newest first.
    public var invites: [InviteSummary] {
        invitesInForce.map { invite in
            InviteSummary(
                id: invite.id, ticket: ticket(for: invite), author: invite.author,
                expiresAt: inviteTable.expiresAt(invite.id))
        }
    }

    var invitesInForce: ArraySlice<Invites.Invite> { inviteTable.active(limit: configuration.maximumJoinSecrets) }

    func ticket(for invite: Invites.Invite) -> Ticket? {
        meshID.map { mesh in
            Ticket(
                meshID: mesh, joinSecret: invite.secret.secret,
                addresses: Paths.forTicket(localAddresses, reflected: reflected.addresses(besides: localAddresses)))
        }
    }

    /// 1 to 8: by how much this node's own lateness stretches its time-outs.
    public var localHealthMultiplier: Int { health.multiplier }

    // MARK: Shared by the extensions

    func send(
        _ message: SessionMessage, to peer: PeerID, priority: Priority, isReliable: Bool = false,
        into outbox: inout Outbox<SessionOutput>
    ) {
        outbox.append(.send(message, to: peer, priority: priority, isReliable: isReliable))
    }

    func emit(
        _ kind: ProtocolEvent.Kind, _ subject: PeerID? = nil, _ detail: [ProtocolEvent.Detail] = [],
        into outbox: inout Outbox<SessionOutput>
    ) {
        outbox.append(.event(ProtocolEvent(kind, subject: subject, detail: detail)))
    }

    /// Every secret that may open a handshake now, epoch secrets first.
    var handshakeSecrets: [GroupSecret] {
        var secrets = Array(handshakeEpochs)
        if let joining { secrets.append(joining.secret) }
        for invite in invitesInForce where !secrets.contains(where: { $0.id == invite.id }) {
            secrets.append(invite.secret)
        }
        return secrets
    }

    /// Where to look for a member after a restart: where it was linked from, else where it said it is.
    private func contact(_ peer: PeerID) -> SessionState.Contact? {
        guard peer != localPeer, let entry = list[peer] else { return nil }
        let addresses = entry.contacts.isEmpty ? entry.presence?.addresses ?? [] : entry.contacts
        guard !addresses.isEmpty else { return nil }
        return SessionState.Contact(
            peer: peer, addresses: Array(addresses.prefix(SessionState.maximumContactAddresses)))
    }

    mutating func schedulePersist(at time: HostTime) {
        timers.persist = min(timers.persist ?? time, time)
    }

    mutating func persist(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        timers.persist = nil
        guard let meshID, !epochSecrets.isEmpty else { return }
        var state = SessionState(
            mesh: meshID, startCount: startCount, label: label, name: name,
            epochSecrets: epochSecrets.compactMap { Bytes32($0.secret.revealed()) })
        state.genesis = genesis
        state.expiringInvites = inviteTable.expiring(at: now)
        // A timer that a crash takes back by a minute at most.
        if !state.expiringInvites.isEmpty { schedulePersist(at: now + Self.expirySavingInterval) }
        state.contacts = list.order.compactMap(contact)
        outbox.append(.persist(state))
    }
}
