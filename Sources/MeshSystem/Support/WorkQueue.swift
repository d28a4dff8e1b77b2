/// A place where blocking work runs in order, one piece at a time, away from the event loop. Simulations run it on
/// virtual time.
public protocol WorkQueue: AnyObject, Sendable {
    /// Appends `work`. Any thread. Unbounded on purpose: a write that was promised must not be dropped; whoever posts
    /// reads `pendingCount` and holds back.
    func run(_ work: @escaping @Sendable () -> Void)
    /// Pieces of work posted and not yet finished.
    var pendingCount: Int { get }
}

/// Where a node's storage work runs: three queues, so that nothing short ever waits behind something long.
public struct StorageQueues: Sendable {
    /// Settings, records, chunks: milliseconds a piece.
    public var prompt: any WorkQueue
    /// Whole contents hashed or synced for the journal.
    public var contents: any WorkQueue
    /// A person's files, copied in or out: minutes, if large.
    public var files: any WorkQueue

    public init(prompt: any WorkQueue, contents: any WorkQueue, files: any WorkQueue) {
        self.prompt = prompt
        self.contents = contents
        self.files = files
    }
}
