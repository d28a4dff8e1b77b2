import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// A file for tests: its chunks and the hashes that name it.
struct TestFile {
    static let key = Bytes32([UInt8](repeating: 7, count: 32)) ?? .zero

    let id: ContentID
    let byteCount: UInt64
    let chunks: [[UInt8]]
    let leaves: [Bytes32]
    let name: String

    init(chunkCount: Int, seed: UInt8, lastChunkBytes: Int = WireLimits.chunkBytes, name: String = "file") {
        chunks = (0..<chunkCount).map { index in
            let size = index == chunkCount - 1 ? lastChunkBytes : WireLimits.chunkBytes
            return [UInt8](repeating: seed &+ UInt8(truncatingIfNeeded: index &* 31), count: size)
        }
        byteCount = UInt64(max(chunkCount - 1, 0) * WireLimits.chunkBytes + (chunkCount == 0 ? 0 : lastChunkBytes))
        leaves = chunks.enumerated().map {
            ChunkTree.leaf(key: Self.key, index: UInt64($0.offset), chunk: $0.element.span)
        }
        id = ChunkTree.contentID(key: Self.key, leaves: leaves, byteCount: byteCount) ?? ContentID(.zero)
        self.name = name
    }
}

/// A store in memory that can be full, slow, damaged or broken.
struct TestStore {
    struct Stored {
        var byteCount: UInt64
        var leaves: [Bytes32]
        var chunks: [UInt64: [UInt8]] = [:]
        var isComplete = false
    }

    var contents: [ContentID: Stored] = [:]
    /// Bytes; `nil` for no limit.
    var capacity: UInt64?
    /// Fails every write and begin with this.
    var failure: StorageFailure?
    var finishCount = 0
    var writeCount = 0

    var usedBytes: UInt64 {
        contents.values.reduce(0) { $0 + $1.chunks.values.reduce(0) { $0 + UInt64($1.count) } }
    }

    mutating func keep(_ file: TestFile) {
        var stored = Stored(byteCount: file.byteCount, leaves: file.leaves, isComplete: true)
        for (index, chunk) in file.chunks.enumerated() { stored.chunks[UInt64(index)] = chunk }
        contents[file.id] = stored
    }

    var summaries: [StoredContentSummary] {
        contents.keys.sorted().compactMap { id in
            contents[id].map {
                StoredContentSummary(id: id, byteCount: $0.byteCount, leaves: $0.leaves, isComplete: $0.isComplete)
            }
        }
    }

    mutating func perform(_ request: StorageRequest) -> StorageCompletion {
        switch request {
        case .begin(let id, let byteCount, let leaves):
            if let failure { return .failed(request, failure) }
            if contents[id] == nil { contents[id] = Stored(byteCount: byteCount, leaves: leaves) }
            return .began(id)
        case .reopen(let id):
            contents[id]?.isComplete = false
            return .began(id)
        case .write(let id, let chunk, let bytes):
            writeCount += 1
            if let failure { return .failed(request, failure) }
            if let capacity, usedBytes + UInt64(bytes.count) > capacity {
                let available = capacity - min(capacity, usedBytes)
                return .failed(request, .noSpace(needed: UInt64(bytes.count), available: available))
            }
            guard contents[id] != nil else { return .failed(request, .unreadable) }
            contents[id]?.chunks[chunk] = bytes
            return .wrote(id, chunk: chunk)
        case .read(let id, let chunk, let peer):
            guard let bytes = contents[id]?.chunks[chunk] else { return .failed(request, .unreadable) }
            return .read(id, chunk: chunk, for: peer, bytes: bytes)
        case .finish(let id):
            finishCount += 1
            guard let stored = contents[id], stored.chunks.count == stored.leaves.count else {
                return .failed(request, .corrupt)
            }
            contents[id]?.isComplete = true
            return .finished(id)
        case .remove(let id):
            contents.removeValue(forKey: id)
            return .removed(id)
        case .verify(let id):
            guard let stored = contents[id] else { return .failed(request, .unreadable) }
            return .verified(id, good: stored.leaves.indices.map { stored.isGood(UInt64($0)) })
        }
    }
}

extension TestStore.Stored {
    func isGood(_ chunk: UInt64) -> Bool {
        guard let bytes = chunks[chunk] else { return false }
        return ChunkTree.leaf(key: TestFile.key, index: chunk, chunk: bytes.span) == leaves[Int(chunk)]
    }
}

/// Some journals in one virtual time: links with delay and a bounded queue, uplinks with a bandwidth, stores that
/// answer a little later, and records that reach everybody as gossip would bring them.
///
/// Messages pass through their bytes. Links deliver everything while they live, but with `disorder` late and twice.
struct JournalWorld {
    struct Node {
        var identity: PeerID
        var machine: JournalStateMachine
        var store = TestStore()
        var isUp = true
        /// Raised at every restart: answers for an earlier life are lost.
        var life = 0
        var links: [Int: Int] = [:]
        var records: Set<RecordID> = []
        var uplinkFreeAt = HostTime.zero
        /// Chunk bytes sent, and chunks sent by content.
        var chunksSent = 0
        var queuedBytes: [Int: Int] = [:]
        var events: [ProtocolEvent] = []
        var added: [CommandToken: AttachmentSummary] = [:]
        var removed: Set<CommandToken> = []
        var refused: [CommandToken: CommandError] = [:]
        var settled: [CommandToken: WaitOutcome] = [:]
        /// Bytes a second.
        var uplink = 12_500_000.0
        /// Applied to every message that leaves; `nil` swallows it.
        var tamper: ((JournalMessage) -> JournalMessage?)?
        var configuration: JournalConfiguration
    }

    enum Event {
        case message(from: Int, to: Int, link: Int, bytes: [UInt8])
        case departed(from: Int, to: Int, link: Int, byteCount: Int)
        case storage(Int, life: Int, StorageCompletion)
        case record(Int, AcceptedRecord)
        case sweep(Int, life: Int)
    }

    var nodes: [Node] = []
    var now = HostTime.zero
    var random: RandomStream
    var latency = TimeSpan.milliseconds(2)
    var storageDelay = TimeSpan.microseconds(200)
    /// Chance of a message being late or delivered twice.
    var disorder = 0.0
    var records: [AcceptedRecord] = []
    private var queue: [(time: HostTime, number: Int, event: Event)] = []
    private var nextNumber = 0
    private var nextLink = 0
    private var nextToken: UInt64 = 1
    private static let linkQueueBytes = 1 << 20

    init(nodeCount: Int, seed: UInt64 = 1, configuration: JournalConfiguration = JournalConfiguration()) {
        random = RandomStream(testSeed: seed)
        for _ in 0..<nodeCount { addNode(configuration) }
    }

    @discardableResult
    mutating func addNode(_ configuration: JournalConfiguration = JournalConfiguration()) -> Int {
        let index = nodes.count
        let identity = PeerID(Digest.hash32([UInt8(index), 1, 2, 3]))
        let machine = JournalStateMachine(
            identity: identity, configuration: configuration, random: RandomStream(testSeed: random.uint64()))
        nodes.append(Node(identity: identity, machine: machine, configuration: configuration))
        start(index)
        return index
    }

    private mutating func start(_ node: Int) {
        submit(.setKey(TestFile.key), to: node)
        submit(.restore(nodes[node].store.summaries), to: node)
        for record in records { schedule(.record(node, record), after: .milliseconds(1)) }
        schedule(.sweep(node, life: nodes[node].life), after: .milliseconds(2))
    }

    // MARK: Links and lives

    mutating func connect(_ left: Int, _ right: Int) {
        guard left != right, nodes[left].isUp, nodes[right].isUp, nodes[left].links[right] == nil else { return }
        nextLink += 1
        for (here, there) in [(left, right), (right, left)] {
            nodes[here].links[there] = nextLink
            nodes[here].queuedBytes[there] = 0
        }
        submit(.linkUp(nodes[right].identity), to: left)
        submit(.linkUp(nodes[left].identity), to: right)
    }

    mutating func connectAll() {
        for left in nodes.indices { for right in nodes.indices where left < right { connect(left, right) } }
    }

    mutating func disconnect(_ left: Int, _ right: Int) {
        guard nodes[left].links.removeValue(forKey: right) != nil else { return }
        nodes[right].links.removeValue(forKey: left)
        if nodes[left].isUp { submit(.linkDown(nodes[right].identity), to: left) }
        if nodes[right].isUp { submit(.linkDown(nodes[left].identity), to: right) }
    }

    mutating func kill(_ node: Int) {
        nodes[node].isUp = false
        nodes[node].life += 1
        for other in nodes[node].links.keys.sorted() { disconnect(node, other) }
    }

    /// Comes back with what its store holds.
    mutating func restart(_ node: Int) {
        nodes[node].isUp = true
        nodes[node].records = []
        nodes[node].machine = JournalStateMachine(
            identity: nodes[node].identity, configuration: nodes[node].configuration,
            random: RandomStream(testSeed: random.uint64()))
        start(node)
    }

    // MARK: What people do

    mutating func token() -> CommandToken {
        nextToken += 1
        return CommandToken(nextToken)
    }

    @discardableResult
    mutating func add(_ file: TestFile, at node: Int, note: String = "") -> CommandToken {
        let token = token()
        nodes[node].store.keep(file)
        submit(
            .imported(
                file.id, byteCount: file.byteCount, leaves: file.leaves, name: file.name, note: note, token: token),
            to: node)
        return token
    }

    @discardableResult
    mutating func remove(_ attachment: RecordID, at node: Int) -> CommandToken {
        let token = token()
        submit(.remove(attachment, token: token), to: node)
        return token
    }

    // MARK: What is

    func attachments(_ node: Int) -> [AttachmentSummary] { nodes[node].machine.attachments }

    /// The node says that it has the file. Cheap.
    func shows(_ file: TestFile, _ node: Int) -> Bool {
        nodes[node].store.contents[file.id]?.isComplete == true
            && attachments(node).contains { $0.content == file.id && $0.isPresent }
    }

    /// The node says that it has the file, and its store holds exactly that.
    func has(_ file: TestFile, _ node: Int) -> Bool {
        guard shows(file, node), let stored = nodes[node].store.contents[file.id] else { return false }
        return stored.chunks.count == file.chunks.count && file.chunks.indices.allSatisfy { stored.isGood(UInt64($0)) }
    }

    func count(_ kind: ProtocolEvent.Kind, _ node: Int) -> Int { nodes[node].events.count { $0.kind == kind } }

    // MARK: Time

    /// Runs until `condition` holds; `false` when `span` is over before.
    @discardableResult
    mutating func run(for span: TimeSpan, until condition: (JournalWorld) -> Bool = { _ in false }) -> Bool {
        let end = now + span
        while !condition(self) {
            let deadline = nodes.indices.filter { nodes[$0].isUp }.compactMap { nodes[$0].machine.nextDeadline }.min()
            let next = min(queue.first?.time ?? .distantFuture, deadline ?? .distantFuture)
            guard next <= end else {
                now = end
                return condition(self)
            }
            now = max(now, next)
            if let first = queue.first, first.time <= now {
                perform(popFirst())
            } else {
                wake()
            }
        }
        return true
    }

    private mutating func wake() {
        for index in nodes.indices where nodes[index].isUp {
            guard let deadline = nodes[index].machine.nextDeadline, deadline <= now else { continue }
            var outbox = Outbox<JournalOutput>()
            nodes[index].machine.handleDeadline(at: now, into: &outbox)
            handle(outbox, of: index)
        }
    }

    private mutating func perform(_ event: Event) {
        switch event {
        case .message(let from, let to, let link, let bytes):
            guard nodes[to].isUp, nodes[to].links[from] == link else { return }
            guard let message = try? JournalMessage(decoding: bytes) else { return }  // tests may send nonsense
            var outbox = Outbox<JournalOutput>()
            nodes[to].machine.receive(message, from: nodes[from].identity, at: now, into: &outbox)
            handle(outbox, of: to)
        case .departed(let from, let to, let link, let byteCount):
            guard nodes[from].isUp, nodes[from].links[to] == link else { return }
            nodes[from].queuedBytes[to, default: 0] -= byteCount
            let space = Self.linkQueueBytes - nodes[from].queuedBytes[to, default: 0]
            submit(.sendQueueSpace(nodes[to].identity, bytes: space), to: from)
        case .storage(let node, let life, let completion):
            guard nodes[node].isUp, nodes[node].life == life else { return }
            submit(.completion(completion), to: node)
        case .record(let node, let record):
            guard nodes[node].isUp, nodes[node].records.insert(record.id).inserted else { return }
            submit(.recordAccepted(record), to: node)
        case .sweep(let node, let life):
            guard nodes[node].isUp, nodes[node].life == life else { return }
            submit(.sweepOrphans, to: node)
        }
    }

    mutating func submit(_ command: JournalCommand, to node: Int) {
        var outbox = Outbox<JournalOutput>()
        try? nodes[node].machine.submit(command, at: now, into: &outbox)  // refusals are tested on machines alone
        handle(outbox, of: node)
    }

    private mutating func handle(_ outbox: Outbox<JournalOutput>, of node: Int) {
        for output in outbox.items {
            switch output {
            case .send(let message, let peer, let priority, _): send(message, from: node, to: peer, priority)
            case .storage(let request):
                let completion = nodes[node].store.perform(request)
                schedule(.storage(node, life: nodes[node].life, completion), after: storageDelay)
            case .publish(let kind, let body, _): publish(kind, body, by: node)
            case .added(let token, let summary): nodes[node].added[token] = summary
            case .removed(let token): nodes[node].removed.insert(token)
            case .refused(let token, let error): nodes[node].refused[token] = error
            case .settled(let token, let outcome): nodes[node].settled[token] = outcome
            case .changed: break
            case .event(let event): nodes[node].events.append(event)
            }
        }
    }

    private mutating func publish(_ kind: RecordKind, _ body: [UInt8], by node: Int) {
        let lamport = UInt64(records.count + 1)
        let record = AcceptedRecord(
            id: RecordID(Digest.hash32(body + [UInt8(node), UInt8(truncatingIfNeeded: lamport)])), kind: kind,
            author: nodes[node].identity, incarnation: Incarnation(UInt64(nodes[node].life)), sequence: lamport,
            lamport: lamport, body: body)
        records.append(record)
        for other in nodes.indices {
            schedule(.record(other, record), after: other == node ? .microseconds(10) : latency * 2)
        }
    }

    private mutating func send(_ message: JournalMessage, from node: Int, to peer: PeerID, _ priority: Priority) {
        guard let target = nodes.firstIndex(where: { $0.identity == peer }), let link = nodes[node].links[target] else {
            return
        }
        var message = message
        if let tamper = nodes[node].tamper {
            guard let changed = tamper(message) else { return }
            message = changed
        }
        let bytes = message.encoded
        var delay = latency
        if case .chunk = message { nodes[node].chunksSent += 1 }
        if priority == .attachment {
            let start = max(nodes[node].uplinkFreeAt, now)
            let end = start + TimeSpan.seconds(Double(bytes.count) / nodes[node].uplink)
            nodes[node].uplinkFreeAt = end
            nodes[node].queuedBytes[target, default: 0] += bytes.count
            schedule(.departed(from: node, to: target, link: link, byteCount: bytes.count), after: end - now)
            delay = delay + (end - now)
        }
        if disorder > 0, random.unit() < disorder { delay = delay + .milliseconds(Int64(random.below(40))) }
        schedule(.message(from: node, to: target, link: link, bytes: bytes), after: delay)
        if disorder > 0, random.unit() < disorder / 2 {
            schedule(.message(from: node, to: target, link: link, bytes: bytes), after: delay + .milliseconds(7))
        }
    }

    // MARK: The queue of events: a heap

    private mutating func schedule(_ event: Event, after delay: TimeSpan) {
        queue.append((now + delay, nextNumber, event))
        nextNumber += 1
        var child = queue.count - 1
        while child > 0, isBefore(child, (child - 1) / 2) {
            queue.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func popFirst() -> Event {
        let event = queue[0].event
        queue.swapAt(0, queue.count - 1)
        queue.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < queue.count && isBefore(child, least) {
                least = child
            }
            if least == parent { return event }
            queue.swapAt(parent, least)
            parent = least
        }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (queue[left].time, queue[left].number) < (queue[right].time, queue[right].number)
    }
}
