import Glibc
import MeshBase
import MeshSystem
import Testing

@Suite(.timeLimit(.minutes(10))) struct DatagramSocketTests {
    struct Received: Equatable {
        var bytes: [UInt8]
        var source: SocketAddress
        var at: HostTime
    }

    static func open(
        _ addresses: [SocketAddress], clock: MonotonicClock = MonotonicClock(), loop: EventLoop? = nil
    ) throws -> DatagramSocket {
        let options = TransportOptions(port: 0, isPortExplicit: true, bindAddresses: addresses, discovery: false)
        return try DatagramSocket(options: options, clock: clock, loop: loop)
    }

    /// Reads until `count` datagrams came or five seconds passed.
    static func collect(_ socket: DatagramSocket, _ count: Int, limit: Int = 64) -> [Received] {
        var received: [Received] = []
        let clock = MonotonicClock()
        let end = clock.now() + .seconds(5)
        while received.count < count, clock.now() < end {
            let got = socket.receive(limit: limit) { bytes, source, at in
                received.append(Received(bytes: (0..<bytes.count).map { bytes[$0] }, source: source, at: at))
            }
            if got == 0 { usleep(200) }
        }
        return received
    }

    /// A verdict and not the bytes, which would fill a failing test's report.
    static func isSame(_ received: [Received], _ sent: [TransportDatagram]) -> Bool {
        received.map(\.bytes) == sent.map(\.bytes)
    }

    static let loopbacks: [SocketAddress] = [
        .loopback(port: 0), SocketAddress(family: .ipv6, high: 0, low: 1, port: 0),
    ]

    @Test(arguments: loopbacks)
    func `many datagrams of mixed sizes arrive whole and in order`(address: SocketAddress) throws {
        let sender = try Self.open([address])
        let receiver = try Self.open([address])
        let destination = address.with(port: receiver.localPort)
        let sizes = [1200, 1200, 1200, 700, 1200, 1, 1232, 1232, 64, 0, 65_000, 9000, 9000, 9000, 30]
        let datagrams = (0..<300).map { number in
            TransportDatagram(
                bytes: patternBytes(sizes[number % sizes.count], seed: UInt64(number + 1)), destination: destination)
        }

        var received: [Received] = []
        for start in stride(from: 0, to: datagrams.count, by: 30) {
            let batch = Array(datagrams[start..<(start + 30)])
            #expect(sender.send(batch).acceptedCount == 30)
            received += Self.collect(receiver, 30)
        }

        #expect(Self.isSame(received, datagrams))
        #expect(Set(received.map(\.source)) == [address.with(port: sender.localPort)])
    }

    @Test func `a train of equal datagrams is one system call each way`() throws {
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        let destination = SocketAddress.loopback(port: receiver.localPort)
        let datagrams = (0..<50).map {
            TransportDatagram(bytes: patternBytes(1200, seed: $0), destination: destination)
        }
        guard sender.statistics().usesSegmentation else { try Test.cancel("this kernel has no UDP_SEGMENT") }

        let result = sender.send(datagrams)

        #expect(result == SendResult(startedAt: result.startedAt, acceptedCount: 50, refusedCount: 0))
        #expect(sender.statistics().sendCalls == 1)
        #expect(Self.isSame(Self.collect(receiver, 50), datagrams))
        #expect(receiver.statistics().receiveCalls < 50)
    }

    @Test func `a limit splits a train and the rest is kept`() throws {
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        let destination = SocketAddress.loopback(port: receiver.localPort)
        let datagrams = (0..<40).map { TransportDatagram(bytes: patternBytes(500, seed: $0), destination: destination) }
        _ = sender.send(datagrams)

        let received = Self.collect(receiver, 40, limit: 7)

        #expect(Self.isSame(received, datagrams))
    }

    @Test func `datagrams are opened in place`() throws {
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        _ = sender.send([TransportDatagram(bytes: [1, 2, 3], destination: .loopback(port: receiver.localPort))])

        var seen: [UInt8] = []
        while receiver.receive(
            limit: 1,
            { bytes, _, _ in
                bytes[0] = 9
                seen = (0..<bytes.count).map { bytes[$0] }
            }) == 0
        {}

        #expect(seen == [9, 2, 3])
    }

    @Test func `the receive time is the kernel's, between sending and reading, on the host clock`() throws {
        let clock = try #require(MonotonicClock(offsetNanoseconds: -400 * 86_400_000_000_000, ratePartsPerMillion: 250))
        let sender = try Self.open([.loopback(port: 0)], clock: clock)
        let receiver = try Self.open([.loopback(port: 0)], clock: clock)

        let result = sender.send([TransportDatagram(bytes: [1], destination: .loopback(port: receiver.localPort))])
        let sentBy = clock.now()
        usleep(20_000)
        let received = try #require(Self.collect(receiver, 1).first)

        // 2 ms of slack: the wall clock may be slewed while it maps.
        #expect(received.at >= result.startedAt - .milliseconds(2))
        #expect(received.at <= sentBy + .milliseconds(2))
    }

    @Test func `a wildcard node hears both families on one port`() throws {
        let receiver = try Self.open([])
        for address in Self.loopbacks {
            let sender = try Self.open([address])
            _ = sender.send([TransportDatagram(bytes: [5], destination: address.with(port: receiver.localPort))])
            #expect(Self.collect(receiver, 1).map(\.bytes) == [[5]])
        }
    }

    @Test func `a dead port is reported and sending goes on`() throws {
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        let gone = try Self.open([.loopback(port: 0)])
        let dead = SocketAddress.loopback(port: gone.localPort)
        gone.close()

        _ = sender.send([TransportDatagram(bytes: [1], destination: dead)])
        let result = sender.send([
            TransportDatagram(bytes: [2], destination: .loopback(port: receiver.localPort))
        ])

        #expect(result.acceptedCount == 1)
        #expect(Self.collect(receiver, 1).map(\.bytes) == [[2]])
        _ = sender.receive(limit: 1) { _, _, _ in }
        #expect(sender.takeUnreachable() == [dead])
        #expect(sender.takeUnreachable() == [])
    }

    @Test func `a datagram that no interface carries is refused and counted, the rest goes`() throws {
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        let destination = SocketAddress.loopback(port: receiver.localPort)

        let result = sender.send([
            TransportDatagram(bytes: patternBytes(70_000), destination: destination),
            TransportDatagram(bytes: [3], destination: destination),
            TransportDatagram(bytes: [4], destination: SocketAddress(family: .ipv6, high: 0, low: 1, port: 9)),
        ])

        #expect(result.acceptedCount == 1)
        #expect(result.refusedCount == 2)
        #expect(sender.statistics().tooLargeDatagrams == 1)
        #expect(Self.collect(receiver, 1).map(\.bytes) == [[3]])
    }

    @Test func `AB-59 datagrams carry DF and ICMP cannot shrink them`() throws {
        // An interface-sized datagram of loopback goes in one piece, and one larger than it is refused here instead of
        // being cut: fragmentation is off.
        let sender = try Self.open([.loopback(port: 0)])
        let receiver = try Self.open([.loopback(port: 0)])
        let largest = TransportDatagram(
            bytes: patternBytes(65_507), destination: .loopback(port: receiver.localPort))

        #expect(sender.send([largest]).acceptedCount == 1)
        #expect(Self.collect(receiver, 1).first?.bytes.count == 65_507)
        #expect(SocketOptions.discovery(ofPort: sender.localPort) == IP_PMTUDISC_PROBE)
    }

    @Test func `MEM-20 the default port moves to the next free one`() throws {
        let first = try Self.open([.loopback(port: 0)])
        let options = TransportOptions(
            port: first.localPort, isPortExplicit: false, bindAddresses: [.loopback(port: 0)], discovery: false)

        let second = try DatagramSocket(options: options, clock: MonotonicClock(), loop: nil)

        #expect(second.localPort > first.localPort)
    }

    @Test func `MEM-20 an explicit port that is taken is an error that names the holder`() throws {
        let first = try Self.open([.loopback(port: 0)])
        let options = TransportOptions(
            port: first.localPort, isPortExplicit: true, bindAddresses: [.loopback(port: 0)], discovery: false)

        let error = #expect(throws: SystemError.self) {
            try DatagramSocket(options: options, clock: MonotonicClock(), loop: nil)
        }

        guard case .portInUse(let port, let holder) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(port == first.localPort)
        #expect(holder?.pid == getpid())
        #expect(error?.message.contains("(pid \(getpid()))") == true)
        #expect(error?.hint?.contains("--port") == true)
    }

    @Test func `an address of another machine is a named error`() throws {
        let address = SocketAddress.ipv4(192, 0, 2, 77, port: 0)

        #expect(throws: SystemError.addressUnavailable(address)) { try Self.open([address]) }
    }

    @Test func `local addresses carry the port and are never unspecified`() throws {
        let bound = try Self.open([.loopback(port: 0)])
        let wildcard = try Self.open([])

        #expect(bound.localAddresses() == [.loopback(port: bound.localPort)])
        #expect(!wildcard.localAddresses().isEmpty)
        #expect(wildcard.localAddresses().allSatisfy { $0.isDialable && $0.port == wildcard.localPort })
    }

    @Test func `a datagram wakes the turn that waits on the loop`() async throws {
        let clock = MonotonicClock()
        let loop = try EventLoop(clock: clock)
        let receiver = try Self.open([.loopback(port: 0)], clock: clock, loop: loop)
        let sender = try Self.open([.loopback(port: 0)])
        try loop.start()

        let turn = Task(executorPreference: loop) {
            var count = 0
            while count < 3 {
                await loop.waitForWork(until: .distantFuture)
                count += receiver.receive(limit: 64) { _, _, _ in }
                _ = receiver.takeInterfaceChange()
            }
            return count
        }
        for number in 0..<3 {
            let datagram = TransportDatagram(bytes: [UInt8(number)], destination: .loopback(port: receiver.localPort))
            _ = sender.send([datagram])
        }

        #expect(await turn.value == 3)
        loop.stop()
        receiver.close()
    }

    @Test func `a closed transport does nothing`() throws {
        let socket = try Self.open([.loopback(port: 0)])
        socket.close()
        socket.close()

        #expect(socket.receive(limit: 1) { _, _, _ in } == 0)
        #expect(socket.send([TransportDatagram(bytes: [1], destination: .loopback(port: 9))]).refusedCount == 1)
        #expect(socket.localAddresses() == [])
    }
}

/// Options of this process's own sockets, found through /proc.
enum SocketOptions {
    /// IP_MTU_DISCOVER of the IPv4 UDP socket bound to `port`.
    static func discovery(ofPort port: UInt16) -> Int32? {
        for descriptor in Int32(3)..<1024 {
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let result = unsafe withUnsafeMutableBytes(of: &address) { bytes in
                unsafe getsockname(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
            }
            guard result == 0, address.sin_family == sa_family_t(AF_INET), UInt16(bigEndian: address.sin_port) == port
            else { continue }
            var value: Int32 = -1
            var size = socklen_t(4)
            guard unsafe getsockopt(descriptor, Int32(IPPROTO_IP), IP_MTU_DISCOVER, &value, &size) == 0 else {
                return nil
            }
            return value
        }
        return nil
    }
}
