import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshTestKit
import MeshWire

/// Somebody who holds an invite, makes links, and then says what a test tells it to: never a hello of its own.
final class SilentGuest {
    let identity: NodeIdentity
    /// Whole messages that the members sent it, by channel.
    private(set) var heard: [Channel: [[UInt8]]] = [:]
    private(set) var linked: Set<PeerID> = []
    private let clock: SimulatedClock
    private let transport: SimulatedTransport
    private var links: LinkTable
    private var outbox = Outbox<LinkOutput>()
    private let secret: GroupSecret

    init(of cluster: Cluster, host: Int, invite: String) throws {
        let ticket = try Ticket(text: invite)
        var random = RandomStream(testSeed: UInt64(host) &+ 77)
        identity = NodeIdentity(
            signing: SigningKeyPair(seed: random.secret()), incarnation: Incarnation(random.uint64()))
        clock = SimulatedClock(time: cluster.time)
        transport = SimulatedTransport(network: cluster.network, host: host, clock: clock, hasDiscovery: false)
        secret = GroupSecret(secret: ticket.joinSecret)
        links = LinkTable(identity: identity, configuration: LinkConfiguration(), random: random.split())
        links.setMesh(ticket.meshID)
        links.setSecrets([secret])
    }

    func dial(_ host: Int) {
        let address = SocketAddress.ipv4(10, 0, 0, UInt8(host + 1), port: 47800)
        links.dial(
            DialRequest(addresses: [address], secretID: secret.id, expectedPeer: nil), at: clock.now(), into: &outbox)
        turn()
    }

    func say(_ channel: Channel, _ payload: [UInt8], to peer: PeerID) throws {
        let message = OutgoingMessage(channel: channel, payload: payload, priority: .command, isReliable: true)
        try links.send(message, to: peer, at: clock.now())
        turn()
    }

    func turn() {
        let now = clock.now()
        _ = transport.receive(limit: 4096) { datagram, source, receivedAt in
            links.receive(&datagram, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        }
        if let deadline = links.nextDeadline, deadline <= now { links.handleDeadline(at: now, into: &outbox) }
        links.flush(at: now, into: &outbox)
        var datagrams: [TransportDatagram] = []
        outbox.drain { output in
            switch output {
            case .transmit(let datagram):
                datagrams.append(TransportDatagram(bytes: datagram.bytes, destination: datagram.destination))
            case .established(let link): linked.insert(link.peer)
            case .lost(let peer, _): linked.remove(peer)
            case .message(let channel, let bytes, _): heard[channel, default: []].append(bytes)
            default: break
            }
        }
        guard !datagrams.isEmpty else { return }
        _ = transport.send(datagrams)
        links.didTransmit(at: now)
    }

    /// Runs the cluster and answers on the links as a host does, every 5 ms.
    func run(_ cluster: Cluster, for span: TimeSpan) {
        let end = cluster.elapsed + span
        while cluster.elapsed < end {
            cluster.run(for: .milliseconds(5))
            turn()
        }
    }
}
