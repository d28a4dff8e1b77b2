import MeshBase
import MeshProtocol
import MeshWire

/// A message of another member, kept for `inbox`.
public struct ReceivedMessage: Hashable, Sendable {
    public var fromName: String
    public var message: UserMessage
}

/// What came out at once: one message, or a batch, which stays one.
enum ReceivedContent: Sendable {
    case one(UserMessage)
    case several(UserMessageBatch)

    var from: PeerID {
        switch self {
        case .one(let message): message.from
        case .several(let batch): batch.from
        }
    }

    var count: Int {
        switch self {
        case .one: 1
        case .several(let batch): batch.batch.count
        }
    }

    /// Of what is kept: a batch is kept whole.
    var byteCount: Int {
        switch self {
        case .one(let message): message.payload.count
        case .several(let batch): batch.batch.bytes.count
        }
    }

    var payloadByteCount: Int {
        switch self {
        case .one(let message): message.payload.count
        case .several(let batch): batch.batch.payloadByteCount
        }
    }

    /// Allocates each message of a batch.
    var messages: [UserMessage] {
        switch self {
        case .one(let message): [message]
        case .several(let batch): batch.messages
        }
    }
}

/// The last messages of each sender, for whoever reads late; the oldest of a sender are dropped first and counted, so
/// that nobody's flood costs anybody else's. All together are bounded by bytes.
struct MessageBox: Sendable {
    static let capacityPerSender = 256
    static let capacityBytes = 16 << 20

    private struct Entry: Sendable {
        /// Of arrival, over all senders.
        let number: Int
        let fromName: String
        let content: ReceivedContent
        /// Messages of a batch that are dropped, from its first.
        var dropped = 0

        var keptCount: Int { content.count - dropped }
    }

    private var entries: [PeerID: [Entry]] = [:]
    private var keptCounts: [PeerID: Int] = [:]
    private var keptBytes = 0
    private var nextNumber = 0
    private(set) var receivedCount = 0
    private(set) var receivedBytes = 0
    private(set) var droppedCount = 0

    mutating func append(_ content: ReceivedContent, fromName: String) {
        receivedCount += content.count
        receivedBytes += content.payloadByteCount
        entries[content.from, default: []].append(
            Entry(number: nextNumber, fromName: fromName, content: content))
        nextNumber += 1
        keptCounts[content.from, default: 0] += content.count
        keptBytes += content.byteCount
        drop((keptCounts[content.from] ?? 0) - Self.capacityPerSender, of: content.from)
        while keptBytes > Self.capacityBytes { dropOldest() }
    }

    private var inOrder: [Entry] { entries.values.joined().sorted { $0.number < $1.number } }

    /// In the order of their arrival; of a batch also what was dropped of its beginning.
    var contents: [ReceivedContent] { inOrder.map(\.content) }

    /// In the order of their arrival. Cost: what is kept; made on request only.
    var messages: [ReceivedMessage] {
        inOrder.flatMap { entry in
            entry.content.messages.dropFirst(entry.dropped).map {
                ReceivedMessage(fromName: entry.fromName, message: $0)
            }
        }
    }

    private mutating func drop(_ count: Int, of sender: PeerID) {
        guard count > 0 else { return }
        droppedCount += count
        keptCounts[sender, default: 0] -= count
        var surplus = count
        var whole = 0
        while surplus > 0, let entry = entries[sender]?[whole] {
            guard entry.keptCount <= surplus else {
                entries[sender]?[whole].dropped += surplus
                break
            }
            surplus -= entry.keptCount
            keptBytes -= entry.content.byteCount
            whole += 1
        }
        entries[sender]?.removeFirst(whole)
    }

    private mutating func dropOldest() {
        let oldest = entries.compactMap { sender, entries in entries.first.map { (sender, $0) } }
            .min { $0.1.number < $1.1.number }
        guard let (sender, entry) = oldest else { return }
        drop(entry.keptCount, of: sender)
    }
}
