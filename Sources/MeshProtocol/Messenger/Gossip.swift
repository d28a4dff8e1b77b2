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
    var departures: [PeerID: Departure] = [:]
    var outgoing: [PeerID: OutgoingStream] = [:]
    var incoming: [ChainKey: IncomingStream] = [:]
    var unsettled: [UInt64: UnsettledMessage] = [:]
    var nextMessageNumber: UInt64 = 1
    var nextUnreliableSequence: UInt64 = 1
    var messageClock: UInt64 = 0
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
    /// Whether a record that counts lets this peer write.
    public func isAuthorised(_ peer: PeerID) -> Bool { log.isAuthorised(peer) }
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
    /// stranger; what does not hold is left out and counted. Returns the accepted ones in total order.
    public mutating func restore(_ records: [[UInt8]]) -> [AcceptedRecord] {
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
        for change in log.restore(signed) {
            switch change {
            case .accepted(let record, _): accepted[record.id] = record
            case .voided(let id): accepted[id] = nil
            case .forked: counters.forks += 1
            case .refused: counters.recordsRefused += 1
            case .dropped: counters.pendingDropped += 1
            case .knownVoid: break
            }
        }
        counters.recordsAccepted += accepted.count
        log.refreshHead()
        return accepted.values.sorted { RecordOrder($0) < RecordOrder($1) }
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
        switch message {
        case .summary(let summary): receiveSummary(summary, from: peer, at: now, into: &outbox)
        case .records(let bundle): receiveBundle(bundle, from: peer, at: now, into: &outbox)
        case .want(let ids): receiveWant(ids, from: peer, into: &outbox)
        case .head(let digest): receiveHead(digest, from: peer, at: now)
        case .neighbours(let peers): receiveNeighbours(peers, from: peer, at: now, into: &outbox)
        case .direct(let message): receiveDirect(message, from: peer, at: now, into: &outbox)
        case .acknowledgement(let acknowledgement):
            receiveAcknowledgement(acknowledgement, from: peer, overLink: true, at: now, into: &outbox)
        case .relayed(let message): receiveRelayed(message, from: peer, at: now, into: &outbox)
        case .fork(let first, let second): receiveFork(first, second, from: peer, at: now, into: &outbox)
        }
        log.refreshHead()
    }

    public mutating func submit(
        _ command: GossipCommand, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        applyDeferred(at: now, into: &outbox)
        switch command {
        case .publish(let kind, let body, let token):
            try publish(kind, body: body, token: token, at: now, into: &outbox)
        case .found(let body, let secret, let token):
            try found(body, secret: secret, token: token, at: now, into: &outbox)
        case .adopt(let genesis):
            try adopt(genesis, at: now, into: &outbox)
        case .sendUserMessage(let payload, let recipients, let mode, let token):
            try sendUserMessage(payload, to: recipients, mode: mode, token: token, at: now, into: &outbox)
        case .linkUp(let peer, let incarnation):
            linkUp(peer, incarnation, at: now, into: &outbox)
        case .linkDown(let peer):
            linkDown(peer, at: now, into: &outbox)
        case .membersChanged(let peers):
            membersChanged(peers, at: now, into: &outbox)
        case .memberLost(let peer):
            memberLost(peer, at: now)
        }
        log.refreshHead()
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        applyDeferred(at: now, into: &outbox)
        handleRecordDeadlines(at: now, into: &outbox)
        handleMessageDeadlines(at: now, into: &outbox)
        log.refreshHead()
    }

    /// When `handleDeadline` wants to be called; nil when nothing waits. Cost: O(links + streams).
    public var nextDeadline: HostTime? {
        if !deferredChanges.isEmpty { return .distantPast }
        return [recordDeadline, messageDeadline].compactMap { $0 }.min()
    }

    // MARK: Links

    private mutating func linkUp(
        _ peer: PeerID, _ incarnation: Incarnation, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard peer != identity.peerID else { return }
        var neighbour = Neighbour(
            incarnation: incarnation, configuration: configuration,
            firstHeadAt: nextHead(after: now), now: now)
        // A link in place of another: what the peer said stays true, and so does what it did.
        if let replaced = links[peer], replaced.incarnation == incarnation { neighbour.inherit(replaced) }
        links[peer] = neighbour
        if catchUp?.peer == peer { catchUp = nil }
        announceLinks(to: [peer], into: &outbox)
        if announceAt == nil { announceAt = now + configuration.neighboursDelay }
        greetWithSummary(peer, at: now, into: &outbox)
        greetWithStatus(peer, incarnation, at: now, into: &outbox)
        // Records from disk may lack causes that the peer has.
        if log.pendingCount > 0, wantAt == nil { wantAt = now + configuration.wantDelay }
    }

    private mutating func linkDown(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard links.removeValue(forKey: peer) != nil else { return }
        if announceAt == nil { announceAt = now + configuration.neighboursDelay }
        if catchUp?.peer == peer { endCatchUp(at: now, into: &outbox) }
        // Only members are remembered: holders of a ticket may be without number.
        if !log.isAuthorised(peer) {
            for key in incoming.keys where key.author == peer { incoming[key] = nil }
        }
        routesLost(with: peer, at: now, into: &outbox)
    }

    /// Whether a linked member says that it is linked to `peer`.
    public func isNear(_ peer: PeerID) -> Bool { links.values.contains { $0.isLinked(to: peer) } }

    func announceLinks(to peers: [PeerID], into outbox: inout Outbox<GossipOutput>) {
        let list = Array(links.keys.sorted().prefix(GossipMessage.maximumNeighbours))
        for peer in peers {
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
