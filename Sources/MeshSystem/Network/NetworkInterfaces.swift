import CMeshSystem
public import MeshBase

/// A network interface with its addresses.
public struct NetworkInterface: Hashable, Sendable {
    public var name: String
    public var index: UInt32
    public var isUp: Bool
    public var isLoopback: Bool
    public var isMulticast: Bool
    public var isPointToPoint: Bool
    /// Ports are zero; IPv6 link-local ones carry this interface as scope.
    public var addresses: [SocketAddress]

    public init(
        name: String, index: UInt32, isUp: Bool, isLoopback: Bool, isMulticast: Bool, isPointToPoint: Bool,
        addresses: [SocketAddress]
    ) {
        self.name = name
        self.index = index
        self.isUp = isUp
        self.isLoopback = isLoopback
        self.isMulticast = isMulticast
        self.isPointToPoint = isPointToPoint
        self.addresses = addresses
    }

    /// A bridge or cable inside this machine (containers, virtual machines): others cannot reach us through it.
    public var isInternal: Bool {
        ["docker", "br-", "veth", "virbr", "lxc", "lxdbr", "cni", "flannel", "vnet", "vmnet", "vboxnet", "podman"]
            .contains { name.hasPrefix($0) }
    }

    /// A network within another (VPN): slower than what carries it, and often closed to others.
    public var isTunnel: Bool {
        isPointToPoint
            || ["tun", "tap", "wg", "zt", "tailscale", "ppp", "utun", "nordlynx", "proton", "ham"]
                .contains { name.hasPrefix($0) }
    }
}

/// What this machine's network looks like at one moment.
public struct NetworkInterfaces: Hashable, Sendable {
    public var all: [NetworkInterface]

    public init(all: [NetworkInterface]) { self.all = all }

    /// Reads them from the kernel; at most 1024 addresses. Cost: some 100 µs.
    public static func current() throws(SystemError) -> NetworkInterfaces {
        var entries = [mesh_interface](repeating: mesh_interface(), count: 1024)
        let result = unsafe entries.withUnsafeMutableBufferPointer { buffer in
            unsafe mesh_interfaces(buffer.baseAddress!, Int32(buffer.count))
        }
        let count = try checked(result, "getifaddrs")
        var interfaces: [NetworkInterface] = []
        for entry in entries[..<Int(count)] {
            guard let address = SocketAddress(entry.address) else { continue }
            if let position = interfaces.firstIndex(where: { $0.index == entry.index }) {
                interfaces[position].addresses.append(address)
            } else {
                interfaces.append(NetworkInterface(entry, address: address))
            }
        }
        return NetworkInterfaces(all: interfaces)
    }

    /// Interfaces over which beacons go: up, and able to multicast; loopback only when there is no other.
    public var forBeacons: [NetworkInterface] {
        let able = all.filter { $0.isUp && $0.isMulticast && !$0.isLoopback }
        return able.isEmpty ? all.filter { $0.isUp && $0.isLoopback } : able
    }

    /// Addresses at which others may reach a node listening on `port`, best first, at most 16: real networks before
    /// tunnels, IPv4 before IPv6, then in the kernel's order. Link-local IPv6 addresses are left
    /// out: their scope means nothing elsewhere. Networks inside this machine, then loopback, only if there is nothing
    /// better.
    public func advertised(port: UInt16) -> [SocketAddress] {
        let up = all.filter(\.isUp)
        let choices: [[NetworkInterface]] = [
            up.filter { !$0.isLoopback && !$0.isInternal },
            up.filter { !$0.isLoopback },
            up.filter(\.isLoopback),
        ]
        for choice in choices {
            let ordered = choice.filter { !$0.isTunnel } + choice.filter(\.isTunnel)
            let addresses = ordered.flatMap { interface in
                let usable = interface.addresses.filter(Self.isAdvertisable)
                return usable.filter { $0.family == .ipv4 } + usable.filter { $0.family == .ipv6 }
            }
            if !addresses.isEmpty { return addresses.prefix(16).map { $0.with(port: port) } }
        }
        return []
    }

    private static func isAdvertisable(_ address: SocketAddress) -> Bool {
        !address.isUnspecified && !address.isMulticast && !(address.family == .ipv6 && address.isLinkLocal)
    }
}

extension NetworkInterface {
    init(_ entry: mesh_interface, address: SocketAddress) {
        let flags = entry.flags
        let nameBytes = unsafe withUnsafeBytes(of: entry.name) { bytes in unsafe Array(bytes.prefix { $0 != 0 }) }
        self.init(
            name: String(decoding: nameBytes, as: UTF8.self), index: entry.index,
            isUp: flags & UInt32(MESH_UP) != 0, isLoopback: flags & UInt32(MESH_LOOPBACK) != 0,
            isMulticast: flags & UInt32(MESH_MULTICAST) != 0,
            isPointToPoint: flags & UInt32(MESH_POINT_TO_POINT) != 0, addresses: [address])
    }
}
