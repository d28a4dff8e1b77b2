import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// One end of a bare link over a real socket: the link table on its event loop, without the machines above.
actor LinkPeer {
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let loop: EventLoop
    private let socket: DatagramSocket
    private let clock = MonotonicClock()
    private var table: LinkTable
    private var outbox = Outbox<LinkOutput>()
    private(set) var receivedBytes = 0
    private var peer: PeerID?
    private var isStopping = false
    /// Kept queued for the peer while set.
    private var load: OutgoingMessage?

    nonisolated let address: SocketAddress

    init(seed: UInt8, secret: GroupSecret, datagramByteCount: Int?) throws {
        loop = try EventLoop(clock: clock)
        socket = try DatagramSocket(
            options: TransportOptions(port: 0, bindAddresses: [.loopback(port: 0)], discovery: false), clock: clock,
            loop: loop)
        address = .loopback(port: socket.localPort)
        let identity = NodeIdentity(
            signing: SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: seed, count: 32))),
            incarnation: Incarnation(UInt64(seed)))
        var configuration = LinkConfiguration()
        if let datagramByteCount { configuration.maximumDatagramBytes = datagramByteCount }
        table = LinkTable(
            identity: identity, configuration: configuration, random: RandomStream(testSeed: UInt64(seed)))
        table.setMesh(MeshID(.zero))
        table.setSecrets([secret])
        try loop.start()
    }

    var isLinked: Bool { peer != nil }
    var statistics: LinkStatistics? { peer.flatMap { table.statistics(of: $0) } }

    func dial(_ address: SocketAddress, secret: GroupSecret) {
        table.dial(DialRequest(addresses: [address], secretID: secret.id), at: clock.now(), into: &outbox)
        loop.wake()
    }

    func setLoad(_ message: OutgoingMessage?) {
        load = message
        loop.wake()
    }

    func stop() {
        isStopping = true
        loop.wake()
    }

    func run() async {
        while !isStopping {
            let now = clock.now()
            let count = socket.receive(limit: 256) { datagram, source, receivedAt in
                table.receive(&datagram, from: source, receivedAt: receivedAt, at: now, into: &outbox)
            }
            if let deadline = table.nextDeadline, deadline <= now { table.handleDeadline(at: now, into: &outbox) }
            refill(at: now)
            table.flush(at: clock.now(), into: &outbox)
            transmit()
            let deadline = count >= 256 ? now : table.nextDeadline ?? .distantFuture
            await loop.waitForWork(until: deadline)
        }
        socket.close()
    }

    private func refill(at now: HostTime) {
        guard let load, let peer else { return }
        while table.sendQueueBytes(to: peer) < 4 << 20 {
            do { try table.send(load, to: peer, at: now) } catch { return }
        }
    }

    private func transmit() {
        var datagrams: [TransportDatagram] = []
        outbox.drain { output in
            switch output {
            case .transmit(let datagram):
                datagrams.append(TransportDatagram(bytes: datagram.bytes, destination: datagram.destination))
            case .established(let identity): peer = identity.peer
            case .message(_, let payload, _): receivedBytes += payload.count
            default: break
            }
        }
        guard !datagrams.isEmpty else { return }
        table.didTransmit(at: socket.send(datagrams).startedAt)
    }
}
