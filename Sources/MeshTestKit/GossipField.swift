import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// What one message did in a field.
public struct FieldDelivery: Hashable, Sendable {
    /// How many accepted it, the author not counted.
    public var reached: Int
    /// From its writing to the acceptance by the last of them, by the median one.
    public var last: TimeSpan
    public var median: TimeSpan
}

/// What a field measured.
public struct FieldReport: Hashable, Sendable {
    public var nodeCount: Int
    public var deliveries: [FieldDelivery]
    /// Copies beyond the first, per acceptance, over the messages counted.
    public var redundancy: Double
    /// Bytes on links per acceptance, everything included.
    public var bytesPerDelivery: Double
    public var messagesOnLinks: Int
}

/// A large mesh of gossip machines alone, on virtual time: no sessions, no sockets, no ciphers on the links, everybody
/// admitted from the start. Nodes lie on a plane; each is linked with its four nearest and four others, and a message
/// takes as long as the distance says: 5 to 69 ms.
public final class GossipField {
    private struct Node {
        var identity: NodeIdentity
        var gossip: Gossip
        var x: Double
        var y: Double
        var links: [Int] = []
        /// The wake-up that counts; earlier ones on the queue are void.
        var wakeAt: Int64 = .max
    }

    private var nodes: [Node] = []
    private var indexOfPeer: [PeerID: Int] = [:]
    private var queue = FieldQueue()
    private var random: RandomStream
    private var outbox = Outbox<GossipOutput>()
    private(set) var now: Int64 = 1_000_000_000
    private var writtenAt: [RecordID: Int64] = [:]
    private var acceptedAt: [RecordID: [Int64]] = [:]
    private var bytesOnLinks = 0
    private var messagesOnLinks = 0
    /// One in so many messages on links is lost for `recovery` and then arrives: 0 is never.
    public var loss = 0.0
    public var recovery = TimeSpan.milliseconds(40)

    static let near = 4
    static let far = 4
    private static let shortest = 5.0
    private static let longest = 69.0

    /// `count` members, linked; nothing has happened yet. Cost: `count`² signatures are checked, 36 µs each.
    public init(count: Int, seed: UInt64) throws {
        random = RandomStream(testSeed: seed ^ 0x6669_656c_6400)
        let secret = GroupSecret(secret: random.secret())
        var configuration = GossipConfiguration()
        configuration.maximumRecordsPerAuthor = max(configuration.maximumRecordsPerAuthor, 4 * count)
        for index in 0..<count { add(index, configuration) }
        let records = try admitAll(secret)
        let mesh = nodes[0].gossip.meshID
        for index in 1..<count {
            if let mesh { nodes[index].gossip.setMesh(mesh) }
            nodes[index].gossip.setEpochSecrets([secret])
            _ = nodes[index].gossip.restore(records)
        }
        link()
        let everybody = nodes.map(\.identity.peerID)
        for index in nodes.indices {
            let others = everybody.filter { $0 != nodes[index].identity.peerID }
            try submit(.membersChanged(others, lives: [:]), to: index)
        }
        acceptedAt = [:]
    }

    private func add(_ index: Int, _ configuration: GossipConfiguration) {
        let identity = NodeIdentity(
            signing: SigningKeyPair(seed: random.secret()), incarnation: Incarnation(random.uint64()))
        indexOfPeer[identity.peerID] = index
        nodes.append(
            Node(
                identity: identity,
                gossip: Gossip(identity: identity, configuration: configuration, random: random.split()),
                x: random.unit(), y: random.unit()))
    }

    private func admitAll(_ secret: GroupSecret) throws -> [[UInt8]] {
        let body = GenesisBody(nonce: Bytes32(random.bytes(32)) ?? .zero, journalKey: .zero, label: "field")
        try submit(.found(body, secret: secret, token: nil), to: 0)
        for index in nodes.indices.dropFirst() {
            let body = AdmitBody(subject: nodes[index].identity.peerID, secretID: secret.id, name: "node\(index)")
            try submit(.publish(.admit, body: body.encoded, token: nil), to: 0)
        }
        return nodes[0].gossip.records
    }

    // MARK: Links

    /// One way, milliseconds.
    private func distance(_ left: Int, _ right: Int) -> Double {
        let (dx, dy) = (nodes[left].x - nodes[right].x, nodes[left].y - nodes[right].y)
        return Self.shortest + (Self.longest - Self.shortest) * min(1, (dx * dx + dy * dy).squareRoot() / 1.4143)
    }

    private func link() {
        for index in nodes.indices {
            let others = nodes.indices.filter { $0 != index }
            let nearest = others.sorted { distance(index, $0) < distance(index, $1) }.prefix(Self.near)
            for other in nearest { connect(index, other) }
            for _ in 0..<(Self.far / 2) { connect(index, others[random.below(others.count)]) }
        }
    }

    private func connect(_ left: Int, _ right: Int) {
        guard !nodes[left].links.contains(right) else { return }
        nodes[left].links.append(right)
        nodes[right].links.append(left)
        for (one, other) in [(left, right), (right, left)] {
            let peer = nodes[other].identity
            nodes[one].gossip.linkUp(peer.peerID, peer.incarnation, at: HostTime(nanoseconds: now), into: &outbox)
            finish(one)
        }
    }

    // MARK: Running

    private func submit(_ command: GossipCommand, to index: Int) throws {
        try nodes[index].gossip.submit(command, at: HostTime(nanoseconds: now), into: &outbox)
        finish(index)
    }

    /// Carries out what node `index` wants, and notes when it wants to be woken.
    private func finish(_ index: Int) {
        for output in outbox.items {
            switch output {
            case .send(let bytes, let peer, _, let isReliable): transmit(bytes, from: index, to: peer, isReliable)
            case .recordAccepted(let record): acceptedAt[record.id, default: []].append(now)
            default: break
            }
        }
        outbox.removeAll()
        guard let deadline = nodes[index].gossip.nextDeadline?.nanoseconds, deadline < nodes[index].wakeAt else {
            return
        }
        nodes[index].wakeAt = max(deadline, now)
        queue.add(FieldQueue.Item(at: nodes[index].wakeAt, order: 0, to: index, from: -1, bytes: []))
    }

    private func transmit(_ bytes: [UInt8], from index: Int, to peer: PeerID, _ isReliable: Bool) {
        guard let other = indexOfPeer[peer] else { return }
        messagesOnLinks += 1
        bytesOnLinks += bytes.count
        var delay = Int64(distance(index, other) * 1e6)
        if loss > 0, random.unit() < loss {
            guard isReliable else { return }
            delay += recovery.nanoseconds
        }
        queue.add(FieldQueue.Item(at: now + delay, order: 0, to: other, from: index, bytes: bytes))
    }

    public func run(for span: TimeSpan) {
        let end = now + span.nanoseconds
        while let next = queue.next, next <= end {
            guard let item = queue.takeFirst() else { break }
            now = max(now, item.at)
            let instant = HostTime(nanoseconds: now)
            if item.from >= 0 {
                let peer = nodes[item.from].identity.peerID
                nodes[item.to].gossip.receive(item.bytes, from: peer, at: instant, into: &outbox)
            } else {
                guard nodes[item.to].wakeAt == item.at else { continue }
                nodes[item.to].wakeAt = .max
                nodes[item.to].gossip.handleDeadline(at: instant, into: &outbox)
            }
            finish(item.to)
        }
        now = end
    }

    /// A record of 64 bytes, written by a node; its id.
    private func write(by index: Int) throws -> RecordID? {
        let before = Set(acceptedAt.keys)
        try submit(.publish(RecordKind(rawValue: 150), body: random.bytes(64), token: nil), to: index)
        let id = acceptedAt.keys.first { !before.contains($0) }
        if let id { writtenAt[id] = now }
        return id
    }

    /// Lets every source of `sources` write `rounds` records, one every 200 ms, and counts the last round: trees have
    /// grown by then.
    public func measure(sources: Int, rounds: Int) throws -> FieldReport {
        let authors = (0..<sources).map { $0 * nodes.count / sources }
        var counted: [RecordID] = []
        var before = (duplicates: 0, accepted: 0, bytes: 0)
        for round in 0..<rounds {
            if round == rounds - 1 { before = totals }
            for author in authors {
                let id = try write(by: author)
                if round == rounds - 1, let id { counted.append(id) }
                run(for: .milliseconds(200))
            }
        }
        run(for: .seconds(2))
        let after = totals
        let accepted = max(1, after.accepted - before.accepted - counted.count)
        return FieldReport(
            nodeCount: nodes.count, deliveries: counted.map(delivery),
            redundancy: Double(after.duplicates - before.duplicates) / Double(accepted),
            bytesPerDelivery: Double(after.bytes - before.bytes) / Double(accepted), messagesOnLinks: messagesOnLinks)
    }

    private var totals: (duplicates: Int, accepted: Int, bytes: Int) {
        let statistics = nodes.map(\.gossip.statistics)
        return (
            statistics.reduce(0) { $0 + $1.recordsDuplicate }, statistics.reduce(0) { $0 + $1.recordsAccepted },
            bytesOnLinks
        )
    }

    private func delivery(_ id: RecordID) -> FieldDelivery {
        let start = writtenAt[id] ?? 0
        let delays = (acceptedAt[id] ?? []).map { $0 - start }.sorted().dropFirst()
        let middle = delays.isEmpty ? 0 : delays[delays.startIndex + delays.count / 2]
        return FieldDelivery(
            reached: delays.count, last: TimeSpan(nanoseconds: delays.last ?? 0),
            median: TimeSpan(nanoseconds: middle))
    }
}

/// What is under way in a field, earliest first; of one instant, in order of sending.
struct FieldQueue {
    struct Item {
        var at: Int64
        var order: UInt64
        var to: Int
        /// −1: a wake-up.
        var from: Int
        var bytes: [UInt8]
    }

    private var heap: [Item] = []
    private var order: UInt64 = 0

    var next: Int64? { heap.first?.at }

    mutating func add(_ item: Item) {
        var item = item
        order += 1
        item.order = order
        heap.append(item)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard isBefore(child, parent) else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func takeFirst() -> Item? {
        guard !heap.isEmpty else { return nil }
        heap.swapAt(0, heap.count - 1)
        let first = heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && isBefore(child, least) {
                least = child
            }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].at, heap[left].order) < (heap[right].at, heap[right].order)
    }
}
