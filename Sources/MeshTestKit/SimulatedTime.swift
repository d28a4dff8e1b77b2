import MeshBase
import MeshSystem

/// The one time line of a simulation, and everything that will happen on it: a discrete-event queue ordered by
/// (instant, order of scheduling), so that one seed gives one run.
///
/// Instants are nanoseconds of true time, which node clocks are functions of. Nothing here waits.
public final class SimulatedTime: Sendable {
    private struct Entry {
        var instant: Int64
        var order: UInt64
        var action: @Sendable () -> Void
    }

    private struct State {
        var now: Int64
        var order: UInt64 = 0
        /// A binary heap: the least (instant, order) first.
        var heap: [Entry] = []
    }

    private let state: Lock<State>

    /// Starts late enough that no instant is zero, which the wire uses for "none".
    public init(startingAt nanoseconds: Int64 = 1_000_000_000_000) {
        state = Lock(State(now: nanoseconds))
    }

    /// True time now, nanoseconds.
    public var now: Int64 { state.withLock { $0.now } }

    /// The instant of the next thing scheduled; `nil` when there is none.
    public var next: Int64? { state.withLock { $0.heap.first?.instant } }

    /// Runs `action` at `instant`, or now if that has passed; after everything scheduled before for that instant.
    public func schedule(at instant: Int64, _ action: @escaping @Sendable () -> Void) {
        state.withLock { state in
            state.order += 1
            Self.push(Entry(instant: max(instant, state.now), order: state.order, action: action), &state.heap)
        }
    }

    public func schedule(after span: TimeSpan, _ action: @escaping @Sendable () -> Void) {
        schedule(at: now + max(0, span.nanoseconds), action)
    }

    /// Moves time on; never back.
    public func advance(to instant: Int64) { state.withLock { $0.now = max($0.now, instant) } }

    /// Runs the next thing that is due now; `false` when nothing is.
    public func runNextDue() -> Bool {
        let action = state.withLock { state -> (@Sendable () -> Void)? in
            guard let first = state.heap.first, first.instant <= state.now else { return nil }
            Self.popFirst(&state.heap)
            return first.action
        }
        action?()
        return action != nil
    }

    private static func isBefore(_ left: Entry, _ right: Entry) -> Bool {
        (left.instant, left.order) < (right.instant, right.order)
    }

    private static func push(_ entry: Entry, _ heap: inout [Entry]) {
        heap.append(entry)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard isBefore(heap[child], heap[parent]) else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    private static func popFirst(_ heap: inout [Entry]) {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                if isBefore(heap[child], heap[least]) { least = child }
            }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
