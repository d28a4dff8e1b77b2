import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

/// Messages of one sender as they came out: one, or several that followed each other.
public struct DeliveredMessages: Sendable {
    public var from: PeerID
    public var mode: DeliveryMode
    /// Of the first; each further one has one more.
    public var lamport: UInt64
    /// Of an ordered one whose place had passed.
    public var isLate: Bool
    public var batch: MessageBatch

    init(_ content: ReceivedContent) {
        switch content {
        case .one(let message):
            (from, mode, lamport, isLate) = (message.from, message.mode, message.lamport, message.isLate)
            batch = MessageBatch()
            batch.append(message.payload)
        case .several(let several):
            (from, mode, lamport, isLate) = (several.from, several.mode, several.lamport, false)
            batch = several.batch
        }
    }
}

/// What arrives at a node, for one reader of the program around it. Each reader has a queue of its own: one that falls
/// behind loses its oldest messages, which are counted, and slows neither the node nor other readers.
public final class MessageFeed: Sendable {
    /// What one reader may leave unread, bytes of packed messages.
    public static let maximumUnreadBytes = 16 << 20

    private struct State {
        var unread: [DeliveredMessages] = []
        var head = 0
        var unreadBytes = 0
        var droppedCount = 0
        var isEnded = false
        var waiter: CheckedContinuation<[DeliveredMessages], Never>?
    }

    private let state = Lock<State>(State())

    init() {}

    /// Messages that this reader lost.
    public var droppedCount: Int { state.withLock { $0.droppedCount } }

    /// Waits for messages and takes all there are; empty when the node has stopped. For one reader at a time.
    public func next() async -> [DeliveredMessages] {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state -> [DeliveredMessages]? in
                guard state.unread.count == state.head, !state.isEnded else { return Self.takeAll(&state) }
                state.waiter = continuation
                return nil
            }
            if let ready { continuation.resume(returning: ready) }
        }
    }

    /// The node's thread.
    func append(_ messages: DeliveredMessages) {
        let waiter = state.withLock { state -> (CheckedContinuation<[DeliveredMessages], Never>)? in
            state.unread.append(messages)
            state.unreadBytes += messages.batch.bytes.count
            while state.unreadBytes > Self.maximumUnreadBytes, state.head < state.unread.count - 1 {
                state.unreadBytes -= state.unread[state.head].batch.bytes.count
                state.droppedCount += state.unread[state.head].batch.count
                state.unread[state.head].batch = MessageBatch()
                state.head += 1
            }
            return state.waiter.take()
        }
        waiter?.resume(returning: state.withLock { Self.takeAll(&$0) })
    }

    func end() {
        let waiter = state.withLock { state -> (CheckedContinuation<[DeliveredMessages], Never>)? in
            state.isEnded = true
            return state.waiter.take()
        }
        waiter?.resume(returning: [])
    }

    private static func takeAll(_ state: inout State) -> [DeliveredMessages] {
        let taken = state.head == 0 ? state.unread : Array(state.unread[state.head...])
        state.unread = []
        state.head = 0
        state.unreadBytes = 0
        return taken
    }
}

/// Who inside the program is told what arrives.
enum MessageReader: Sendable {
    case feed(MessageFeed)
    /// On the node's thread.
    case handler(@Sendable (DeliveredMessages) -> Void)

    func tell(_ messages: DeliveredMessages) {
        switch self {
        case .feed(let feed): feed.append(messages)
        case .handler(let body): body(messages)
        }
    }
}
