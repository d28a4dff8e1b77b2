import MeshBase
import MeshCrypto
import MeshSystem

/// A storage thread on simulated time: pieces run in order, each after a while, and none after the process died.
public final class SimulatedWorkQueue: WorkQueue {
    private struct State {
        var random: RandomStream
        var freeAt: Int64 = .min
        var pending = 0
        var isClosed = false
    }

    private let time: SimulatedTime
    private let shortest: TimeSpan
    private let longest: TimeSpan
    private let state: Lock<State>

    /// Each piece takes between `shortest` and `longest`, uniform.
    public init(
        time: SimulatedTime, seed: UInt64, shortest: TimeSpan = .zero, longest: TimeSpan = .milliseconds(2)
    ) {
        self.time = time
        self.shortest = shortest
        self.longest = longest
        state = Lock(State(random: RandomStream(testSeed: seed)))
    }

    public func run(_ work: @escaping @Sendable () -> Void) {
        let instant = state.withLock { state -> Int64? in
            guard !state.isClosed else { return nil }
            let start = max(state.freeAt, time.now)
            state.freeAt = start + (shortest + (longest - shortest).scaled(by: state.random.unit())).nanoseconds
            state.pending += 1
            return state.freeAt
        }
        guard let instant else { return }
        time.schedule(at: instant) { [self] in
            let isOpen = state.withLock { state in
                state.pending -= 1
                return !state.isClosed
            }
            if isOpen { work() }
        }
    }

    public var pendingCount: Int { state.withLock { $0.pending } }

    /// The process is gone: what was posted and not done is never done.
    public func close() { state.withLock { $0.isClosed = true } }
}
