import CMeshSystem
import Glibc
import MeshBase

/// Multicast sockets for discovery: 239.255.83.84 and ff02::5354, joined on every usable interface. The port is shared
/// by all nodes of a machine, and what one sends the others hear (multicast loop).
final class BeaconSockets {
    static let group4 = SocketAddress.ipv4(239, 255, 83, 84, port: 0)
    static let group6 = SocketAddress(family: .ipv6, high: 0xff02_0000_0000_0000, low: 0x5354, port: 0)
    static let slotByteCount = 2048

    private struct Member {
        var descriptor: Int32
        var group: SocketAddress
        var source: EventSource?
        var joined: Set<UInt32> = []
    }

    private let bindAddresses: [SocketAddress]
    private var members: [Member] = []
    private var slot = [UInt8](repeating: 0, count: BeaconSockets.slotByteCount)
    private var loop: EventLoop?

    /// A family whose socket cannot be made is left out: discovery is a help, never a condition.
    init(options: TransportOptions) {
        bindAddresses = options.bindAddresses.filter { !$0.isUnspecified }
        for group in [Self.group4, Self.group6] where Self.isWanted(group.family, options) {
            let descriptor = mesh_beacon_open(Int32(group.family.rawValue), options.beaconPort)
            guard descriptor >= 0 else { continue }
            members.append(Member(descriptor: descriptor, group: group.with(port: options.beaconPort)))
        }
        joinAll()
    }

    private static func isWanted(_ family: SocketAddress.Family, _ options: TransportOptions) -> Bool {
        options.bindAddresses.isEmpty || options.bindAddresses.contains { $0.family == family }
    }

    func watch(on loop: EventLoop) throws(SystemError) {
        self.loop = loop
        for position in members.indices {
            members[position].source = try loop.watch(members[position].descriptor)
        }
    }

    /// Joins on interfaces that came, leaves those that went. Again after every change.
    func joinAll() {
        let usable = usableInterfaces()
        for position in members.indices {
            let family = members[position].group.family
            let wanted = Set(usable.filter { $0.addresses.contains { $0.family == family } }.map(\.index))
            var group = members[position].group.kernel
            for index in members[position].joined.subtracting(wanted) {
                // The interface may be gone, and its membership with it.
                _ = unsafe mesh_beacon_leave(members[position].descriptor, &group, index)
            }
            members[position].joined = wanted.filter { index in
                let result = unsafe mesh_beacon_join(members[position].descriptor, &group, index)
                return result == 0 || result == -EADDRINUSE
            }
        }
    }

    /// A node bound to certain addresses speaks only where they are.
    private func usableInterfaces() -> [NetworkInterface] {
        guard let current = try? NetworkInterfaces.current() else { return [] }
        guard !bindAddresses.isEmpty else { return current.forBeacons }
        return current.all.filter { interface in
            interface.isUp
                && interface.addresses.contains { address in
                    bindAddresses.contains { $0.with(port: 0).addressBytes == address.addressBytes }
                }
        }
    }

    /// The number of interfaces it went out on.
    func send(_ bytes: [UInt8]) -> Int {
        var count = 0
        for member in members {
            var group = member.group.kernel
            for index in member.joined.sorted() {
                let sent = unsafe bytes.withUnsafeBufferPointer { buffer in
                    unsafe mesh_beacon_send(member.descriptor, buffer.baseAddress, buffer.count, &group, index)
                }
                if sent >= 0 { count += 1 }
            }
        }
        return count
    }

    func receive(limit: Int, _ body: ([UInt8], SocketAddress) -> Void) -> Int {
        var count = 0
        for member in members {
            while count < limit, member.source?.isReady ?? true {
                guard let beacon = next(from: member) else { break }
                if let source = beacon.source {
                    body(beacon.bytes, source)
                    count += 1
                }
            }
        }
        return count
    }

    private func next(from member: Member) -> (bytes: [UInt8], source: SocketAddress?)? {
        var arrival = mesh_arrival()
        var overflow: UInt32 = 0
        let result = unsafe slot.withUnsafeMutableBufferPointer { buffer in
            unsafe mesh_datagram_receive(member.descriptor, buffer.baseAddress!, buffer.count, 1, &arrival, &overflow)
        }
        guard result > 0 else {
            if result == -EAGAIN { member.source?.markDrained() }
            return nil
        }
        guard arrival.truncated == 0 else { return ([], nil) }
        return (Array(slot[..<min(Int(arrival.length), slot.count)]), SocketAddress(arrival.source))
    }

    func close() {
        for member in members {
            if let source = member.source { loop?.unwatch(source) }
            _ = mesh_close(member.descriptor)
        }
        members = []
    }
}
