import CMeshSystem
import Glibc
public import MeshBase

/// UDP over IPv4 and IPv6 with GRO in and GSO out, kernel receive times, and multicast beacons beside it.
///
/// Path MTU that ICMP reports is ignored (AB-59): datagrams carry DF, and one that is too large is refused or lost.
/// Errors of the network (unreachable, no route, queue full) are counted and never fatal.
@safe public final class DatagramSocket: DatagramTransport, @unchecked Sendable {
    // Sendable: after `init` every call comes from the executor's thread, as `DatagramTransport` demands.
    public let localPort: UInt16
    private let clock: any HostClock
    private let loop: EventLoop?
    private let options: TransportOptions
    private var sockets: [WatchedSocket] = []
    private var beacons: BeaconSockets?
    private var netlink: Int32 = -1
    private var netlinkSource: EventSource?
    private let ring = ReceiveRing()
    /// The socket that filled the ring, and the one to begin with next time.
    private var nextSocket = 0
    private var counters = TransportStatistics()
    private let sendBuffer: UnsafeMutablePointer<UInt8>
    private var routesWithoutSegmentation: Set<SocketAddress> = []
    private var unreachable: [SocketAddress] = []
    private var hasQueuedErrors = false
    private var isClosed = false

    private struct WatchedSocket {
        var bound: BoundSocket
        var source: EventSource?
        var overflow: UInt32 = 0
    }

    private static let maximumUnreachable = 64
    private static let maximumSingleRoutes = 256
    private static let maximumDatagram = 65_507

    /// Opens the sockets and, with a loop, watches them. Throws `portInUse`, `portForbidden`, `noFreePort`,
    /// `addressUnavailable` or `callFailed`; then nothing stays open.
    public init(options: TransportOptions, clock: any HostClock, loop: EventLoop?) throws(SystemError) {
        let bound = try SocketSet.open(options)
        self.clock = clock
        self.loop = loop
        self.options = options
        localPort = bound.first?.local.port ?? 0
        unsafe sendBuffer = .allocate(capacity: SendTrain.maximumBytes)
        unsafe sendBuffer.initialize(repeating: 0, count: SendTrain.maximumBytes)
        counters.usesSegmentation = bound.contains(where: \.sendsSegments)
        sockets = bound.map { WatchedSocket(bound: $0) }
        netlink = mesh_netlink_open()
        if options.discovery { beacons = BeaconSockets(options: options) }
        do throws(SystemError) {
            try watchAll()
        } catch {
            close()
            throw error
        }
    }

    deinit {
        close()
        unsafe sendBuffer.deallocate()
    }

    private func watchAll() throws(SystemError) {
        guard let loop else { return }
        for position in sockets.indices {
            sockets[position].source = try loop.watch(sockets[position].bound.descriptor)
        }
        if netlink >= 0 { netlinkSource = try loop.watch(netlink) }
        try beacons?.watch(on: loop)
    }

    // MARK: Receiving

    public func receive(limit: Int, _ body: (inout MutableSpan<UInt8>, SocketAddress, HostTime) -> Void) -> Int {
        guard !isClosed else { return 0 }
        var count = ring.drain(limit: limit, clock: clock, counters: &counters, body)
        var drained = 0
        while count < limit, drained < sockets.count {
            if fillRing(from: nextSocket) {
                count += ring.drain(limit: limit - count, clock: clock, counters: &counters, body)
                drained = 0
            } else {
                drained += 1
                nextSocket = (nextSocket + 1) % sockets.count
            }
        }
        return count
    }

    /// Whether anything was read. A pending error is taken off the socket first, and the read tried again.
    private func fillRing(from position: Int) -> Bool {
        if let source = sockets[position].source, !source.isReady { return false }
        let descriptor = sockets[position].bound.descriptor
        for _ in 0..<4 {
            let before = sockets[position].overflow
            let result = ring.fill(from: descriptor, overflow: &sockets[position].overflow)
            counters.overflowDatagrams += UInt64(sockets[position].overflow &- before)
            if result > 0 {
                counters.receiveCalls += 1
                // Fewer than asked for: the kernel had no more, so the next call could only say so.
                if result < ReceiveRing.slotCount { sockets[position].source?.markDrained() }
                return true
            }
            if result == -EAGAIN {
                sockets[position].source?.markDrained()
                return false
            }
            hasQueuedErrors = true
        }
        // A flood of errors: the socket stays ready, the turn goes on.
        return false
    }

    // MARK: Sending

    public func send(_ datagrams: [TransportDatagram]) -> SendResult {
        var result = SendResult(startedAt: clock.now(), acceptedCount: 0, refusedCount: 0)
        guard !isClosed else {
            result.refusedCount = datagrams.count
            return result
        }
        var position = 0
        while position < datagrams.count {
            let destination = datagrams[position].destination
            let socket = socket(for: destination)
            let segmenting = socket?.sendsSegments == true && !routesWithoutSegmentation.contains(destination)
            let train = SendTrain.next(in: datagrams, from: position, segmenting: segmenting)
            let accepted = socket.map { transmit(train, of: datagrams, on: $0) } ?? 0
            result.acceptedCount += accepted
            result.refusedCount += train.range.count - accepted
            position = train.range.upperBound
        }
        counters.sentDatagrams += UInt64(result.acceptedCount)
        counters.refusedDatagrams += UInt64(result.refusedCount)
        return result
    }

    /// The socket whose family, and whose loopback or scope where bound to one address, fits best.
    private func socket(for destination: SocketAddress) -> BoundSocket? {
        var best: BoundSocket?
        for candidate in sockets.lazy.map(\.bound) where candidate.local.family == destination.family {
            if candidate.local.isUnspecified { return candidate }
            let fits =
                candidate.local.isLoopback == destination.isLoopback
                && (destination.scope == 0 || candidate.local.scope == destination.scope)
            if fits { return candidate }
            if best == nil { best = candidate }
        }
        return best
    }

    /// The number of datagrams the kernel took.
    private func transmit(_ train: SendTrain, of datagrams: [TransportDatagram], on socket: BoundSocket) -> Int {
        if train.range.count == 1 { return transmitSingle(datagrams[train.range.lowerBound], on: socket) ? 1 : 0 }
        let destination = datagrams[train.range.lowerBound].destination
        var filled = 0
        for datagram in datagrams[train.range] {
            unsafe datagram.bytes.withUnsafeBufferPointer { bytes in
                unsafe (sendBuffer + filled).update(from: bytes.baseAddress!, count: bytes.count)
            }
            filled += datagram.bytes.count
        }
        let buffer = unsafe UnsafeBufferPointer(start: sendBuffer, count: filled)
        let outcome = unsafe transmit(buffer, to: destination, segment: UInt16(train.segment), on: socket)
        switch outcome {
        case 0: return train.range.count
        case EIO, EINVAL, EMSGSIZE: return transmitSingly(train, of: datagrams, on: socket)
        default: return 0
        }
    }

    /// After a refused train: each datagram by itself at once. When they pass, the route cannot do trains.
    private func transmitSingly(
        _ train: SendTrain, of datagrams: [TransportDatagram], on socket: BoundSocket
    ) -> Int {
        let accepted = datagrams[train.range].count { transmitSingle($0, on: socket) }
        if accepted > 0 {
            if routesWithoutSegmentation.count >= Self.maximumSingleRoutes { routesWithoutSegmentation.removeAll() }
            routesWithoutSegmentation.insert(datagrams[train.range.lowerBound].destination)
        }
        return accepted
    }

    private func transmitSingle(_ datagram: TransportDatagram, on socket: BoundSocket) -> Bool {
        guard datagram.bytes.count <= Self.maximumDatagram else {
            counters.tooLargeDatagrams += 1
            return false
        }
        let outcome = unsafe datagram.bytes.withUnsafeBufferPointer { bytes in
            unsafe transmit(bytes, to: datagram.destination, segment: 0, on: socket)
        }
        if outcome == EMSGSIZE { counters.tooLargeDatagrams += 1 }
        return outcome == 0
    }

    /// One system call, repeated where the error was an earlier datagram's or the queue is full. 0 or an errno.
    private func transmit(
        _ bytes: UnsafeBufferPointer<UInt8>, to destination: SocketAddress, segment: UInt16, on socket: BoundSocket
    ) -> Int32 {
        var kernel = destination.kernel
        var waits = 0
        var errors = 0
        while true {
            counters.sendCalls += 1
            let sent = unsafe mesh_datagram_send(socket.descriptor, bytes.baseAddress, bytes.count, &kernel, segment)
            if sent >= 0 {
                counters.sentBytes += UInt64(bytes.count)
                return 0
            }
            let error = Int32(truncatingIfNeeded: -sent)
            switch error {
            case EAGAIN, ENOBUFS:
                // A full queue empties at line rate: two milliseconds at most, then the datagram counts as lost.
                waits += 1
                guard waits <= 2 else {
                    counters.queueFullDatagrams += 1
                    return error
                }
                _ = mesh_wait_writable(socket.descriptor, 1)
            case EINVAL, EIO:
                return error
            default:
                // What ICMP said about an earlier datagram is reported on the next call, whoever it is for.
                hasQueuedErrors = true
                errors += 1
                guard errors <= 2 else { return error }
            }
        }
    }

    // MARK: Unreachable destinations

    public func takeUnreachable() -> [SocketAddress] {
        guard !isClosed else { return [] }
        if hasQueuedErrors {
            hasQueuedErrors = false
            for socket in sockets { drainErrors(of: socket.bound.descriptor) }
        }
        defer { unreachable.removeAll(keepingCapacity: true) }
        return unreachable
    }

    private func drainErrors(of descriptor: Int32) {
        var destination = mesh_address()
        var error: Int32 = 0
        // Bounded: a flood of ICMP cannot hold the turn.
        for _ in 0..<256 {
            guard unsafe mesh_datagram_take_error(descriptor, &destination, &error) == 1 else { return }
            guard error == ECONNREFUSED, let address = SocketAddress(destination),
                unreachable.count < Self.maximumUnreachable, !unreachable.contains(address)
            else { continue }
            unreachable.append(address)
        }
        hasQueuedErrors = true
    }

    // MARK: Beacons

    public func sendBeacon(_ bytes: [UInt8]) {
        counters.sentBeacons += UInt64(beacons?.send(bytes) ?? 0)
    }

    public func receiveBeacons(limit: Int, _ body: ([UInt8], SocketAddress) -> Void) -> Int {
        let count = beacons?.receive(limit: limit, body) ?? 0
        counters.receivedBeacons += UInt64(count)
        return count
    }

    // MARK: Addresses

    public func localAddresses() -> [SocketAddress] {
        guard !isClosed else { return [] }
        let families = Set(sockets.map(\.bound.local.family))
        let specific = sockets.map(\.bound.local).filter { !$0.isUnspecified }
        let isWildcard = specific.count < sockets.count
        // An address list that cannot be read now is empty; a later change asks again.
        let current = isWildcard ? (try? NetworkInterfaces.current())?.advertised(port: localPort) ?? [] : []
        let usable = specific.filter { !($0.family == .ipv6 && $0.isLinkLocal) }
        return (usable + current.filter { families.contains($0.family) && !usable.contains($0) })
    }

    public func takeInterfaceChange() -> Bool {
        guard netlink >= 0, netlinkSource?.isReady ?? true else { return false }
        netlinkSource?.markDrained()
        guard mesh_netlink_drain(netlink) != 0 else { return false }
        beacons?.joinAll()
        return true
    }

    public func statistics() -> TransportStatistics {
        var copy = counters
        copy.routesWithoutSegmentation = routesWithoutSegmentation.count
        return copy
    }

    public func close() {
        guard !isClosed else { return }
        isClosed = true
        for socket in sockets {
            if let source = socket.source { loop?.unwatch(source) }
            _ = mesh_close(socket.bound.descriptor)
        }
        sockets = []
        if let netlinkSource { loop?.unwatch(netlinkSource) }
        if netlink >= 0 { _ = mesh_close(netlink) }
        netlink = -1
        beacons?.close()
        beacons = nil
    }
}
