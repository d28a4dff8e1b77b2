import MeshBase

/// What this node is willing to carry for others: pairs of members at one time, and bytes a second of all of them.
///
/// A pair has its place while it uses it, and loses it after 30 s without a datagram. What is beyond the budget is
/// dropped and counted; the links of the two take it for loss of the path and slow down.
struct RelayBudget: Sendable {
    private struct Pair: Hashable, Sendable {
        var lower: PeerID
        var upper: PeerID

        init(_ one: PeerID, _ other: PeerID) {
            lower = min(one, other)
            upper = max(one, other)
        }
    }

    enum Verdict: Sendable {
        case granted
        case noRoom
        case tooFast
    }

    private let maximumPairs: Int
    private let bytesPerSecond: Int
    private var lastUsedAt: [Pair: HostTime] = [:]
    private var refusedAt: [Pair: HostTime] = [:]
    /// When the bucket would be full again.
    private var fullAt = HostTime.distantPast

    static let pairLife = TimeSpan.seconds(30 as Int64)
    /// As much as this may leave at once.
    private static let burst = TimeSpan.milliseconds(250)
    private static let refusalInterval = TimeSpan.seconds(1 as Int64)
    private static let maximumRefusals = 256

    init(configuration: LinkConfiguration) {
        maximumPairs = configuration.maximumRelayedPairs
        bytesPerSecond = configuration.relayedBytesPerSecond
    }

    /// Books one datagram between two members, in either direction.
    mutating func take(_ byteCount: Int, between one: PeerID, and other: PeerID, at now: HostTime) -> Verdict {
        let pair = Pair(one, other)
        if lastUsedAt[pair] == nil {
            expire(at: now)
            guard lastUsedAt.count < maximumPairs else { return .noRoom }
        }
        lastUsedAt[pair] = now
        guard bytesPerSecond > 0 else { return .tooFast }
        let start = max(fullAt, now)
        guard start - now < Self.burst else { return .tooFast }
        fullAt = start + TimeSpan(nanoseconds: Int64(byteCount) * 1_000_000_000 / Int64(bytesPerSecond))
        return .granted
    }

    /// Whether a refusal may be said now: one a second for each pair, so that an answer is never worth asking for.
    mutating func mayRefuse(_ one: PeerID, _ other: PeerID, at now: HostTime) -> Bool {
        let pair = Pair(one, other)
        if let last = refusedAt[pair], now - last < Self.refusalInterval { return false }
        if refusedAt.count >= Self.maximumRefusals {
            refusedAt = refusedAt.filter { now - $0.value < Self.refusalInterval }
            guard refusedAt.count < Self.maximumRefusals else { return false }
        }
        refusedAt[pair] = now
        return true
    }

    mutating func expire(at now: HostTime) {
        lastUsedAt = lastUsedAt.filter { now - $0.value < Self.pairLife }
    }

    /// Room for one more pair.
    func hasRoom(at now: HostTime) -> Bool {
        maximumPairs > 0 && bytesPerSecond > 0 && pairCount(at: now) < maximumPairs
    }

    func pairCount(at now: HostTime) -> Int { lastUsedAt.values.count { now - $0 < Self.pairLife } }
}
