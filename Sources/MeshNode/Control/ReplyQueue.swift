import Glibc
import MeshBase

/// Objects on their way to one client: filled by the node without blocking, drained by the client's own thread.
@safe final class ReplyQueue: @unchecked Sendable {
    // Sendable: `items` and `isEnded` are touched only while `mutex` is held; mutex and condition are made in `init` and
    // destroyed in `deinit`.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    /// With the bytes that each counts for.
    private var items: [(make: () -> JSONValue, byteCount: Int)] = []
    private var waitingBytes = 0
    private var isEnded = false

    /// Beyond these an endless answer is cut off: its reader has stopped reading. The reader gets what is queued and then
    /// an error that says so, so that a gap never looks like silence (MSG-04). One object always fits, and so does the
    /// closing one. What is made of the node's own memory only when it is read counts by number alone.
    static let maximumItems = 16_384
    static let maximumBytes = 4 << 20
    static let fellBehind = NodeError(
        "fellBehind",
        "this reader fell more than \(maximumItems) objects or \(maximumBytes >> 20) MiB behind and was cut off",
        hint: "ask again; starling inbox --count tells how many messages were dropped", exit: 1)

    enum Next {
        case object(JSONValue)
        case end
        /// Nothing came within the time.
        case nothing
    }

    init() {
        unsafe pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        unsafe pthread_condattr_init(&attributes)
        unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        unsafe pthread_cond_init(condition, &attributes)
        unsafe pthread_condattr_destroy(&attributes)
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe pthread_mutex_destroy(mutex)
        unsafe condition.deallocate()
        unsafe mutex.deallocate()
    }

    /// False when the queue is full or has ended.
    @discardableResult
    func append(_ item: ControlReply.Item) -> Bool {
        unsafe pthread_mutex_lock(mutex)
        defer {
            unsafe pthread_cond_signal(condition)
            unsafe pthread_mutex_unlock(mutex)
        }
        switch item {
        case .end(let closing):
            guard !isEnded else { return false }
            isEnded = true
            items.append(({ closing }, 0))
        case .object(let value):
            let size = value.approximateByteCount
            guard hasRoom, waitingBytes == 0 || waitingBytes + size <= Self.maximumBytes else { return false }
            waitingBytes += size
            items.append(({ value }, size))
        case .later(let make):
            guard hasRoom else { return false }
            items.append((make, 0))
        }
        return true
    }

    private var hasRoom: Bool { items.count < Self.maximumItems && !isEnded }

    /// Blocks for the next object, at most `seconds`.
    func next(within seconds: Int) -> Next {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        var limit = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &limit)
        limit.tv_sec += seconds
        while items.isEmpty {
            if isEnded { return .end }
            if unsafe pthread_cond_timedwait(condition, mutex, &limit) == ETIMEDOUT { return .nothing }
        }
        let item = items.removeFirst()
        waitingBytes -= item.byteCount
        return .object(item.make())
    }
}

extension JSONValue {
    /// About what it occupies in memory: its texts, and a little for each value. Bytes.
    fileprivate var approximateByteCount: Int {
        switch self {
        case .string(let text): 32 + text.utf8.count
        case .array(let values): values.reduce(32) { $0 + $1.approximateByteCount }
        case .object(let members): members.reduce(32) { $0 + $1.name.utf8.count + $1.value.approximateByteCount }
        default: 32
        }
    }
}
