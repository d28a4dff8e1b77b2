import Glibc

/// A `WorkQueue` on a thread of its own: storage and the hashing of large files, away from the event loop.
@safe public final class StorageThread: WorkQueue, @unchecked Sendable {
    // Sendable: everything is behind `mutex`, except `thread`, which only `stop` touches after `init`.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>
    private var waiting: [@Sendable () -> Void] = []
    private var unfinished = 0
    private var isStopping = false
    private var thread: SystemThread?

    public init(name: String = "starling-store") throws(SystemError) {
        unsafe mutex = .allocate(capacity: 1)
        unsafe condition = .allocate(capacity: 1)
        unsafe pthread_mutex_init(mutex, nil)
        unsafe pthread_cond_init(condition, nil)
        // The thread holds this object until `stop`.
        thread = try SystemThread(name: name) { [self] in work() }
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe pthread_cond_destroy(condition)
        unsafe mutex.deallocate()
        unsafe condition.deallocate()
    }

    /// Three threads, which live as long as the process.
    public static func queues() throws(SystemError) -> StorageQueues {
        StorageQueues(
            prompt: try StorageThread(), contents: try StorageThread(name: "starling-hash"),
            files: try StorageThread(name: "starling-files"))
    }

    /// Work posted after `stop` is not done.
    public func run(_ work: @escaping @Sendable () -> Void) {
        locked {
            guard !isStopping else { return }
            waiting.append(work)
            unfinished += 1
            unsafe pthread_cond_signal(condition)
        }
    }

    public var pendingCount: Int { locked { unfinished } }

    /// Finishes what was posted, then ends the thread. Not from the thread itself.
    public func stop() {
        let running = locked {
            isStopping = true
            unsafe pthread_cond_signal(condition)
            return thread.take()
        }
        running?.join()
    }

    private func locked<Result>(_ body: () -> Result) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return body()
    }

    private func work() {
        while let batch = nextBatch() {
            for piece in batch {
                piece()
                locked { unfinished -= 1 }
            }
        }
    }

    /// `nil` when all is done and the thread shall end.
    private func nextBatch() -> [@Sendable () -> Void]? {
        locked {
            while waiting.isEmpty && !isStopping { unsafe pthread_cond_wait(condition, mutex) }
            defer { waiting = [] }
            return waiting.isEmpty ? nil : waiting
        }
    }
}
