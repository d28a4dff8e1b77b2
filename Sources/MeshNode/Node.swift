import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem

/// One node: the composition root of the five actors and the only place that knows them all.
///
/// `run()` turns until the node has left (see `Node+Turn.swift`); everything from other threads comes in through the
/// `inbox`. The node and its actors share one serial executor, so calls between them neither switch threads nor are
/// interleaved within a turn.
public actor Node {
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe environment.executor.asUnownedSerialExecutor()
    }

    let session: Session
    let messenger: Messenger
    let journal: Journal
    let coordinator: Coordinator

    nonisolated let environment: Environment
    nonisolated let configuration: NodeConfiguration
    public nonisolated let identity: NodeIdentity
    nonisolated let inbox: Inbox
    nonisolated let storage: StorageDesk
    /// Seconds since 1970, for display only.
    nonisolated let wallClock: @Sendable () -> Double
    nonisolated let logger: Logger

    nonisolated let announcements = Lock<Announcements>(Announcements())

    /// What one actor's outputs mean as the others' inputs, gathered until the turn hands them over.
    var work = TurnWork()
    var members: [Member] = []
    var knownNames: KnownNames
    var admittedLinks = AdmittedLinks()
    var events = EventLog()
    var messages = MessageBox()
    var dials = DialLog()
    var waiting = WaitingAnswers()
    var followers = Followers()
    /// `send` commands under way.
    var sendBatches: [CommandToken: SendBatch] = [:]
    var lifecycle = Lifecycle.starting
    /// Linked peers that the session lost and whose links are kept: the journal waits for word of them.
    var silentHolders: Set<PeerID> = []
    /// What others must not outrun: nothing leaves the node before it is durable.
    var durability = Durability()
    /// Why the store does not take what it is given now; shown by `status`.
    var storageTrouble: NodeError?
    var startedAt: HostTime
    var joinFailure: JoinFailure?
    /// What came of looking for members on the local network, when the join failed.
    var discoveryOutcome: String?
    /// Founded, returned, or joined.
    var isInMesh = false
    /// When the session is next told what the links measured; told with whatever turn comes then.
    var roundTripsDue = HostTime.distantPast
    /// How long the machine had slept in all at the last turn.
    var sleptBefore: TimeSpan
    /// Somebody ended the mesh; this node only tells it to others, and stops.
    var isMeshOver = false
    /// Why the node ended by itself; `nil` while it runs and after an orderly end.
    var endReason: NodeError?
    /// Until when readiness waits for the names of those who are here.
    var readyPatience: HostTime?
    /// The set or progress of attachments changed since followers were last told.
    var journalChanged = false

    public enum Lifecycle: Hashable, Sendable {
        case starting
        case running
        /// Says farewell; then the process stops, or stays up without a mesh.
        case leaving(deadline: HostTime, stops: Bool)
        /// Has left its mesh; only the control channel still answers, until `down`.
        case away
        case stopped
    }

    public init(
        configuration: NodeConfiguration, environment: Environment, queues: StorageQueues, boot: NodeBoot,
        wallClock: @escaping @Sendable () -> Double, logger: Logger = .silent
    ) {
        self.configuration = configuration
        self.environment = environment
        self.wallClock = wallClock
        self.logger = logger
        identity = boot.identity
        let executor = environment.executor
        inbox = Inbox(executor: executor)
        storage = StorageDesk(storage: environment.storage, queues: queues, inbox: inbox)
        startedAt = environment.clock.now()
        knownNames = boot.knownNames
        sleptBefore = environment.clock.suspendedSpan()
        var random = RandomStream(seed: boot.seed)
        session = Session(
            machine: SessionStateMachine(
                identity: boot.identity, name: configuration.name, configuration: configuration.session,
                random: random.split()),
            executor: executor)
        messenger = Messenger(
            machine: MessengerStateMachine(
                identity: boot.identity, links: configuration.links, gossip: configuration.gossip,
                random: random.split()),
            attachmentQueueBytes: configuration.links.maximumAttachmentQueueBytes, transport: environment.transport,
            executor: executor)
        journal = Journal(
            machine: JournalStateMachine(
                identity: boot.identity.peerID, configuration: configuration.journal, random: random.split()),
            storage: storage, executor: executor)
        coordinator = Coordinator(
            machine: CoordinatorStateMachine(
                identity: boot.identity, configuration: configuration.coordinator, random: random.split()),
            executor: executor)
    }

    /// Lives: restores what the store held, begins as told, and turns until the node has left. Returns when it has
    /// stopped; cancelling the calling task makes it leave politely first. Call once.
    public func run(_ start: NodeStart, boot: NodeBoot) async {
        await withTaskCancellationHandler {
            await begin(start, boot: boot, at: environment.clock.now())
            await runTurns()
        } onCancel: {
            inbox.report(.stop)
        }
        await shutDown()
    }

    /// Asks the node to leave politely. Any thread.
    public nonisolated func stop() { inbox.report(.stop) }

    /// Hands a control request to the node. Any thread. Throws `queueFull` when too many wait.
    public nonisolated func submit(_ call: ControlCall) throws(CommandError) { try inbox.append(.call(call)) }

    private func begin(_ start: NodeStart, boot: NodeBoot, at now: HostTime) async {
        work.session.append(.command(.localAddressesChanged(environment.transport.localAddresses())))
        work.journal.append(
            .command(
                .restore(
                    boot.contents.map { content in
                        StoredContentSummary(
                            id: content.id, byteCount: content.byteCount, leaves: content.leaves,
                            isComplete: content.isComplete)
                    })))
        switch start {
        case .found(let label, let policies):
            work.session.append(.command(.found(label: label, policies: policies)))
            work.coordinator.append(.command(.found))
        case .resume(let state):
            await restore(state, records: boot.records, at: now)
        case .join(let ticket, let addresses):
            work.session.append(.command(.join(ticket, extraAddresses: addresses)))
            work.coordinator.append(.command(.joinStarted))
        }
        await settle(at: now)
        // What the disk knows may have ended it already: a removal, for one.
        if lifecycle == .starting { lifecycle = .running }
    }

    /// A node that returns: secrets first, so that the stored records can be opened, then the records in causal order.
    private func restore(_ state: SessionState, records: [[UInt8]], at now: HostTime) async {
        work.session.append(.command(.resume(state)))
        work.coordinator.append(.command(.joinStarted))
        await settle(at: now)
        let restored = await messenger.restore(records)
        for record in restored.accepted { route(record) }
        for record in restored.voidAdmissions { work.session.append(.command(.voidAdmission(record))) }
        work.session.append(.command(.membership(restored.membership)))
        work.journal.append(.command(.sweepOrphans))
        await settle(at: now)
        // The session tells of `joined` only when a mesh let it in; whoever returns was a member all along, unless the
        // records say that it is out, or that the mesh is over.
        isInMesh = restored.membership.removals[identity.peerID] == nil && restored.membership.ending == nil
    }

    private func shutDown() async {
        lifecycle = .stopped
        waiting.failAll()
        await answerFinished(at: environment.clock.now())
        followers.endAll()
        environment.transport.close()
    }

    /// Another process runs with this node's key and has the stronger claim: going on would make both unusable.
    func yieldIdentity() {
        endReason = NodeError(
            "identityConflict", "another process runs with a copy of this node's state directory; this one has stopped",
            hint: "start a node of its own under another name: starling join INVITE --name OTHER", exit: 7)
        lifecycle = .stopped
    }

    func name(of peer: PeerID) -> String {
        let known = members.first { $0.peer == peer }?.name ?? ""
        return known.isEmpty ? knownNames[peer] ?? peer.shortDescription : known
    }

    func note(_ event: ProtocolEvent, at now: HostTime) {
        let name = event.subject.map(name(of:)) ?? configuration.name
        let noted = NodeEvent(wallSeconds: wallClock(), hostTime: now, event: event, subjectName: name)
        events.append(noted)
        followers.publish(noted)
        logger.log(noted)
        announcements.withLock(\.events)?(Documents.event(noted))
        tellObserver(.event(event))
    }
}
