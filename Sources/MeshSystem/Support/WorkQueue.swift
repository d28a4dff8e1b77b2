/// A place where blocking work runs in order, one piece at a time, away from the event loop. Simulations run it on
/// virtual time.
public protocol WorkQueue: AnyObject, Sendable {
    /// Appends `work`. Any thread. Unbounded on purpose: a write that was promised must not be dropped; whoever posts
    /// reads `pendingCount` and holds back.
    func run(_ work: @escaping @Sendable () -> Void)
    /// Pieces of work posted and not yet finished.
    var pendingCount: Int { get }
}
