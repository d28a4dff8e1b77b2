import MeshBase
import MeshCrypto
import MeshWire

/// Which attachments exist, which chunks to ask for and which to serve (Docs/Protocol.md, "Attachments").
///
/// The catalogue is a fold over signed records. Every member fetches every live attachment: first its hashes, then its
/// chunks from any holder, each verified before it is kept and offered to the others as soon as it is written. The
/// machine does no input or output: it hands `StorageRequest`s to the shell, which answers each with a completion.
///
/// A value with one owner; no method suspends. Cost: constant per chunk beside hashing it (88 µs).
public struct JournalStateMachine: Sendable {
    typealias Output = Outbox<JournalOutput>

    let identity: PeerID
    let configuration: JournalConfiguration
    var random: RandomStream
    public internal(set) var statistics = JournalStatistics()

    var key: Bytes32?
    var catalog: AttachmentCatalog
    var contents: [ContentID: JournalContent] = [:]
    /// Live attachments whose content is not followed because there are too many.
    var isOverflowing = false
    var peers: [PeerID: JournalPeer] = [:]
    /// The keys of `peers`, ascending: the order in which peers are visited.
    var peerOrder: [PeerID] = []
    var deadlines = DeadlineQueue()

    /// Imports and removals whose records are not accepted yet.
    var pendingAdds: [(body: [UInt8], content: ContentID, token: CommandToken)] = []
    var pendingRemovals: [(attachment: RecordID, token: CommandToken)] = []
    var waits: [(attachment: RecordID, replicas: Int, token: CommandToken)] = []

    /// Verified chunks that wait for the store, oldest first from `writeHead` on.
    var writeQueue: [(key: ChunkKey, bytes: [UInt8])] = []
    var writeHead = 0
    var writesInFlight = 0
    var readsInFlight = 0
    /// Chunks asked of peers.
    var askedCount = 0
    var generationCounter: UInt32 = 0
    /// Contents with news for the peers, in the order they had it.
    var announcing: [ContentID] = []
    var announcingSet: Set<ContentID> = []
    var hasChanged = false
    /// Where the next round over waiting peers begins.
    var servingTurn = 0

    public init(identity: PeerID, configuration: JournalConfiguration = JournalConfiguration(), random: RandomStream) {
        self.identity = identity
        self.configuration = configuration
        self.random = random
        catalog = AttachmentCatalog(capacity: configuration.maximumRecords)
    }

    /// A message from a linked peer. Nothing a peer says can trap, and one bad message changes nothing else.
    public mutating func receive(
        _ message: JournalMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<JournalOutput>
    ) {
        guard peers[peer] != nil else {
            statistics.messagesFromUnlinkedPeers += 1
            return
        }
        switch message {
        case .have(let entries): receiveHave(entries, from: peer, at: now, &outbox)
        case .ask(let asked): receiveAsk(asked, from: peer, at: now, &outbox)
        case .wantManifest(let content): receiveWant(.manifest(content), from: peer, at: now, &outbox)
        case .wantPage(let content, let page): receiveWant(.page(content, page), from: peer, at: now, &outbox)
        case .request(let content, let chunks):
            receiveRequest(content, chunks: chunks, from: peer, at: now, &outbox)
        case .cancel(let content, let chunks):
            receiveCancel(content, chunks: chunks, from: peer, at: now, &outbox)
        case .manifest(let content, let byteCount, let hashes):
            receiveManifest(content, byteCount: byteCount, hashes: hashes, from: peer, at: now, &outbox)
        case .page(let content, let page, let leaves):
            receivePage(content, page: page, leaves: leaves, from: peer, at: now, &outbox)
        case .chunk(let content, let index, let bytes):
            receiveChunk(
                ChunkKey(content: content, chunk: index), bytes: bytes, from: peer, at: now, &outbox)
        case .notHere(let content, let chunks):
            receiveNotHere(content, chunks: chunks, from: peer, at: now, &outbox)
        }
        flushChanged(&outbox)
    }

    /// What the node wants. State is unchanged when this throws, except that a refused `imported` drops its content.
    public mutating func submit(
        _ command: JournalCommand, at now: HostTime, into outbox: inout Outbox<JournalOutput>
    ) throws(CommandError) {
        defer { flushChanged(&outbox) }
        switch command {
        case .setKey(let value): setKey(value, at: now, &outbox)
        case .restore(let stored): restore(stored, at: now, &outbox)
        case .sweepOrphans: sweepOrphans(at: now, &outbox)
        case .recordAccepted(let record): accept(record, at: now, &outbox)
        case .publishRefused(let kind, let body, let error): publishRefused(kind, body, error, at: now, &outbox)
        case .recordVoided(let id): void(id, at: now, &outbox)
        case .imported(let content, let byteCount, let leaves, let name, let note, let token):
            let body = AttachmentAddedBody(content: content, byteCount: byteCount, name: name, note: note)
            try add(body, leaves: leaves, token: token, at: now, &outbox)
        case .remove(let attachment, let token): try remove(attachment, token: token, &outbox)
        case .wait(let attachment, let replicas, let token):
            try wait(attachment, replicas: replicas, token: token, &outbox)
        case .cancelWait(let token): waits.removeAll { $0.token == token }
        case .suspect(let content):
            contents[content]?.lastVerifyAt = nil
            suspect(content, at: now, &outbox)
        case .linkUp(let peer): linkUp(peer, at: now, &outbox)
        case .linkDown(let peer): linkDown(peer, at: now, &outbox)
        case .holderSilent(let peer): holderSilent(peer, at: now, &outbox)
        case .holderHeard(let peer): holderHeard(peer, at: now, &outbox)
        case .completion(let completion): complete(completion, at: now, &outbox)
        case .sendQueueSpace(let peer, let bytes):
            peers[peer]?.serving.setSpace(bytes)
            serve(peer, at: now, &outbox)
        }
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<JournalOutput>) {
        while let deadline = deadlines.popDue(at: now) {
            switch deadline {
            case .announce: announce(at: now, &outbox)
            case .sweep: sweepOrphans(at: now, &outbox)
            case .peer(let peer): lookAtPeer(peer, at: now, &outbox)
            case .content(let content): lookAtContent(content, at: now, &outbox)
            }
        }
        flushChanged(&outbox)
    }

    /// When `handleDeadline` wants to be called; early calls are harmless.
    public var nextDeadline: HostTime? { deadlines.next }

    /// `nextDeadline`, asked in place. Changes nothing: it is mutating because a getter is given a copy of the whole.
    public mutating func askNextDeadline() -> HostTime? { nextDeadline }

    private mutating func flushChanged(_ outbox: inout Output) {
        guard hasChanged else { return }
        hasChanged = false
        settleWaits(&outbox)
        outbox.append(.changed)
    }

    /// Control messages overtake chunks, or two members that serve each other would wait for each other's bulk.
    func send(_ message: JournalMessage, to peer: PeerID, _ outbox: inout Output) {
        outbox.append(.send(message, to: peer, priority: .message, isReliable: true))
    }
}
