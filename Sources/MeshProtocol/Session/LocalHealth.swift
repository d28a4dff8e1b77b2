import MeshBase

/// How far this node may trust its own clockwork: a node that handles its deadlines late has no business declaring
/// others dead. Its multiplier scales every time-out of the failure detection.
///
/// After the local health awareness of Lifeguard (Dadgar, Phillips, Currey: "Lifeguard: Local Health Awareness for More
/// Accurate Failure Detection", 2018). Deviation: the score rises with lateness measured directly, one point per missed
/// keep-alive interval, and with every suspicion that proved wrong; it falls by one after each 2 s without either.
struct LocalHealth: Sendable {
    /// 0 is healthy.
    private(set) var score = 0
    private var recoversAt: HostTime?

    static let maximumMultiplier = 8
    static let recoveryTime = TimeSpan.milliseconds(2_000)

    /// 1 to 8.
    var multiplier: Int { 1 + score }

    /// A deadline was handled `lateness` after its time. Less than one interval is a busy machine, not a sick one.
    mutating func noteDeadline(lateness: TimeSpan, interval: TimeSpan, at now: HostTime) {
        guard lateness > interval else { return recover(at: now) }
        worsen(by: Int(clamping: (lateness / max(interval, .nanoseconds(1)).nanoseconds).nanoseconds), at: now)
    }

    /// A member was suspected and was there all the time.
    mutating func noteFalseSuspicion(at now: HostTime) { worsen(by: 1, at: now) }

    private mutating func worsen(by points: Int, at now: HostTime) {
        score = min(score + max(points, 1), Self.maximumMultiplier - 1)
        recoversAt = now + Self.recoveryTime
    }

    private mutating func recover(at now: HostTime) {
        guard score > 0, let due = recoversAt, due <= now else { return }
        score -= 1
        recoversAt = now + Self.recoveryTime
    }
}
