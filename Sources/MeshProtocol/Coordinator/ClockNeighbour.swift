import MeshBase
import MeshWire

/// What the coordinator keeps of one linked peer. Bounded: two directions of 40 blocks, one report.
struct ClockNeighbour: Sendable {
    let peer: PeerID
    var linkedAt: HostTime
    var filter = ClockFilter()
    /// Its last report, and when that came.
    var report: ClockReport?
    var reportedAt = HostTime.distantPast
    var nextReport = HostTime.distantFuture
    var newSamples = 0
    /// Immediate answers it may still get, refilled by and by.
    var answers: Int
    var answersRefilledAt: HostTime

    init(peer: PeerID, linkedAt: HostTime, answers: Int) {
        self.peer = peer
        self.linkedAt = linkedAt
        self.answers = answers
        answersRefilledAt = linkedAt
    }

    /// The peer's settled epoch, if it is in step and was heard lately.
    func settledEpoch(at now: HostTime, silenceLimit: TimeSpan) -> ClockEpoch? {
        guard let report, !report.isJoining, report.epoch != .none, now.since(reportedAt) <= silenceLimit else {
            return nil
        }
        return report.epoch
    }

    /// The peer's mesh time now, by its own report and the measured offset; `nil` when one of them is missing or the
    /// report does not fit the peer's clock as measured (stale, or a lie).
    func meshTime(at now: HostTime, silenceLimit: TimeSpan) -> MeshTime? {
        guard let report, let estimate = filter.estimate, let newest = filter.newestSample,
            now.since(newest) <= silenceLimit
        else { return nil }
        let age = (now + estimate.offset(at: now)).since(report.host)
        guard age >= TimeSpan.zero - estimate.bound - .milliseconds(1), age <= silenceLimit + .seconds(1) else {
            return nil
        }
        let drift = Double(age.nanoseconds) * Double(report.ratePartsPerTrillion) * 1e-12
        return report.mesh.advanced(by: age + TimeSpan(nanoseconds: clampedNanoseconds(drift.rounded())))
    }
}

/// How many unexpected steps are left: a bucket that refills with time.
struct StepAllowance: Hashable, Sendable {
    let limit: Int
    let refill: TimeSpan
    private var used = 0
    private var since = HostTime.zero

    init(limit: Int, refill: TimeSpan) {
        self.limit = limit
        self.refill = refill
    }

    /// Takes one; `false` when there is none.
    mutating func take(at now: HostTime) -> Bool {
        if used == 0 { since = now }
        while used > 0, now.since(since) >= refill {
            used -= 1
            since = since + refill
        }
        guard used < limit else { return false }
        used += 1
        return true
    }
}
