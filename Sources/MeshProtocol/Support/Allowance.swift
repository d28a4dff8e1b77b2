import MeshBase

/// A token bucket: `burst` at once, then `perSecond`. Two numbers and an instant; starts full.
struct Allowance: Sendable {
    private let burst: Int64
    private let spanPerToken: TimeSpan
    /// When the bucket would be full again.
    private var fullAt = HostTime.distantPast

    init(burst: Int, perSecond: Int) {
        self.burst = Int64(max(1, burst))
        spanPerToken = TimeSpan(nanoseconds: 1_000_000_000 / Int64(max(1, perSecond)))
    }

    /// Takes one token; false when there is none.
    mutating func take(at now: HostTime) -> Bool {
        let start = max(fullAt, now)
        guard start - now < spanPerToken * burst else { return false }
        fullAt = start + spanPerToken
        return true
    }
}
