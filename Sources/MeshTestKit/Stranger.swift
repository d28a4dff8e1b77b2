import MeshBase
import MeshCrypto
import MeshSystem

/// Somebody on the network without any secret: it copies what it sees others send, whole, cut, damaged, and sends it
/// and plain junk from its own address.
public final class Stranger: SimulatedProcess {
    public let address: SocketAddress
    public var isQuiet = false
    private let clock: SimulatedClock
    private let transport: SimulatedTransport
    private var random: RandomStream
    private var seen: [(bytes: [UInt8], destination: SocketAddress)] = []
    private var turn = 0
    private var nextAt: HostTime

    private static let pause = TimeSpan.milliseconds(50)

    public init(network: SimulatedNetwork, time: SimulatedTime, host: Int, seed: UInt64) {
        random = RandomStream(testSeed: seed ^ 0x7374_7261_6e67_6572)
        clock = SimulatedClock(time: time)
        transport = SimulatedTransport(network: network, host: host, clock: clock, hasDiscovery: false)
        address = transport.address
        nextAt = clock.now() + Self.pause
    }

    public var wakeInstant: Int64? {
        if transport.isReadable { return .min }
        guard !isQuiet else { return nil }
        return nextAt <= clock.now() ? .min : clock.trueTime(of: nextAt) + 1
    }

    public func drain() -> Bool {
        guard wakeInstant == .min else { return false }
        _ = transport.receive(limit: .max) { _, _, _ in }
        _ = transport.takeUnreachable()
        guard !isQuiet, nextAt <= clock.now() else { return true }
        nextAt = clock.now() + Self.pause
        for _ in 0..<4 { act() }
        return true
    }

    private func act() {
        guard !seen.isEmpty else { return }
        let (genuine, destination) = seen[random.below(seen.count)]
        var bytes = genuine
        switch random.below(4) {
        case 0: bytes = random.bytes(random.below(1_400))
        case 1: bytes.removeLast(random.below(bytes.count + 1))
        case 2: if !bytes.isEmpty { bytes[random.below(bytes.count)] ^= 1 << UInt8(random.below(8)) }
        default: break
        }
        _ = transport.send([TransportDatagram(bytes: bytes, destination: destination)])
    }

    public func overhear(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress) {
        guard source != address, destination != address else { return }
        turn += 1
        if seen.count < 300 { seen.append((bytes, destination)) } else { seen[turn % 300] = (bytes, destination) }
    }
}
