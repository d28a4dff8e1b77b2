import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// A member that breaks the rules: the session, link and gossip machines of an honest one on a host of a simulated
/// network, and a role that changes what they say, adds to it, and reads what they hear.
///
/// It joins with an invite, proves its key and is admitted like anybody; it has no journal and no clock of the mesh.
public final class HostilePeer: SimulatedProcess {
    public let kind: HostileKind
    public let host: Int
    public let identity: NodeIdentity
    private let clock: SimulatedClock
    private let transport: SimulatedTransport
    private var session: SessionStateMachine
    private var links: LinkTable
    private var gossip: Gossip
    private var role: any HostileRole
    private var hands: HostileHands
    private var sessionOutbox = Outbox<SessionOutput>()
    private var linkOutbox = Outbox<LinkOutput>()
    private var gossipOutbox = Outbox<GossipOutput>()
    private var outgoing: [TransportDatagram] = []
    private var nextActAt: HostTime
    /// While quiet it keeps the rules.
    public var isQuiet = false { didSet { nextActAt = isQuiet ? .distantFuture : clock.now() } }
    private var readAllowedAt = HostTime.distantPast

    /// A newcomer with an invite of the mesh, on a host that no node of the cluster uses.
    public init(
        _ kind: HostileKind, network: SimulatedNetwork, time: SimulatedTime, host: Int, seed: UInt64, invite: Ticket
    ) {
        var random = RandomStream(testSeed: seed ^ 0x686f_7374_696c_6500)
        self.kind = kind
        self.host = host
        identity = NodeIdentity(
            signing: SigningKeyPair(seed: random.secret()), incarnation: Incarnation(random.uint64()))
        clock = SimulatedClock(time: time)
        transport = SimulatedTransport(network: network, host: host, clock: clock)
        var configuration = SessionConfiguration()
        if kind == .tomorrow { configuration.capabilities = .max }
        session = SessionStateMachine(
            identity: identity, name: "hostile\(host)", configuration: configuration, random: random.split())
        links = LinkTable(identity: identity, configuration: LinkConfiguration(), random: random.split())
        gossip = Gossip(identity: identity, configuration: GossipConfiguration(), random: random.split())
        role = kind.makeRole()
        hands = HostileHands(
            identity: identity, mesh: invite.meshID, address: transport.address, random: random.split())
        nextActAt = clock.now() + .seconds(1)
        submit(.localAddressesChanged([transport.address]))
        submit(.join(invite, extraAddresses: []))
        turn()
    }

    /// Members as this one sees them.
    public var members: [Member] { session.members }

    // MARK: The process

    public var wakeInstant: Int64? {
        if transport.isReadable, readAllowedAt <= clock.now() { return .min }
        let deadlines = [session.nextDeadline, links.nextDeadline, gossip.nextDeadline, nextActAt].compactMap(\.self)
        let least = min(deadlines.min() ?? .distantFuture, transport.isReadable ? readAllowedAt : .distantFuture)
        guard least != .distantFuture else { return nil }
        return least <= clock.now() ? .min : clock.trueTime(of: least) + 1
    }

    public func drain() -> Bool {
        guard wakeInstant == .min else { return false }
        turn()
        return true
    }

    private func turn() {
        let now = clock.now()
        receive(at: now)
        if session.nextDeadline.map({ $0 <= now }) == true { session.handleDeadline(at: now, into: &sessionOutbox) }
        if links.nextDeadline.map({ $0 <= now }) == true { links.handleDeadline(at: now, into: &linkOutbox) }
        if gossip.nextDeadline.map({ $0 <= now }) == true { gossip.handleDeadline(at: now, into: &gossipOutbox) }
        settle(at: now)
        if nextActAt <= now { act(at: now) }
        links.flush(at: now, into: &linkOutbox)
        settle(at: now)
        transmit(at: now)
    }

    private func receive(at now: HostTime) {
        if readAllowedAt <= now {
            let limit = isQuiet ? Int.max : role.readLimit
            let count = transport.receive(limit: limit) { datagram, source, receivedAt in
                links.receive(&datagram, from: source, receivedAt: receivedAt, at: now, into: &linkOutbox)
            }
            if count >= limit { readAllowedAt = now + role.readPause }
        }
        let heard = links.takeHeard()
        if !heard.isEmpty { submit(.heard(heard)) }
        _ = transport.receiveBeacons(limit: 64) { bytes, source in submit(.beaconReceived(bytes, from: source)) }
        for address in transport.takeUnreachable() { submit(.unreachable(address)) }
        _ = transport.takeInterfaceChange()
        settle(at: now)
    }

    private func act(at now: HostTime) {
        hands.now = now
        hands.linked = links.linkedPeers
        hands.members = session.members.filter { !$0.isLocal }
        hands.secret = session.epochSecrets.first
        hands.records = gossip.records
        nextActAt = now + role.act(&hands)
        for message in hands.takeMessages() { say(message, at: now) }
        for command in hands.takeCommands() {
            do { try gossip.submit(command, at: now, into: &gossipOutbox) } catch { hands.refusedCommands += 1 }
        }
        settle(at: now)
    }

    private func transmit(at now: HostTime) {
        for (bytes, destination) in hands.takeDatagrams() {
            outgoing.append(TransportDatagram(bytes: bytes, destination: destination))
        }
        guard !outgoing.isEmpty else { return }
        _ = transport.send(outgoing)
        outgoing.removeAll(keepingCapacity: true)
        links.didTransmit(at: now)
    }

    /// Whatever was seen of the network's traffic, for roles that keep it.
    public func overhear(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress) {
        guard source != transport.address else { return }
        role.overhear(bytes, to: destination)
    }

    public func close() { transport.close() }

    // MARK: Between the machines

    private func submit(_ command: SessionCommand) {
        // Told facts are never refused.
        do { try session.submit(command, at: clock.now(), into: &sessionOutbox) } catch { hands.refusedCommands += 1 }
    }

    private func settle(at now: HostTime) {
        while !linkOutbox.isEmpty || !gossipOutbox.isEmpty || !sessionOutbox.isEmpty {
            for output in take(&linkOutbox) { route(output, at: now) }
            for output in take(&gossipOutbox) { route(output, at: now) }
            for output in take(&sessionOutbox) { route(output, at: now) }
        }
    }

    private func take<Output>(_ outbox: inout Outbox<Output>) -> [Output] {
        defer { outbox.removeAll() }
        return outbox.items
    }

    private func route(_ output: LinkOutput, at now: HostTime) {
        switch output {
        case .transmit(let datagram):
            outgoing.append(TransportDatagram(bytes: datagram.bytes, destination: datagram.destination))
        case .established(let link):
            gossip.linkUp(link.peer, link.incarnation, at: now, into: &gossipOutbox)
            submit(.linkEstablished(link))
        case .lost(let peer, let loss):
            gossip.linkDown(peer, at: now, into: &gossipOutbox)
            submit(.linkLost(peer, loss))
        case .received(let numbers, let peer): gossip.received(numbers, by: peer, at: now, into: &gossipOutbox)
        case .message(let channel, let bytes, let peer):
            if !isQuiet { role.hear(channel, bytes, from: peer) }
            if channel == .session { session.receive(bytes, from: peer, at: now, into: &sessionOutbox) }
            if channel == .gossip { gossip.receive(bytes, from: peer, at: now, into: &gossipOutbox) }
        case .moved(let peer, let address): submit(.linkMoved(peer, address))
        case .dialFailed(let request, let failure): submit(.dialFailed(request, failure))
        default: break
        }
    }

    private func route(_ output: GossipOutput, at now: HostTime) {
        switch output {
        case .send(let bytes, let peer, let priority, let isReliable):
            say(
                HostileMessage(.gossip, bytes, to: peer, priority: priority, isReliable: isReliable), at: now,
                isOwn: true)
        case .sendDirect(let bytes, let peer, let number):
            say(HostileMessage(.gossip, bytes, to: peer, priority: .message, receipt: number), at: now, isOwn: true)
        case .recordAccepted(let record):
            links.setMembershipHead(gossip.head)
            submit(.recordAccepted(record))
        case .recordVoided(let id): submit(.recordVoided(id))
        case .voidAdmission(let record): submit(.voidAdmission(record))
        case .publishRefused(let kind, let body, let error): submit(.publishRefused(kind, body: body, error))
        default: break
        }
    }

    private func route(_ output: SessionOutput, at now: HostTime) {
        switch output {
        case .send(let message, let peer, let priority, let isReliable):
            let message = HostileMessage(
                .session, message.encoded, to: peer, priority: priority, isReliable: isReliable)
            say(message, at: now, isOwn: true)
        case .publish(let kind, let body, let token): command(.publish(kind, body: body, token: token), at: now)
        case .adoptMesh(_, let genesis): command(.adopt(genesis: genesis), at: now)
        case .dial(let request): links.dial(request, at: now, into: &linkOutbox)
        case .closeLink(let peer): links.close(peer, at: now, into: &linkOutbox)
        case .setSecrets(let secrets):
            links.setSecrets(secrets)
            gossip.setEpochSecrets(session.epochSecrets)
        case .setMesh(let mesh):
            links.setMesh(mesh)
            gossip.setMesh(mesh)
        case .sendBeacon(let bytes): transport.sendBeacon(bytes)
        case .membersChanged: tellMembers(at: now)
        case .memberLost(let peer): command(.memberLost(peer), at: now)
        default: break
        }
    }

    private func command(_ command: GossipCommand, at now: HostTime) {
        do { try gossip.submit(command, at: now, into: &gossipOutbox) } catch { hands.refusedCommands += 1 }
    }

    private func tellMembers(at now: HostTime) {
        let others = session.members.filter { !$0.isLocal && ($0.state == .alive || $0.state == .suspect) }
        let lives = others.filter { $0.incarnation != Incarnation(0) }.map { ($0.peer, $0.incarnation) }
        command(
            .membersChanged(others.map(\.peer), lives: Dictionary(lives, uniquingKeysWith: { first, _ in first })),
            at: now)
    }

    private func say(_ message: HostileMessage, at now: HostTime, isOwn: Bool = false) {
        let messages = isOwn && !isQuiet ? role.change(message, &hands) : [message]
        for message in messages {
            let outgoing = OutgoingMessage(
                channel: message.channel, payload: message.bytes, priority: message.priority,
                isReliable: message.isReliable, receipt: message.receipt)
            // Without a link, or with a full queue, it stays unsaid.
            do { try links.send(outgoing, to: message.peer, at: now) } catch { hands.unsent += 1 }
        }
    }
}

/// Something on a simulated network that runs when it is drained, as a node does.
public protocol SimulatedProcess: AnyObject {
    /// True time at which it has something to do; `.min` now, `nil` never.
    var wakeInstant: Int64? { get }
    /// Does what is due; `false` when nothing was.
    func drain() -> Bool
    /// Every datagram of the network, as it leaves.
    func overhear(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress)
}
