import MeshBase

/// One exchange with a peer, reduced to what the filters need: how much later each datagram arrived on the other
/// clock than it left on this one. Each difference is clock offset plus (or minus) that direction's delay.
struct ClockMeasurement: Hashable, Sendable {
    /// When the outward datagram left, on our clock, and `receivedThere − sentHere` = offset + outward delay.
    var outwardAt: HostTime
    var outward: TimeSpan
    /// When the inward datagram arrived, on our clock, and `receivedHere − sentThere` = inward delay − offset.
    var inwardAt: HostTime
    var inward: TimeSpan

    /// No clock of ours or a peer's is further from another than this (36 years): a larger difference is a lie, and
    /// below it sums of a few cannot overflow (AB-16).
    static let maximumDifference = TimeSpan(nanoseconds: 1 << 60)
    /// Timestamps are taken in two places, so a round trip may come out a little negative on one machine.
    static let timestampSlack = TimeSpan.microseconds(50)
    /// An echo that was held longer says more about the peer's pause than about its clock.
    static let maximumRoundTrip = TimeSpan.seconds(10)

    /// `nil` for instants that contradict each other, are older than `window`, or lie in the future.
    init?(_ sample: ClockSample, at now: HostTime, window: TimeSpan) {
        outwardAt = sample.sentHere
        inwardAt = sample.receivedHere
        outward = sample.receivedThere - sample.sentHere
        inward = sample.receivedHere - sample.sentThere
        let limit = -Self.maximumDifference.nanoseconds...Self.maximumDifference.nanoseconds
        guard limit.contains(outward.nanoseconds), limit.contains(inward.nanoseconds) else { return nil }
        guard sample.receivedHere <= now + Self.timestampSlack, sample.sentHere >= now - window else { return nil }
        guard sample.sentHere <= sample.receivedHere else { return nil }
        guard roundTrip >= .zero - Self.timestampSlack, roundTrip <= Self.maximumRoundTrip else { return nil }
    }

    /// Both delays together: the offset cancels. Within a few slacks of zero or positive.
    var roundTrip: TimeSpan { outward + inward }

    /// The offset if both ways took equally long.
    var middle: TimeSpan { (outward - inward) / 2 }
}

/// Nanoseconds of a real number, clamped; not a number is zero.
func clampedNanoseconds(_ value: Double) -> Int64 {
    guard value.isFinite else { return 0 }
    return Int64(max(-9.0e18, min(9.0e18, value)))
}
