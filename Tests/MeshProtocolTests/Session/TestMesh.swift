import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// N session machines on one virtual clock, with links, dialling, gossip of records and beacons played by the test.
///
/// Links: a dial succeeds when an address belongs to a running node that holds the secret and can be reached. Reliable
/// messages always arrive while both ends live and can reach each other; others may be lost. A frozen node's messages
/// wait; a dead node's vanish, with a port-unreachable hint when `givesHints`.
final class TestMesh {
    final class Node {
        let index: Int
        let signing: SigningKeyPair
        var machine: SessionStateMachine
        var address: SocketAddress
        var incarnation: Incarnation
        var isRunning = true
        var isFrozen = false
        /// Linked peers' node indices by the incarnation on the other end.
        var links: [Int: Incarnation] = [:]
        var heardAt: [Int: HostTime] = [:]
        /// Links that go through a third node.
        var relays: [Int: Int] = [:]
        var punchedAt: [Int: HostTime] = [:]
        var records: [AcceptedRecord] = []
        var recordIDs: Set<RecordID> = []
        var hasEpoch = false
        /// Records of others do not reach it.
        var isDeafToRecords = false
        var saved: SessionState?
        var outputs: [SessionOutput] = []
        var events: [(at: HostTime, event: ProtocolEvent)] = []
        var backlog: [(inout SessionStateMachine, HostTime, inout Outbox<SessionOutput>) -> Void] = []
        var dialCount = 0
        var dialled: [DialRequest] = []
        var meshID: MeshID?
        var genesis: [UInt8] = []
        var generation = 0

        init(
            index: Int, signing: SigningKeyPair, machine: SessionStateMachine, address: SocketAddress,
            incarnation: Incarnation
        ) {
            self.index = index
            self.signing = signing
            self.machine = machine
            self.address = address
            self.incarnation = incarnation
        }

        var peer: PeerID { signing.peerID }

        func count(_ kind: ProtocolEvent.Kind, about peer: PeerID? = nil) -> Int {
            events.count { $0.event.kind == kind && (peer == nil || $0.event.subject == peer) }
        }

        func state(of other: Node) -> Member.State? { machine.members.first { $0.peer == other.peer }?.state }
    }

    private struct Event {
        var at: HostTime
        var order: Int
        var action: () -> Void
    }

    private(set) var now = HostTime(nanoseconds: 1_000_000_000)
    private(set) var nodes: [Node] = []
    private var queue: [Event] = []
    private var order = 0
    private var random: RandomStream
    var configuration = SessionConfiguration()
    var latency = TimeSpan.milliseconds(2)
    /// Fraction of the unreliable messages that is lost.
    var loss = 0.0
    var multicastLoss = 0.0
    var givesHints = false
    var hasMulticast = false
    /// Whether beacons pass from one node to another, where datagrams do.
    var beaconReaches: (Int, Int) -> Bool = { _, _ in true }
    /// Extra delay of one message.
    var delay: (Int, Int, SessionMessage) -> TimeSpan = { _, _, _ in .zero }
    /// Whether datagrams pass from one node to another.
    var reaches: (Int, Int) -> Bool = { _, _ in true }
    /// Pairs that reach each other only when both dial within a quarter of a second.
    var needsPunch: (Int, Int) -> Bool = { _, _ in false }
    /// What others see of a node behind a translator that lets everybody in.
    var seenAs: [Int: SocketAddress] = [:]
    private var lamport: UInt64 = 0
    private var tokens: UInt64 = 0

    init(seed: UInt64 = 1) { random = RandomStream(testSeed: seed) }

    // MARK: Nodes

    @discardableResult
    func add(name: String? = nil, signing: SigningKeyPair? = nil, address: SocketAddress? = nil) -> Node {
        let index = nodes.count
        let key = signing ?? SigningKeyPair(seed: random.secret())
        let incarnation = Incarnation(random.uint64())
        let address = address ?? .ipv4(10, 0, UInt8(index / 250), UInt8(index % 250 + 1), port: 47_800)
        let machine = SessionStateMachine(
            identity: NodeIdentity(signing: key, incarnation: incarnation), name: name ?? "node\(index)",
            configuration: configuration, random: random.split())
        let node = Node(index: index, signing: key, machine: machine, address: address, incarnation: incarnation)
        nodes.append(node)
        submit(node, .localAddressesChanged([address]))
        return node
    }

    /// A first node with a mesh of its own.
    @discardableResult
    func found(name: String? = nil) -> Node {
        let node = add(name: name)
        submit(node, .found(label: "test"))
        return node
    }

    func ticket(_ node: Node) -> Ticket { node.machine.invites[0].ticket! }

    func join(_ node: Node, _ ticket: Ticket) { submit(node, .join(ticket, extraAddresses: [])) }

    /// A mesh of `count` nodes, settled.
    static func settled(_ count: Int, seed: UInt64 = 1, prepare: (TestMesh) -> Void = { _ in }) -> TestMesh {
        let mesh = TestMesh(seed: seed)
        prepare(mesh)
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        for _ in 1..<count { mesh.join(mesh.add(), mesh.ticket(founder)) }
        mesh.run(.seconds(4 as Int64))
        return mesh
    }

    /// kill -9: nothing more comes from it.
    func kill(_ node: Node) {
        node.isRunning = false
        node.generation += 1
        node.links = [:]
        node.backlog = []
    }

    /// The same node again: its state, key and records, but a new process life.
    func restart(_ node: Node, state: SessionState? = nil) {
        kill(node)
        node.incarnation = Incarnation(random.uint64())
        node.machine = SessionStateMachine(
            identity: NodeIdentity(signing: node.signing, incarnation: node.incarnation), name: "node\(node.index)",
            configuration: configuration, random: random.split())
        node.isRunning = true
        node.isFrozen = false
        for record in node.records { submit(node, .recordAccepted(record)) }
        submit(node, .localAddressesChanged([node.address]))
        if let state = state ?? node.saved { submit(node, .resume(state)) }
    }

    func freeze(_ node: Node) { node.isFrozen = true }

    /// `losingBacklog`: nothing was kept for it meanwhile, as after a suspend.
    func thaw(_ node: Node, losingBacklog: Bool = false) {
        node.isFrozen = false
        let backlog = losingBacklog ? [] : node.backlog
        node.backlog = []
        for action in backlog { perform(node, action) }
    }

    func nextToken() -> CommandToken {
        tokens += 1
        return CommandToken(tokens)
    }

    @discardableResult
    func submit(_ node: Node, _ command: SessionCommand) -> CommandError? {
        var outbox = Outbox<SessionOutput>()
        var failure: CommandError?
        do throws(CommandError) { try node.machine.submit(command, at: now, into: &outbox) } catch { failure = error }
        route(outbox, of: node)
        return failure
    }

    private func perform(
        _ node: Node, _ action: @escaping (inout SessionStateMachine, HostTime, inout Outbox<SessionOutput>) -> Void
    ) {
        guard node.isRunning else { return }
        guard !node.isFrozen else {
            node.backlog.append(action)
            return
        }
        var outbox = Outbox<SessionOutput>()
        action(&node.machine, now, &outbox)
        route(outbox, of: node)
    }

    // MARK: Time

    func run(_ span: TimeSpan) { run(until: now + span) }

    /// Runs until `condition` holds; the time it took, or `nil` when `limit` passed without it.
    func run(limit: TimeSpan, until condition: () -> Bool) -> TimeSpan? {
        let start = now
        while now - start < limit {
            if condition() { return now - start }
            run(.milliseconds(10))
        }
        return condition() ? now - start : nil
    }

    private func run(until end: HostTime) {
        while true {
            let deadline = nodes.filter { $0.isRunning && !$0.isFrozen }
                .compactMap { node in node.machine.nextDeadline.map { (at: $0, index: node.index) } }
                .min { ($0.at, $0.index) < ($1.at, $1.index) }
            let event = queue.first
            if let event, event.at <= end, event.at <= deadline?.at ?? .distantFuture {
                queue.removeFirst()
                now = max(now, event.at)
                event.action()
            } else if let deadline, deadline.at <= end {
                now = max(now, deadline.at)
                perform(nodes[deadline.index]) { $0.handleDeadline(at: $1, into: &$2) }
            } else {
                break
            }
        }
        now = end
        expireLinks()
    }

    private func schedule(after span: TimeSpan, _ action: @escaping () -> Void) {
        let at = now + span
        order += 1
        var low = 0
        var high = queue.count
        while low < high {
            let middle = (low + high) / 2
            if queue[middle].at <= at { low = middle + 1 } else { high = middle }
        }
        queue.insert(Event(at: at, order: order, action: action), at: low)
    }

    private func expireLinks() {
        for node in nodes where node.isRunning && !node.isFrozen {
            for other in node.links.keys.sorted() where now - (node.heardAt[other] ?? now) > .seconds(30 as Int64) {
                node.links[other] = nil
                submit(node, .linkLost(nodes[other].peer, .timedOut))
            }
        }
    }

    // MARK: Outputs

    private func route(_ outbox: Outbox<SessionOutput>, of node: Node) {
        for output in outbox.items {
            switch output {
            case .send(let message, let peer, _, let isReliable):
                send(message, from: node, to: peer, isReliable: isReliable)
            case .publish(let kind, let body, _): publish(kind, body, by: node)
            case .foundMesh(let body, _):
                node.hasEpoch = true
                let header = body.encoded
                let id = RecordID(Digest.hash32(header))
                node.genesis = header + [UInt8](repeating: 7, count: Signature.byteCount)
                accept(makeRecord(id, .genesis, header, node), at: node)
                submit(node, .setGenesis(node.genesis))
            case .adoptMesh:
                node.hasEpoch = true
                for other in node.links.keys.sorted() { synchronize(nodes[other], node) }
            case .dial(let request): dial(request, from: node)
            case .closeLink(let peer): if let other = index(of: peer, linkedTo: node) { cut(node, nodes[other]) }
            case .setMesh(let mesh): node.meshID = mesh
            case .sendBeacon(let bytes): beacon(bytes, from: node)
            case .persist(let state): node.saved = state
            case .event(let event): node.events.append((now, event))
            default: break
            }
            node.outputs.append(output)
        }
    }

    private func index(of peer: PeerID, linkedTo node: Node) -> Int? {
        node.links.keys.sorted().first { nodes[$0].peer == peer }
    }

    private func send(_ message: SessionMessage, from node: Node, to peer: PeerID, isReliable: Bool) {
        guard let other = index(of: peer, linkedTo: node) else { return }
        // Every message crosses the codec, as on the wire.
        let bytes = message.encoded
        let life = node.links[other]
        let isLost = !isReliable && random.unit() < loss
        deliver(
            bytes, from: node, to: other, life: life, after: latency + delay(node.index, other, message),
            isReliable: isReliable, isLost: isLost)
    }

    private func deliver(
        _ bytes: [UInt8], from node: Node, to other: Int, life: Incarnation?, after span: TimeSpan, isReliable: Bool,
        isLost: Bool
    ) {
        let sender = node.incarnation
        schedule(after: span) { [self] in
            let target = nodes[other]
            guard passes(node.index, other) else {
                // A reliable message is sent again while the link lives.
                guard isReliable, node.isRunning, node.links[other] == life else { return }
                return deliver(
                    bytes, from: node, to: other, life: life, after: .milliseconds(500), isReliable: true,
                    isLost: false)
            }
            guard target.isRunning else {
                guard givesHints, node.isRunning else { return }
                let address = target.address
                return schedule(after: latency) { [self] in
                    perform(node) { try? $0.submit(.unreachable(address), at: $1, into: &$2) }
                }
            }
            guard !isLost, target.links[node.index] == sender, target.incarnation == life else { return }
            let peer = node.peer
            target.heardAt[node.index] = now
            perform(target) { $0.receive(bytes, from: peer, at: $1, into: &$2) }
        }
    }

    // MARK: Links

    private func dial(_ request: DialRequest, from node: Node) {
        node.dialCount += 1
        node.dialled.append(request)
        let life = node.incarnation
        if request.isPunch, let other = nodes.first(where: { $0.peer == request.expectedPeer }) {
            node.punchedAt[other.index] = now
        }
        schedule(after: latency * 2) { [self] in
            guard node.isRunning, !node.isFrozen, node.incarnation == life else { return }
            let target = nodes.first { other in
                other.index != node.index && other.peer != node.peer && other.isRunning && !other.isFrozen
                    && request.addresses.contains { $0.hasHostAndPort(of: other.address) }
                    && reaches(node.index, other.index) && reaches(other.index, node.index)
                    && isOpen(node, other)
                    && other.meshID == node.meshID && mayOpen(request.secretID, node, other)
                    && (request.expectedPeer == nil || request.expectedPeer == other.peer)
            }
            if target == nil, let (target, relay) = throughRelay(request, from: node) {
                return link(node, target, secret: request.secretID, relay: relay)
            }
            guard let target else {
                perform(node) { try? $0.submit(.dialFailed(request, .noAnswer), at: $1, into: &$2) }
                return
            }
            link(node, target, secret: request.secretID)
        }
    }

    private func isOpen(_ node: Node, _ other: Node) -> Bool {
        guard needsPunch(node.index, other.index) else { return true }
        guard let one = node.punchedAt[other.index], let two = other.punchedAt[node.index] else { return false }
        return now - one < .milliseconds(250) && now - two < .milliseconds(250)
    }

    private func throughRelay(_ request: DialRequest, from node: Node) -> (Node, Int)? {
        guard let target = nodes.first(where: { $0.peer == request.expectedPeer && $0.isRunning }) else { return nil }
        let relay = nodes.first { other in
            request.relays.contains(other.peer) && other.isRunning && other.relays.isEmpty
                && [node.index, target.index].allSatisfy { end in
                    other.links[end] != nil && reaches(end, other.index) && reaches(other.index, end)
                }
        }
        return relay.map { (target, $0.index) }
    }

    private func passes(_ from: Int, _ to: Int) -> Bool {
        guard let relay = nodes[from].relays[to] else { return reaches(from, to) }
        return nodes[relay].isRunning && reaches(from, relay) && reaches(relay, to)
    }

    private func mayOpen(_ secret: SecretID, _ node: Node, _ other: Node) -> Bool {
        if holds(secret, other), holds(secret, node) { return true }
        guard let mesh = node.meshID else { return false }
        return PairSecret.between(node.signing, other.peer, mesh: mesh)?.id == secret
    }

    private func holds(_ secret: SecretID, _ node: Node) -> Bool {
        for output in node.outputs.reversed() {
            if case .setSecrets(let secrets) = output { return secrets.contains { $0.id == secret } }
        }
        return false
    }

    /// A finished handshake: takes the place of whatever link the two had, and of one with another life of the key.
    func link(_ node: Node, _ target: Node, secret: SecretID, relay: Int? = nil) {
        for (one, other, role) in [(node, target, LinkIdentity.Role.initiator), (target, node, .responder)] {
            let clones = one.links.keys.sorted().filter { nodes[$0].peer == other.peer && $0 != other.index }
            for clone in clones {
                one.links[clone] = nil
                submit(one, .linkLost(other.peer, .replaced))
            }
            if let known = one.links[other.index], known != other.incarnation {
                submit(one, .linkLost(other.peer, .replaced))
            }
            one.links[other.index] = other.incarnation
            one.heardAt[other.index] = now
            one.relays[other.index] = relay
            let address = relay == nil ? seenAs[other.index] ?? other.address : Self.inside
            var identity = LinkIdentity(
                peer: other.peer, incarnation: other.incarnation, secretID: secret, role: role, address: address,
                membershipHead: .zero)
            identity.relay = relay.map { nodes[$0].peer }
            submit(one, .linkEstablished(identity))
        }
        synchronize(node, target)
        synchronize(target, node)
    }

    /// Stands for a path through a member.
    static let inside = SocketAddress(family: .ipv6, high: SocketAddress.discardPrefix, low: 1, port: 1)

    /// A link that one side closes.
    func cut(_ node: Node, _ other: Node) {
        guard node.links.removeValue(forKey: other.index) != nil else { return }
        submit(node, .linkLost(other.peer, .closedHere))
        let life = node.incarnation
        schedule(after: latency) { [self] in
            guard other.isRunning, other.links[node.index] == life, node.links[other.index] == nil else { return }
            other.links[node.index] = nil
            submit(other, .linkLost(node.peer, .closedByPeer))
        }
    }

    // MARK: Records

    private func makeRecord(_ id: RecordID, _ kind: RecordKind, _ body: [UInt8], _ node: Node) -> AcceptedRecord {
        lamport += 1
        return AcceptedRecord(
            id: id, kind: kind, author: node.peer, incarnation: node.incarnation, sequence: lamport, lamport: lamport,
            body: body)
    }

    private func publish(_ kind: RecordKind, _ body: [UInt8], by node: Node) {
        let record = makeRecord(RecordID(Bytes32(random.bytes(32))!), kind, body, node)
        schedule(after: .zero) { [self] in accept(record, at: node) }
    }

    /// A record that anybody might have made, for tests of what is believed.
    func inject(_ kind: RecordKind, _ body: [UInt8], author: Node, at node: Node) {
        accept(makeRecord(RecordID(Bytes32(random.bytes(32))!), kind, body, author), at: node)
    }

    private func accept(_ record: AcceptedRecord, at node: Node) {
        guard node.isRunning, node.recordIDs.insert(record.id).inserted else { return }
        node.records.append(record)
        perform(node) { try? $0.submit(.recordAccepted(record), at: $1, into: &$2) }
        for other in node.links.keys.sorted() { synchronize(node, nodes[other]) }
    }

    /// Everything `source` has goes to `target`, in order.
    private func synchronize(_ source: Node, _ target: Node) {
        guard source.hasEpoch, target.hasEpoch, !target.isDeafToRecords,
            target.links[source.index] == source.incarnation
        else { return }
        let missing = source.records.filter { !target.recordIDs.contains($0.id) }
        guard !missing.isEmpty else { return }
        let life = target.incarnation
        schedule(after: latency) { [self] in
            guard target.isRunning, target.incarnation == life else { return }
            guard reaches(source.index, target.index) else {
                return schedule(after: .milliseconds(500)) { [self] in synchronize(source, target) }
            }
            for record in missing { accept(record, at: target) }
        }
    }

    /// Anti-entropy over every link.
    func synchronizeAll() {
        for node in nodes { for other in node.links.keys.sorted() { synchronize(node, nodes[other]) } }
    }

    // MARK: Beacons

    private func beacon(_ bytes: [UInt8], from node: Node) {
        guard hasMulticast else { return }
        for other in nodes where other.index != node.index && other.isRunning && reaches(node.index, other.index) {
            guard random.unit() >= multicastLoss, beaconReaches(node.index, other.index) else { continue }
            let source = node.address.with(port: Beacon.port)
            schedule(after: latency) { [self] in
                perform(other) { try? $0.submit(.beaconReceived(bytes, from: source), at: $1, into: &$2) }
            }
        }
    }

    // MARK: Questions

    /// Every running node sees every other running node alive, and nobody sees a stranger.
    var isWhole: Bool {
        let running = nodes.filter { $0.isRunning }
        return running.allSatisfy { node in
            running.allSatisfy { node.state(of: $0) == .alive }
        }
    }

    var isFullyLinked: Bool {
        let running = nodes.filter(\.isRunning)
        return running.allSatisfy { node in
            running.allSatisfy { $0 === node || node.links[$0.index] == $0.incarnation }
        }
    }
}

extension SocketAddress {
    fileprivate func hasHostAndPort(of other: SocketAddress) -> Bool {
        addressBytes == other.addressBytes && port == other.port
    }
}
