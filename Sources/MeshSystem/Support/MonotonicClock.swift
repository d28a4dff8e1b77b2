import CMeshSystem
public import MeshBase

/// CLOCK_MONOTONIC in nanoseconds, shifted and skewed as configured:
/// `host = offset + T × (1 + ppm / 10⁶)`, where T counts from the clock's own zero.
///
/// Integer arithmetic in 128 bits: exact to the nanosecond at 10¹⁸ ns and beyond, where a `Double` would round to
/// 128 ns (CLK-02).
public struct MonotonicClock: HostClock, Hashable {
    /// Nanoseconds added.
    public let offset: Int64
    /// Rate error in parts per 10¹²: 1 ppm is 1,000,000. Zero in real use.
    public let ratePartsPerTrillion: Int64

    private static let trillion: Int128 = 1_000_000_000_000

    public init() {
        offset = 0
        ratePartsPerTrillion = 0
    }

    /// `nil` when the rate is no number or beyond ±100,000 ppm, which no clock is.
    public init?(offsetNanoseconds: Int64, ratePartsPerMillion: Double) {
        guard ratePartsPerMillion.isFinite, abs(ratePartsPerMillion) <= 100_000 else { return nil }
        offset = offsetNanoseconds
        ratePartsPerTrillion = Int64((ratePartsPerMillion * 1e6).rounded())
    }

    public func suspendedSpan() -> TimeSpan { TimeSpan(nanoseconds: mesh_suspended_nanoseconds()) }

    public func now() -> HostTime { hostTime(ofTrue: mesh_monotonic_nanoseconds()) }

    public func hostTime(ofTrue nanoseconds: Int64) -> HostTime {
        var sum = Int128(nanoseconds) + Int128(offset)
        if ratePartsPerTrillion != 0 { sum += Int128(nanoseconds) * Int128(ratePartsPerTrillion) / Self.trillion }
        return HostTime(nanoseconds: Int64(clamping: sum))
    }

    public func trueTime(of time: HostTime) -> Int64 {
        if time == .distantFuture { return .max }
        let shifted = Int128(time.nanoseconds) - Int128(offset)
        guard ratePartsPerTrillion != 0 else { return Int64(clamping: shifted) }
        let divisor = Self.trillion + Int128(ratePartsPerTrillion)
        // Rounded to the nearest, so that converting there and back differs by at most one nanosecond.
        let scaled = shifted * Self.trillion
        let half = (scaled < 0 ? -1 : 1) * divisor / 2
        return Int64(clamping: (scaled + half) / divisor)
    }
}
