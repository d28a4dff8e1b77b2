import Glibc
import MeshBase
import Testing

@testable import MeshSystem

@Suite struct NetworkInterfacesTests {
    private func interface(
        _ name: String, _ index: UInt32, loopback: Bool = false, tunnel: Bool = false, up: Bool = true,
        _ addresses: [String]
    ) -> NetworkInterface {
        NetworkInterface(
            name: name, index: index, isUp: up, isLoopback: loopback, isMulticast: !loopback, isPointToPoint: tunnel,
            addresses: addresses.map { SocketAddress($0)! })
    }

    private var loopback: NetworkInterface { interface("lo", 1, loopback: true, ["127.0.0.1", "::1"]) }

    @Test func `real networks come first, then tunnels, IPv4 before IPv6`() {
        let interfaces = NetworkInterfaces(all: [
            loopback,
            interface("wg0", 2, tunnel: true, ["10.9.0.2"]),
            interface("eth0", 3, ["2001:db8::5", "fe80::1%3", "192.168.1.5"]),
            interface("docker0", 4, ["172.17.0.1"]),
            interface("eth1", 5, up: false, ["192.168.2.5"]),
        ])

        let advertised = interfaces.advertised(port: 47_800)

        #expect(advertised.map(\.description) == ["192.168.1.5:47800", "[2001:db8::5]:47800", "10.9.0.2:47800"])
    }

    @Test func `MEM-11 a VPN that looks like a wire stands behind the wire, bridges of containers are left out`() {
        let interfaces = NetworkInterfaces(all: [
            interface("zt7abc", 2, ["10.147.0.2"]), interface("tap0", 3, ["10.8.0.2"]),
            interface("vboxnet0", 4, ["192.168.56.1"]), interface("wlan0", 5, ["192.168.1.7"]),
        ])
        let advertised = interfaces.advertised(port: 1).map(\.hostDescription)
        #expect(advertised == ["192.168.1.7", "10.147.0.2", "10.8.0.2"])
    }

    @Test func `networks inside the machine, then loopback, only if there is nothing better`() {
        let inside = NetworkInterfaces(all: [loopback, interface("br-1", 2, ["172.18.0.1"])])
        let alone = NetworkInterfaces(all: [loopback])

        #expect(inside.advertised(port: 1).map(\.hostDescription) == ["172.18.0.1"])
        #expect(alone.advertised(port: 1).map(\.hostDescription) == ["127.0.0.1", "::1"])
        #expect(alone.forBeacons.map(\.name) == ["lo"])
        #expect(inside.forBeacons.map(\.name) == ["br-1"])
    }

    @Test func `at most 16 addresses are advertised`() {
        let many = interface("eth0", 2, (1...40).map { "10.0.0.\($0)" })

        #expect(NetworkInterfaces(all: [many]).advertised(port: 1).count == 16)
    }

    @Test func `the kernel's list holds loopback`() throws {
        let current = try NetworkInterfaces.current()

        let found = try #require(current.all.first { $0.isLoopback })
        #expect(found.index > 0)
        #expect(found.addresses.contains { $0.hostDescription == "127.0.0.1" })
    }

    @Test func `the holder of a port is read from the kernel's table`() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode ref
              12: 0100007F:BAB8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 0
              13: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12 2 0 0
              broken
            """

        #expect(PortHolder.socketInodes(table: table, port: 47_800) == ["4711"])
        #expect(PortHolder.socketInodes(table: table, port: 53) == ["12"])
        #expect(PortHolder.socketInodes(table: table, port: 54) == [])
    }
}

@Suite(.timeLimit(.minutes(10))) struct BeaconTests {
    /// A beacon port of this test process, so that runs side by side do not hear each other.
    private static func open(_ port: UInt16, _ addresses: [SocketAddress]) throws -> DatagramSocket {
        let options = TransportOptions(
            port: 0, isPortExplicit: true, bindAddresses: addresses, discovery: true, beaconPort: port)
        return try DatagramSocket(options: options, clock: MonotonicClock(), loop: nil)
    }

    private static func freePort() throws -> UInt16 {
        let probe = try DatagramSocketTests.open([])
        defer { probe.close() }
        return probe.localPort
    }

    private static func hear(_ socket: DatagramSocket) -> [[UInt8]] {
        var heard: [[UInt8]] = []
        let clock = MonotonicClock()
        let end = clock.now() + .seconds(2)
        while heard.isEmpty, clock.now() < end {
            if socket.receiveBeacons(limit: 16, { bytes, _ in heard.append(bytes) }) == 0 { usleep(500) }
        }
        return heard
    }

    // IPv4 only: Linux routes no IPv6 multicast over loopback unless somebody adds the route.
    @Test func `nodes on one machine hear each other's beacons on loopback`() throws {
        let port = try Self.freePort()
        let first = try Self.open(port, [.loopback(port: 0)])
        let second = try Self.open(port, [.loopback(port: 0)])

        first.sendBeacon([1, 2, 3])

        #expect(Self.hear(second).contains([1, 2, 3]))
        #expect(Self.hear(first).contains([1, 2, 3]))
        #expect(first.statistics().sentBeacons > 0)
    }

    @Test func `nodes bound to everything hear each other's beacons`() throws {
        let port = try Self.freePort()
        let first = try Self.open(port, [])
        let second = try Self.open(port, [])

        first.sendBeacon(patternBytes(128))

        #expect(Self.hear(second).contains(patternBytes(128)))
    }

    @Test func `without discovery nothing is sent or heard`() throws {
        let quiet = try DatagramSocketTests.open([.loopback(port: 0)])

        quiet.sendBeacon([1])

        #expect(quiet.statistics().sentBeacons == 0)
        #expect(quiet.receiveBeacons(limit: 1) { _, _ in } == 0)
    }
}
