import Glibc
import MeshBase
import MeshSystem
import Synchronization

/// The executor of one simulated node: runs jobs only when it is drained, on the thread that drains it, in the order in
/// which they came. So all of a node happens between two instants of simulated time, the same in every run.
public final class ManualExecutor: NodeExecutor, @unchecked Sendable {
    // Sendable: `state` is behind a lock and `owner` atomic. A simulation is driven by one thread at a time.

    private struct State {
        var jobs: [UnownedJob] = []
        var waiter: ParkedTurn?
        var isWakePending = false
    }

    private let state = Lock(State())
    private let owner = Atomic<UInt>(0)
    private let clock: any HostClock
    /// Whether something is unread, in which case no wait lasts.
    private let isReadable: @Sendable () -> Bool

    public init(clock: any HostClock, isReadable: @escaping @Sendable () -> Bool = { false }) {
        self.clock = clock
        self.isReadable = isReadable
    }

    // MARK: Executor

    public func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        state.withLock { $0.jobs.append(unowned) }
    }

    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { unsafe UnownedSerialExecutor(ordinary: self) }

    private static var currentThread: UInt { UInt(bitPattern: Int(pthread_self())) }
    private var isDraining: Bool { owner.load(ordering: .relaxed) == Self.currentThread }

    public func checkIsolated() { precondition(isDraining, "not within this executor's drain") }
    public func isIsolatingCurrentContext() -> Bool? { isDraining }

    public nonisolated(nonsending) func waitForWork(until deadline: HostTime) async {
        await unsafe withUnsafeContinuation { continuation in
            let waiter = unsafe ParkedTurn(deadline: deadline, continuation: continuation)
            state.withLock { state in
                precondition(state.waiter == nil, "one task alone waits for work")
                state.waiter = waiter
            }
        }
    }

    public func wake() { state.withLock { $0.isWakePending = true } }

    // MARK: Driving

    /// The true instant at which the parked turn goes on; `nil` when it is not parked or waits for ever. One nanosecond
    /// after the deadline, because a host instant falls between two of true time.
    public var wakeInstant: Int64? {
        guard let deadline = state.withLock({ $0.waiter?.deadline }) else { return nil }
        if isReadable() || state.withLock({ $0.isWakePending }) { return .min }
        guard deadline != .distantFuture else { return nil }
        if deadline <= clock.now() { return .min }
        let instant = clock.trueTime(of: deadline)
        return instant == .max ? nil : instant + 1
    }

    /// Runs what is queued, and the parked turn once if it is due. `false` when there was nothing to do.
    public func drain() -> Bool {
        resumeIfDue()
        var didWork = false
        let previous = owner.exchange(Self.currentThread, ordering: .relaxed)
        defer { owner.store(previous, ordering: .relaxed) }
        while true {
            let batch = state.withLock { state in
                defer { state.jobs = [] }
                return state.jobs
            }
            if batch.isEmpty { return didWork }
            didWork = true
            for job in batch {
                unsafe job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            }
        }
    }

    private func resumeIfDue() {
        guard let due = wakeInstant, due == .min else { return }
        let waiter = state.withLock { state -> ParkedTurn? in
            state.isWakePending = false
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
