import MeshBase

/// How members without a direct link are brought together: whom this node asks for an introduction, when both sides dial
/// at once, and when a path through a member is taken instead. One entry for each such member; for ever, with pauses
/// that grow to a minute.
struct Meetings: Sendable {
    /// A member that may know the one looked for.
    struct Helper: Hashable, Sendable {
        var peer: PeerID
        /// It has a direct link to the one looked for.
        var isLinked: Bool
        /// From the helper to the one looked for.
        var roundTrip: TimeSpan
        var answeredAt: HostTime
    }

    struct Meeting: Sendable {
        /// Those that answered; the newest answer of each.
        var helpers: [Helper] = []
        /// When the next introduction is asked for.
        var askAt: HostTime?
        /// How often one was, since the network last changed.
        var asks = 0
        /// When both sides dial, as agreed.
        var punchAt: HostTime?
        var lastPunchAt: HostTime?
        var punches = 0
        /// Whose introduction led to the last attempt.
        var introducer: PeerID?
        /// When a member is asked to carry, unless there is a link by then.
        var relayAt: HostTime?

        var nextDeadline: HostTime {
            let never = HostTime.distantFuture
            return min(askAt ?? never, min(punchAt ?? never, relayAt ?? never))
        }
    }

    private var meetings: [PeerID: Meeting] = [:]

    /// Helpers that are remembered for one member.
    static let maximumHelpers = 8
    /// Between two attempts at one member: no more than one handshake in 5 s goes to an address (AB-64).
    static let leastInterval = TimeSpan.seconds(5 as Int64)
    static let firstPause = TimeSpan.seconds(2 as Int64)
    /// Between two looks for somebody to ask.
    static let helplessPause = TimeSpan.milliseconds(500)
    static let longestInterval = TimeSpan.seconds(60 as Int64)

    subscript(peer: PeerID) -> Meeting? { meetings[peer] }

    /// Begins to look for `peer`; what is under way goes on, and is only brought forward.
    mutating func start(_ peer: PeerID, askAt: HostTime) {
        let known = meetings[peer]?.askAt
        meetings[peer, default: Meeting()].askAt = known.map { min($0, askAt) } ?? askAt
    }

    /// Looks for `peer` eagerly again: its link is gone.
    mutating func restart(_ peer: PeerID, askAt: HostTime) {
        start(peer, askAt: askAt)
        meetings[peer]?.asks = 0
    }

    mutating func update(_ peer: PeerID, _ body: (inout Meeting) -> Void) {
        body(&meetings[peer, default: Meeting()])
    }

    /// There is a direct link: nothing more to do.
    mutating func finish(_ peer: PeerID) { meetings[peer] = nil }

    mutating func removeAll() { meetings.removeAll() }

    /// The network has changed: what failed before may work now.
    mutating func bringForward(to now: HostTime) {
        for peer in meetings.keys { restart(peer, askAt: now) }
    }

    /// Those for whom something is due, ascending.
    func due(at now: HostTime) -> [PeerID] {
        meetings.filter { $0.value.nextDeadline <= now }.keys.sorted()
    }

    var nextDeadline: HostTime? { meetings.values.lazy.map(\.nextDeadline).min() }

    /// The pause after the `asks`th question.
    static func pause(afterAsks asks: Int) -> TimeSpan {
        min(firstPause * Int64(1 << min(max(asks - 1, 0), 6)), longestInterval)
    }
}

extension Meetings.Meeting {
    mutating func note(_ helper: Meetings.Helper) {
        helpers.removeAll { $0.peer == helper.peer }
        helpers.append(helper)
        if helpers.count > Meetings.maximumHelpers { helpers.removeFirst() }
    }

    mutating func forget(helper: PeerID) { helpers.removeAll { $0.peer == helper } }
}
