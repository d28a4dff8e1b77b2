import Glibc
import MeshBase
import MeshSystem
import Testing

@Suite(.timeLimit(.minutes(10))) struct EventLoopTests {
    private actor Counter {
        nonisolated let loop: EventLoop
        private(set) var value = 0
        init(loop: EventLoop) { self.loop = loop }
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
        func add() { value += 1 }
        func isOnLoop() -> Bool { loop.isOnLoop }
        func addMany(from other: Counter, _ count: Int) async {
            for _ in 0..<count { await other.add() }
        }
    }

    private static func makeLoop(_ clock: any HostClock = MonotonicClock()) throws -> EventLoop {
        let loop = try EventLoop(clock: clock)
        try loop.start()
        return loop
    }

    @Test func `actors on the loop run on its thread`() async throws {
        let loop = try Self.makeLoop()
        let counter = Counter(loop: loop)

        #expect(await counter.isOnLoop())
        #expect(!loop.isOnLoop)
        loop.stop()
    }

    /// As a socket's handler would: not async.
    private static func enter(_ counter: Counter) { counter.assumeIsolated { $0.add() } }

    @Test func `an actor of the loop is entered synchronously from its thread`() async throws {
        let loop = try Self.makeLoop()
        let counter = Counter(loop: loop)

        let isOnLoop = await Task(executorPreference: loop) {
            Self.enter(counter)
            return loop.isOnLoop
        }.value

        #expect(isOnLoop)
        #expect(await counter.value == 1)
        loop.stop()
    }

    @Test func `jobs from many threads all run`() async throws {
        let loop = try Self.makeLoop()
        let counter = Counter(loop: loop)

        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<200 { await counter.add() } } }
        }

        #expect(await counter.value == 1600)
        loop.stop()
    }

    @Test func `actors of one loop reach each other`() async throws {
        let loop = try Self.makeLoop()
        let counter = Counter(loop: loop)

        await Counter(loop: loop).addMany(from: counter, 100)

        #expect(await counter.value == 100)
        loop.stop()
    }

    @Test func `waiting ends at the deadline and not before`() async throws {
        let clock = try #require(MonotonicClock(offsetNanoseconds: 77_000_000_000_000, ratePartsPerMillion: -300))
        let loop = try Self.makeLoop(clock)

        let deadline = clock.now() + .milliseconds(20)
        let end = await Task(executorPreference: loop) {
            await loop.waitForWork(until: deadline)
            return clock.now()
        }.value

        #expect(end >= deadline)
        loop.stop()
    }

    @Test func `a deadline in the past does not wait`() async throws {
        let clock = MonotonicClock()
        let loop = try Self.makeLoop(clock)
        let spent = await Task(executorPreference: loop) {
            let start = clock.now()
            for deadline in [.distantPast, .zero, start, start - .milliseconds(1)] {
                await loop.waitForWork(until: deadline)
            }
            return clock.now() - start
        }.value

        // Anything on a busy machine; a wait for one of these has no end.
        #expect(spent < .seconds(10 as Int64))
        loop.stop()
    }

    @Test func `no wake-up from another thread is lost`() async throws {
        let loop = try Self.makeLoop()
        let seen = Lock(0)

        // Each round: the turn says that it is about to wait, the other side wakes it, before or after it sleeps.
        let turn = Task(executorPreference: loop) {
            for _ in 0..<500 {
                await loop.waitForWork(until: .distantFuture)
                seen.withLock { $0 += 1 }
            }
        }
        let waker = try SystemThread(name: "waker") {
            var last = -1
            while true {
                let now = seen.withLock { $0 }
                if now >= 500 { return }
                if now != last {
                    last = now
                    loop.wake()
                }
                sched_yield()
            }
        }
        await turn.value
        waker.join()

        #expect(seen.withLock { $0 } == 500)
        loop.stop()
    }

    @Test func `a wake-up before the wait ends it at once, and only it`() async throws {
        let clock = MonotonicClock()
        let loop = try Self.makeLoop(clock)

        loop.wake()
        loop.wake()
        let deadline = clock.now() + .milliseconds(10)
        let ends = await Task(executorPreference: loop) {
            await loop.waitForWork(until: .distantFuture)
            await loop.waitForWork(until: deadline)
            return clock.now()
        }.value

        #expect(ends >= deadline)
        loop.stop()
    }

    @Test func `a readable descriptor ends the wait until it is drained`() async throws {
        let clock = MonotonicClock()
        let loop = try Self.makeLoop(clock)
        var ends: [Int32] = [0, 0]
        #expect(unsafe pipe(&ends) == 0)
        let (reader, writer) = (ends[0], ends[1])
        let source = try loop.watch(reader)
        source.markDrained()

        let turn = Task(executorPreference: loop) {
            await loop.waitForWork(until: .distantFuture)
            await loop.waitForWork(until: .distantFuture)
            var byte: UInt8 = 0
            _ = unsafe read(reader, &byte, 1)
            source.markDrained()
            let deadline = clock.now() + .milliseconds(5)
            await loop.waitForWork(until: deadline)
            return clock.now() >= deadline
        }
        var byte: UInt8 = 7
        _ = unsafe write(writer, &byte, 1)

        #expect(await turn.value)
        loop.unwatch(source)
        close(reader)
        close(writer)
        loop.stop()
    }

    @Test func `stopping runs what was queued and ends a wait`() async throws {
        let loop = try Self.makeLoop()
        let done = Lock<[String]>([])
        // Holds the loop, so that the rest is still queued when it is told to stop.
        let isHeld = Lock(true)
        Task(executorPreference: loop) { while isHeld.withLock({ $0 }) { sched_yield() } }
        Task(executorPreference: loop) {
            done.withLock { $0.append("queued") }
            await loop.waitForWork(until: .distantFuture)
            done.withLock { $0.append("wait ended") }
        }
        let release = try SystemThread(name: "release") {
            usleep(20_000)
            isHeld.withLock { $0 = false }
        }

        loop.stop()

        release.join()
        #expect(done.withLock { $0 } == ["queued", "wait ended"])
    }

    @Test func `a spinning loop does the same work`() async throws {
        let loop = try EventLoop(clock: MonotonicClock(), spin: .microseconds(50))
        try loop.start()
        let counter = Counter(loop: loop)

        for _ in 0..<20 { await counter.add() }

        #expect(await counter.value == 20)
        loop.stop()
    }
}

@Suite struct StorageThreadTests {
    @Test func `work runs in order on one thread and stop finishes it`() throws {
        let queue = try StorageThread()
        let order = Lock<[Int]>([])

        for number in 0..<500 { queue.run { order.withLock { $0.append(number) } } }
        queue.stop()

        #expect(order.withLock { $0 } == Array(0..<500))
        #expect(queue.pendingCount == 0)
    }

    @Test func `work posted by work is done too`() throws {
        let queue = try StorageThread()
        let done = Lock(false)

        queue.run { queue.run { done.withLock { $0 = true } } }
        while queue.pendingCount > 0 { sched_yield() }
        queue.stop()

        #expect(done.withLock { $0 })
    }
}
