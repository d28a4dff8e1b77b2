import MeshBase
import MeshWire

/// The map from this node's host clock to the mesh clock: `mesh + (host − anchor)(1 + rate)`, with a bounded slew on
/// top for a while, so that mesh time is continuous and increasing while it is being corrected.
struct MeshClock: Hashable, Sendable {
    private(set) var host: HostTime
    private(set) var mesh: MeshTime
    /// The mesh clock's rate over the host clock's, minus one.
    private(set) var rate = 0.0
    /// Extra rate until `slewUntil`.
    private(set) var slew = 0.0
    private(set) var slewUntil: HostTime

    /// Inaudible: 0.05 %.
    static let maximumSlew = 500e-6
    static let maximumRate = 300e-6

    init(host: HostTime, mesh: MeshTime) {
        self.host = host
        self.mesh = mesh
        slewUntil = host
    }

    func meshTime(at instant: HostTime) -> MeshTime {
        let elapsed = instant.since(host)
        let slewed = max(0, min(elapsed.nanoseconds, slewUntil.since(host).nanoseconds))
        let correction = Double(elapsed.nanoseconds) * rate + Double(slewed) * slew
        return mesh.advanced(by: elapsed + TimeSpan(nanoseconds: rounded(correction)))
    }

    /// The inverse, to a nanosecond or two.
    func hostTime(of instant: MeshTime) -> HostTime {
        let elapsed = instant.since(mesh)
        let slewSpan = slewUntil.since(host)
        let slewEnd = meshTime(at: slewUntil).since(mesh)
        if elapsed <= .zero || slewSpan <= .zero {
            return host.advanced(by: unscaled(elapsed, by: rate))
        }
        if elapsed <= slewEnd { return host.advanced(by: unscaled(elapsed, by: rate + slew)) }
        return slewUntil.advanced(by: unscaled(elapsed - slewEnd, by: rate))
    }

    /// Where the clock will be at `instant` once the slew in hand is done: what neighbours are told, so that they do
    /// not correct the same error again.
    func settledTime(at instant: HostTime) -> MeshTime {
        let ahead = TimeSpan(nanoseconds: max(0, slewUntil.since(max(host, instant)).nanoseconds))
        return meshTime(at: instant).advanced(by: TimeSpan(nanoseconds: rounded(Double(ahead.nanoseconds) * slew)))
    }

    /// Begins to remove `error` by slewing within `span`, at most 500 µs a second, and sets the rate. Nothing jumps.
    mutating func steer(at now: HostTime, by error: Double, within span: TimeSpan, rate newRate: Double) {
        anchor(at: now)
        rate = max(-Self.maximumRate, min(Self.maximumRate, newRate))
        let length = Double(max(1, span.nanoseconds))
        slew = max(-Self.maximumSlew, min(Self.maximumSlew, error / length))
        slewUntil = now + span
    }

    /// Moves mesh time by `shift` at once: while joining, on a merge, after a suspend, and never else.
    mutating func step(at now: HostTime, by shift: TimeSpan, rate newRate: Double) {
        anchor(at: now)
        mesh = mesh.advanced(by: shift)
        rate = max(-Self.maximumRate, min(Self.maximumRate, newRate))
        slew = 0
        slewUntil = now
    }

    private mutating func anchor(at now: HostTime) {
        mesh = meshTime(at: now)
        host = now
        slewUntil = max(slewUntil, now)
    }

    private func rounded(_ value: Double) -> Int64 { clampedNanoseconds(value.rounded()) }

    /// `span / (1 + rate)`, exact for long spans because only the small part is computed in floating point.
    private func unscaled(_ span: TimeSpan, by rate: Double) -> TimeSpan {
        span - TimeSpan(nanoseconds: rounded(Double(span.nanoseconds) * (rate / (1 + rate))))
    }
}

/// What one neighbour's word says about this node's clock.
struct ClockVote: Hashable, Sendable {
    /// Their mesh time minus ours at one instant, nanoseconds.
    var error: Double
    /// The link's own scatter, nanoseconds, at least `ClockFilter.scatterFloor`.
    var scatter: Double
    /// Standard uncertainty of `error`: the link's scatter and what the neighbour says of itself.
    var uncertainty: Double
    /// Their mesh clock's rate minus ours, and its standard uncertainty.
    var rate: Double
    var rateUncertainty: Double
    /// `error` cannot be off by more, whatever the path's asymmetry: half the least round trip.
    var bound: Double
    var sampleCount: Int
    /// Whether the greater id of the two nodes is theirs: who gives way when only two disagree.
    var isSenior: Bool
}

/// How a node follows its neighbours without a leader: by weighted mean, each weight one over the variance. A vote
/// far outside the others' counts as one at their edge, so that a member which lies, or is broken, moves the mesh by
/// no more than its weight times the honest spread, and not by what it claims.
struct ClockConsensus: Hashable, Sendable {
    /// Weighted mean of the clipped errors, nanoseconds, and its standard uncertainty.
    var error: Double
    var uncertainty: Double
    var rate: Double
    var rateUncertainty: Double
    /// The middle of all votes and this node's own (which is zero).
    var median: Double

    /// No neighbour is believed to know its own clock better, nanoseconds: a stated zero would be infinite weight.
    static let uncertaintyFloor = 1_000.0
    static let rateUncertaintyFloor = 0.05e-6
    /// Clip width in standard deviations, and its least, nanoseconds.
    static let clip = 4.0
    static let clipFloor = 10_000.0
    static let rateClipFloor = 0.2e-6

    /// `nil` without votes. O(n log n).
    init?(_ votes: [ClockVote]) {
        guard !votes.isEmpty else { return nil }
        let errors = Self.clippedMean(
            votes.map { ($0.error, max($0.uncertainty, Self.uncertaintyFloor)) }, floor: Self.clipFloor)
        let rates = Self.clippedMean(
            votes.map { ($0.rate, max($0.rateUncertainty, Self.rateUncertaintyFloor)) }, floor: Self.rateClipFloor)
        (error, uncertainty, median) = errors
        (rate, rateUncertainty) = (rates.mean, rates.uncertainty)
    }

    private static func clippedMean(
        _ values: [(value: Double, uncertainty: Double)], floor: Double
    ) -> (mean: Double, uncertainty: Double, median: Double) {
        var sorted = values.map(\.value) + [0]
        let median = middle(of: &sorted)
        var deviations = sorted.map { abs($0 - median) }
        let spread = middle(of: &deviations)
        var sum = 0.0
        var weights = 0.0
        for (value, uncertainty) in values {
            // With one neighbour there is no majority: it counts as it is, and the slew limit alone bounds it.
            let width = max(clip * spread, clip * uncertainty, floor)
            let clipped = values.count == 1 ? value : max(median - width, min(median + width, value))
            let weight = 1 / (uncertainty * uncertainty)
            sum += weight * clipped
            weights += weight
        }
        return (sum / weights, (1 / weights).squareRoot(), median)
    }
}
