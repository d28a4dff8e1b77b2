import MeshBase
import MeshWire

/// What this node believes about one member's life, from its own evidence.
///
/// Two kinds of evidence: datagrams over a link of its own, and reports of neighbours that hear the member. A report
/// carries the age of what was heard; every hop adds its own round trip and the time it held the report, so ages only
/// grow and nobody is kept alive by words going round. Reports never shorten a life: death follows from silence alone
/// (AB-74).
struct Liveness: Sendable {
    var state: Member.State
    var since: HostTime
    /// Last authentic datagram over an own link.
    var lastHeard: HostTime?
    /// `lastHeard`, moved forward by the time this node itself was asleep: what the time-outs count from.
    var watchMark: HostTime
    /// When a neighbour last heard it, by this node's clock, and which neighbour said so.
    var reportedAt: HostTime?
    var reporter: PeerID?
    /// Not heard or reported since this node started; until `metBy` it counts as suspect, then silently as dead.
    var metBy: HostTime?
    var suspicion: Suspicion?

    /// The latest evidence of life, own or reported.
    var evidence: HostTime { max(watchMark, reportedAt ?? .distantPast) }

    static func unmet(at now: HostTime, grace: TimeSpan) -> Liveness {
        Liveness(state: .suspect, since: now, watchMark: .distantPast, metBy: now + grace)
    }

    static func admittedNow(at now: HostTime, by neighbour: PeerID) -> Liveness {
        Liveness(state: .alive, since: now, watchMark: .distantPast, reportedAt: now, reporter: neighbour)
    }
}

/// An open question: is this member still there? Answered by anything authentic from it, or by time.
struct Suspicion: Sendable {
    var nonce: UInt64
    var startedAt: HostTime
    var ground: Ground
    /// Neighbours asked, and what they answered.
    var helpers: [PeerID: Answer]
    /// When silence becomes death.
    var deadline: HostTime
    /// Before this nobody is dead: the suspect is told first and has the time to answer, also when its process stands
    /// still for 700 ms.
    var earliestDeath: HostTime
    var nextProbeAt: HostTime
    var isExtended = false

    /// Neighbours whose own probe was not answered, and those that could say something.
    private var silentCount: Int { helpers.values.count { $0 == .silent } }
    private var ableCount: Int { helpers.values.count { $0 != .notLinked } }

    /// Two of three, or all when fewer can say anything. Never without a neighbour that looked itself.
    var isConfirmed: Bool { ableCount > 0 && silentCount >= min(2, ableCount) }

    /// Neighbours that have not answered yet.
    var unanswered: [PeerID] { helpers.filter { $0.value == .waiting }.keys.sorted() }

    enum Ground: Hashable, Sendable {
        /// Nothing was heard.
        case silence
        /// Somebody else suspects it, and it did not answer this node's own probe.
        case unansweredProbe
        /// The kernel or the link said that the other side is gone.
        case toldGone
    }

    enum Answer: Hashable, Sendable {
        case waiting
        /// It probed the suspect and heard nothing.
        case silent
        /// It has no link to the suspect: says nothing.
        case notLinked
    }
}

/// A probe made for a neighbour, or because of a neighbour's warning.
struct ProbeTask: Sendable {
    /// Who gets the result; `nil` when this node only looks for itself.
    var requester: PeerID?
    var subject: PeerID
    var requestNonce: UInt64
    var nonce: UInt64
    var deadline: HostTime
    /// The probe is repeated once, halfway: one lost datagram is no evidence.
    var repeatAt: HostTime?
}

/// The arithmetic of the failure detection.
enum Detection {
    /// Silence after which a member with an own, watched link is suspected: max(3 intervals, 4 × round trip +
    /// 4 × variance) × own health.
    static func suspicionTime(
        interval: TimeSpan, configuration: SessionConfiguration, smoothed: TimeSpan, variance: TimeSpan, health: Int
    ) -> TimeSpan {
        let byInterval = interval * configuration.missedKeepAlives
        let byRoundTrip = smoothed * 4 + variance * 4
        return max(byInterval, byRoundTrip) * Int64(health)
    }

    /// Age of reports after which a member without an own link is suspected: its neighbour may be one interval behind,
    /// and the report another.
    static func reportTime(configuration: SessionConfiguration, health: Int) -> TimeSpan {
        configuration.keepAliveInterval * (configuration.missedKeepAlives + 2) * Int64(health)
    }

    /// How long a probe may take: max(2 round trips, 100 ms) × own health.
    static func probeTime(configuration: SessionConfiguration, smoothed: TimeSpan, health: Int) -> TimeSpan {
        max(smoothed * 2, configuration.leastProbeTime) * Int64(health)
    }

    /// Whom `local` watches: everybody up to the limit; beyond it, its neighbours on the ring of ids, half before and
    /// half after. With equal lists watching is mutual.
    static func watched(by local: PeerID, members: [PeerID], configuration: SessionConfiguration) -> Set<PeerID> {
        let others = members.filter { $0 != local }
        guard members.count > configuration.fullWatchLimit else { return Set(others) }
        return ringNeighbours(of: local, among: others, count: configuration.watchedNeighbours)
    }

    /// The `count` members next to `local` on the ring, half on each side. `others` is in ascending order.
    static func ringNeighbours(of local: PeerID, among others: [PeerID], count: Int) -> Set<PeerID> {
        guard others.count > count else { return Set(others) }
        let position = others.partitionPoint { $0 < local }
        var output: Set<PeerID> = []
        for step in 0..<(count / 2) {
            output.insert(others[(position + step) % others.count])
            output.insert(others[(position - 1 - step + others.count) % others.count])
        }
        return output
    }
}
