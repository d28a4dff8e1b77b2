import MeshBase

/// Everything the journal knows about one linked peer. Gone with the link.
struct JournalPeer: Sendable {
    struct HashKey: Hashable, Sendable {
        var content: ContentID
        /// `nil` for the manifest.
        var page: UInt32?
    }

    struct Strikes: Sendable {
        var count = 0
        var mutedUntil: HostTime?
    }

    var holder = HolderTable()
    var window: TransferWindow
    /// Chunks asked of the peer.
    var asked: [ChunkKey: TransferWindow.Ask] = [:]
    /// Chunks that were asked and given up; they are still welcome.
    var late: [ChunkKey: TransferWindow.Ask] = [:]
    var hashesAsked: Set<HashKey> = []
    var serving: ServeQueue
    var lastAskAnswered = HostTime.distantPast
    /// It counts as dead, though its link is kept: it is not asked, and what it holds does not count.
    var isSilent = false
    /// Contents of which the peer has something and this node misses something, oldest claim first.
    private(set) var candidates: [ContentID] = []
    private var candidateSet: Set<ContentID> = []
    private var strikes: [ContentID: Strikes] = [:]

    private static let maximumLate = 256
    private static let maximumStruckContents = 1_024

    init(configuration: JournalConfiguration) {
        window = TransferWindow(size: configuration.initialWindowChunks)
        serving = ServeQueue(configuration: configuration)
    }

    mutating func addCandidate(_ content: ContentID) {
        if candidateSet.insert(content).inserted { candidates.append(content) }
    }

    /// `nil` beyond the end.
    func candidate(at position: Int) -> ContentID? {
        position < candidates.count ? candidates[position] : nil
    }

    mutating func removeCandidate(at position: Int) {
        candidateSet.remove(candidates.remove(at: position))
    }

    /// Moves the first `count` candidates to the end, so that others get their turn.
    mutating func rotateCandidates(by count: Int) {
        guard count > 0, count < candidates.count else { return }
        candidates = Array(candidates[count...] + candidates[..<count])
    }

    mutating func remember(late key: ChunkKey, _ ask: TransferWindow.Ask) {
        if late.count < Self.maximumLate { late[key] = ask }
    }

    func isMuted(for content: ContentID, at now: HostTime) -> Bool {
        strikes[content]?.mutedUntil.map { now < $0 } ?? false
    }

    /// Counts a bad chunk or hash. When the peer is not asked for the content any more: until when.
    mutating func strike(
        _ content: ContentID, at now: HostTime, configuration: JournalConfiguration
    ) -> HostTime? {
        if strikes.count >= Self.maximumStruckContents, strikes[content] == nil { strikes.removeAll() }
        var strike = strikes[content] ?? Strikes()
        if let mutedUntil = strike.mutedUntil, mutedUntil <= now { strike = Strikes() }
        strike.count += 1
        if strike.count >= configuration.maximumStrikes, strike.mutedUntil == nil {
            strike.mutedUntil = now + configuration.strikeMute
        }
        strikes[content] = strike
        return strike.mutedUntil
    }
}
