import MeshBase
import MeshCrypto
import MeshWire

/// Everything that spreads beyond one link: signed records, and messages of applications.
///
/// **Records** go from their author to all its links at once. Whoever gets a new one passes it to those of its links
/// that are not linked to the author themselves (peers tell each other their links), so a full mesh carries each record
/// once per member and a line still hears everything. Whatever is lost on the way is found by digests: every second each
/// peer says the digest of all it holds, and where digests keep differing, the one that lacks something asks with an
/// exact summary. One catch-up runs at a time, so a newcomer does not get everything from everybody.
///
/// **Messages** go over the link to their recipient, unsigned, or sealed and signed through others where there is no
/// link. Reliable ones stand in one numbered stream per recipient whatever the route.
///
/// The sections "Gossip" and "Commands" of Docs/Protocol.md are the specification.
public struct Gossip: Sendable {
    let identity: NodeIdentity
    let configuration: GossipConfiguration
    let grid: TickGrid
    var random: RandomStream
    var counters = GossipStatistics()

    var log: RecordLog
    var fold = MembershipFold()
    var sealing = Sealing()
    var epochSecrets: [GroupSecret] = []
    /// What new secrets set free, until there is an outbox to put it in.
    var deferredChanges: [RecordLog.Change] = []

    /// Commands of a newcomer that does not hold its admission yet.
    var waitingPublications: [Publication] = []

    var links: [PeerID: Neighbour] = [:]
    var catchUp: CatchUp?
    var announceAt: HostTime?
    var wantAt: HostTime?
    /// Whom to ask next for missing causes.
    var wantTurn = 0
    var lastSource: PeerID?

    var members: Set<PeerID> = []
    /// The present process life of each member, as its presence or its link says.
    var memberLives: [PeerID: Incarnation] = [:]
    var departures: [PeerID: Departure] = [:]
    var outgoing: [PeerID: OutgoingStream] = [:]
    var incoming: [ChainKey: IncomingStream] = [:]
    var unsettled: [UInt64: UnsettledMessage] = [:]
    var nextMessageNumber: UInt64 = 1
    var nextUnreliableSequence: UInt64 = 1
    /// The greatest Lamport time of any message sent or received here.
    var messageClock: UInt64 = 0
    var claims = ClaimAllowance()
    /// The mesh clock, for deadlines.
    var meshClock: MeshClockReading?
    /// What came out here lately, for what is sent behind it.
    var heardLately: [ChainKey: Heard] = [:]
    /// Streams whose next message waits for what must come first.
    var blockedStreams: Set<ChainKey> = []
    var askCausesAt: HostTime?
    var ordered = OrderedLog(limits: OrderedLimits())
    var nextOrderedSequence: UInt64 = 1
    /// Who waits for which of this node's ordered messages to get its place.
    var orderedTokens: [UInt64: CommandToken] = [:]
    /// What everybody was told of this node's messages to come.
    var promised: UInt64 = 0
    var promiseAt: HostTime?
    var askAt: HostTime?
    var orderedSummaryAt: HostTime?
    /// When the last ordered message came, or a member was lost that may have sent some.
    var orderedActiveAt: HostTime?
    var relayHistory = RelayHistory()
    var nextRelayCounter: UInt64 = 1

    struct Publication: Sendable {
        let kind: RecordKind
        let body: [UInt8]
        let token: CommandToken?
    }

    /// The one exchange in which this node asks for what it lacks.
    struct CatchUp: Sendable {
        let peer: PeerID
        var until: HostTime
    }

    /// A former member, and what that means for messages to it.
    struct Departure: Sendable {
        let reason: DeliveryFailure.Reason
        let since: HostTime
        let givenUpAt: HostTime
    }

    /// A reliable message whose recipients have not all answered.
    struct UnsettledMessage: Sendable {
        let token: CommandToken
        var waitingFor: Set<PeerID>
        var failures: [DeliveryFailure] = []
    }

    /// `random` is this machine's own.
    public init(identity: NodeIdentity, configuration: GossipConfiguration, random: RandomStream) {
        self.identity = identity
        self.configuration = configuration
        grid = TickGrid(of: identity.peerID)
        self.random = random
        log = RecordLog(configuration: configuration)
        log.signing = identity.signing
    }

    // MARK: Queries

    /// Digest of the accepted records: equal digests, equal sets.
    public var head: Bytes16 { log.head }
    /// Nil until a mesh was founded or set.
    public var meshID: MeshID? { log.mesh }
    /// The bytes of GENESIS, for a newcomer.
    public var genesis: [UInt8]? { log.genesis }
    /// All accepted records in total order. Cost: O(n log n).
    public var records: [[UInt8]] { log.acceptedBytes }
    /// Records that wait for their causes.
    public var waitingRecordCount: Int { log.pendingCount }
    /// Whether the records let this peer be here.
    public func isMember(_ peer: PeerID) -> Bool { fold.membership.isMember(peer) }
    public var membership: Membership { fold.membership }
    /// The greatest Lamport time of any accepted record.
    public var greatestLamport: UInt64 { log.greatestLamport }
    public var statistics: GossipStatistics { counters }

    // MARK: Inputs

    /// Which mesh this node is in, before its GENESIS is known. No effect after.
    public mutating func setMesh(_ mesh: MeshID) { log.setMesh(mesh) }

    /// The secrets under which records are sealed; the first seals what is written here.
    public mutating func setEpochSecrets(_ secrets: [GroupSecret]) {
        epochSecrets = secrets
        deferredChanges.append(contentsOf: log.setSecrets(secrets))
    }

    /// Records from disk, at the start, after `setMesh` and `setEpochSecrets`. Each is checked as if it came from a
    /// stranger; what does not hold is left out and counted. Returns the accepted ones in total order, and admissions by void ones.
    public mutating func restore(_ records: [[UInt8]]) -> RestoredRecords {
        var signed: [SignedRecord] = []
        for bytes in records {
            // Bit rot and foreign files are counted, and the mesh still has the record.
            guard let record = try? SignedRecord(decoding: bytes) else {
                counters.malformed += 1
                continue
            }
            counters.signaturesVerified += 1
            if record.isSignatureValid { signed.append(record) } else { counters.recordsRefused += 1 }
        }
        var accepted: [RecordID: AcceptedRecord] = [:]
        var voidAdmissions: [AcceptedRecord] = []
        for change in log.restore(signed) {
            switch change {
            case .accepted(let record, _):
                accepted[record.id] = record
                learn(record)
            case .voided(let id):
                fold.void(id)
                if let record = accepted.removeValue(forKey: id), record.kind == .admit {
                    voidAdmissions.append(record)
                }
            case .forked: counters.forks += 1
            case .refused: counters.recordsRefused += 1
            case .dropped: counters.pendingDropped += 1
            case .knownVoid(let record, _):
                guard record.kind == .admit else { continue }
                voidAdmissions.append(record)
                learn(record)
            }
        }
        _ = fold.refresh()
        for id in accepted.keys where !isEffective(id) {
            log.stored[id]?.isMuted = true
            accepted[id] = nil
        }
        voidAdmissions.removeAll { !isEffective($0.id) }
        counters.recordsAccepted += accepted.count
        log.refreshHead()
        sealing.isUnsettled = true
        let inOrder = { (left: AcceptedRecord, right: AcceptedRecord) in RecordOrder(left) < RecordOrder(right) }
        return RestoredRecords(
            accepted: accepted.values.sorted(by: inOrder), voidAdmissions: voidAdmissions.sorted(by: inOrder),
            membership: fold.membership)
    }

    /// A message of channel `.gossip` from a linked peer. Any bytes: what does not decode or fit is counted and dropped.
    public mutating func receive(
        _ payload: [UInt8], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        applyDeferred(at: now, into: &outbox)
        guard links[peer] != nil else {
            counters.unexpected += 1
            return
        }
        // A later version's message, or damage at the peer: neither is worth a link.
        guard let message = try? GossipMessage(decoding: payload) else {
            counters.malformed += 1
            return
        }
        if fold.membership.removals[peer] != nil { return receiveOfRemoved(message, from: peer, into: &outbox) }
        switch message {
        case .summary(let summary): receiveSummary(summary, from: peer, at: now, into: &outbox)
        case .records(let bundle): receiveBundle(bundle, from: peer, at: now, into: &outbox)
        case .want(let ids): receiveWant(ids, from: peer, into: &outbox)
        case .head(let digest): receiveHead(digest, from: peer, at: now)
        case .neighbours(let peers): receiveNeighbours(peers, from: peer, at: now, into: &outbox)
        case .acknowledgement(let acknowledgement):
            // Of a stream to the peer itself, which only members have.
            receiveAcknowledgement(acknowledgement, from: peer, overLink: true, at: now, into: &outbox)
        case .direct, .relayed, .fork, .wantSecrets, .secrets, .ordered, .promise, .orderedSummary:
            // Signed records prove themselves, whoever brings them, and an admission may come from the admitted one
            // alone. Everything else is for members; a few messages wait, since they may overtake the admission.
            guard isMember(peer) else {
                if case .direct(let message) = message, links[peer]?.hold(message) == true { return }
                counters.fromStrangers += 1
                return
            }
            receiveOfMember(message, from: peer, at: now, into: &outbox)
        }
        log.refreshHead()
    }

    private mutating func receiveOfMember(
        _ message: GossipMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        switch message {
        case .direct(let message): receiveDirect(message, from: peer, at: now, into: &outbox)
        case .relayed(let message): receiveRelayed(message, from: peer, at: now, into: &outbox)
        case .fork(let first, let second): receiveFork(first, second, from: peer, at: now, into: &outbox)
        case .wantSecrets(let ids): receiveWantSecrets(ids, from: peer, into: &outbox)
        case .secrets(let secrets): receiveSecrets(secrets, at: now, into: &outbox)
        case .ordered(let message): receiveOrdered(message, from: peer, at: now, into: &outbox)
        case .promise(let promise):
            guard let incarnation = links[peer]?.incarnation else { break }
            receivePromise(
                promise, from: ChainKey(author: peer, incarnation: incarnation), at: now, into: &outbox)
        case .orderedSummary(let summary): receiveOrderedSummary(summary, from: peer, at: now, into: &outbox)
        default: break
        }
    }

    public mutating func submit(
        _ command: GossipCommand, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        applyDeferred(at: now, into: &outbox)
        switch command {
        case .publish(let kind, let body, let token):
            try publish(kind, body: body, token: token, at: now, into: &outbox)
        case .remove(let peer, let token): try remove(peer, token: token, at: now, into: &outbox)
        case .end(let token): try end(token: token, at: now, into: &outbox)
        case .found(let body, let secret, let token):
            try found(body, secret: secret, token: token, at: now, into: &outbox)
        case .adopt(let genesis):
            try adopt(genesis, at: now, into: &outbox)
        case .sendUserMessage(let payload, let recipients, let mode, let deadline, let token):
            try sendUserMessage(
                payload, to: recipients, mode: mode, deadline: deadline, token: token, at: now, into: &outbox)
        case .sendUserMessages(let batch, let recipients, let token):
            try sendUserMessages(batch, to: recipients, token: token, at: now, into: &outbox)
        case .meshClock(let reading): meshClock = reading
        case .membersChanged(let peers, let lives):
            memberLives = lives
            membersChanged(peers, at: now, into: &outbox)
        case .memberLost(let peer):
            memberLost(peer, at: now)
            scheduleRepair(at: now)
            releaseBlocked(at: now, into: &outbox)
            deliverOrdered(at: now, into: &outbox)
        }
        log.refreshHead()
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        applyDeferred(at: now, into: &outbox)
        handleRecordDeadlines(at: now, into: &outbox)
        handleMembershipDeadlines(at: now, into: &outbox)
        handleMessageDeadlines(at: now, into: &outbox)
        handleCausalDeadline(at: now, into: &outbox)
        handleOrderedDeadlines(at: now, into: &outbox)
        log.refreshHead()
    }

    /// When `handleDeadline` wants to be called; nil when nothing waits. Cost: O(links + streams).
    public var nextDeadline: HostTime? {
        if !deferredChanges.isEmpty || sealing.isUnsettled { return .distantPast }
        return [recordDeadline, membershipDeadline, messageDeadline, causalDeadline, orderedDeadline]
            .compactMap { $0 }.min()
    }

    // MARK: Links

    /// A link is ready; also when a new link took the place of an old one. Never refused, unlike a person's commands.
    public mutating func linkUp(
        _ peer: PeerID, _ incarnation: Incarnation, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard peer != identity.peerID else { return }
        applyDeferred(at: now, into: &outbox)
        defer { log.refreshHead() }
        var neighbour = Neighbour(
            incarnation: incarnation, configuration: configuration,
            firstHeadAt: nextHead(after: now), now: now)
        // A link in place of another: what the peer said stays true, and so does what it did.
        if let replaced = links[peer], replaced.incarnation == incarnation { neighbour.inherit(replaced) }
        links[peer] = neighbour
        if catchUp?.peer == peer { catchUp = nil }
        if announceAt == nil { announceAt = now + configuration.neighboursDelay }
        greet(peer, at: now, into: &outbox)
        // Records from disk may lack causes that the peer has.
        if log.pendingCount > 0, wantAt == nil { wantAt = now + configuration.wantDelay }
    }

    /// What a peer is told first. A member tells it only to members, so that a link under an invite alone hears
    /// nothing; a newcomer, which cannot know them yet, asks whoever it is linked with.
    mutating func greet(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let incarnation = links[peer]?.incarnation, isTrusted(peer) else { return }
        links[peer]?.isGreeted = true
        announceLinks(to: [peer], into: &outbox)
        greetWithSummary(peer, at: now, into: &outbox)
        greetWithStatus(peer, incarnation, at: now, into: &outbox)
        greetWithOrder(peer, at: now, into: &outbox)
    }

    /// Whether this node speaks to `peer` unasked: a record admits the peer, or none admits this node yet.
    func isTrusted(_ peer: PeerID) -> Bool { isMember(peer) || !log.isAuthorised(identity.peerID) }

    public mutating func linkDown(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        applyDeferred(at: now, into: &outbox)
        defer { log.refreshHead() }
        guard links.removeValue(forKey: peer) != nil else { return }
        if announceAt == nil { announceAt = now + configuration.neighboursDelay }
        if catchUp?.peer == peer { endCatchUp(at: now, into: &outbox) }
        // Only members are remembered: holders of a ticket may be without number.
        if !isMember(peer) {
            for key in incoming.keys where key.author == peer { incoming[key] = nil }
        }
        routesLost(with: peer, at: now, into: &outbox)
    }

    /// Whether a linked member says that it is linked to `peer`.
    public func isNear(_ peer: PeerID) -> Bool { links.values.contains { $0.isLinked(to: peer) } }

    func announceLinks(to peers: [PeerID], into outbox: inout Outbox<GossipOutput>) {
        let list = Array(links.keys.sorted().prefix(GossipMessage.maximumNeighbours))
        for peer in peers where isTrusted(peer) {
            send(.neighbours(list), to: peer, priority: .command, isReliable: true, into: &outbox)
        }
    }

    private mutating func receiveNeighbours(
        _ peers: [PeerID], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        links[peer]?.announced = peers
    }

    var sortedLinks: [PeerID] { links.keys.sorted() }

    func send(
        _ message: GossipMessage, to peer: PeerID, priority: Priority, isReliable: Bool,
        into outbox: inout Outbox<GossipOutput>
    ) {
        outbox.append(.send(message.encoded, to: peer, priority: priority, isReliable: isReliable))
    }
}
