import MeshBase
import MeshCrypto
import MeshWire

@testable import MeshProtocol

/// A few gossip machines on virtual time, joined by links as the link layer promises them: sealed, authenticated,
/// unordered; reliable messages arrive while the link lives, sometimes twice; unreliable ones may be lost.
final class GossipNetwork {
    struct Faults {
        var delay: ClosedRange<Int64> = 1...1
        /// Of unreliable messages.
        var loss = 0.0
        /// Of every message.
        var duplication = 0.0
        /// A lost reliable message arrives this much later.
        var recovery: Int64 = 30
    }

    final class Node {
        let identity: NodeIdentity
        var gossip: Gossip
        var accepted: [AcceptedRecord] = []
        var voided: [RecordID] = []
        var muted: [RecordID] = []
        var membership: Membership?
        var secrets: (all: [GroupSecret], safe: [GroupSecret])?
        var voidAdmissions: [AcceptedRecord] = []
        var disk: [RecordID: [UInt8]] = [:]
        var published: [UInt64: RecordID] = [:]
        var messages: [UserMessage] = []
        var outcomes: [UInt64: MessageOutcome] = [:]
        var events: [ProtocolEvent] = []
        var sentMessages = 0
        var sentBytes = 0
        var sentAcknowledgements = 0
        /// Messages whose link was to tell when it has them.
        var receiptsAsked = 0
        /// A stopped process: nothing is handled until it runs again.
        var isFrozen = false
        var frozenInbox: [InFlight] = []

        init(identity: NodeIdentity, gossip: Gossip) {
            self.identity = identity
            self.gossip = gossip
        }

        var id: PeerID { identity.peerID }
        func payloads(from peer: PeerID) -> [[UInt8]] { messages.filter { $0.from == peer }.map(\.payload) }
    }

    struct InFlight {
        let at: HostTime
        let number: Int
        let from: Int
        let to: Int
        let generation: Int
        let bytes: [UInt8]
        /// What the sender is told once this has come over.
        let receipt: UInt64?
    }

    let secret: GroupSecret
    var nodes: [Node] = []
    var now = HostTime(nanoseconds: 1_000_000_000)
    var faults = Faults()
    /// The message of this number is still on its way over every link.
    var lostNumber: UInt64?
    /// Added to what crosses these links, in milliseconds.
    var slowness: [Pair: Int64] = [:]
    var random: RandomStream
    var configuration = GossipConfiguration()
    /// Messages that crossed links so far, and a limit after which every link is cut (for exhaustive cuts).
    var deliveries = 0
    var cutAfterDeliveries: Int?
    var onCut: (() -> Void)?

    private var inFlight: [InFlight] = []
    private var nextNumber = 0
    private var generations: [Pair: Int] = [:]
    private var nextGeneration = 1
    private let seed: UInt64

    struct Pair: Hashable {
        let low: Int
        let high: Int
        init(_ left: Int, _ right: Int) {
            low = min(left, right)
            high = max(left, right)
        }
    }

    init(seed: UInt64, configuration: GossipConfiguration = GossipConfiguration()) {
        self.seed = seed
        self.configuration = configuration
        random = RandomStream(testSeed: seed &* 7_919 &+ 1)
        secret = GroupSecret(secret: random.secret())
    }

    // MARK: Nodes

    @discardableResult
    func addNode(keySeed: UInt64? = nil, incarnation: UInt64? = nil) -> Node {
        let key = RandomStream.testKey(keySeed ?? seed &* 1_000 &+ UInt64(nodes.count) &+ 1)
        let identity = NodeIdentity(signing: key, incarnation: Incarnation(incarnation ?? random.uint64()))
        let gossip = Gossip(identity: identity, configuration: configuration, random: random.split())
        let node = Node(identity: identity, gossip: gossip)
        nodes.append(node)
        return node
    }

    /// `count` nodes of one mesh, unlinked, each knowing who is a member; only the founder has the admissions.
    static func mesh(
        _ count: Int, seed: UInt64, configuration: GossipConfiguration = GossipConfiguration()
    ) throws -> GossipNetwork {
        let network = GossipNetwork(seed: seed, configuration: configuration)
        for _ in 0..<count { network.addNode() }
        try network.found()
        for position in 1..<max(count, 1) { try network.admit(position) }
        network.tellMembers()
        return network
    }

    func found() throws {
        let body = GenesisBody(nonce: Bytes32(random.bytes(32)) ?? .zero, journalKey: .zero, label: "mesh")
        try submit(0, .found(body, secret: secret, token: CommandToken(0)))
    }

    /// The founder (or `by`) publishes an ADMIT, and the newcomer adopts GENESIS as a welcome brings it.
    func admit(_ position: Int, by admitter: Int = 0) throws {
        let body = AdmitBody(subject: nodes[position].id, secretID: secret.id, name: "node \(position)")
        try submit(admitter, .publish(.admit, body: body.encoded, token: nil))
        try adopt(position, from: admitter)
    }

    func adopt(_ position: Int, from member: Int = 0) throws {
        guard let mesh = nodes[member].gossip.meshID, let genesis = nodes[member].gossip.genesis else { return }
        nodes[position].gossip.setMesh(mesh)
        nodes[position].gossip.setEpochSecrets([secret])
        try submit(position, .adopt(genesis: genesis))
    }

    func tellMembers() {
        for position in nodes.indices { tellMembers(to: position) }
    }

    /// All nodes and their present lives, as the session of `position` would say it.
    func tellMembers(to position: Int) {
        let others = nodes.indices.filter { $0 != position }
        try? submit(position, .membersChanged(others.map { nodes[$0].id }, lives: lives(besides: position)))
    }

    func life(_ position: Int) -> ChainKey {
        ChainKey(author: nodes[position].id, incarnation: nodes[position].identity.incarnation)
    }

    func lives(besides position: Int) -> [PeerID: Incarnation] {
        let others = nodes.indices.filter { $0 != position }.map { (nodes[$0].id, nodes[$0].identity.incarnation) }
        return Dictionary(others, uniquingKeysWith: { first, _ in first })
    }

    /// The process dies and starts again with what is on its disk, as a new incarnation.
    func restart(_ position: Int) -> [AcceptedRecord] {
        for other in nodes.indices { disconnect(position, other) }
        let old = nodes[position]
        let identity = NodeIdentity(signing: old.identity.signing, incarnation: Incarnation(random.uint64()))
        var gossip = Gossip(identity: identity, configuration: configuration, random: random.split())
        if let mesh = old.gossip.meshID { gossip.setMesh(mesh) }
        gossip.setEpochSecrets([secret])
        let restored = gossip.restore(old.disk.values.sorted { $0.count < $1.count })
        let node = Node(identity: identity, gossip: gossip)
        node.disk = old.disk
        node.accepted = restored.accepted
        node.voidAdmissions = restored.voidAdmissions
        nodes[position] = node
        tellMembers(to: position)
        for other in nodes.indices where other != position && nodes[other].gossip.memberLives[node.id] != nil {
            nodes[other].gossip.memberLives[node.id] = identity.incarnation
        }
        return restored.accepted
    }

    // MARK: Links

    func connect(_ left: Int, _ right: Int) {
        guard left != right, generations[Pair(left, right)] == nil else { return }
        generations[Pair(left, right)] = nextGeneration
        nextGeneration += 1
        changeLink(left) { [nodes] in $0.linkUp(nodes[right].id, nodes[right].identity.incarnation, at: $1, into: &$2) }
        changeLink(right) { [nodes] in $0.linkUp(nodes[left].id, nodes[left].identity.incarnation, at: $1, into: &$2) }
    }

    func disconnect(_ left: Int, _ right: Int) {
        guard generations.removeValue(forKey: Pair(left, right)) != nil else { return }
        changeLink(left) { [nodes] in $0.linkDown(nodes[right].id, at: $1, into: &$2) }
        changeLink(right) { [nodes] in $0.linkDown(nodes[left].id, at: $1, into: &$2) }
    }

    /// What a link layer tells one gossip alone.
    func changeLink(
        _ position: Int, _ change: (inout Gossip, HostTime, inout Outbox<GossipOutput>) -> Void
    ) {
        var outbox = Outbox<GossipOutput>()
        change(&nodes[position].gossip, now, &outbox)
        perform(outbox, of: position)
    }

    func isConnected(_ left: Int, _ right: Int) -> Bool { generations[Pair(left, right)] != nil }

    func connectFully(_ positions: [Int]? = nil) {
        let list = positions ?? Array(nodes.indices)
        for left in list { for right in list where left < right { connect(left, right) } }
    }

    func connectLine() {
        for position in nodes.indices.dropLast() { connect(position, position + 1) }
    }

    // MARK: Time

    func submit(_ position: Int, _ command: GossipCommand) throws {
        var outbox = Outbox<GossipOutput>()
        defer { perform(outbox, of: position) }
        try nodes[position].gossip.submit(command, at: now, into: &outbox)
    }

    func publish(_ position: Int, _ text: String, token: UInt64 = 0) throws {
        let body = AttachmentAddedBody(content: ContentID(.zero), byteCount: 1, name: text, note: "")
        try submit(position, .publish(.attachmentAdded, body: body.encoded, token: CommandToken(token)))
    }

    func say(
        _ position: Int, _ payload: [UInt8], to recipients: [PeerID]? = nil, mode: DeliveryMode = .reliable,
        deadline: TimeSpan? = nil, token: UInt64 = 0
    ) throws {
        try submit(
            position,
            .sendUserMessage(
                payload: payload, recipients: recipients, mode: mode, deadline: deadline, token: CommandToken(token)))
    }

    /// Bytes that `from` never made, over its link.
    func inject(_ bytes: [UInt8], from: Int, to: Int) {
        var outbox = Outbox<GossipOutput>()
        nodes[to].gossip.receive(bytes, from: nodes[from].id, at: now, into: &outbox)
        perform(outbox, of: to)
    }

    func inject(_ message: GossipMessage, from: Int, to: Int) { inject(message.encoded, from: from, to: to) }

    func run(milliseconds: Int64) {
        let end = now + .milliseconds(milliseconds)
        while let next = nextTime, next <= end {
            now = max(now, next)
            step()
        }
        now = end
    }

    /// Until `condition` holds, at most so long; whether it holds.
    func run(atMost milliseconds: Int64, until condition: () -> Bool) -> Bool {
        let end = now + .milliseconds(milliseconds)
        while !condition() {
            guard let next = nextTime, next <= end else {
                now = end
                return condition()
            }
            now = max(now, next)
            step()
        }
        return true
    }

    private var nextTime: HostTime? {
        let deadlines = nodes.filter { !$0.isFrozen }.compactMap { $0.gossip.nextDeadline }
        return (deadlines + [inFlight.first?.at].compactMap { $0 }).min()
    }

    private func step() {
        if let message = inFlight.first, message.at <= now {
            inFlight.removeFirst()
            deliver(message)
            return
        }
        for position in nodes.indices where !nodes[position].isFrozen {
            guard let deadline = nodes[position].gossip.nextDeadline, deadline <= now else { continue }
            var outbox = Outbox<GossipOutput>()
            nodes[position].gossip.handleDeadline(at: now, into: &outbox)
            perform(outbox, of: position)
        }
    }

    func thaw(_ position: Int) {
        nodes[position].isFrozen = false
        let waiting = nodes[position].frozenInbox
        nodes[position].frozenInbox = []
        for message in waiting { deliver(message) }
    }

    private func deliver(_ message: InFlight) {
        guard generations[Pair(message.from, message.to)] == message.generation else { return }
        if nodes[message.to].isFrozen {
            nodes[message.to].frozenInbox.append(message)
            return
        }
        deliveries += 1
        var outbox = Outbox<GossipOutput>()
        nodes[message.to].gossip.receive(message.bytes, from: nodes[message.from].id, at: now, into: &outbox)
        perform(outbox, of: message.to)
        if let receipt = message.receipt { acknowledge(receipt, of: message) }
        if deliveries == cutAfterDeliveries { onCut?() }
    }

    /// As a link does that has carried a message over.
    private func acknowledge(_ number: UInt64, of message: InFlight) {
        var outbox = Outbox<GossipOutput>()
        nodes[message.from].gossip.received([number], by: nodes[message.to].id, at: now, into: &outbox)
        perform(outbox, of: message.from)
    }

    private func perform(_ outbox: Outbox<GossipOutput>, of position: Int) {
        let node = nodes[position]
        for output in outbox.items {
            switch output {
            case .send(let bytes, let peer, _, let isReliable):
                node.sentMessages += 1
                node.sentBytes += bytes.count
                if case .acknowledgement = try? GossipMessage(decoding: bytes) { node.sentAcknowledgements += 1 }
                transmit(bytes, from: position, to: peer, isReliable: isReliable)
            case .sendDirect(let bytes, let peer, let number):
                node.sentMessages += 1
                node.sentBytes += bytes.count
                node.receiptsAsked += 1
                if number == lostNumber { continue }
                transmit(bytes, from: position, to: peer, isReliable: true, receipt: number)
            case .sendUnreliable(let bytes, let peer, _):
                node.sentMessages += 1
                node.sentBytes += bytes.count
                transmit(bytes, from: position, to: peer, isReliable: false)
            case .recordAccepted(let record): node.accepted.append(record)
            case .recordVoided(let id): node.voided.append(id)
            case .recordMuted(let id, _): node.muted.append(id)
            case .membership(let membership): node.membership = membership
            case .epochSecrets(let all, let safe): node.secrets = (all, safe)
            case .voidAdmission(let record): node.voidAdmissions.append(record)
            case .persist(let id, let bytes): node.disk[id] = bytes
            case .published(let token, let id): node.published[token.value] = id
            case .publishRefused: break
            case .userMessage(let message): node.messages.append(message)
            case .userMessages(let batch): node.messages.append(contentsOf: batch.messages)
            case .messageSettled(let token, let outcome): node.outcomes[token.value] = outcome
            case .event(let event): node.events.append(event)
            }
        }
    }

    private func transmit(
        _ bytes: [UInt8], from: Int, to peer: PeerID, isReliable: Bool, receipt: UInt64? = nil
    ) {
        guard
            let to = nodes.firstIndex(where: {
                $0.id == peer && generations[Pair(from, nodes.firstIndex(of: $0))] != nil
            })
        else { return }
        var delay =
            faults.delay.lowerBound + Int64(random.below(Int(faults.delay.upperBound - faults.delay.lowerBound + 1)))
        delay += slowness[Pair(from, to)] ?? 0
        if faults.loss > 0, random.unit() < faults.loss {
            guard isReliable else { return }
            delay += faults.recovery
        }
        enqueue(bytes, from: from, to: to, delay: delay, receipt: receipt)
        if faults.duplication > 0, random.unit() < faults.duplication {
            enqueue(bytes, from: from, to: to, delay: delay + Int64(random.below(20)))
        }
    }

    private func enqueue(_ bytes: [UInt8], from: Int, to: Int, delay: Int64, receipt: UInt64? = nil) {
        guard let generation = generations[Pair(from, to)] else { return }
        let message = InFlight(
            at: now + .milliseconds(delay), number: nextNumber, from: from, to: to, generation: generation,
            bytes: bytes, receipt: receipt)
        nextNumber += 1
        var low = 0
        var high = inFlight.count
        while low < high {
            let middle = (low + high) / 2
            if inFlight[middle].at <= message.at { low = middle + 1 } else { high = middle }
        }
        inFlight.insert(message, at: low)
    }

    // MARK: Judgement

    /// Every node holds the same records, tells the same digest and the same total order.
    func haveConverged(_ positions: [Int]? = nil) -> Bool {
        let list = positions ?? Array(nodes.indices)
        guard let first = list.first else { return true }
        return list.allSatisfy { nodes[$0].gossip.head == nodes[first].gossip.head }
            && list.allSatisfy { nodes[$0].gossip.records == nodes[first].gossip.records }
    }
}

extension [GossipNetwork.Node] {
    func firstIndex(of node: GossipNetwork.Node) -> Int { firstIndex { $0 === node } ?? -1 }
}

extension RandomStream {
    /// A key pair that depends on the number alone.
    static func testKey(_ seed: UInt64) -> SigningKeyPair {
        var stream = RandomStream(testSeed: seed)
        return SigningKeyPair(seed: stream.secret())
    }

    mutating func shuffle<Element>(_ list: [Element]) -> [Element] {
        var result = list
        for position in stride(from: result.count - 1, to: 0, by: -1) {
            result.swapAt(position, below(position + 1))
        }
        return result
    }
}
