import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

/// Where the program around a node puts reliable messages for some members, one after the other. Any thread.
///
/// What is put in while the node is busy leaves as one batch, so a stream of small messages costs little more than the
/// copying of its bytes, and a single message leaves at once. Bounded: when the receivers do not keep up, `send` says
/// `queueFull`, and `waitForRoom` returns when there is some again.
public final class MessageOutlet: Sendable {
    /// What waits here at most, bytes of packed messages.
    public static let maximumWaitingBytes = 1 << 20
    /// What has been handed to the node and is not settled, bytes; less than the node queues for one member.
    static let maximumUnsettledBytes = 3 << 20

    /// What became of everything put in so far.
    public struct Progress: Hashable, Sendable {
        /// Put in.
        public var accepted: UInt64 = 0
        /// Acknowledged by every recipient.
        public var delivered: UInt64 = 0
        /// Not acknowledged by at least one recipient; the node's events and `status` say why.
        public var failed: UInt64 = 0
    }

    private struct State {
        var filling = MessageBatch()
        var full: [MessageBatch] = []
        var waitingBytes = 0
        var unsettledBytes = 0
        /// The node knows that something waits.
        var isAnnounced = false
        var progress = Progress()
        var roomWaiters: [CheckedContinuation<Void, Never>] = []
        var endWaiters: [CheckedContinuation<Void, Never>] = []

        var isSettled: Bool { progress.delivered + progress.failed >= progress.accepted }
    }

    /// Nil: everybody but this node.
    let recipients: [PeerID]?
    private let inbox: Inbox
    private let state = Lock<State>(State())

    init(recipients: [PeerID]?, inbox: Inbox) {
        self.recipients = recipients
        self.inbox = inbox
    }

    public var progress: Progress { state.withLock { $0.progress } }

    /// Throws `limitExceeded` beyond 262,144 bytes, `queueFull` when too much waits; nothing is put in then.
    public func send(_ payload: [UInt8]) throws(CommandError) {
        let limit = WireLimits.maximumMessageBytes
        guard payload.count <= limit else { throw .limitExceeded(limit: limit, actual: payload.count) }
        let (isAccepted, isNews) = state.withLock { state -> (Bool, Bool) in
            guard state.waitingBytes + payload.count <= Self.maximumWaitingBytes else { return (false, false) }
            if !state.filling.hasRoom(for: payload.count) {
                state.full.append(state.filling)
                state.filling = MessageBatch(reserving: MessageBatch.targetBytes)
            }
            let before = state.filling.bytes.count
            state.filling.append(payload)
            state.waitingBytes += state.filling.bytes.count - before
            state.progress.accepted += 1
            defer { state.isAnnounced = true }
            return (true, !state.isAnnounced)
        }
        guard isAccepted else { throw .queueFull(limit: Self.maximumWaitingBytes, of: .bytes) }
        if isNews { inbox.report(.outlet(self)) }
    }

    /// Returns when half of the room is free.
    public func waitForRoom() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state -> Bool in
                if state.waitingBytes <= Self.maximumWaitingBytes / 2 { return true }
                state.roomWaiters.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    /// Returns when everything put in so far is settled.
    public func waitUntilSettled() async {
        await withCheckedContinuation { continuation in
            let isSettled = state.withLock { state -> Bool in
                if state.isSettled { return true }
                state.endWaiters.append(continuation)
                return false
            }
            if isSettled { continuation.resume() }
        }
    }

    // MARK: The node's side

    /// The next batch, if one may be under way.
    func takeBatch() -> MessageBatch? {
        let (batch, waiters) = state.withLock { state -> (MessageBatch?, [CheckedContinuation<Void, Never>]) in
            guard state.unsettledBytes < Self.maximumUnsettledBytes else { return (nil, []) }
            let batch: MessageBatch
            if state.full.isEmpty {
                guard !state.filling.isEmpty else {
                    state.isAnnounced = false
                    return (nil, [])
                }
                batch = state.filling
                state.filling = MessageBatch(reserving: min(2 * batch.bytes.count, MessageBatch.targetBytes))
            } else {
                batch = state.full.removeFirst()
            }
            state.waitingBytes -= batch.bytes.count
            state.unsettledBytes += batch.bytes.count
            guard state.waitingBytes <= Self.maximumWaitingBytes / 2 else { return (batch, []) }
            defer { state.roomWaiters = [] }
            return (batch, state.roomWaiters)
        }
        for waiter in waiters { waiter.resume() }
        return batch
    }

    /// A batch found a queue full: it goes first the next time.
    func putBack(_ batch: MessageBatch) {
        state.withLock { state in
            state.full.insert(batch, at: 0)
            state.waitingBytes += batch.bytes.count
            state.unsettledBytes -= batch.bytes.count
        }
    }

    func settle(_ batch: MessageBatch, isDelivered: Bool) {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.unsettledBytes -= batch.bytes.count
            if isDelivered {
                state.progress.delivered += UInt64(batch.count)
            } else {
                state.progress.failed += UInt64(batch.count)
            }
            guard state.isSettled else { return [] }
            defer { state.endWaiters = [] }
            return state.endWaiters
        }
        for waiter in waiters { waiter.resume() }
    }
}
