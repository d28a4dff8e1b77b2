import MeshBase

/// What a datagram remembers of the delivery so far when it leaves, to measure the rate when it is acknowledged.
struct DeliveryMark: Sendable {
    var delivered = 0
    var deliveredAt: HostTime = .distantPast
    var firstSentAt: HostTime = .distantPast
    var isApplicationLimited = false
}

/// How much may be in flight and how fast it may leave: a model of the path, not a reaction to loss.
///
/// After BBR (Cardwell and others, "BBR: Congestion-Based Congestion Control", 2016): bandwidth is the greatest delivery
/// rate of ten rounds, the window twice bandwidth × least round trip, the rate probes upwards in one of eight phases and
/// yields in the next. Deviations: (1) loss that stays when the rate yields is taken as the path's own and made up for,
/// so that 30 % of random loss does not wear the estimate down; loss above 20 % that follows the rate slows it. (2) The
/// window has an allowance for peers that acknowledge in batches. (3) Nothing depends on a clock finer than 1 ms.
struct CongestionControl: Sendable {
    private enum Mode: Sendable {
        case startup, drain, probeBandwidth
        case probeRoundTrip(until: HostTime)
    }

    private var mode = Mode.startup
    private var delivered = 0
    private var deliveredAt: HostTime = .distantPast
    private var firstSentAt: HostTime = .distantPast
    private var applicationLimitedUntil = 0

    private var roundEndsAt = 0
    private var roundIsApplicationLimited = false
    /// Greatest delivery rate of each of the last rounds, in bytes per second.
    private var roundMaxima = InlineArray<10, Double>(repeating: 0)
    private var roundSlot = 0
    private var slotStartedAt: HostTime = .distantPast
    private var fullBandwidth = 0.0
    private var roundsWithoutGrowth = 0
    /// Of the round under way.
    private var roundAcknowledged = 0
    private var roundLost = 0

    private var phase = 0
    private var phaseStartedAt: HostTime = .distantPast
    private var leastInProbe: TimeSpan?

    private var loss = LossMeter()
    private let initialRoundTrip: TimeSpan

    private static let startupGain = 2.885
    private static let roundsOfFullPath = 3
    private static let phaseGains: [Double] = [1.25, 0.75, 1, 1, 1, 1, 1, 1]
    private static let windowGain = 2.0
    /// Seconds of the rate beyond the path's own delay that may be in flight: acknowledgements come in batches, one per
    /// turn of the peer's loop, and on a busy machine a turn waits for a processor. What is measured above the least
    /// round trip counts, within these bounds; the upper one is the most that bulk may queue on a path.
    private static let aggregationAllowance = 0.002...0.01

    private func aggregation(_ roundTrip: RoundTrip) -> Double {
        guard let smoothed = roundTrip.smoothed, let least = roundTrip.least else {
            return Self.aggregationAllowance.lowerBound
        }
        let excess = (smoothed - least).seconds * 1.5
        return min(max(excess, Self.aggregationAllowance.lowerBound), Self.aggregationAllowance.upperBound)
    }
    private static let initialWindowBytes = 40_000
    private static let minimumWindowBytes = 16_384
    private static let roundTripProbeLength: TimeSpan = .milliseconds(50)
    private static let shortestPhase: TimeSpan = .milliseconds(2)
    /// A slot of the rate's memory lasts a round, and at least this long: where a round trip takes microseconds, ten of
    /// them are over before a peer that waits for a processor has had its turn, and the estimate would wear away.
    private static let shortestSlot: TimeSpan = .milliseconds(20)

    init(initialRoundTrip: TimeSpan) { self.initialRoundTrip = initialRoundTrip }

    /// Lost datagrams among the last hundreds, 0…1.
    var lossFraction: Double { loss.recent }

    /// Bytes per second that arrive; zero before the first measurement.
    var bandwidth: Double {
        var best = 0.0
        for index in 0..<10 { best = max(best, roundMaxima[index]) }
        return best
    }

    private func bandwidthDelay(_ roundTrip: RoundTrip) -> Double {
        bandwidth * (roundTrip.least ?? initialRoundTrip).seconds
    }

    /// Bytes that may be in flight.
    func window(_ roundTrip: RoundTrip, datagramBytes: Int) -> Int {
        let floor = max(Self.minimumWindowBytes, 4 * datagramBytes)
        guard bandwidth > 0 else { return max(Self.initialWindowBytes, floor) }
        let delay = bandwidthDelay(roundTrip)
        if case .probeRoundTrip = mode { return max(Int(delay / 2), floor) }
        let gain: Double = if case .startup = mode { Self.startupGain } else { Self.windowGain }
        let target = gain * delay + bandwidth * aggregation(roundTrip)
        return max(Int(min(target, 1e9)), floor)
    }

    /// Bytes per second at which datagrams may leave.
    func pacingRate(_ roundTrip: RoundTrip) -> Double {
        guard bandwidth > 0 else {
            let roundTrip = max(roundTrip.smoothed ?? initialRoundTrip, .milliseconds(1))
            return Self.startupGain * Double(Self.initialWindowBytes) / roundTrip.seconds
        }
        return max(gain * bandwidth * loss.compensation, 10_000)
    }

    private var gain: Double {
        switch mode {
        case .startup: Self.startupGain
        case .drain: 1 / Self.startupGain
        case .probeBandwidth: Self.phaseGains[phase]
        case .probeRoundTrip: 1
        }
    }

    // MARK: Inputs

    /// Marks a datagram that leaves now. `bytesInFlight`: before it.
    mutating func mark(at now: HostTime, bytesInFlight: Int) -> DeliveryMark {
        if bytesInFlight == 0 {
            firstSentAt = now
            deliveredAt = now
        }
        return DeliveryMark(
            delivered: delivered, deliveredAt: deliveredAt, firstSentAt: firstSentAt,
            isApplicationLimited: applicationLimitedUntil > delivered)
    }

    /// There is nothing more to send though the window has room: what is measured now says little about the path.
    mutating func noteApplicationLimited(bytesInFlight: Int) {
        applicationLimitedUntil = max(delivered + bytesInFlight, 1)
    }

    /// Takes what one acknowledgement settled, newest datagram first.
    mutating func acknowledged(
        _ settled: [SentDatagram], roundTrip: inout RoundTrip, bytesInFlight: Int, datagramBytes: Int, at now: HostTime
    ) {
        var bytes = 0
        var count = 0
        var newest: SentDatagram?
        for datagram in settled where datagram.isEliciting {
            bytes += datagram.bytes
            count += 1
            if newest.map({ datagram.delivery.delivered > $0.delivery.delivered || datagram.sentAt > $0.sentAt })
                ?? true
            {
                newest = datagram
            }
        }
        guard let newest else { return }
        delivered += bytes
        deliveredAt = now
        loss.note(acknowledged: count)
        let isRoundStart = noteRound(newest, at: now)
        noteRate(of: newest, roundTrip: roundTrip, at: now)
        firstSentAt = max(firstSentAt, newest.sentAt)
        roundAcknowledged += count
        if isRoundStart {
            checkGrowth(roundTrip)
            (roundAcknowledged, roundLost) = (0, 0)
        }
        advance(&roundTrip, bytesInFlight: bytesInFlight, at: now)
    }

    mutating func lost(_ datagrams: [SentDatagram]) {
        var count = 0
        for datagram in datagrams where datagram.isEliciting && datagram.probeSize == nil { count += 1 }
        loss.note(lost: count)
        roundLost += count
    }

    /// The path is another one now.
    mutating func reset() { self = CongestionControl(initialRoundTrip: initialRoundTrip) }

    // MARK: The model

    private mutating func noteRound(_ newest: SentDatagram, at now: HostTime) -> Bool {
        guard newest.delivery.delivered >= roundEndsAt else { return false }
        roundEndsAt = delivered
        // A round with little to send says nothing against what was measured before.
        if !roundIsApplicationLimited, now - slotStartedAt >= Self.shortestSlot {
            slotStartedAt = now
            roundSlot = (roundSlot + 1) % 10
            roundMaxima[roundSlot] = 0
        }
        roundIsApplicationLimited = newest.delivery.isApplicationLimited
        return true
    }

    private mutating func noteRate(of newest: SentDatagram, roundTrip: RoundTrip, at now: HostTime) {
        let mark = newest.delivery
        let interval = max(now - mark.deliveredAt, newest.sentAt - mark.firstSentAt)
        guard interval > .zero, interval >= roundTrip.least ?? .zero else { return }
        let rate = Double(delivered - mark.delivered) / interval.seconds
        guard !mark.isApplicationLimited || rate > bandwidth else { return }
        roundMaxima[roundSlot] = max(roundMaxima[roundSlot], rate)
    }

    private mutating func checkGrowth(_ roundTrip: RoundTrip) {
        guard case .startup = mode, !roundIsApplicationLimited else { return }
        if bandwidth > fullBandwidth * 1.25 {
            fullBandwidth = bandwidth
            roundsWithoutGrowth = 0
        } else {
            roundsWithoutGrowth += 1
            if roundsWithoutGrowth >= Self.roundsOfFullPath { mode = .drain }
        }
        if roundsWithoutGrowth > 0, isOverfull(roundTrip) {
            roundsWithoutGrowth = Self.roundsOfFullPath
            mode = .drain
        }
    }

    /// A round that brought no growth, a queue and losses has filled the path and its queue: to see two more such
    /// rounds would throw away a queue's worth with each.
    private func isOverfull(_ roundTrip: RoundTrip) -> Bool {
        guard let least = roundTrip.least, roundLost >= 8 else { return false }
        return roundLost * 50 > roundLost + roundAcknowledged && roundTrip.latest > least + least / 8 + .milliseconds(1)
    }

    private mutating func advance(_ roundTrip: inout RoundTrip, bytesInFlight: Int, at now: HostTime) {
        switch mode {
        case .startup:
            break
        case .drain:
            if Double(bytesInFlight) <= bandwidthDelay(roundTrip) + bandwidth * aggregation(roundTrip) {
                mode = .probeBandwidth
                phase = 2
                phaseStartedAt = now
            }
        case .probeBandwidth:
            if now - phaseStartedAt >= max(roundTrip.least ?? .zero, Self.shortestPhase) {
                phase = (phase + 1) % 8
                phaseStartedAt = now
                loss.isYielding = phase == 1
            }
        case .probeRoundTrip(let until):
            leastInProbe = leastInProbe.map { min($0, roundTrip.latest) } ?? roundTrip.latest
            guard now >= until else { return }
            roundTrip.renewLeast(to: leastInProbe, at: now)
            mode = roundsWithoutGrowth >= Self.roundsOfFullPath ? .probeBandwidth : .startup
            phase = 2
            phaseStartedAt = now
            return
        }
        if roundTrip.isLeastStale(at: now) {
            leastInProbe = nil
            mode = .probeRoundTrip(until: now + max(Self.roundTripProbeLength, roundTrip.smoothed ?? .zero))
        }
    }
}

/// Loss in windows of datagrams: how much there is, how much of it is the path's own, and whether it follows the rate.
struct LossMeter: Sendable {
    private var windowAcknowledged = 0
    private var windowLost = 0
    /// Loss of the last windows, 0…1.
    private var windows = InlineArray<8, Double>(repeating: 0)
    private var windowCount = 0
    private(set) var recent = 0.0
    /// 1 while all is well, less for one window after loss that this sender causes.
    private var brake = 1.0
    /// Set while the rate yields: loss that stays then is not this sender's doing.
    var isYielding = false

    private static let windowSize = 64
    private static let ceiling = 0.2
    private static let maximumPathLoss = 0.35

    /// By how much to send faster than the path delivers, to make up for the path's own loss.
    var compensation: Double { brake / (1 - min(pathLoss, Self.maximumPathLoss)) }

    /// The least loss of eight windows: what congestion adds comes and goes, what the path loses by itself stays.
    private var pathLoss: Double {
        guard windowCount >= 8 else { return 0 }
        var least = 1.0
        for index in 0..<8 { least = min(least, windows[index]) }
        return least
    }

    mutating func note(acknowledged: Int) {
        windowAcknowledged += acknowledged
        closeWindow()
    }

    mutating func note(lost: Int) {
        windowLost += lost
        closeWindow()
    }

    private mutating func closeWindow() {
        let total = windowAcknowledged + windowLost
        guard total >= Self.windowSize else { return }
        let fraction = Double(windowLost) / Double(total)
        windows[windowCount % 8] = fraction
        windowCount = windowCount < 1 << 40 ? windowCount + 1 : 8
        recent += (fraction - recent) * 0.25
        brake = fraction > Self.ceiling && fraction > 2 * pathLoss && windowCount >= 8 ? 0.7 : 1
        windowAcknowledged = 0
        windowLost = 0
    }
}
