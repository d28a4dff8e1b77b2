import Synchronization

/// A descriptor that an event loop watches. Edge-triggered: the loop marks it ready at each arrival, and whoever reads
/// it until there is nothing left marks it drained. Reading and waiting happen on the loop's thread, so no arrival can
/// fall between the two.
public final class EventSource: Sendable {
    public let descriptor: Int32
    /// The number under which the loop knows it.
    let tag: UInt64
    private let ready = Atomic<Bool>(true)

    init(descriptor: Int32, tag: UInt64) {
        self.descriptor = descriptor
        self.tag = tag
    }

    /// There may be something to read. True at first, so that what came before the watching is not missed.
    public var isReady: Bool { ready.load(ordering: .relaxed) }

    func markReady() { ready.store(true, ordering: .relaxed) }

    /// To be called after a read said that there is nothing more.
    public func markDrained() { ready.store(false, ordering: .relaxed) }
}
