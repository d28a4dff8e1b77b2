import MeshBase

/// One link, for people and for the machines that choose by measured quality.
public struct LinkStatistics: Hashable, Sendable {
    public var identity: LinkIdentity
    public var establishedAt: HostTime
    public var lastHeardAt: HostTime
    /// Round trip: smoothed, mean deviation, least of the last 10 s. `nil` before the first measurement.
    public var smoothedRoundTrip: TimeSpan?
    public var roundTripVariance: TimeSpan
    public var leastRoundTrip: TimeSpan?
    /// Lost datagrams among the last some hundred, 0…1.
    public var lossFraction: Double
    /// Bytes that may be in flight, and that are.
    public var congestionWindowBytes: Int
    public var bytesInFlight: Int
    /// Bytes per second.
    public var pacingBytesPerSecond: Double
    public var deliveryBytesPerSecond: Double
    /// Largest UDP payload proven on this path.
    public var datagramBytes: Int
    public var datagramsSent: UInt64
    public var datagramsReceived: UInt64
    public var bytesSent: UInt64
    public var bytesReceived: UInt64
    public var datagramsLost: UInt64
    public var messagesSent: UInt64
    public var messagesReceived: UInt64
    /// Bytes queued or sent and not yet acknowledged.
    public var queueBytes: Int
    /// Unreliable messages that were still queued at their deadline.
    public var lateMessages: UInt64
    /// How often the keys were replaced.
    public var rekeys: UInt64
    /// Whether the peer's present address is proven.
    public var isAddressValidated: Bool
}

/// Counters of everything that all links did and refused; each reason for a refusal has its own.
public struct LinkTableStatistics: Hashable, Sendable {
    public var datagramsReceived: UInt64 = 0
    public var datagramsSent: UInt64 = 0
    public var bytesReceived: UInt64 = 0
    public var bytesSent: UInt64 = 0

    // MARK: Datagrams refused, in the order of the checks

    /// Empty, or shorter or longer than its type allows.
    public var refusedLength: UInt64 = 0
    /// A first byte that names no type.
    public var refusedType: UInt64 = 0
    /// A byte that must be zero is not.
    public var refusedReserved: UInt64 = 0
    /// A receiver index that names nothing here.
    public var refusedIndex: UInt64 = 0
    /// `mac1` under none of the secrets: a stranger.
    public var refusedMac1: UInt64 = 0
    /// A source that is no peer's address.
    public var refusedSource: UInt64 = 0
    /// No secret or mesh is set yet.
    public var refusedNoMesh: UInt64 = 0
    /// The half-open table, or its share for one network, is full.
    public var refusedHalfOpen: UInt64 = 0
    /// A handshake message that does not open, or an identity that is not proven.
    public var refusedHandshake: UInt64 = 0
    /// A handshake datagram out of turn: early, late, twice.
    public var refusedState: UInt64 = 0
    /// Cookies that do not open.
    public var refusedCookie: UInt64 = 0
    public var refusedVersion: UInt64 = 0
    public var refusedWrongPeer: UInt64 = 0
    public var refusedSelf: UInt64 = 0
    /// Of members that were removed.
    public var refusedRemoved: UInt64 = 0
    public var refusedLinkLimit: UInt64 = 0
    /// A counter already seen, too old, or beyond the limit.
    public var refusedReplay: UInt64 = 0
    /// DATA whose tag does not match.
    public var refusedTag: UInt64 = 0
    /// Authentic DATA that breaks the protocol; its link is closed.
    public var violations: UInt64 = 0

    // MARK: Parts of authentic datagrams dropped

    public var duplicateMessages: UInt64 = 0
    public var skippedFrames: UInt64 = 0
    public var unknownChannels: UInt64 = 0
    public var refusedFragments: UInt64 = 0
    public var abandonedMessages: UInt64 = 0
    public var ignoredPathChallenges: UInt64 = 0

    /// Unreliable messages that were still queued at their deadline.
    public var lateMessages: UInt64 = 0

    // MARK: What was done

    public var cookiesSent: UInt64 = 0
    public var initiationsSent: UInt64 = 0
    public var responsesSent: UInt64 = 0
    public var handshakesFinished: UInt64 = 0
    public var dialsIgnored: UInt64 = 0
    public var dialsFailed: UInt64 = 0
    public var linksLost: UInt64 = 0

    // MARK: Through members

    /// This node's own datagrams sent and received through members, and those that found no way.
    public var relaySent: UInt64 = 0
    public var relayReceived: UInt64 = 0
    public var relayUndeliverable: UInt64 = 0
    /// Links that went on through another member.
    public var relayChanges: UInt64 = 0
    /// Carried for others, their bytes, and what was dropped because the budget was used up.
    public var relayedDatagrams: UInt64 = 0
    public var relayedBytes: UInt64 = 0
    public var relayOverBudget: UInt64 = 0
    /// For somebody without a direct link, over a link that goes through a member itself, or of this node to itself.
    public var relayRefused: UInt64 = 0

    public init() {}
}
