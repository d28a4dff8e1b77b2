public import MeshBase

/// What a node keeps across restarts. Every call is synchronous and may touch the disk: all of them are made from storage
/// threads (`WorkQueue`), never from the event loop. Calls may overlap; those about one content must not, except that
/// chunks may be read at any time. A long call (import, export, verify, finish) keeps no short one waiting.
///
/// When a writing call returns, what it wrote survives a power cut. When it throws, nothing changed, or the store has
/// stopped (`.stopped`) and a reopening verifies what is there.
public protocol NodeStorage: AnyObject, Sendable {
    // MARK: Settings: small values (identity seed, secrets, name, last addresses)

    func setting(_ name: String) throws(StorageError) -> [UInt8]?
    func setSetting(_ name: String, _ value: [UInt8]) throws(StorageError)

    // MARK: Records (signed envelopes)

    /// All records in the order in which they were added.
    func records() throws(StorageError) -> [StoredRecord]
    /// One durable transaction; records already there are left as they are.
    func addRecords(_ records: [StoredRecord]) throws(StorageError)

    // MARK: Contents

    /// All contents, complete and partial, ordered by id.
    func contents() throws(StorageError) -> [StoredContent]
    /// Takes a snapshot of a regular file: hashed and copied in one pass, durable when this returns. `progress` is
    /// called with bytes done and bytes in all. Throws `fileChanged` when the file changed meanwhile (ATT-22), and
    /// refuses anything but a readable regular file of at most `byteLimit` bytes before reading (ATT-18). Content that
    /// is already complete here is stored once.
    func importFile(
        path: String, key: Bytes32, byteLimit: UInt64, progress: (UInt64, UInt64) -> Void
    ) throws(StorageError) -> ImportedContent
    /// Begins a content whose chunks will arrive: the space is checked (`noSpace`), the leaves are kept. Does nothing
    /// when the content is already there, partial or complete.
    func beginContent(id: ContentID, byteCount: UInt64, leaves: [Bytes32]) throws(StorageError)
    /// Hashes what is on disk of a content (partial or complete) again: which chunks are good.
    func verifyPartial(id: ContentID, key: Bytes32) throws(StorageError) -> [Bool]
    /// Writes a chunk of a partial content that the caller has verified against its leaf. Durable only after
    /// `finishContent`; a restart verifies again.
    func writeChunk(id: ContentID, index: UInt64, bytes: [UInt8]) throws(StorageError)
    /// A chunk's bytes as they are on disk, complete or partial. The caller verifies what it passes on.
    func readChunk(id: ContentID, index: UInt64) throws(StorageError) -> [UInt8]
    /// All chunks are there: syncs, gives the file its final name, and notes it as complete.
    func finishContent(id: ContentID) throws(StorageError)
    /// Turns a complete content whose bytes went bad back into a partial one, so that it can be fetched again (AB-79).
    func reopenContent(id: ContentID) throws(StorageError)
    /// Forgets a content and its bytes. Does nothing when it is not there.
    func removeContent(id: ContentID) throws(StorageError)
    /// Writes a complete content under a safe form of `name` into `directory`, verified while copied, visible under its
    /// final name only when whole and synced. A file of the same content is left as it is; one of other content is
    /// replaced only with `overwrite`, else the export takes a free name such as `name (2).txt` and says so.
    func exportContent(
        id: ContentID, toDirectory directory: String, name: String, key: Bytes32, overwrite: Bool
    ) throws(StorageError) -> ExportResult

    func usage() throws(StorageError) -> StorageUsage
    /// The node is about to stop: long calls under way and later ones throw `.stopped` soon (within a block of 1 MiB);
    /// settings, records and chunks are still taken. Any thread.
    func interrupt()
    /// Ends all use; later calls throw `.stopped`.
    func close()
}

/// A signed record as it is kept.
public struct StoredRecord: Hashable, Sendable {
    public var id: RecordID
    public var bytes: [UInt8]

    public init(id: RecordID, bytes: [UInt8]) {
        self.id = id
        self.bytes = bytes
    }
}

/// A content in the store.
public struct StoredContent: Hashable, Sendable {
    public var id: ContentID
    public var byteCount: UInt64
    /// The hash tree's leaves in order.
    public var leaves: [Bytes32]
    /// Whether every chunk is there, verified and durable.
    public var isComplete: Bool

    public init(id: ContentID, byteCount: UInt64, leaves: [Bytes32], isComplete: Bool) {
        self.id = id
        self.byteCount = byteCount
        self.leaves = leaves
        self.isComplete = isComplete
    }
}

/// A file that was taken into the store.
public struct ImportedContent: Hashable, Sendable {
    public var id: ContentID
    public var byteCount: UInt64
    public var leaves: [Bytes32]
    /// The same content was complete here before.
    public var wasPresent: Bool

    public init(id: ContentID, byteCount: UInt64, leaves: [Bytes32], wasPresent: Bool) {
        self.id = id
        self.byteCount = byteCount
        self.leaves = leaves
        self.wasPresent = wasPresent
    }
}

/// Where an export landed.
public struct ExportResult: Hashable, Sendable {
    public enum Outcome: String, Hashable, Sendable {
        case written
        /// A file with the very same content already stands under that name (ATT-20).
        case alreadyThere
        /// An existing file with other content was replaced, as told.
        case replaced
    }

    public var path: String
    public var outcome: Outcome
    /// How the name on disk differs from the attachment's name; `nil` when it does not.
    public var nameChange: NameChange?

    public init(path: String, outcome: Outcome, nameChange: NameChange?) {
        self.path = path
        self.outcome = outcome
        self.nameChange = nameChange
    }
}

/// Why a file on disk is not called as its attachment is.
public enum NameChange: String, Hashable, Sendable {
    /// Longer than the 255 bytes a file system takes; cut at a character, extension kept.
    case shortened
    /// Held characters or parts that could lead elsewhere.
    case madeSafe
    /// Another file with other content has the name.
    case numbered
}

/// What the store occupies, in bytes.
public struct StorageUsage: Hashable, Sendable {
    /// Contents, complete or partial.
    public var contentCount: Int
    public var contentBytes: UInt64
    /// What an ordinary user may still write on that file system.
    public var freeBytes: UInt64

    public init(contentCount: Int, contentBytes: UInt64, freeBytes: UInt64) {
        self.contentCount = contentCount
        self.contentBytes = contentBytes
        self.freeBytes = freeBytes
    }
}
