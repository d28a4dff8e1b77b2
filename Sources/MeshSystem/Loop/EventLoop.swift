import CMeshSystem
import Glibc
public import MeshBase
import Synchronization

/// One thread that is at once an epoll loop and the executor of every actor pinned to it.
///
/// Actors on the same loop reach each other without a thread crossing (20 ns instead of 10 to 20 µs), so a batch of
/// datagrams passes through all of a node's actors between two system calls. Wake-ups are never lost: jobs, wake-ups
/// and the note that the thread sleeps are one state under one lock, and the bell is an eventfd, which remembers.
///
/// After `stop()` jobs no longer run: end every task of the loop first.
public final class EventLoop: NodeExecutor, @unchecked Sendable {
    // Sendable: `shared`, `sources` and `owner` are synchronised; `waiter`, `batch` and `tags` are touched only by the
    // loop's thread (`waitForWork` checks that it runs there).
    private struct Shared {
        var jobs: [UnownedJob] = []
        var isAsleep = false
        var isWakePending = false
        var isStopping = false
    }

    private struct Sources {
        var watched: [EventSource] = []
        var nextTag: UInt64 = 1
    }

    private let clock: any HostClock
    private let name: String
    private let spin: TimeSpan
    private let poller: Int32
    private let bell: Int32
    private let shared = Lock(Shared())
    private let sources = Lock(Sources())
    private let owner = Atomic<UInt>(0)
    private let thread = Lock<SystemThread?>(nil)
    private var waiter: ParkedTurn?
    private var batch: [UnownedJob] = []
    private var tags = [UInt64](repeating: 0, count: 64)

    private static let bellTag: UInt64 = 0
    /// Batches of jobs run one after the other before the sockets are looked at again.
    private static let batchesPerPoll = 16

    /// `spin`: how long the thread keeps polling after its last work before it sleeps; zero where several nodes share
    /// cores. It buys about 15 µs of latency for a whole core while traffic flows.
    public init(clock: any HostClock, name: String = "starling-loop", spin: TimeSpan = .zero) throws(SystemError) {
        self.clock = clock
        self.name = name
        self.spin = spin
        poller = try checked(mesh_poller_create(), "epoll_create1")
        do throws(SystemError) {
            bell = try checked(mesh_bell_create(), "eventfd")
        } catch {
            _ = mesh_close(poller)
            throw error
        }
        // Told of each ring, not of the count: nobody has to read the bell.
        _ = mesh_poller_add(poller, bell, Self.bellTag, 1)
    }

    deinit {
        _ = mesh_close(poller)
        _ = mesh_close(bell)
    }

    /// Starts the thread. Call once.
    public func start() throws(SystemError) {
        let started = try SystemThread(name: name) { [self] in run() }
        thread.withLock { $0 = started }
    }

    /// Ends the loop after the jobs already queued and waits for its thread. Not from the loop itself.
    public func stop() {
        precondition(!isOnLoop, "an event loop cannot wait for its own end")
        let ring = shared.withLock { state in
            state.isStopping = true
            return Self.takeAsleep(&state)
        }
        if ring { mesh_bell_ring(bell) }
        let running = thread.withLock { $0.take() }
        running?.join()
    }

    /// Whether the caller runs on the loop's thread.
    public var isOnLoop: Bool { owner.load(ordering: .relaxed) == UInt(bitPattern: Int(pthread_self())) }

    // MARK: Descriptors

    /// Watches a descriptor; `waitForWork` returns while it is ready. Any thread.
    public func watch(_ descriptor: Int32) throws(SystemError) -> EventSource {
        let source = sources.withLock { state in
            let source = EventSource(descriptor: descriptor, tag: state.nextTag)
            state.nextTag += 1
            state.watched.append(source)
            return source
        }
        let result = mesh_poller_add(poller, descriptor, source.tag, 1)
        guard result == 0 else {
            sources.withLock { $0.watched.removeAll { $0 === source } }
            throw .callFailed(call: "epoll_ctl", errorNumber: -result)
        }
        return source
    }

    /// Ends the watching; before the descriptor is closed. Any thread.
    public func unwatch(_ source: EventSource) {
        sources.withLock { $0.watched.removeAll { $0 === source } }
        // The descriptor may be closed already; then the kernel has forgotten it by itself.
        _ = mesh_poller_remove(poller, source.descriptor)
    }

    // MARK: Executor

    public func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        let ring = shared.withLock { state in
            state.jobs.append(unowned)
            return Self.takeAsleep(&state)
        }
        if ring { mesh_bell_ring(bell) }
    }

    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { unsafe UnownedSerialExecutor(ordinary: self) }

    public func checkIsolated() { precondition(isOnLoop, "not on this event loop's thread") }

    public func isIsolatingCurrentContext() -> Bool? { isOnLoop }

    // MARK: Waiting

    public nonisolated(nonsending) func waitForWork(until deadline: HostTime) async {
        precondition(isOnLoop, "only the node's turn, on this loop, may wait for work")
        precondition(waiter == nil, "one task alone waits for work")
        await unsafe withUnsafeContinuation { continuation in
            unsafe waiter = ParkedTurn(deadline: deadline, continuation: continuation)
        }
    }

    public func wake() {
        let ring = shared.withLock { state in
            state.isWakePending = true
            return Self.takeAsleep(&state)
        }
        if ring { mesh_bell_ring(bell) }
    }

    /// Whether the thread sleeps and must be rung for; whoever learns it rings, once.
    private static func takeAsleep(_ state: inout Shared) -> Bool {
        defer { state.isAsleep = false }
        return state.isAsleep
    }

    // MARK: The loop

    private func run() {
        owner.store(UInt(bitPattern: Int(pthread_self())), ordering: .relaxed)
        // The kernel otherwise fires up to 50 µs late.
        mesh_set_timer_slack(1)
        var lastWork = clock.now()
        while true {
            let didWork = runJobs()
            if didWork { lastWork = clock.now() }
            guard let patience = patience(lastWork: lastWork) else { break }
            poll(nanoseconds: patience)
            resumeWaiterIfDue()
        }
        owner.store(0, ordering: .relaxed)
    }

    private func runJobs() -> Bool {
        var didWork = false
        for _ in 0..<Self.batchesPerPoll {
            shared.withLock { swap(&$0.jobs, &batch) }
            if batch.isEmpty { break }
            didWork = true
            for job in batch {
                unsafe job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            }
            batch.removeAll(keepingCapacity: true)
        }
        return didWork
    }

    /// How long the thread may sleep in nanoseconds, negative for ever; `nil` to end. Notes under the lock that it
    /// sleeps, so that whoever adds something later rings.
    private func patience(lastWork: HostTime) -> Int64? {
        let isSpinning = spin > .zero && clock.now().since(lastWork) < spin
        let isAnythingReady = waiter != nil && sources.withLock { $0.watched.contains { $0.isReady } }
        let limit: Int64 =
            if isSpinning || isAnythingReady {
                0
            } else if let waiter {
                remaining(until: waiter.deadline)
            } else {
                -1
            }
        return shared.withLock { state -> Int64? in
            if !state.jobs.isEmpty { return 0 }
            if state.isStopping { return waiter == nil ? nil : 0 }
            if waiter != nil && state.isWakePending { return 0 }
            state.isAsleep = limit != 0
            return limit
        }
    }

    private func remaining(until deadline: HostTime) -> Int64 {
        if deadline == .distantFuture { return -1 }
        let now = mesh_monotonic_nanoseconds()
        let (left, overflow) = clock.trueTime(of: deadline).subtractingReportingOverflow(now)
        if overflow { return deadline < .zero ? 0 : -1 }
        return max(left, 0)
    }

    private func poll(nanoseconds: Int64) {
        let ready = unsafe tags.withUnsafeMutableBufferPointer { buffer in
            unsafe mesh_poller_wait(poller, buffer.baseAddress!, Int32(buffer.count), nanoseconds)
        }
        // An error here is ours: a bad descriptor or address.
        precondition(ready >= 0, "epoll_pwait2 failed: errno \(-ready)")
        shared.withLock { $0.isAsleep = false }
        guard ready > 0 else { return }
        for tag in tags[..<Int(ready)] where tag != Self.bellTag {
            sources.withLock { $0.watched.first { $0.tag == tag }?.markReady() }
        }
    }

    private func resumeWaiterIfDue() {
        guard let waiter else { return }
        let isSignalled = shared.withLock { state in
            let isSignalled = state.isWakePending || state.isStopping
            state.isWakePending = false
            return isSignalled
        }
        let isReady = isSignalled || sources.withLock { $0.watched.contains { $0.isReady } }
        guard isReady || clock.now() >= waiter.deadline else { return }
        self.waiter = nil
        waiter.resume()
    }
}
