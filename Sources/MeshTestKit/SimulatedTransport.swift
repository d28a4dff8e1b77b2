import MeshBase
import MeshSystem

/// One node's socket in a `SimulatedNetwork`.
public final class SimulatedTransport: DatagramTransport {
    private struct Datagram {
        var bytes: [UInt8]
        var source: SocketAddress
        var arrivedAt: Int64
    }

    private struct State {
        var datagrams: [Datagram] = []
        var beacons: [(bytes: [UInt8], source: SocketAddress)] = []
        var unreachable: [SocketAddress] = []
        var didInterfacesChange = false
        var isClosed = false
        var statistics = TransportStatistics()
    }

    /// What a kernel's receive buffer holds before it drops.
    public static let queueLimit = 4096

    public let address: SocketAddress
    private let network: SimulatedNetwork
    private let clock: any HostClock
    private let hasDiscovery: Bool
    private let state = Lock(State())

    /// Opens host `host`'s socket. Whatever was bound there before gets nothing more.
    public init(
        network: SimulatedNetwork, host: Int, port: UInt16 = 47800, clock: any HostClock, hasDiscovery: Bool = true
    ) {
        self.network = network
        self.clock = clock
        self.hasDiscovery = hasDiscovery
        address = SimulatedNetwork.address(ofHost: host, port: port)
        network.bind(self)
    }

    /// Whether a turn has something to read.
    public var isReadable: Bool {
        state.withLock { state in
            !state.datagrams.isEmpty || !state.beacons.isEmpty || !state.unreachable.isEmpty
                || state.didInterfacesChange
        }
    }

    /// The node is told that interfaces changed.
    public func changeInterfaces() { state.withLock { $0.didInterfacesChange = !$0.isClosed } }

    // MARK: The network's side

    func deliver(_ bytes: [UInt8], from source: SocketAddress, at instant: Int64) {
        state.withLock { state in
            guard !state.isClosed else { return }
            guard state.datagrams.count < Self.queueLimit else {
                state.statistics.overflowDatagrams += 1
                return
            }
            state.datagrams.append(Datagram(bytes: bytes, source: source, arrivedAt: instant))
        }
    }

    func deliverBeacon(_ bytes: [UInt8], from source: SocketAddress) {
        state.withLock { state in
            guard !state.isClosed, hasDiscovery, state.beacons.count < Self.queueLimit else { return }
            state.beacons.append((bytes, source))
        }
    }

    func noteUnreachable(_ destination: SocketAddress) {
        state.withLock { state in
            guard !state.isClosed, state.unreachable.count < 64, !state.unreachable.contains(destination) else {
                return
            }
            state.unreachable.append(destination)
        }
    }

    // MARK: The node's side

    public var localPort: UInt16 { address.port }

    public func receive(
        limit: Int, _ body: (inout MutableSpan<UInt8>, SocketAddress, HostTime) -> Void
    ) -> Int {
        let batch = state.withLock { state in
            let batch = Array(state.datagrams.prefix(max(0, limit)))
            state.datagrams.removeFirst(batch.count)
            state.statistics.receivedDatagrams += UInt64(batch.count)
            if !batch.isEmpty { state.statistics.receiveCalls += 1 }
            for datagram in batch { state.statistics.receivedBytes += UInt64(datagram.bytes.count) }
            return batch
        }
        for datagram in batch {
            var bytes = datagram.bytes
            var span = bytes.mutableSpan
            body(&span, datagram.source, clock.hostTime(ofTrue: datagram.arrivedAt))
        }
        return batch.count
    }

    public func send(_ datagrams: [TransportDatagram]) -> SendResult {
        let isOpen = state.withLock { state in
            guard !state.isClosed else { return false }
            state.statistics.sendCalls += 1
            state.statistics.sentDatagrams += UInt64(datagrams.count)
            for datagram in datagrams { state.statistics.sentBytes += UInt64(datagram.bytes.count) }
            return true
        }
        guard isOpen else {
            return SendResult(startedAt: clock.now(), acceptedCount: 0, refusedCount: datagrams.count)
        }
        for datagram in datagrams {
            network.transmit(datagram.bytes, from: address, to: datagram.destination)
        }
        return SendResult(startedAt: clock.now(), acceptedCount: datagrams.count, refusedCount: 0)
    }

    public func sendBeacon(_ bytes: [UInt8]) {
        guard hasDiscovery, state.withLock({ !$0.isClosed }) else { return }
        state.withLock { $0.statistics.sentBeacons += 1 }
        network.transmitBeacon(bytes, from: address)
    }

    public func receiveBeacons(limit: Int, _ body: ([UInt8], SocketAddress) -> Void) -> Int {
        let batch = state.withLock { state in
            let batch = Array(state.beacons.prefix(max(0, limit)))
            state.beacons.removeFirst(batch.count)
            state.statistics.receivedBeacons += UInt64(batch.count)
            return batch
        }
        for beacon in batch { body(beacon.bytes, beacon.source) }
        return batch.count
    }

    public func localAddresses() -> [SocketAddress] { [network.innerAddress(of: address)] }

    public func takeUnreachable() -> [SocketAddress] {
        state.withLock { state in
            defer { state.unreachable = [] }
            return state.unreachable
        }
    }

    public func takeInterfaceChange() -> Bool {
        state.withLock { state in
            defer { state.didInterfacesChange = false }
            return state.didInterfacesChange
        }
    }

    public func statistics() -> TransportStatistics { state.withLock { $0.statistics } }

    public func close() {
        network.unbind(self)
        state.withLock { state in
            state.isClosed = true
            state.datagrams = []
            state.beacons = []
            state.unreachable = []
            state.didInterfacesChange = false
        }
    }
}
