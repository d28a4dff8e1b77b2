import MeshBase
import MeshCrypto
import MeshWire

/// What the session wants done, in this order.
public enum SessionOutput: Sendable {
    /// A message of channel `.session` for a directly linked peer.
    case send(SessionMessage, to: PeerID, priority: Priority, isReliable: Bool)
    /// To the gossip: make a record and spread it.
    case publish(RecordKind, body: [UInt8], token: CommandToken?)
    /// To the gossip: make the GENESIS record. Comes after `setSecrets`.
    case foundMesh(GenesisBody, GroupSecret)
    /// To the gossip: a newcomer's GENESIS record; its id was checked against the ticket's mesh.
    case adoptMesh(MeshID, genesis: [UInt8])
    case dial(DialRequest)
    case closeLink(PeerID)
    /// The link goes through a member and is silent.
    case changeRelay(PeerID)
    /// Every secret that may open a handshake, epoch secrets first. `SessionStateMachine.epochSecrets` are those that
    /// also seal records.
    case setSecrets([GroupSecret])
    case setMesh(MeshID)
    /// A datagram for the discovery groups, on every usable interface.
    case sendBeacon([UInt8])
    /// To the 0600 setting. A new start count, mesh or secret must be on disk before anything else of this turn leaves
    /// the node; the rest must not hold it up.
    case persist(SessionState)
    /// `members` differs from before; ask after the turn.
    case membersChanged
    /// Dead or left.
    case memberLost(PeerID)
    /// This node is a member now: welcome received and its ADMIT record seen.
    case joined(MeshID)
    case joinFailed(JoinFailure)
    case inviteReady(CommandToken, Ticket)
    case inviteRevoked(CommandToken, SecretID)
    /// The record that the command needed cannot be made.
    case refused(CommandToken, CommandError)
    /// This node is out of the mesh, for ever; nil when nobody put it out: the record that let it in counts no longer.
    case removed(by: String?)
    /// A member ended the mesh: nothing more is to be said in it. `ended` follows when the others had time to hear it.
    /// Nil when that counts no longer, because whoever did had been removed.
    case ending(by: String?)
    case ended(by: String)
    /// The farewell has reached everybody linked, or 500 ms have passed.
    case left
    /// Another process with this node's key goes on in its place (MEM-02); this one is silent from now on.
    case yielded
    case event(ProtocolEvent)
}

/// What the session can be told.
public enum SessionCommand: Sendable {
    /// A new mesh with this node as its first member.
    case found(label: String, policies: MeshPolicies = .standard)
    /// A node that has a mesh starts again.
    case resume(SessionState)
    /// Enters the ticket's mesh. `extraAddresses` are tried beside the ticket's, whatever they are: a person named
    /// them.
    case join(Ticket, extraAddresses: [SocketAddress])
    case linkEstablished(LinkIdentity)
    case linkLost(PeerID, LinkLoss)
    case linkMoved(PeerID, SocketAddress, relay: PeerID? = nil)
    case relayRefused(PeerID, by: PeerID)
    /// Authentic datagrams of these peers arrived.
    case heard([PeerID])
    case roundTrip(PeerID, smoothed: TimeSpan, variance: TimeSpan)
    case dialFailed(DialRequest, DialFailure)
    /// Records in causal order, also those restored from the store at start; other kinds are ignored.
    case recordAccepted(AcceptedRecord)
    /// A record that `publish` asked for cannot be made.
    case publishRefused(RecordKind, body: [UInt8], CommandError)
    /// A record that was accepted counts no longer: its author signed two of one number.
    case recordVoided(RecordID)
    /// Who is in and out, as the records say it; told when more changed than an admission, and after a restart.
    case membership(Membership)
    /// Every epoch secret, the one that seals first, and those that nobody who was removed can know.
    case epochSecrets([GroupSecret], safe: [GroupSecret])
    /// An ADMIT of a forked chain. It admits nevertheless, since the newcomer did nothing wrong; another takes its place.
    case voidAdmission(AcceptedRecord)
    /// This node's own GENESIS record with its signature, once the gossip has made it; newcomers get it.
    case setGenesis([UInt8])
    case beaconReceived([UInt8], from: SocketAddress)
    /// Where this node's socket can be reached, with its port; also at start.
    case localAddressesChanged([SocketAddress])
    /// The kernel reported that nobody listens there.
    case unreachable(SocketAddress)
    /// `expiresAfter` is rounded up to seconds and counts on each member's own clock from when it learns of the invite;
    /// `nil` never expires.
    case createInvite(expiresAfter: TimeSpan?, token: CommandToken)
    case revokeInvite(SecretID, token: CommandToken)
    /// The machine slept for so long, and this node's clock with it.
    case suspended(TimeSpan)
    case leave
    case rename(String)
}

/// One node admitted to the mesh, as this node sees it.
public struct Member: Hashable, Sendable {
    public enum State: String, Hashable, Sendable, CaseIterable {
        case alive
        /// Not heard for a while, or not met yet since this node started.
        case suspect
        /// A local judgement, revised as soon as the member is heard again.
        case dead
        /// It said farewell itself.
        case left
    }

    public var peer: PeerID
    /// Untrusted text of at most 64 bytes: escape it on screen. Never an identity.
    public var name: String
    public var state: State
    public var incarnation: Incarnation
    public var revision: UInt64
    /// Where it says it can be reached; the address of its link first.
    public var addresses: [SocketAddress]
    /// `nil` for the founder.
    public var admittedBy: PeerID?
    /// The last authentic datagram over a link of this node's own.
    public var lastHeardAt: HostTime?
    /// When `state` last changed.
    public var since: HostTime
    public var isLocal: Bool
    /// There is a direct link.
    public var isLinked: Bool
}

/// One way that was tried to reach a mesh.
public struct DialAttempt: Hashable, Sendable {
    public enum Outcome: String, Hashable, Sendable, CaseIterable {
        case noAnswer
        /// The kernel said that nobody listens there.
        case portUnreachable
        /// Never dialled: unspecified, multicast, without a port, or this node itself.
        case notDialable
        /// A handshake was finished but no welcome followed.
        case noWelcome
    }

    public var address: SocketAddress
    public var outcome: Outcome

    public init(address: SocketAddress, outcome: Outcome) {
        self.address = address
        self.outcome = outcome
    }
}

/// Why this node did not become a member.
public enum JoinFailure: Hashable, Sendable {
    /// Nobody who holds the secret answered. A revoked or expired ticket looks just like this: strangers get silence.
    case noAnswer(tried: [DialAttempt])
    /// Somebody answered and said no: also for a ticket revoked or expired since the link was made.
    case refused(SessionMessage.Refusal)
    /// Peers were reached, but none that speaks this version.
    case versionMismatch(tried: [DialAttempt])
}

/// A ticket's join secret that is worth something now.
public struct InviteSummary: Sendable {
    public var id: SecretID
    /// To hand out: with the addresses of this node as they are now.
    public var ticket: Ticket?
    /// Who made it.
    public var author: PeerID
    /// When this node honours it no more; `nil` if never.
    public var expiresAt: HostTime?

    public init(id: SecretID, ticket: Ticket?, author: PeerID, expiresAt: HostTime?) {
        self.id = id
        self.ticket = ticket
        self.author = author
        self.expiresAt = expiresAt
    }
}

/// Tuning of the session. Relations between the values are asserted in its tests.
public struct SessionConfiguration: Hashable, Sendable {
    /// Between two keep-alives on a watched link.
    public var keepAliveInterval = TickGrid.standardInterval
    /// Keep-alives missed before a member is suspected; also the multiple of the round trip and of its variance is 4.
    public var missedKeepAlives: Int64 = 3
    /// From suspicion to death at least, unless the kernel or the link said that the member is gone, whatever neighbours
    /// answer: a process that stands still for 700 ms right before a keep-alive is silent for 950, and its answers may
    /// be lost once or twice.
    public var leastDoubt = TimeSpan.milliseconds(650)
    /// How much longer neighbours have to answer for a suspect, when too few of them have by then.
    public var confirmationTime = TimeSpan.milliseconds(350)
    /// The least time for a probe's answer; else 2 round trips.
    public var leastProbeTime = TimeSpan.milliseconds(100)
    /// Neighbours asked about a suspect.
    public var confirmers = 3
    /// Up to this many members every link is watched; beyond, `watchedNeighbours` of the ring of ids.
    public var fullWatchLimit = 16
    public var watchedNeighbours = 8
    /// On links that are not watched: 8 intervals.
    public var slowKeepAliveInterval = TimeSpan.milliseconds(2_000)
    /// Members not met yet count as suspect this long after the start, then as dead.
    public var startGrace = TimeSpan.milliseconds(3_000)

    /// A lost member is dialled this often …
    public var redialInterval = TimeSpan.milliseconds(2_000)
    /// … for this long, then …
    public var eagerRedialTime = TimeSpan.seconds(1_800 as Int64)
    /// … this often, for ever.
    public var slowRedialInterval = TimeSpan.seconds(30 as Int64)
    /// An existing member waits this long, ± 20 %, for a newcomer to dial it first.
    public var newcomerDialDelay = TimeSpan.milliseconds(300)

    /// A member that was dialled in vain for this long is looked for with the help of others.
    public var introductionDelay = TimeSpan.milliseconds(500)
    /// Dialling at an agreed instant has this long, three attempts, before a member is asked to carry.
    public var punchPatience = TimeSpan.milliseconds(1_000)

    public var isDiscoveryEnabled = true
    /// Members call out this often, ± a third: every 5 to 10 s …
    public var beaconInterval = TimeSpan.milliseconds(7_500)
    /// … and this often while joining or while a member is missing.
    public var urgentBeaconInterval = TimeSpan.milliseconds(2_000)
    public var joinBeaconInterval = TimeSpan.milliseconds(700)

    public var joinTimeout = TimeSpan.seconds(10 as Int64)
    /// A newcomer repeats its hello this often, to one link after the other.
    public var helloInterval = TimeSpan.milliseconds(1_000)
    public var leaveTimeout = TimeSpan.milliseconds(500)
    /// How long a node tells others that the mesh has ended, before it stops.
    public var endLinger = TimeSpan.seconds(3 as Int64)
    /// What one member must do and any may, each does after as many of these as members are ahead of it.
    public var turnInterval = TimeSpan.milliseconds(1_000)

    /// Each member links with each, so this is also the number of links. A newcomer beyond is refused aloud (MEM-24).
    public var maximumMembers = 256
    public var maximumJoinSecrets = 16
    public var capabilities: UInt32 = 0

    public init() {}
}

/// Counters since the start; every refusal and every drop of a bounded table has one.
public struct SessionStatistics: Hashable, Sendable {
    public var malformedMessages: UInt64 = 0
    /// Messages of peers that are not linked, or not admitted.
    public var unexpectedMessages: UInt64 = 0
    public var presencesAccepted: UInt64 = 0
    /// Presence records that were known, or older than what is known.
    public var presencesStale: UInt64 = 0
    /// Presence records whose signature is not their owner's.
    public var presencesForged: UInt64 = 0
    /// Presence records of nodes that are not members, dropped from the waiting room.
    public var presencesEvicted: UInt64 = 0
    public var keepAlivesSent: UInt64 = 0
    public var suspicions: UInt64 = 0
    public var refutations: UInt64 = 0
    public var deaths: UInt64 = 0
    public var returns: UInt64 = 0
    public var probesSent: UInt64 = 0
    /// Probe requests beyond the table's bounds.
    public var probeRequestsDropped: UInt64 = 0
    public var dials: UInt64 = 0
    /// Questions to others to be brought together with a member, and attempts that came of it.
    public var introductionsAsked: UInt64 = 0
    public var punches: UInt64 = 0
    /// Attempts to reach a member through another.
    public var relayDials: UInt64 = 0
    /// Others brought together, and questions beyond what one member may ask.
    public var introductionsMade: UInt64 = 0
    public var introductionsRefused: UInt64 = 0
    public var beaconsSent: UInt64 = 0
    public var beaconsHeard: UInt64 = 0
    /// Datagrams on the beacon port that no secret opens.
    public var beaconsForeign: UInt64 = 0
    /// Beacons beyond the rate at which they are tried or answered.
    public var beaconsIgnored: UInt64 = 0
    public var admissions: UInt64 = 0
    public var admissionsRefused: UInt64 = 0
    public var identityConflicts: UInt64 = 0
    /// Deadlines handled more than one keep-alive interval late.
    public var lateDeadlines: UInt64 = 0

    public init() {}
}
