import MeshBase
import MeshWire

/// One chunk of one content.
struct ChunkKey: Hashable, Sendable {
    var content: ContentID
    var chunk: UInt32
}

/// What one peer has asked for and not yet been sent: bounded in requests, in reads given to the store, and in bytes
/// by what the link's queue takes.
///
/// Requests that come to nothing cost the peer (AB-39): every cancelled, repeated or impossible one takes a token from
/// a bucket that refills slowly; an empty bucket mutes the peer for a while.
struct ServeQueue: Sendable {
    enum Item: Hashable, Sendable {
        case chunk(ContentID, UInt32)
        case manifest(ContentID)
        case page(ContentID, UInt32)

        var content: ContentID {
            switch self {
            case .chunk(let content, _), .manifest(let content), .page(let content, _): content
            }
        }
    }

    enum Admission: Hashable, Sendable {
        case queued, repeated, full
    }

    /// Bytes that the link's queue takes beyond what is being read for it.
    private(set) var credit: Int
    /// Given to the store, with their sizes.
    private(set) var reading: [ChunkKey: Int] = [:]
    private var pending: [Item] = []
    private var head = 0
    private var queued: Set<Item> = []
    private var tokens: Double
    private var tokensAt = HostTime.distantPast
    private(set) var mutedUntil: HostTime?

    init(configuration: JournalConfiguration) {
        credit = configuration.initialSendQueueBytes
        tokens = configuration.wastedRequestBurst
    }

    var pendingCount: Int { queued.count }
    var next: Item? { head < pending.count ? pending[head] : nil }

    func isMuted(at now: HostTime) -> Bool { mutedUntil.map { now < $0 } ?? false }

    mutating func enqueue(_ item: Item, limit: Int) -> Admission {
        if case .chunk(let content, let chunk) = item, reading[ChunkKey(content: content, chunk: chunk)] != nil {
            return .repeated
        }
        guard !queued.contains(item) else { return .repeated }
        guard queued.count < limit else { return .full }
        queued.insert(item)
        pending.append(item)
        return .queued
    }

    mutating func removeNext() {
        guard head < pending.count else { return }
        queued.remove(pending[head])
        head += 1
        if head == pending.count {
            pending.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 64, head * 2 >= pending.count {
            pending.removeSubrange(0..<head)
            head = 0
        }
    }

    func takesRead(of byteCount: Int, limit: Int) -> Bool { credit >= byteCount && reading.count < limit }

    /// A read was given to the store: its bytes are spoken for.
    mutating func readStarted(_ key: ChunkKey, byteCount: Int) {
        reading[key] = byteCount
        credit -= byteCount
    }

    /// Whether the peer still wants it.
    mutating func readEnded(_ key: ChunkKey, isSent: Bool) -> Bool {
        guard let byteCount = reading.removeValue(forKey: key) else { return false }
        if !isSent { credit += byteCount }
        return true
    }

    /// Bytes went to the link without a read.
    mutating func spend(_ byteCount: Int) { credit -= byteCount }

    mutating func setSpace(_ bytes: Int) {
        credit = max(bytes, 0) - reading.values.reduce(0, +)
    }

    /// Takes back requests for one content: the given chunks, or everything. Returns how many there were.
    mutating func cancel(_ content: ContentID, chunks: [UInt32]) -> Int {
        let wanted = Set(chunks)
        let matches = { (chunk: UInt32?) in wanted.isEmpty || (chunk.map(wanted.contains) ?? false) }
        let before = queued.count
        pending.removeSubrange(0..<head)
        head = 0
        pending.removeAll { item in
            guard item.content == content else { return false }
            if case .chunk(_, let chunk) = item { return matches(chunk) }
            return matches(nil)
        }
        queued = Set(pending)
        var cancelled = before - queued.count
        for key in reading.keys.filter({ $0.content == content && matches($0.chunk) }) {
            credit += reading.removeValue(forKey: key) ?? 0
            cancelled += 1
        }
        return cancelled
    }

    /// Charges for requests that came to nothing. Whether that muted the peer just now.
    mutating func waste(_ count: Int, at now: HostTime, configuration: JournalConfiguration) -> Bool {
        let elapsed = min(max((now - tokensAt).seconds, 0), 3600)
        tokens = min(configuration.wastedRequestBurst, tokens + elapsed * configuration.wastedRequestsPerSecond)
        tokensAt = now
        tokens -= Double(count)
        guard tokens < 0, !isMuted(at: now) else { return false }
        mutedUntil = now + configuration.floodMute
        return true
    }
}
