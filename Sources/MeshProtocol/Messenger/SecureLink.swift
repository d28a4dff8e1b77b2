import MeshBase
import MeshCrypto
import MeshWire

/// One linked peer: keys, queues, acknowledgement, congestion, path.
///
/// Keys come and go (`generations`), queues and numbering stay: a rekey, a move to another address, and a reconnection of
/// the same incarnation lose nothing and repeat nothing.
struct SecureLink: Sendable {
    let configuration: LinkConfiguration
    private(set) var identity: LinkIdentity
    let establishedAt: HostTime

    // MARK: Keys
    var generations: [KeyGeneration] = []
    /// Position of the keys that send.
    var current = 0
    var rekeys: UInt64 = 0
    /// No new attempt at a rekey before this.
    var rekeyNotBefore: HostTime = .distantPast
    private var leftRekeyToPeer = false

    // MARK: Outgoing
    var queue: SendQueue
    var detection = LossDetection()
    var congestion: CongestionControl
    var pacer: Pacer
    var roundTrip = RoundTrip()
    var mtu: PathMTU
    var path: PathValidation
    var timing = LinkTiming()
    var wantsPing = false
    var pathResponses: [(number: UInt64, address: SocketAddress)] = []
    /// The last question whether a spare path through another member works.
    var spareProbe: SpareProbe?
    /// Datagrams that may leave beyond the window after a probe timeout.
    var probeCredits = 0
    /// Probe timeouts in a row.
    var probeTimeouts = 0
    var nextSkip: UInt64 = 0
    var lastSentAt: HostTime
    var isPacingBlocked = false
    var lastPingWithAcknowledgement: HostTime = .distantPast

    // MARK: Incoming
    var reassembler: Reassembler
    var receivedIDs = ReplayWindow()
    var receivedEpoch: UInt64?
    var lastHeardAt: HostTime
    /// How long the peer has been heard in all, gaps above a second counted as one.
    var listenedFor: TimeSpan = .zero
    var expiredAt: TimeSpan = .zero

    // MARK: Counters
    var datagramsSent: UInt64 = 0
    var datagramsReceived: UInt64 = 0
    var bytesSent: UInt64 = 0
    var bytesReceived: UInt64 = 0
    var datagramsLost: UInt64 = 0
    var messagesSent: UInt64 = 0
    var messagesReceived: UInt64 = 0

    // Reused so that a steady state allocates nothing.
    var settledScratch: [SentDatagram] = []
    var lostScratch: [SentDatagram] = []

    init(identity: LinkIdentity, configuration: LinkConfiguration, random: inout RandomStream, at now: HostTime) {
        self.identity = identity
        self.configuration = configuration
        establishedAt = now
        lastHeardAt = now
        lastSentAt = now
        queue = SendQueue(epoch: random.uint64(), configuration: configuration)
        congestion = CongestionControl(initialRoundTrip: configuration.initialRoundTrip)
        mtu = PathMTU(configuration: configuration, address: identity.address, at: now)
        path = PathValidation(validated: identity.address)
        reassembler = Reassembler(configuration: configuration)
        pacer = Pacer(bytesPerSecond: 1e6, datagramBytes: WireLimits.baseDatagramBytes)
        nextSkip = UInt64(16 + random.below(2 * configuration.counterSkipInterval))
    }

    var peer: PeerID { identity.peer }

    struct SpareProbe: Sendable {
        var address: SocketAddress
        var number: UInt64
        var isSent = false
        var isAnswered = false
    }

    // MARK: Keys

    enum Installation {
        /// Two handshakes crossed, and the other one won here and will win there.
        case lostToCrossing
        case installed(isCrossing: Bool)
    }

    /// Takes the keys of a finished handshake with the same incarnation.
    mutating func install(_ generation: KeyGeneration, address: SocketAddress, at now: HostTime) -> Installation {
        let rival = generations.first { other in
            other.retiresAt == nil && other.role != generation.role
                && now - other.createdAt < configuration.halfOpenLife
        }
        if let rival, rival.handshakeHash.lexicographicallyPrecedes(generation.handshakeHash) == false {
            // The rival's keys send; what the peer seals under the new ones meanwhile is still opened.
            guard generation.role == .responder else { return .lostToCrossing }
            var loser = generation
            loser.retiresAt = now + configuration.keyOverlap
            generations.append(loser)
            wantsPing = true
            return .installed(isCrossing: true)
        }
        generations.append(generation)
        let isFirst = generations.count == 1
        if isFirst || generation.role == .responder { activate(generations.count - 1, at: now) }
        identity.role = generation.role
        identity.secretID = generation.secretID
        if !isFirst { rekeys += 1 }
        if generation.role == .responder {
            moveValidated(to: address, at: now)
            // Tells the initiator that its last message arrived.
            wantsPing = true
        }
        lastHeardAt = now
        return .installed(isCrossing: rival != nil)
    }

    mutating func activate(_ position: Int, at now: HostTime) {
        generations[position].activate(nextNumber: detection.nextNumber)
        rekeyNotBefore = min(rekeyNotBefore, now + configuration.rekeyRetry)
        current = position
        for other in generations.indices where other != position && generations[other].retiresAt == nil {
            // Newer keys that are not confirmed yet stay.
            guard generations[other].isActivated || generations[other].isConfirmed else { continue }
            generations[other].retiresAt = now + configuration.keyOverlap
        }
    }

    func generationPosition(localIndex: UInt32) -> Int? { generations.firstIndex { $0.localIndex == localIndex } }

    /// Forgets retired keys and returns their indexes.
    mutating func removeRetired(at now: HostTime) -> [UInt32] {
        var removed: [UInt32] = []
        while let position = generations.firstIndex(where: { $0.retiresAt.isDue(at: now) }),
            position != current
        {
            removed.append(generations.remove(at: position).localIndex)
            if position < current { current -= 1 }
        }
        return removed
    }

    /// Whether this side begins a new handshake now; answers yes once per attempt.
    mutating func takeRekey(at now: HostTime) -> Bool {
        guard now >= rekeyDeadline else { return false }
        let generation = generations[current]
        guard generations.last?.isConfirmed ?? false else {
            rekeyNotBefore = now + .milliseconds(250)
            return false
        }
        if generation.role == .responder, generation.isWornByUse(configuration), generation.canSend, !leftRekeyToPeer {
            // The initiator of the last handshake goes first here too.
            leftRekeyToPeer = true
            rekeyNotBefore = now + .seconds(2)
            return false
        }
        leftRekeyToPeer = false
        rekeyNotBefore = now + configuration.dialTimeLimit + configuration.rekeyRetry
        return true
    }

    private var rekeyDeadline: HostTime {
        max(generations[current].rekeyAt(configuration), rekeyNotBefore)
    }

    // MARK: Address

    mutating func moveValidated(to address: SocketAddress, at now: HostTime) {
        let changed = address != path.validated
        path.validate(address)
        identity.address = address
        if changed { resetPath(at: now) }
    }

    /// Nothing measured on the old path holds on the new one.
    mutating func resetPath(at now: HostTime) {
        roundTrip = RoundTrip()
        congestion.reset()
        mtu = PathMTU(configuration: configuration, address: path.address, at: now)
    }

    mutating func noteAddress() { identity.address = path.address }

    mutating func note(membershipHead: Bytes16) { identity.membershipHead = membershipHead }

    /// The peer lost what it knew of this link: everything unfinished goes again from its beginning.
    mutating func restartQueues(random: inout RandomStream) {
        let unfinished = queue.unfinishedMessages
        queue = SendQueue(epoch: random.uint64(), configuration: configuration)
        for message in unfinished {
            // The new queue has the bounds of the old one, so everything fits.
            do throws(CommandError) { try queue.enqueue(message) } catch { break }
        }
        detection.abandonAll()
        reassembler.removeAll()
    }

    // MARK: Time

    var acknowledgementDelay: TimeSpan {
        let quarter = (roundTrip.smoothed ?? configuration.initialRoundTrip) / 4
        return min(max(quarter, .milliseconds(1)), configuration.maximumAcknowledgementDelay)
    }

    var probeTimeout: TimeSpan {
        // The peer's delay is a quarter of its round trip; twice ours is a safe guess.
        let delay = min(max(acknowledgementDelay * 2, .milliseconds(2)), configuration.maximumAcknowledgementDelay)
        return roundTrip.probeTimeout(acknowledgementDelay: delay, initial: configuration.initialRoundTrip)
    }

    private var probeDeadline: HostTime? {
        guard detection.elicitingInFlight > 0 else { return nil }
        let backedOff = probeTimeout * Int64(1 << min(probeTimeouts, 6))
        return detection.lastElicitingSentAt + min(backedOff, max(.seconds(3), probeTimeout))
    }

    /// Whether a datagram could leave at all: counters are left, and the address may be sent to.
    var canSend: Bool {
        generations[current].canSend && (path.isValidated || path.allowance >= Self.smallestAllowance)
    }

    /// A challenge with its padding fits.
    static let smallestAllowance = 128

    /// What the table keeps beside the link. Changes nothing: it is mutating so that it is asked in place.
    mutating func glance() -> (deadline: HostTime, attachmentBytes: Int, isRelayed: Bool) {
        (nextDeadline, queue.attachmentBytes, isRelayed)
    }

    /// Its datagrams go through a member.
    var isRelayed: Bool { path.address.isDiscardOnly }

    var nextDeadline: HostTime {
        var deadline = min(lastHeardAt + configuration.idleLimit, rekeyDeadline)
        for position in generations.indices {
            if let end = generations[position].retiresAt { deadline = min(deadline, end) }
        }
        if let lossTime = detection.lossTime { deadline = min(deadline, lossTime) }
        if let validation = path.nextDeadline { deadline = min(deadline, validation) }
        // What cannot be sent has no deadline, or the loop would spin on it (AB-48).
        return canSend ? min(deadline, sendDeadline) : deadline
    }

    private var sendDeadline: HostTime {
        var deadline = lastSentAt + configuration.keepAliveInterval
        for position in generations.indices {
            if let due = generations[position].acknowledgements.deadline { deadline = min(deadline, due) }
        }
        if let probe = probeDeadline { deadline = min(deadline, probe) }
        if let insurance = queue.nextInsuranceAt { deadline = min(deadline, insurance) }
        if let probe = mtu.nextProbeAt, canProbe { deadline = min(deadline, probe) }
        // What was waiting may have been acknowledged late, and then nothing waits.
        if isPacingBlocked, queue.nextPriority != nil { deadline = min(deadline, pacer.nextTime(from: lastSentAt)) }
        return deadline
    }

    var canProbe: Bool { !mtu.probeInFlight && path.isValidated && generations[current].isConfirmed }

    enum Fate { case alive, timedOut }

    mutating func handleDeadline(at now: HostTime) -> Fate {
        guard now - lastHeardAt < configuration.idleLimit else { return .timedOut }
        detectLosses(at: now)
        if canSend, let probe = probeDeadline, probe <= now { handleProbeTimeout(at: now) }
        queue.releaseInsurance(at: now)
        path.handleDeadline(at: now)
        noteAddress()
        if now - lastSentAt >= configuration.keepAliveInterval { wantsPing = true }
        return .alive
    }

    private mutating func handleProbeTimeout(at now: HostTime) {
        probeTimeouts += 1
        lostScratch.removeAll(keepingCapacity: true)
        detection.declareOldestLost(count: 2, into: &lostScratch)
        // Silence proves nothing about the path's rate: a peer whose processor is busy answers late.
        handleLost(at: now, isProven: false)
        probeCredits = 2
        if queue.nextPriority == nil { wantsPing = true }
    }

    mutating func detectLosses(at now: HostTime) {
        lostScratch.removeAll(keepingCapacity: true)
        detection.detect(
            at: now, lossDelay: roundTrip.lossDelay(initial: configuration.initialRoundTrip), into: &lostScratch)
        handleLost(at: now)
    }

    private mutating func handleLost(at now: HostTime, isProven: Bool = true) {
        guard !lostScratch.isEmpty else { return }
        if isProven { congestion.lost(lostScratch) }
        for datagram in lostScratch {
            datagramsLost += 1
            if datagram.probeSize != nil {
                mtu.probeLost(at: now, roundTrip: roundTrip.smoothed ?? configuration.initialRoundTrip)
            } else if mtu.lost(datagramBytes: datagram.bytes, at: now) {
                updatePacer(at: now)
            }
            if let first = datagram.contents.first { queue.lose(first) }
            for content in datagram.contents.more { queue.lose(content) }
        }
    }

    mutating func updatePacer(at now: HostTime) {
        pacer.update(
            bytesPerSecond: congestion.pacingRate(roundTrip), datagramBytes: datagramLimit, at: now)
    }

    /// Bytes of the largest datagram to assemble.
    var datagramLimit: Int {
        let limit = min(mtu.current, max(configuration.bulkDatagramBytes, WireLimits.baseDatagramBytes))
        // Also before a new path through a member is proven, and with it its size.
        return isRelayed ? min(limit, WireLimits.relayedDatagramBytes) : limit
    }

    // MARK: Queries

    var statistics: LinkStatistics {
        LinkStatistics(
            identity: identity, establishedAt: establishedAt, lastHeardAt: lastHeardAt,
            smoothedRoundTrip: roundTrip.smoothed, roundTripVariance: roundTrip.variance,
            leastRoundTrip: roundTrip.least, lossFraction: congestion.lossFraction,
            congestionWindowBytes: congestion.window(roundTrip, datagramBytes: datagramLimit),
            bytesInFlight: detection.bytesInFlight, pacingBytesPerSecond: congestion.pacingRate(roundTrip),
            deliveryBytesPerSecond: congestion.bandwidth, datagramBytes: mtu.current, datagramsSent: datagramsSent,
            datagramsReceived: datagramsReceived, bytesSent: bytesSent, bytesReceived: bytesReceived,
            datagramsLost: datagramsLost, messagesSent: messagesSent, messagesReceived: messagesReceived,
            queueBytes: queue.bytes, lateMessages: queue.lateMessages, rekeys: rekeys,
            isAddressValidated: path.isValidated)
    }
}
