import MeshBase

/// How far others' claims may move this node's Lamport clock: 2⁵⁶ at once, and 2²⁴ a second after that.
///
/// The first is more than all honest messages of a mesh will ever be, so whoever comes late follows at once; the second
/// more than they can be in a second. A liar brings the clock as far once, and needs a hundred years to do it again; the
/// clock's range holds 256 times as much.
struct ClaimAllowance: Sendable {
    private static let burst: UInt64 = 1 << 56
    private static let perSecond: UInt64 = 1 << 24
    private var available = burst
    private var filledAt: HostTime?

    /// What may be taken at once now.
    mutating func available(at now: HostTime) -> UInt64 {
        let seconds = UInt64(max(0, (now - (filledAt ?? now)).nanoseconds) / 1_000_000_000)
        if filledAt == nil { filledAt = now }
        if seconds > 0 {
            filledAt = now
            let refill = seconds.multipliedReportingOverflow(by: Self.perSecond)
            available = min(Self.burst, refill.overflow ? Self.burst : available + min(refill.partialValue, Self.burst))
        }
        return available
    }

    /// Takes as much of `step` as there is, and returns it.
    mutating func take(_ step: UInt64, at now: HostTime) -> UInt64 {
        let taken = min(step, available(at: now))
        available -= taken
        return taken
    }
}
