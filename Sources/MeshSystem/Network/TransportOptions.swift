public import MeshBase

/// How a node's sockets are opened.
public struct TransportOptions: Hashable, Sendable {
    /// The port asked for; 0 lets the kernel choose.
    public var port: UInt16
    /// A person chose the port: taken means an error. Otherwise the next free one is used (MEM-20).
    public var isPortExplicit: Bool
    /// Addresses to bind to, ports ignored; empty for all of IPv4 and IPv6.
    public var bindAddresses: [SocketAddress]
    /// Whether beacons are sent and heard.
    public var discovery: Bool
    public var beaconPort: UInt16

    public static let defaultPort: UInt16 = 47_800
    public static let defaultBeaconPort: UInt16 = 47_799
    /// How many ports after the default are tried.
    public static let portAttempts: UInt16 = 200

    public init(
        port: UInt16 = TransportOptions.defaultPort, isPortExplicit: Bool = false,
        bindAddresses: [SocketAddress] = [], discovery: Bool = true,
        beaconPort: UInt16 = TransportOptions.defaultBeaconPort
    ) {
        self.port = port
        self.isPortExplicit = isPortExplicit
        self.bindAddresses = bindAddresses
        self.discovery = discovery
        self.beaconPort = beaconPort
    }
}
