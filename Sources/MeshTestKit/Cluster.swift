import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// N real nodes in one process on virtual time: the actors, the turn and the machines that a person runs, with the
/// clock, the network, the disk, the entropy and the executor replaced.
///
/// Nothing happens unless the cluster is run, and then in one order only: at each instant every node is drained until
/// it is quiet, then time moves to the next thing that is due. One thread drives a cluster; it is not Sendable.
public final class Cluster {
    public let seed: UInt64
    public let time = SimulatedTime()
    public let network: SimulatedNetwork
    public let nodes: [SimulatedNode]
    /// Changes every node's configuration before it starts.
    public var configure: (inout NodeConfiguration) -> Void = { _ in }
    /// How long a person's file takes to be copied into or out of a node that starts from now on; at most 2 ms by default.
    public var fileCopySpan: TimeSpan?
    /// Instants at which a node would not come to rest: a turn that waits for a deadline which has passed.
    public private(set) var spinCount: UInt64 = 0
    /// Sees everything that happens in the nodes and on the wire.
    public let monitor: InvariantMonitor
    /// What else runs on the network: hostile members and strangers.
    public private(set) var others: [any SimulatedProcess] = []
    /// Which mesh a host belongs to, where there are several.
    public var meshOfHost: (Int) -> Int = { _ in 0 }
    private let startedAt: Int64
    /// Hosts whose process died in the middle of a write.
    private let dying = Lock<[Int]>([])

    /// Turns within one instant after which a node is taken to spin.
    private static let turnLimit = 500
    /// How far time moves on then, nanoseconds, as it would while a processor is busy.
    private static let spinSpan: Int64 = 100_000

    /// Clocks are up to ten days and 100 ppm apart, drawn from the seed.
    public init(seed: UInt64, count: Int) {
        self.seed = seed
        network = SimulatedNetwork(seed: seed, time: time)
        monitor = InvariantMonitor(time: time)
        startedAt = time.now
        var random = RandomStream(testSeed: seed ^ 0x636c_7573_7465_7200)
        nodes = (0..<count).map { index in
            SimulatedNode(
                index: index, seed: random.uint64(), clockOffset: .seconds(Int64(random.below(864_000))),
                clockRatePartsPerMillion: 200 * random.unit() - 100)
        }
        network.setTap { [monitor] source, destination, bytes in
            monitor.observe(bytes, from: source, to: destination)
        }
    }

    /// Adds a process that is no node. From then on it hears of every datagram on the network.
    public func add(_ process: any SimulatedProcess) {
        others.append(process)
        network.setTap { [monitor, heardOnWire] source, destination, bytes in
            monitor.observe(bytes, from: source, to: destination)
            heardOnWire.withLock { heard in
                if heard.count < 64 { heard.append(WireTap(source: source, destination: destination, bytes: bytes)) }
            }
        }
    }

    private struct WireTap: Sendable {
        var source: SocketAddress
        var destination: SocketAddress
        var bytes: [UInt8]
    }

    private let heardOnWire = Lock<[WireTap]>([])

    /// Simulated time since the beginning.
    public var elapsed: TimeSpan { TimeSpan(nanoseconds: time.now - startedAt) }

    private var nameOfID: [String: String] {
        var names: [String: String] = [:]
        for host in nodes { if let id = host.peerID { names[id.shortDescription] = host.name } }
        return names
    }

    /// Members that are no nodes: hostile ones.
    public var foreignMembers: Set<PeerID> {
        Set(others.compactMap { ($0 as? HostilePeer)?.identity.peerID })
    }

    public var running: [SimulatedNode] { nodes.filter(\.isRunning) }

    // MARK: Lives

    /// Starts a node: it returns to the mesh that its disk knows; else it joins with `invite`, or founds a mesh.
    public func start(_ index: Int, invite: String? = nil) throws {
        let host = nodes[index]
        precondition(host.life == nil || !host.isRunning, "\(host.name) runs already")
        finishZombie(host)
        host.storage.reopen()
        host.startCount += 1
        let boot = try NodeBoot.load(storage: host.storage, entropy: host.entropy)
        let life = makeLife(host, boot)
        host.life = life
        host.peerID = boot.identity.peerID
        host.receivedByLife.append([])
        watch(host, life.node)
        let start: NodeStart =
            if let state = boot.state {
                .resume(state)
            } else if let invite {
                .join(try Ticket(text: invite), extraAddresses: [])
            } else {
                .found(label: "simulated")
            }
        try life.node.submit(ControlCall(request: ["verb": "inbox", "follow": true], reply: life.inbox.control))
        launch(life, start, boot)
    }

    private func watch(_ host: SimulatedNode, _ node: Node) {
        let (index, monitor) = (host.index, monitor)
        monitor.register(host: index, mesh: meshOfHost(index), peer: node.identity.peerID)
        monitor.started(index, life: host.startCount)
        node.observe { monitor.observe($0, by: index) }
        host.storage.whenCrashing { [dying] in dying.withLock { $0.append(index) } }
        host.isEndExpected = false
    }

    private func makeLife(_ host: SimulatedNode, _ boot: NodeBoot) -> SimulatedNode.Life {
        let clock = SimulatedClock(
            time: time, offset: host.clockOffset, ratePartsPerMillion: host.clockRatePartsPerMillion)
        let transport = SimulatedTransport(network: network, host: host.index, clock: clock)
        let executor = ManualExecutor(clock: clock) { transport.isReadable }
        let queueSeed = seed &+ UInt64(host.index * 1000 + host.startCount)
        let queues = [
            SimulatedWorkQueue(time: time, seed: queueSeed),
            SimulatedWorkQueue(time: time, seed: queueSeed &+ 1 << 32),
            SimulatedWorkQueue(
                time: time, seed: queueSeed &+ 2 << 32, shortest: fileCopySpan ?? .zero,
                longest: fileCopySpan ?? .milliseconds(2)),
        ]
        var configuration = NodeConfiguration(name: host.name)
        configure(&configuration)
        let environment = Environment(
            clock: clock, entropy: host.entropy, transport: transport, storage: host.storage, executor: executor)
        let (simulated, wallClock) = (time, host.wallClockOffset)
        let node = Node(
            configuration: configuration, environment: environment,
            queues: StorageQueues(prompt: queues[0], contents: queues[1], files: queues[2]), boot: boot
        ) { Double(simulated.now) / 1e9 + wallClock.withLock { $0 } }
        return SimulatedNode.Life(
            node: node, clock: clock, executor: executor, transport: transport, queues: queues, inbox: SimulatedReply(),
            isOver: SimulatedNode.Flag(), end: Lock(nil))
    }

    /// The one unstructured task of the kit: it runs on the node's own executor only, hence only when drained.
    private func launch(_ life: SimulatedNode.Life, _ start: NodeStart, _ boot: NodeBoot) {
        let (node, isOver, end) = (life.node, life.isOver, life.end)
        _ = Task(executorPreference: life.executor) {
            await node.run(start, boot: boot)
            let result = await node.result
            end.withLock { $0 = result }
            isOver.set()
        }
    }

    /// The process dies at once, as by a power cut: nothing more leaves it, and its disk may lose what was not durable.
    public func kill(_ index: Int) {
        let host = nodes[index]
        guard let life = host.life else { return }
        monitor.ended(index, isNoticed: true)
        host.storage.faults.writesUntilCrash = nil
        host.collect(nameOfID)
        life.transport.close()
        for queue in life.queues { queue.close() }
        host.storage.crash()
        finishZombie(host)
    }

    /// Ends the task of a process that is dead to the world, so that its memory is freed: its own clock runs away until
    /// it gives up.
    private func finishZombie(_ host: SimulatedNode) {
        guard let life = host.life.take() else { return }
        life.node.stop()
        for _ in 0..<200 where !life.isOver.isSet {
            while life.executor.drain() {}
            life.clock.jump(by: .seconds(1))
        }
    }

    /// Asks a node to leave politely; it takes simulated time.
    public func leave(_ index: Int) {
        nodes[index].isEndExpected = true
        monitor.ended(index, isNoticed: false)
        nodes[index].life?.node.stop()
    }

    /// Freezes a node for a while: nothing of it runs, its datagrams wait.
    public func freeze(_ index: Int, for span: TimeSpan) {
        guard frozen.insert(index).inserted else { return }
        if span > Self.longestUnnoticedFreeze { monitor.ended(index, isNoticed: true) }
        time.schedule(after: span) { [thaws] in thaws.withLock { $0.append(index) } }
    }

    /// Others should not mind a process that stops for so long.
    static let longestUnnoticedFreeze = TimeSpan.milliseconds(1_000)

    public func isFrozen(_ index: Int) -> Bool { frozen.contains(index) }
    private var frozen: Set<Int> = []
    private let thaws = Lock<[Int]>([])

    // MARK: Time

    /// Runs for a span of simulated time.
    public func run(for span: TimeSpan) { run(until: time.now + max(0, span.nanoseconds)) }

    /// Runs until `condition` holds, which is looked at every 50 ms of simulated time, or as often as is said; `false`
    /// when it never did.
    @discardableResult
    public func run(
        atMost span: TimeSpan, every pause: TimeSpan = .milliseconds(50), until condition: (Cluster) -> Bool
    ) -> Bool {
        let end = time.now + span.nanoseconds
        while !condition(self) {
            guard time.now < end else { return false }
            run(until: min(end, time.now + pause.nanoseconds))
        }
        return true
    }

    private func run(until end: Int64) {
        while true {
            settleInstant()
            let next = nextInstant()
            guard next <= end else { break }
            time.advance(to: max(next, time.now))
        }
        time.advance(to: end)
        let names = nameOfID
        for host in nodes {
            host.collect(names)
            noteEnd(of: host)
        }
    }

    private func nextInstant() -> Int64 {
        var next = time.next ?? .max
        for host in nodes where !frozen.contains(host.index) {
            if let instant = host.life?.executor.wakeInstant { next = min(next, instant) }
        }
        for process in others { if let instant = process.wakeInstant { next = min(next, instant) } }
        return next
    }

    /// A process that ended by itself.
    private func noteEnd(of host: SimulatedNode) {
        guard let end = host.end, !host.isEndExpected, host.life?.isOver.isSet == true else { return }
        host.isEndExpected = true
        monitor.ended(host.index, isNoticed: false)
        if case .failure(let error) = end, Self.expectedEnds.contains(error.code) { return }
        monitor.violate(.survival, "\(host.name) ended by itself: \(end)")
    }

    /// Errors with which a process may end by itself: its identity goes on elsewhere, or its disk kept nothing.
    private static let expectedEnds: Set<String> = ["identityConflict", "storageFailed", "noSpace", "unreachable"]

    /// Everything that happens at this instant, until nothing more does.
    private func settleInstant() {
        var turns = 0
        while true {
            thaw()
            if drainAll() {
                turns += 1
                guard turns < Self.turnLimit else {
                    spinCount += 1
                    time.advance(to: min(time.next ?? .max, time.now + Self.spinSpan))
                    turns = 0
                    continue
                }
                continue
            }
            guard time.runNextDue() else { return }
            for index in dying.withLock({ $0.isEmpty ? [] : Self.takeAll(&$0) }) { kill(index) }
        }
    }

    private func thaw() {
        for index in thaws.withLock({ $0.isEmpty ? [] : Self.takeAll(&$0) }) where frozen.remove(index) != nil {
            if nodes[index].isRunning { monitor.thawed(index) }
        }
    }

    private func drainAll() -> Bool {
        var didWork = false
        for host in nodes where !frozen.contains(host.index) {
            if host.life?.executor.drain() == true { didWork = true }
        }
        guard !others.isEmpty else { return didWork }
        for tapped in heardOnWire.withLock({ $0.isEmpty ? [] : Self.takeAll(&$0) }) {
            for process in others { process.overhear(tapped.bytes, from: tapped.source, to: tapped.destination) }
        }
        for process in others where process.drain() { didWork = true }
        return didWork
    }

    private static func takeAll<Element>(_ values: inout [Element]) -> [Element] {
        defer { values = [] }
        return values
    }

    // MARK: Asking

    /// Sends a control request; the answer comes as time passes. Throws when the node's mailbox is full.
    public func request(_ request: JSONValue, of index: Int) throws(CommandError) -> SimulatedReply {
        let reply = SimulatedReply()
        guard let life = nodes[index].life else { throw .ended }
        try life.node.submit(ControlCall(request: request, reply: reply.control))
        return reply
    }

    /// Sends a control request and runs until it is answered.
    public func answer(
        to request: JSONValue, of index: Int, within span: TimeSpan = .seconds(60)
    ) throws(CommandError) -> SimulatedReply {
        let reply = try self.request(request, of: index)
        run(atMost: span) { _ in reply.isFinished }
        return reply
    }

    /// A new invite of a node, as text.
    public func invite(from index: Int) throws(CommandError) -> String? {
        try answer(to: ["verb": "invite"], of: index).objects.first?["invite"]?.stringValue
    }

    /// What a node knows at this instant; no time passes. `nil` for one that does not run.
    public func snapshot(of index: Int) -> NodeSnapshot? {
        guard let life = nodes[index].life, !life.isOver.isSet, !frozen.contains(index) else { return nil }
        let node = life.node
        let result = Lock<NodeSnapshot?>(nil)
        _ = Task(executorPreference: life.executor) {
            let snapshot = await node.snapshot()
            result.withLock { $0 = snapshot }
        }
        for _ in 0..<100 where result.withLock({ $0 == nil }) { _ = life.executor.drain() }
        return result.withLock { $0 }
    }

    /// Whom a node lists as members; empty for one that does not run.
    public func members(of index: Int) -> [Member] { snapshot(of: index)?.members ?? [] }
}
