public import MeshBase
public import MeshCrypto

/// What must be replaceable, and nothing else: the five seams.
///
/// The Linux versions live beside this file; virtual ones stand in their place in simulations. Everything else in a
/// node is a concrete type.
public struct Environment: Sendable {
    public var clock: any HostClock
    public var entropy: any EntropySource
    public var transport: any DatagramTransport
    public var storage: any NodeStorage
    public var executor: any NodeExecutor

    public init(
        clock: any HostClock, entropy: any EntropySource, transport: any DatagramTransport, storage: any NodeStorage,
        executor: any NodeExecutor
    ) {
        self.clock = clock
        self.entropy = entropy
        self.transport = transport
        self.storage = storage
        self.executor = executor
    }
}

/// The node's own host clock, with whatever offset and rate was injected.
public protocol HostClock: Sendable {
    /// Any thread. Cost: one `clock_gettime`, about 21 ns.
    func now() -> HostTime
    /// The unshifted CLOCK_MONOTONIC instant, in nanoseconds, of a host time. Saturates.
    func trueTime(of time: HostTime) -> Int64
    /// The host time of an unshifted CLOCK_MONOTONIC instant in nanoseconds. Saturates.
    func hostTime(ofTrue nanoseconds: Int64) -> HostTime
    /// For how long the machine slept so far, in all: the time by which this clock, which stands still meanwhile, is
    /// behind. Only ever grows, by more than a second or not at all; exact to a few milliseconds. Any thread. Cost: three
    /// `clock_gettime`.
    func suspendedSpan() -> TimeSpan
}

/// Random bytes fit for keys.
public protocol EntropySource: Sendable {
    /// `count` fresh bytes. Any thread. Throws `entropyUnavailable` and never returns anything weaker.
    func fill(count: Int) throws(SystemError) -> SecretBytes
}

/// Serial executor of the five actors, which can also wait.
public protocol NodeExecutor: SerialExecutor, TaskExecutor {
    /// Suspends the node's turn until a datagram is readable, `wake()` was called, or `deadline` passed. Called by one
    /// task only, on this executor.
    nonisolated(nonsending) func waitForWork(until deadline: HostTime) async
    /// Makes the current or next `waitForWork` return. Any thread; wake-ups that nobody waited for add up to one.
    func wake()
}

/// One datagram to transmit.
public struct TransportDatagram: Hashable, Sendable {
    public var bytes: [UInt8]
    public var destination: SocketAddress

    public init(bytes: [UInt8], destination: SocketAddress) {
        self.bytes = bytes
        self.destination = destination
    }
}

/// What became of one `send`.
public struct SendResult: Hashable, Sendable {
    /// Host time right before the first system call.
    public var startedAt: HostTime
    /// Datagrams the kernel took.
    public var acceptedCount: Int
    /// Datagrams the kernel did not take: no route, larger than the interface carries, queues full. They count as lost.
    public var refusedCount: Int

    public init(startedAt: HostTime, acceptedCount: Int, refusedCount: Int) {
        self.startedAt = startedAt
        self.acceptedCount = acceptedCount
        self.refusedCount = refusedCount
    }
}

/// Unreliable datagrams, in batches, and discovery beacons beside them. All calls on the executor's thread; none
/// blocks for longer than one full send queue (2 ms, counted).
///
/// `waitForWork` returns as long as something is unread: every turn calls `receive`, `receiveBeacons` and
/// `takeInterfaceChange`.
public protocol DatagramTransport: AnyObject, Sendable {
    var localPort: UInt16 { get }
    /// Reads what is there, at most `limit` datagrams, without blocking; calls `body` per datagram with its bytes,
    /// which it may change (datagrams are opened in place), its source, and when the kernel received it. GRO trains are
    /// split. Returns the number of calls.
    func receive(limit: Int, _ body: (inout MutableSpan<UInt8>, SocketAddress, HostTime) -> Void) -> Int
    /// Transmits in order; consecutive datagrams to one destination and of one size (the last may be shorter) go as one
    /// GSO train.
    func send(_ datagrams: [TransportDatagram]) -> SendResult
    /// Multicasts a beacon on every usable interface; does nothing when discovery is off.
    func sendBeacon(_ bytes: [UInt8])
    /// Hands over beacons heard, this node's own among them, at most `limit`; zero when discovery is off. Source ports
    /// are those of beacon senders and say nothing about where the sender's node listens.
    func receiveBeacons(limit: Int, _ body: ([UInt8], SocketAddress) -> Void) -> Int
    /// Addresses at which others may reach this node (unicast, port included), best first; loopback only if there is
    /// nothing else or the node is bound to it; never unspecified.
    func localAddresses() -> [SocketAddress]
    /// Destinations that answered "port unreachable" since the last call; at most 64, later ones are dropped.
    /// A hint: whoever sees the traffic can forge such an answer.
    func takeUnreachable() -> [SocketAddress]
    /// True once after interfaces or addresses changed.
    func takeInterfaceChange() -> Bool
    func statistics() -> TransportStatistics
    /// Gives the sockets back. Later calls do nothing.
    func close()
}

/// Counters of a transport since it was opened.
public struct TransportStatistics: Hashable, Sendable {
    public var receivedDatagrams: UInt64 = 0
    public var receivedBytes: UInt64 = 0
    /// Receiving system calls that returned something.
    public var receiveCalls: UInt64 = 0
    public var sentDatagrams: UInt64 = 0
    public var sentBytes: UInt64 = 0
    public var sendCalls: UInt64 = 0
    /// Datagrams the kernel did not take, for any reason.
    public var refusedDatagrams: UInt64 = 0
    /// Of those: larger than the interface carries.
    public var tooLargeDatagrams: UInt64 = 0
    /// Of those: the send queue stayed full.
    public var queueFullDatagrams: UInt64 = 0
    /// Arrived but dropped by the kernel because this node read too slowly.
    public var overflowDatagrams: UInt64 = 0
    /// Arrived longer than a buffer slot; dropped.
    public var truncatedDatagrams: UInt64 = 0
    public var sentBeacons: UInt64 = 0
    public var receivedBeacons: UInt64 = 0
    /// Whether trains are sent at all; false after the kernel refused the option.
    public var usesSegmentation = false
    /// Routes on which a train failed and datagrams go singly.
    public var routesWithoutSegmentation = 0

    public init() {}
}
