import MeshBase
import MeshWire

/// One content that attachments refer to: where it stands between a record and a durable file.
struct JournalContent: Sendable {
    enum Phase: Hashable, Sendable {
        /// Nothing is done about it: no key yet, not named by any attachment, or too large.
        case idle
        /// The hashes are being fetched.
        case hashing
        /// `begin` or `reopen` is with the store.
        case beginning
        case fetching
        /// `finish` is with the store.
        case finishing
        /// The store hashes what it has.
        case verifying
        case complete
        /// `remove` is with the store.
        case removing
    }

    /// The manifest of a content while it is fetched.
    struct Hashes: Sendable {
        struct Ask: Sendable {
            var peer: PeerID
            var time: HostTime
        }

        var manifestAsk: Ask?
        var pageRoots: [Bytes32] = []
        var pages: [UInt32: [Bytes32]] = [:]
        var pageAsks: [UInt32: Ask] = [:]
    }

    let id: ContentID
    /// Live attachments that refer to it, ascending.
    var attachments: [RecordID] = []
    /// Imports whose records are not accepted yet.
    var pendingImports = 0
    var phase = Phase.idle
    /// Proven by the hash tree, the store or an import; records only claim.
    var byteCount: UInt64?
    /// All leaves, once they are proven.
    var leaves: [Bytes32]?
    /// Cached for contents of several pages.
    var pageRoots: [Bytes32] = []
    var hashes = Hashes()
    /// While chunks are missing and the leaves are known.
    var transfer: ChunkTransfer?
    /// The store knows it, whole or in part.
    var isStored = false
    /// From the store at start, and kept until the stored records are all in: one of them may name it again.
    var isRestored = false
    /// It was complete before it was looked at again.
    var wasComplete = false
    /// An import or a new attachment came while the store was removing it.
    var isWantedAgain = false
    /// Raised whenever something said before is no longer true.
    var generation: UInt32
    /// Chunks written since the last announcement.
    var unannounced: [Int] = []
    var isAnnounced = false
    var failure: AttachmentFailure?
    /// When the store is tried again.
    var retryAt: HostTime?
    /// The chunk that the store refused, to try first.
    var probe: (chunk: UInt32, bytes: [UInt8])?
    var lastVerifyAt: HostTime?
    /// Nobody linked has what is missing since then.
    var sourcelessSince: HostTime?
    var isWaitingSaid = false
    var lastAskAt: HostTime?
    var rate = TransferRate()

    init(id: ContentID, generation: UInt32) {
        self.id = id
        self.generation = generation
    }

    var isWanted: Bool { !attachments.isEmpty || pendingImports > 0 }
    var isComplete: Bool { phase == .complete }
    var chunkCount: Int? { leaves?.count }

    /// Chunks that can be served now.
    var presentCount: Int {
        switch phase {
        case .complete: leaves?.count ?? 0
        case .fetching, .finishing: transfer?.present.count ?? 0
        default: 0
        }
    }

    func canServe(_ chunk: Int) -> Bool {
        switch phase {
        case .complete: chunk < (leaves?.count ?? 0)
        case .fetching, .finishing: transfer?.present.contains(chunk) ?? false
        default: false
        }
    }

    /// Whether the chunk is missing and wanted now.
    func expects(_ chunk: UInt32) -> Bool {
        phase == .fetching && failure == nil && transfer?.present.contains(Int(chunk)) == false
    }

    /// Never 1 before the store has made it durable (ATT-11).
    var fraction: Double {
        if isComplete { return 1 }
        guard let transfer, transfer.chunkCount > 0 else { return 0 }
        return min(Double(transfer.present.count) / Double(transfer.chunkCount), 0.999)
    }
}

/// Bytes a second over the last half second or more.
struct TransferRate: Sendable {
    private(set) var bytesPerSecond = 0.0
    private var since: HostTime?
    private var byteCount = 0

    mutating func add(_ bytes: Int, at now: HostTime) {
        let start = since ?? now
        since = start
        byteCount += bytes
        update(at: now)
    }

    mutating func update(at now: HostTime) {
        guard let start = since, now - start >= .milliseconds(500) else { return }
        bytesPerSecond = Double(byteCount) / (now - start).seconds
        since = now
        byteCount = 0
    }

    mutating func reset() { self = TransferRate() }
}
