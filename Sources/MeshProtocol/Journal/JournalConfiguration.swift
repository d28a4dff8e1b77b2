import MeshBase
import MeshWire

/// Tunables of the journal: each with its unit and the reason for its default.
public struct JournalConfiguration: Sendable {
    /// Largest file this node adds, in bytes. 100 MB as Apple's, counted in powers of two so that both readings fit.
    public var maximumAttachmentBytes: UInt64 = 100 << 20
    /// Largest content this node fetches, in bytes; at most what the hash pages can name. The same as for its own files:
    /// nobody else decides how much of this disk is used at once.
    public var maximumFetchBytes: UInt64 = 100 << 20
    /// Contents followed at once; beyond, attachments show `tooManyContents`.
    public var maximumContents = 10_000
    /// Attachment records kept, live and removed.
    public var maximumRecords = 100_000
    /// `wait` commands open at once.
    public var maximumWaits = 1_024

    /// Chunks asked of one peer at once: the start and the bounds of its window.
    public var initialWindowChunks = 8
    public var maximumWindowChunks = 64
    /// Chunks asked and not yet written, over all peers: 32 MiB.
    public var maximumIncomingChunks = 512
    /// Writes given to the store at once.
    public var maximumWrites = 64
    /// Reads given to the store at once, for one peer and in all (32 MiB).
    public var maximumReadsPerPeer = 16
    public var maximumReads = 512
    /// Requests of one peer that wait for their turn; more are dropped. Four windows.
    public var maximumPendingPerPeer = 256
    /// What a new link's queue takes before the first `sendQueueSpace`, in bytes.
    public var initialSendQueueBytes = 1 << 20

    /// Progress is told to the peers this long after the first chunk of a batch.
    public var announceDelay = TimeSpan.milliseconds(50)
    /// How long other receivers may take to spread what is theirs before this node asks a complete holder for it too:
    /// twice the announcement's delay.
    public var spreadDelay = TimeSpan.milliseconds(100)
    /// Bounds of the time a peer may be silent while chunks are asked of it; four smoothed service times between.
    public var minimumStallTimeout = TimeSpan.seconds(1)
    public var initialStallTimeout = TimeSpan.seconds(5)
    public var maximumStallTimeout = TimeSpan.seconds(30)
    /// Hashes asked of one peer are asked of another after this.
    public var hashTimeout = TimeSpan.seconds(3)
    /// A full or failing store is tried again after this.
    public var storageRetry = TimeSpan.seconds(10)
    /// Restored contents that no attachment names are dropped this long after the start, if `sweepOrphans` did not
    /// do it before. Until then a removal drops none of them: a later record may add the same content again.
    public var sweepDelay = TimeSpan.seconds(30)
    /// Nobody has had what is missing for this long: say so.
    public var waitingNotice = TimeSpan.seconds(2)
    /// Bad chunks or hashes after which a peer is not asked for that content, and for how long.
    public var maximumStrikes = 3
    public var strikeMute = TimeSpan.seconds(60)
    /// A content that looks damaged is hashed again at most this often.
    public var verifyInterval = TimeSpan.seconds(60)
    /// Peers are asked again what they have of a content that waits for a holder.
    public var askInterval = TimeSpan.seconds(10)
    /// What one peer's announcements may occupy: contents, and bytes of bitfields.
    public var maximumHoldingsPerPeer = 10_000
    public var maximumHoldingBytesPerPeer = 4 << 20
    /// Requests of a peer that came to nothing (cancelled, repeated, for what is not here): so many at once, so many
    /// a second; beyond, the peer is not served for `floodMute`.
    public var wastedRequestBurst = 2_048.0
    public var wastedRequestsPerSecond = 200.0
    public var floodMute = TimeSpan.seconds(10)

    public init() {}
}

/// Counters, since the start.
public struct JournalStatistics: Hashable, Sendable {
    public var chunksReceived = 0
    public var chunksWritten = 0
    public var chunksServed = 0
    /// Chunks that came twice because two peers were asked.
    public var duplicateChunks = 0
    /// Chunks nobody asked for, or no longer.
    public var unexpectedChunks = 0
    /// Chunks whose bytes do not have their hash.
    public var rejectedChunks = 0
    /// Hash lists that do not lead to their content.
    public var rejectedHashes = 0
    public var stalls = 0
    /// Times a linked peer counted as dead.
    public var silences = 0
    public var requestsDropped = 0
    public var floodMutes = 0
    public var messagesFromUnlinkedPeers = 0
    public var announcementsDropped = 0
    public var recordsRefused = 0
    public var storageFailures = 0
    /// Bytes of verified chunks.
    public var bytesReceived: UInt64 = 0
    public var bytesServed: UInt64 = 0

    public init() {}
}
