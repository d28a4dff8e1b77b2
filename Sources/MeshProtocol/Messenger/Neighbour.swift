import MeshBase
import MeshWire

/// What the gossip remembers of one linked peer. All of it goes with the link.
struct Neighbour: Sendable {
    let incarnation: Incarnation
    /// To whom the peer is linked, as it said; empty until it says so. Sorted, at most 64.
    var announced: [PeerID] = []
    /// How far the peer holds each chain this node holds too. May claim too much after a loss; heads repair that.
    var held: [ChainKey: UInt64] = [:]

    var nextHeadAt: HostTime
    /// A head that differed from ours, and when to look again.
    var differingHead: Bytes16?
    var compareAt: HostTime?
    /// No summary goes to the peer before this.
    var nextSummaryAt: HostTime
    var summaryPause: TimeSpan
    /// Its last summary showed something this node lacks.
    var hasNews = false

    /// It was told what a new link is told first: at once, or when it was admitted.
    var isGreeted = false

    /// Its first messages may overtake the record that admits it: a few wait here for that, unread and unanswered.
    private(set) var heldMessages: [DirectMessage] = []
    private var heldBytes = 0

    /// Refused bundles and relays; each doubles the pause in which nothing of its kind is read.
    var offences = 0
    var ignoredUntil = HostTime.distantPast
    var relayAllowance: Allowance
    var orderedAllowance: Allowance

    /// Ordered messages that the peer lacks and that are sent a part at a time, and when the next part goes.
    var orderedBacklog: [OrderedPosition] = []
    var hasAnsweredOrder = false
    var orderedBacklogAt: HostTime?

    init(incarnation: Incarnation, configuration: GossipConfiguration, firstHeadAt: HostTime, now: HostTime) {
        self.incarnation = incarnation
        nextHeadAt = firstHeadAt
        nextSummaryAt = now
        summaryPause = configuration.summaryInterval
        orderedAllowance = Allowance(burst: configuration.orderedBurst, perSecond: configuration.orderedRate)
        relayAllowance = Allowance(burst: configuration.relayBurst, perSecond: configuration.relayRate)
    }

    mutating func inherit(_ replaced: Neighbour) {
        announced = replaced.announced
        (heldMessages, heldBytes) = (replaced.heldMessages, replaced.heldBytes)
        held = replaced.held
        offences = replaced.offences
        ignoredUntil = replaced.ignoredUntil
        relayAllowance = replaced.relayAllowance
        orderedAllowance = replaced.orderedAllowance
    }

    /// False when there is no more room: the peer says it again.
    mutating func hold(_ message: DirectMessage) -> Bool {
        guard heldMessages.count < 16, heldBytes + message.payload.count <= 64 * 1024 else { return false }
        heldMessages.append(message)
        heldBytes += message.payload.count
        return true
    }

    mutating func takeHeldMessages() -> [DirectMessage] {
        defer { (heldMessages, heldBytes) = ([], 0) }
        return heldMessages
    }

    func isLinked(to peer: PeerID) -> Bool { announced.contains(peer) }

    mutating func noteHeld(_ key: ChainKey, _ sequence: UInt64) {
        held[key] = max(held[key] ?? 0, sequence)
    }

    /// Bad bytes of a member are its fault, for links are authenticated: 100 ms, doubling to 10 s.
    mutating func punish(at now: HostTime) {
        offences += 1
        let milliseconds = min(10_000, 100 << min(offences - 1, 7))
        ignoredUntil = now + .milliseconds(Int64(milliseconds))
    }

    /// The earliest thing to do for this peer.
    var deadline: HostTime {
        guard let compareAt else { return nextHeadAt }
        return min(nextHeadAt, compareAt)
    }
}
