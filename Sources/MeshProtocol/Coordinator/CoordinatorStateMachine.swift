import MeshBase
import MeshCrypto
import MeshWire

/// What the coordinator wants done.
public enum CoordinatorOutput: Hashable, Sendable {
    case send(ClockMessage, to: PeerID, priority: Priority, isReliable: Bool)
    case event(ProtocolEvent)
    /// A record found its place in the total order, or lost it.
    case orderChanged
}

/// What happens around the coordinator.
public enum CoordinatorCommand: Sendable {
    /// This node founded its mesh: the mesh clock begins here.
    case found
    /// This node enters or returns to a mesh: it adopts the mesh's clock and has no say until it has (AB-72).
    case joinStarted
    case linkUp(PeerID)
    case linkDown(PeerID)
    /// The four instants of one exchange. Every datagram brings one; cost O(1), no allocation in the steady state.
    case sample(PeerID, ClockSample)
    case recordAccepted(AcceptedRecord)
    /// A record that was accepted counts no longer: it loses its place in the order.
    case recordVoided(RecordID)
    /// The machine slept until this instant: everything measured before it is worthless.
    case suspended(HostTime)
    /// The members now believed alive; this node's own id among them is ignored.
    case membersChanged([PeerID])
}

/// The mesh clock in a few numbers.
public struct ClockSummary: Hashable, Sendable {
    public enum State: String, Hashable, Sendable {
        /// Finding its place: mesh time may still step. Nothing is scheduled by it yet.
        case joining
        /// In step: mesh time is continuous, increasing, and slews by at most 500 µs a second.
        case steady
        /// No fresh word from any living member: mesh time runs on by its rate, the error grows.
        case holdover
    }

    /// The number line, as text that is equal on all members of one mesh.
    public var epoch: String
    /// Bound on the difference between this node's mesh time and any linked member's at one instant; `unknownError`
    /// while nothing is known: when joining, and before the first member that is here was compared with.
    public var error: TimeSpan
    public static let unknownError = TimeSpan(nanoseconds: .max)
    /// How much faster the mesh clock runs than this node's host clock.
    public var ratePartsPerMillion: Double
    public var state: State
}

/// One linked peer's host clock against ours.
public struct PeerOffset: Hashable, Sendable {
    /// The peer's host clock minus ours, now.
    public var offset: TimeSpan
    /// Hard bound, whatever the path: no delay is negative, so no exchange puts the offset further off.
    public var error: TimeSpan
    /// Standard deviation of the estimate by its own scatter; says nothing about a path's asymmetry.
    public var scatter: TimeSpan
    /// The least round trip within the window.
    public var roundTrip: TimeSpan
    /// How much faster the peer's host clock runs than ours.
    public var ratePartsPerMillion: Double
}

/// The mesh clock without a leader, and the total order of records (Docs/Protocol.md, order and clock).
///
/// Ten times a second while something moves, once a second when nothing does, each node compares its mesh time with
/// what its neighbours reported, seen through the measured clock offsets, and gives way by a twentieth of the weighted
/// mean error. Nobody is special, so nobody's leaving moves anything. Only a joining, merging or woken node steps.
public struct CoordinatorStateMachine: Sendable {
    public let configuration: CoordinatorConfiguration
    let grid: TickGrid
    public internal(set) var statistics = CoordinatorStatistics()
    public private(set) var lamport = LamportClock()

    let identity: NodeIdentity
    var random: RandomStream
    var commands: CommandOrder
    var neighbours: [ClockNeighbour] = []
    var line = MeshClock(host: .zero, mesh: MeshTime(nanoseconds: 0))
    var epoch = ClockEpoch.none
    var phase = Phase.waiting
    var agreement = Agreement()
    var pendingMerge: ClockMerge?
    var allowance: StepAllowance
    /// When joining last ended; `nil` for a founder.
    var steadySince: HostTime?
    var otherMemberCount = 0
    var nextTick: HostTime?
    /// The last instant at which anything happened here.
    var latest = HostTime.zero

    /// Where the clock is in its life.
    enum Phase: Hashable, Sendable {
        /// Neither founded nor joining.
        case waiting
        /// Since `since`; the first word of somebody in step was adopted at `adopted`.
        case joining(since: HostTime, adopted: HostTime?)
        case steady
    }

    /// What the last comparison with the neighbours found.
    struct Agreement: Hashable, Sendable {
        /// When there last was one.
        var at: HostTime?
        /// Worst error plus bound over the neighbours, nanoseconds.
        var worst = 0.0
        /// This node's standard uncertainty, as told to others.
        var uncertainty = 0.0
        var isFresh = false
        var isMoving = false
    }

    public init(identity: NodeIdentity, configuration: CoordinatorConfiguration, random: RandomStream) {
        self.identity = identity
        self.configuration = configuration
        grid = TickGrid(of: identity.peerID)
        self.random = random
        commands = CommandOrder(capacity: configuration.orderCapacity)
        allowance = StepAllowance(limit: configuration.stepAllowance, refill: configuration.stepAllowanceRefill)
    }

    // MARK: Inputs

    /// A clock message of a linked peer. What it claims is bounded here and weighed later; it never traps.
    public mutating func receive(
        _ message: ClockMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) {
        latest = now
        statistics.messagesReceived &+= 1
        guard let index = index(of: peer) else {
            statistics.messagesRefused &+= 1
            return
        }
        switch message {
        case .report(let report): receive(report, from: index, at: now, into: &outbox)
        case .merge(let merge): receive(merge, from: index, at: now)
        case .unknown: break
        }
    }

    public mutating func submit(
        _ command: CoordinatorCommand, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) throws(CommandError) {
        latest = now
        switch command {
        case .found: found(at: now)
        case .joinStarted: startJoining(at: now)
        case .linkUp(let peer): linkUp(peer, at: now, into: &outbox)
        case .linkDown(let peer): if let index = index(of: peer) { neighbours.remove(at: index) }
        case .sample(let peer, let sample): take(sample, of: peer, at: now)
        case .recordAccepted(let record): order(record, into: &outbox)
        case .recordVoided(let id): if commands.remove(id) { outbox.append(.orderChanged) }
        case .suspended(let instant): wakeUp(at: max(now, instant), into: &outbox)
        case .membersChanged(let members):
            otherMemberCount = members.count { $0 != identity.peerID }
        }
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        latest = now
        if let merge = pendingMerge, now >= line.hostTime(of: merge.switchAt) {
            pendingMerge = nil
            switchLine(to: merge, at: now, into: &outbox)
        }
        if let due = nextTick, now >= due { tick(at: now, into: &outbox) }
        for index in neighbours.indices where neighbours[index].nextReport <= now {
            report(to: index, answers: 0, at: now, into: &outbox)
        }
    }

    // MARK: Queries

    public var nextDeadline: HostTime? {
        guard phase != .waiting else { return nil }
        var deadline = nextTick ?? .distantFuture
        for neighbour in neighbours { deadline = min(deadline, neighbour.nextReport) }
        if let merge = pendingMerge { deadline = min(deadline, line.hostTime(of: merge.switchAt)) }
        return deadline
    }

    /// `nextDeadline`, asked in place. Changes nothing: it is mutating because a getter is given a copy of the whole.
    public mutating func askNextDeadline() -> HostTime? { nextDeadline }

    public func meshTime(at host: HostTime) -> MeshTime { line.meshTime(at: host) }
    public func hostTime(of mesh: MeshTime) -> HostTime { line.hostTime(of: mesh) }

    /// As of the last instant that this machine was told.
    public var clock: ClockSummary { clock(at: latest) }

    public func clock(at now: HostTime) -> ClockSummary {
        ClockSummary(
            epoch: epoch.description, error: error(at: now), ratePartsPerMillion: line.rate * 1e6, state: state)
    }

    private var state: ClockSummary.State {
        guard phase == .steady else { return .joining }
        return otherMemberCount > 0 && !agreement.isFresh ? .holdover : .steady
    }

    /// Zero for a node that is alone with its clock, and for no other.
    private func error(at now: HostTime) -> TimeSpan {
        guard let at = agreement.at else {
            return phase == .steady && otherMemberCount == 0 ? .zero : ClockSummary.unknownError
        }
        let age = Double(max(0, now.since(at).nanoseconds))
        return TimeSpan(nanoseconds: clampedNanoseconds(agreement.worst + age * configuration.holdoverRateError))
    }

    /// A linked peer's host clock against ours, as of the last instant that this machine was told.
    public func offset(of peer: PeerID) -> PeerOffset? { offset(of: peer, at: latest) }

    /// `nil` without a link or before it was measured. O(1): brings the last estimate to `now`.
    public func offset(of peer: PeerID, at now: HostTime) -> PeerOffset? {
        guard let index = index(of: peer), let estimate = neighbours[index].filter.estimate else { return nil }
        let drift = Double(max(0, now.since(estimate.at).nanoseconds)) * estimate.rateLimit
        return PeerOffset(
            offset: estimate.offset(at: now),
            error: estimate.bound + TimeSpan(nanoseconds: clampedNanoseconds(drift)),
            scatter: TimeSpan(nanoseconds: clampedNanoseconds(estimate.scatter)), roundTrip: estimate.roundTrip,
            ratePartsPerMillion: estimate.rate * 1e6)
    }

    /// The newest records in total order, at most `orderCapacity`.
    public var order: [CommandOrder.Entry] { commands.entries }

    // MARK: Links, samples and records

    func index(of peer: PeerID) -> Int? {
        var low = 0
        var high = neighbours.count
        while low < high {
            let middle = (low + high) / 2
            if neighbours[middle].peer < peer { low = middle + 1 } else { high = middle }
        }
        return low < neighbours.count && neighbours[low].peer == peer ? low : nil
    }

    private mutating func linkUp(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        guard peer != identity.peerID, index(of: peer) == nil else { return }
        guard neighbours.count < configuration.maximumNeighbours else {
            statistics.neighboursRefused &+= 1
            return
        }
        let place = neighbours.firstIndex { $0.peer > peer } ?? neighbours.count
        neighbours.insert(ClockNeighbour(peer: peer, linkedAt: now, answers: configuration.answerAllowance), at: place)
        guard phase != .waiting else { return }
        // One side alone starts the burst of questions and answers, or there would be two.
        let starts = identity.peerID > peer
        report(to: place, answers: starts ? ClockReport.maximumAnswers : 0, at: now, into: &outbox)
        nextTick = min(nextTick ?? .distantFuture, now + configuration.activeInterval)
    }

    private mutating func take(_ sample: ClockSample, of peer: PeerID, at now: HostTime) {
        guard let index = index(of: peer),
            let measurement = ClockMeasurement(sample, at: now, window: configuration.silenceLimit)
        else {
            statistics.samplesRefused &+= 1
            return
        }
        switch neighbours[index].filter.add(measurement) {
        case .accepted: statistics.samplesAccepted &+= 1
        case .repeated: statistics.samplesRepeated &+= 1
        case .restarted:
            statistics.filterRestarts &+= 1
            neighbours[index].linkedAt = now
        }
        // A joining node need not wait for its tick once a burst has brought enough: a LAN locks in milliseconds.
        neighbours[index].newSamples += 1
        if case .joining = phase, neighbours[index].newSamples == 8, neighbours[index].report != nil { nextTick = now }
    }

    private mutating func order(_ record: AcceptedRecord, into outbox: inout Outbox<CoordinatorOutput>) {
        lamport.observe(record.lamport)
        guard commands.insert(CommandOrder.Entry(record)) else { return }
        statistics.recordsOrdered &+= 1
        statistics.recordsBeyondLog = commands.droppedCount
        outbox.append(.orderChanged)
    }
}
