import MeshBase
import MeshCrypto
import MeshWire

@testable import MeshProtocol

/// What the network does to datagrams between two link tables. Virtual time, seeded.
struct PipeFaults {
    var loss = 0.0
    var delay: TimeSpan = .milliseconds(1)
    var jitter: TimeSpan = .zero
    var duplication = 0.0
    var corruption = 0.0
    /// Bytes per second of each direction, and how long its queue may get; `nil` for no limit.
    var bandwidth: Double?
    var queueLimit: TimeSpan = .milliseconds(100)
    /// Larger datagrams vanish.
    var maximumBytes = 65_507
}

/// Some link tables joined by faulty wires.
final class LinkPipe {
    struct Node {
        var table: LinkTable
        var address: SocketAddress
        var clockOffset: TimeSpan = .zero
        /// As told by its table, in the order told.
        var receipts: [UInt64] = []
        var messages: [(channel: Channel, payload: [UInt8], from: PeerID)] = []
        var established: [LinkIdentity] = []
        var lost: [(peer: PeerID, loss: LinkLoss)] = []
        var failures: [DialFailure] = []
        var moved: [SocketAddress] = []
        var samples: [ClockSample] = []
        var events: [ProtocolEvent] = []
        var isSilent = false
        var refusals: [(peer: PeerID, relay: PeerID)] = []
        var peerID: PeerID
    }

    struct Flight {
        var at: HostTime
        var order: Int
        var from: SocketAddress
        var to: SocketAddress
        var bytes: [UInt8]
    }

    var nodes: [Node] = []
    var now = HostTime(nanoseconds: 1_000_000_000)
    var faults = PipeFaults()
    var generator: RandomStream
    /// Every datagram that was handed over, before the network's faults.
    var sent: [Flight] = []
    var keepsSent = true
    var sentCount = 0
    var sentBytes = 0
    var turns = 0
    private var idleTurns = 0
    /// Sees each datagram and may change it; `nil` drops it.
    var tap: ((Flight) -> Flight?)?
    private var flights: [Flight] = []
    private var order = 0
    private var busyUntil: [SocketAddress: HostTime] = [:]

    static let mesh = MeshID(Bytes32(0..<32)!)
    static let secret = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 7, count: 32)))

    init(seed: UInt64 = 1) { generator = RandomStream(testSeed: seed &+ 1000) }

    static func address(_ index: Int) -> SocketAddress {
        .ipv4(10, UInt8(index / 250), UInt8(index % 250), 1, port: 4000)
    }

    static func identity(_ index: Int, incarnation: UInt64? = nil) -> NodeIdentity {
        NodeIdentity(
            signing: SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: UInt8(index + 1), count: 32))),
            incarnation: Incarnation(incarnation ?? UInt64(index + 100)))
    }

    @discardableResult
    func addNode(
        _ index: Int, configuration: LinkConfiguration = LinkConfiguration(), incarnation: UInt64? = nil,
        address: SocketAddress? = nil, secrets: [GroupSecret] = [LinkPipe.secret], seed: UInt64 = 0
    ) -> Int {
        let identity = Self.identity(index, incarnation: incarnation)
        var table = LinkTable(
            identity: identity, configuration: configuration, random: RandomStream(testSeed: UInt64(index) + 1 + seed))
        table.setMesh(Self.mesh)
        table.setSecrets(secrets)
        nodes.append(Node(table: table, address: address ?? Self.address(index), peerID: identity.peerID))
        return nodes.count - 1
    }

    /// Two nodes on default wires.
    static func pair(
        seed: UInt64 = 1, faults: PipeFaults = PipeFaults(), configuration: LinkConfiguration = LinkConfiguration()
    ) -> LinkPipe {
        let pipe = LinkPipe(seed: seed)
        pipe.faults = faults
        pipe.addNode(0, configuration: configuration, seed: seed * 100)
        pipe.addNode(1, configuration: configuration, seed: seed * 100)
        return pipe
    }

    /// Two nodes that are linked.
    static func linkedPair(
        seed: UInt64 = 1, faults: PipeFaults = PipeFaults(), configuration: LinkConfiguration = LinkConfiguration()
    ) -> LinkPipe {
        let pipe = pair(seed: seed, faults: faults, configuration: configuration)
        pipe.dial(0, to: 1)
        pipe.run(until: { pipe.isLinked(0, 1) && pipe.isLinked(1, 0) }, limit: .seconds(20))
        return pipe
    }

    func isLinked(_ from: Int, _ to: Int) -> Bool { nodes[from].table.linkedPeers.contains(nodes[to].peerID) }

    // MARK: Commands

    func hostTime(_ index: Int) -> HostTime { now + nodes[index].clockOffset }

    func dial(_ from: Int, to: Int, named: Bool = true) {
        dial(
            from,
            DialRequest(
                addresses: [nodes[to].address], secretID: Self.secret.id, expectedPeer: named ? nodes[to].peerID : nil))
    }

    func dial(_ from: Int, _ request: DialRequest) {
        var outbox = Outbox<LinkOutput>()
        nodes[from].table.dial(request, at: hostTime(from), into: &outbox)
        take(&outbox, of: from)
    }

    func send(
        _ payload: [UInt8], from: Int, to: Int, priority: Priority = .message, reliable: Bool = true,
        channel: Channel = .gossip
    ) throws {
        try nodes[from].table.send(
            OutgoingMessage(channel: channel, payload: payload, priority: priority, isReliable: reliable),
            to: nodes[to].peerID, at: hostTime(from))
    }

    func close(_ from: Int, _ to: Int, reason: CloseReason = .leaving) {
        var outbox = Outbox<LinkOutput>()
        nodes[from].table.close(nodes[to].peerID, reason: reason, at: hostTime(from), into: &outbox)
        take(&outbox, of: from)
    }

    func flush(_ index: Int) {
        var outbox = Outbox<LinkOutput>()
        nodes[index].table.flush(at: hostTime(index), into: &outbox)
        take(&outbox, of: index)
        nodes[index].table.didTransmit(at: hostTime(index))
    }

    func flushAll() {
        for index in nodes.indices { flush(index) }
    }

    /// Hands bytes to a node as if they had come from `source`; returns what it sent at once.
    @discardableResult
    func inject(_ bytes: [UInt8], into index: Int, from source: SocketAddress) -> [OutgoingDatagram] {
        var outbox = Outbox<LinkOutput>()
        deliver(bytes, to: index, from: source, into: &outbox)
        nodes[index].table.flush(at: hostTime(index), into: &outbox)
        var replies: [OutgoingDatagram] = []
        for item in outbox.items {
            if case .transmit(let datagram) = item { replies.append(datagram) }
        }
        take(&outbox, of: index)
        return replies
    }

    /// A DATA datagram with these frames, sealed under the keys of a link: what a member that lies could send.
    func forge(_ frames: [UInt8], from: Int, to: Int) throws -> [UInt8] {
        guard let slot = nodes[from].table.slot(of: nodes[to].peerID), var link = nodes[from].table.links[slot] else {
            throw CommandError.notConnected
        }
        var bytes: [UInt8] = []
        let generation = link.generations[link.current]
        DataHeader(receiverIndex: generation.remoteIndex, counter: generation.nextCounter).encode(into: &bytes)
        TimingHeader(sendTime: now.nanoseconds, echoSendTime: 0, hold: 0, previousLateness: 0).encode(into: &bytes)
        bytes += frames
        bytes.appendZeros(16)
        _ = link.generations[link.current].seal(&bytes)
        link.detection.append(SentDatagram(isEliciting: false, bytes: 0, sentAt: now))
        nodes[from].table.links[slot] = link
        return bytes
    }

    func link(_ from: Int, _ to: Int) -> SecureLink? { nodes[from].table.link(to: nodes[to].peerID) }

    /// A fragment as it stands in a datagram.
    static func fragment(
        id: UInt64, slot: Int, total: Int, channel: UInt8 = 2, reliable: Bool = true, data: [UInt8]
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        FragmentFrame.append(
            messageID: id, firstSlot: slot, totalBytes: total, channel: channel, isReliable: reliable, data: data[...],
            to: &bytes)
        return bytes
    }

    // MARK: Through others

    /// What the messenger does with these messages, everybody being a member.
    private func takeRelay(_ payload: [UInt8], from peer: PeerID, receivedAt: HostTime, at index: Int) {
        guard let message = try? RelayMessage(decoding: payload) else { return }
        var outbox = Outbox<LinkOutput>()
        switch message {
        case .carry(let datagram, let recipient):
            nodes[index].table.passOn(datagram, from: peer, to: recipient, at: hostTime(index))
        case .carried(let datagram, let sender):
            nodes[index].table.receiveCarried(
                datagram, of: sender, from: peer, receivedAt: receivedAt, at: hostTime(index), into: &outbox)
        case .notCarried(let recipient, _):
            nodes[index].table.relayRefused(to: recipient, by: peer, at: hostTime(index), into: &outbox)
        }
        take(&outbox, of: index)
        flush(index)
    }

    // MARK: Network

    private func deliver(
        _ bytes: [UInt8], to index: Int, from source: SocketAddress, into outbox: inout Outbox<LinkOutput>
    ) {
        var bytes = bytes
        var span = bytes.mutableSpan
        nodes[index].table.receive(
            &span, from: source, receivedAt: hostTime(index), at: hostTime(index), into: &outbox)
    }

    private func take(_ outbox: inout Outbox<LinkOutput>, of index: Int) {
        outbox.drain { output in
            switch output {
            case .transmit(let datagram):
                carry(datagram, from: nodes[index].address)
            case .established(let identity): nodes[index].established.append(identity)
            case .lost(let peer, let loss): nodes[index].lost.append((peer, loss))
            case .message(let channel, let payload, let peer): nodes[index].messages.append((channel, payload, peer))
            case .received(let receipts, _): nodes[index].receipts += receipts
            case .clockSample(_, let sample): nodes[index].samples.append(sample)
            case .moved(_, let address): nodes[index].moved.append(address)
            case .dialFailed(_, let failure): nodes[index].failures.append(failure)
            case .event(let event): nodes[index].events.append(event)
            case .relayMessage(let payload, let peer, let receivedAt):
                takeRelay(payload, from: peer, receivedAt: receivedAt, at: index)
            case .relayRefused(let peer, let relay): nodes[index].refusals.append((peer, relay))
            }
        }
    }

    private func carry(_ datagram: OutgoingDatagram, from source: SocketAddress) {
        order += 1
        var flight = Flight(at: now, order: order, from: source, to: datagram.destination, bytes: datagram.bytes)
        sentCount += 1
        sentBytes += flight.bytes.count
        if keepsSent { sent.append(flight) }
        if let tap {
            guard let kept = tap(flight) else { return }
            flight = kept
        }
        guard flight.bytes.count <= faults.maximumBytes, generator.unit() >= faults.loss else { return }
        var leaves = now
        if let bandwidth = faults.bandwidth {
            let start = max(now, busyUntil[source] ?? now)
            guard start - now <= faults.queueLimit else { return }
            leaves = start + .seconds(Double(flight.bytes.count) / bandwidth)
            busyUntil[source] = leaves
        }
        if generator.unit() < faults.corruption, !flight.bytes.isEmpty {
            flight.bytes[generator.below(flight.bytes.count)] ^= UInt8(1 << generator.below(8))
        }
        let copies = generator.unit() < faults.duplication ? 2 : 1
        for _ in 0..<copies {
            flight.at =
                leaves + faults.delay + .nanoseconds(Int64(Double(faults.jitter.nanoseconds) * generator.unit()))
            insert(flight)
        }
    }

    private func insert(_ flight: Flight) {
        var low = 0
        var high = flights.count
        while low < high {
            let middle = (low + high) / 2
            if flights[middle].at > flight.at { low = middle + 1 } else { high = middle }
        }
        flights.insert(flight, at: low)
    }

    // MARK: Running

    /// Runs until nothing is left to do before `time`.
    func run(for span: TimeSpan) { run(until: { false }, limit: span) }

    func run(until isDone: () -> Bool, limit: TimeSpan) {
        let end = now + limit
        flushAll()
        while !isDone() {
            var next = flights.last?.at ?? .distantFuture
            for index in nodes.indices where !nodes[index].isSilent {
                if let deadline = nodes[index].table.nextDeadline {
                    next = min(next, deadline - nodes[index].clockOffset)
                }
            }
            guard next <= end else { break }
            if next <= now { idleTurns += 1 } else { idleTurns = 0 }
            precondition(idleTurns < 5000, "a deadline that is never met: \(pendingDescription)")
            now = max(now, next)
            turns += 1
            step()
        }
        if !isDone() { now = max(now, end) }
    }

    /// What each link waits for, to find out why a run stands still.
    private var pendingDescription: String {
        var lines: [String] = []
        for node in nodes {
            for case let link? in node.table.links.indices.map({ node.table.links[$0] }) {
                lines.append(
                    """
                    now \(now.nanoseconds) next \(link.nextDeadline.nanoseconds) loss \(String(describing: link.detection.lossTime)) \
                    probe \(String(describing: link.mtu.nextProbeAt)) \(link.canProbe) insured \(String(describing: link.queue.nextInsuranceAt)) \
                    pacing \(link.isPacingBlocked) \(link.pacer.nextTime(from: now).nanoseconds) queue \(link.queue.bytes) \(String(describing: link.queue.nextPriority)) \
                    flight \(link.detection.elicitingInFlight) \(link.detection.bytesInFlight) eliciting at \(link.detection.lastElicitingSentAt.nanoseconds) \
                    timeout \(link.probeTimeout.nanoseconds) x \(link.probeTimeouts) flush \(link.wantsFlush(at: now)) \
                    acks \(link.generations.map { String(describing: $0.acknowledgements.deadline) }) retire \(link.generations.map { String(describing: $0.retiresAt) }) current \(link.current)
                    """)
            }
            lines.append("finals \(node.table.finals.map(\.nextSendAt)) dials \(node.table.dials.count)")
        }
        return lines.joined(separator: "\n")
    }

    private func step() {
        var outboxes = nodes.map { _ in Outbox<LinkOutput>() }
        var busy = Set<Int>()
        while let flight = flights.last, flight.at <= now {
            flights.removeLast()
            guard let index = nodes.firstIndex(where: { $0.address == flight.to && !$0.isSilent }) else { continue }
            deliver(flight.bytes, to: index, from: flight.from, into: &outboxes[index])
            busy.insert(index)
        }
        for index in nodes.indices where !nodes[index].isSilent {
            if let deadline = nodes[index].table.nextDeadline, deadline <= hostTime(index) {
                nodes[index].table.handleDeadline(at: hostTime(index), into: &outboxes[index])
                busy.insert(index)
            }
            guard busy.contains(index) else { continue }
            nodes[index].table.flush(at: hostTime(index), into: &outboxes[index])
            nodes[index].table.didTransmit(at: hostTime(index))
            take(&outboxes[index], of: index)
        }
    }
}
