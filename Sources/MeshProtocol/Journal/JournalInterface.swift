import MeshBase
import MeshWire

/// Work on the content store. The shell performs it on the storage thread, strictly in the order given, and answers
/// each request with one `StorageCompletion`, in the same order.
public enum StorageRequest: Hashable, Sendable {
    /// Make room for a content and keep its hashes. A partial content that the store knows already keeps its chunks.
    case begin(ContentID, byteCount: UInt64, leaves: [Bytes32])
    /// Turn a complete content whose bytes went bad into a partial one that takes writes. Answered by `began`.
    case reopen(ContentID)
    /// Keep one chunk of a begun content. The bytes are verified by the machine.
    case write(ContentID, chunk: UInt64, bytes: [UInt8])
    case read(ContentID, chunk: UInt64, for: PeerID)
    /// All chunks are written: make the content durable and whole, under its final name.
    case finish(ContentID)
    /// Forget the content, whole or partial. Not an error when it is not there.
    case remove(ContentID)
    /// Hash every chunk that is there again: a partial content after a restart, or one that looks damaged.
    case verify(ContentID)

    public var content: ContentID {
        switch self {
        case .begin(let content, _, _), .reopen(let content), .write(let content, _, _), .read(let content, _, _),
            .finish(let content), .remove(let content), .verify(let content):
            content
        }
    }
}

/// The answer to one `StorageRequest`.
public enum StorageCompletion: Hashable, Sendable {
    case began(ContentID)
    case wrote(ContentID, chunk: UInt64)
    case read(ContentID, chunk: UInt64, for: PeerID, bytes: [UInt8])
    /// Durable: it survives a power cut from now on.
    case finished(ContentID)
    case removed(ContentID)
    /// `good[i]` says whether chunk `i` is there and has its hash. A shorter array means false for the rest.
    case verified(ContentID, good: [Bool])
    /// The request had no effect. A failed `write` comes back with its bytes, so that it can be tried again.
    case failed(StorageRequest, StorageFailure)
}

/// Why the store could not do what it was asked.
public enum StorageFailure: Hashable, Sendable {
    /// Both in bytes.
    case noSpace(needed: UInt64, available: UInt64)
    case unreadable
    /// A hash does not match.
    case corrupt
    case readOnly
    case other
}

/// What the store holds of one content at start.
public struct StoredContentSummary: Hashable, Sendable {
    public var id: ContentID
    public var byteCount: UInt64
    /// The leaves of the hash tree, one a chunk; `nil` when the store lost them: they are fetched again.
    public var leaves: [Bytes32]?
    /// Every chunk was verified and made durable before.
    public var isComplete: Bool

    public init(id: ContentID, byteCount: UInt64, leaves: [Bytes32]?, isComplete: Bool) {
        self.id = id
        self.byteCount = byteCount
        self.leaves = leaves
        self.isComplete = isComplete
    }
}

/// How a `wait` ended.
public enum WaitOutcome: Hashable, Sendable {
    /// Complete and durable here, and complete on `holders` members in all, this one included.
    case reached(holders: Int)
    /// The attachment is gone, for everyone.
    case removed
    /// It cannot arrive as things are.
    case failed(AttachmentFailure)
}

/// Why an attachment is not here.
public enum AttachmentFailure: Hashable, Sendable {
    /// Tried again every ten seconds. Both in bytes.
    case noSpace(needed: UInt64, available: UInt64)
    /// Beyond what this node fetches. In bytes.
    case tooLarge(byteCount: UInt64, limit: UInt64)
    /// The record promises another size than its content has.
    case sizeMismatch(byteCount: UInt64)
    /// The store cannot be written or read; tried again every ten seconds.
    case storage(StorageFailure)
    /// This node has as many contents as it can follow.
    case tooManyContents(limit: Int)
}

public enum AttachmentState: Hashable, Sendable {
    case complete
    case fetching
    /// Nobody linked has what is missing. Goes on by itself when somebody does.
    case waitingForHolder
    case failed(AttachmentFailure)
}

/// One attachment as this node knows it now.
public struct AttachmentSummary: Hashable, Sendable {
    /// The record that added it.
    public var id: RecordID
    /// Labels from whoever added it: untrusted text, never a path.
    public var name: String
    public var note: String
    /// As the record says.
    public var byteCount: UInt64
    public var content: ContentID
    public var addedBy: PeerID
    public var lamport: UInt64
    /// Complete and durable here.
    public var isPresent: Bool
    /// 0…1; 1 only when every chunk is verified and the content is durable here.
    public var fraction: Double
    /// Members known to hold all of it, this node included, ascending. Only linked members are known.
    public var holders: [PeerID]
    /// Survives a power cut of this node.
    public var isDurable: Bool
    public var state: AttachmentState
    /// Verified bytes arriving, over the last half second or more; zero when nothing moves.
    public var bytesPerSecond: Double

    public init(
        id: RecordID, name: String, note: String, byteCount: UInt64, content: ContentID, addedBy: PeerID,
        lamport: UInt64, isPresent: Bool, fraction: Double, holders: [PeerID], isDurable: Bool,
        state: AttachmentState, bytesPerSecond: Double
    ) {
        self.id = id
        self.name = name
        self.note = note
        self.byteCount = byteCount
        self.content = content
        self.addedBy = addedBy
        self.lamport = lamport
        self.isPresent = isPresent
        self.fraction = fraction
        self.holders = holders
        self.isDurable = isDurable
        self.state = state
        self.bytesPerSecond = bytesPerSecond
    }
}

/// What the journal wants done.
public enum JournalOutput: Hashable, Sendable {
    /// On channel `.journal`.
    case send(JournalMessage, to: PeerID, priority: Priority, isReliable: Bool)
    case storage(StorageRequest)
    /// Sign and spread a record; it comes back as `recordAccepted`.
    case publish(RecordKind, body: [UInt8], token: CommandToken?)
    /// The answer to `imported`: the attachment's record exists.
    case added(CommandToken, AttachmentSummary)
    /// The answer to `remove`.
    case removed(CommandToken)
    /// The record that `imported` or `remove` needed cannot be made.
    case refused(CommandToken, CommandError)
    /// The answer to `wait`.
    case settled(CommandToken, WaitOutcome)
    /// The set, or somebody's progress, changed: query `attachments`. At most once a call.
    case changed
    case event(ProtocolEvent)
}

/// What the journal is told.
public enum JournalCommand: Hashable, Sendable {
    /// The journal key of the mesh, from GENESIS. Nothing is fetched or served before.
    case setKey(Bytes32)
    /// What the store holds at start. Partial contents are hashed again before they go on.
    case restore([StoredContentSummary])
    /// Drop restored contents that no attachment names. Once, when all stored records were handed in; before, no
    /// removal drops a restored content, because a later record may add the same content again.
    case sweepOrphans
    /// A record of kind `attachmentAdded` or `attachmentRemoved`; others are ignored. Any order, any number of times.
    case recordAccepted(AcceptedRecord)
    /// A record that `publish` asked for cannot be made.
    case publishRefused(RecordKind, body: [UInt8], CommandError)
    /// A record that was accepted counts no longer: an attachment is gone as if never added, a removal as if never made.
    case recordVoided(RecordID)
    /// The store has hashed and durably kept a local file: publishes ATTACHMENT_ADDED. `limitExceeded` drops the
    /// content again.
    case imported(
        ContentID, byteCount: UInt64, leaves: [Bytes32], name: String, note: String, token: CommandToken)
    /// Publishes ATTACHMENT_REMOVED. `notFound` for an unknown attachment; one that is gone already is answered at once.
    case remove(RecordID, token: CommandToken)
    /// Answered when the attachment is complete here and on `replicas` members in all. An unknown one is awaited.
    case wait(RecordID, replicas: Int, token: CommandToken)
    case cancelWait(CommandToken)
    /// Somebody read a content back and found it damaged: it is hashed again as a whole, at once, and what is bad is
    /// fetched again. Ignored unless it is complete here.
    case suspect(ContentID)
    /// A link to the peer exists. A second one without `linkDown` between says that the same process of the peer was
    /// linked anew: what it said still counts, and it is told everything again, because it may have lost the first link.
    case linkUp(PeerID)
    case linkDown(PeerID)
    /// The peer counts as dead, while its link is kept for its return: it is not asked and no holder until `holderHeard`.
    case holderSilent(PeerID)
    /// The peer was heard again over the link that it had.
    case holderHeard(PeerID)
    case completion(StorageCompletion)
    /// How many more bytes the link's queue for attachments takes now; from the turn each time it has drained. A
    /// new link starts with `JournalConfiguration.initialSendQueueBytes`; nothing is served beyond what was told.
    case sendQueueSpace(PeerID, bytes: Int)
}
