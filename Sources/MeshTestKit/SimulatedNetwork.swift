import MeshBase
import MeshCrypto
import MeshSystem

/// Hosts joined by paths with chosen faults, on simulated time. Host `n` has the address 10.0.0.`n + 1`.
///
/// Every decision is drawn from a generator of its own per directed path, seeded by the network's seed, so that more
/// traffic on one path changes no other's luck. Every datagram handed to the network enters the running trace hash with
/// its time: two runs that differ anywhere differ there.
public final class SimulatedNetwork: Sendable {
    /// What the network did, since the start.
    public struct Statistics: Hashable, Sendable {
        public var sentDatagrams: UInt64 = 0
        public var deliveredDatagrams: UInt64 = 0
        public var lostDatagrams: UInt64 = 0
        public var cutDatagrams: UInt64 = 0
        public var tooLargeDatagrams: UInt64 = 0
        public var duplicatedDatagrams: UInt64 = 0
        public var reorderedDatagrams: UInt64 = 0
        public var corruptedDatagrams: UInt64 = 0
        public var unreachableDatagrams: UInt64 = 0
        public var beacons: UInt64 = 0

        /// Everything that was done to datagrams against their will.
        public var faults: UInt64 {
            lostDatagrams + cutDatagrams + tooLargeDatagrams + duplicatedDatagrams + reorderedDatagrams
                + corruptedDatagrams
        }
    }

    private struct PathKey: Hashable {
        var from: Int
        var to: Int
    }

    private struct State {
        var standard = PathConditions.lan
        var conditions: [PathKey: PathConditions] = [:]
        var generators: [PathKey: RandomStream] = [:]
        /// Hosts of different groups do not reach each other.
        var groups: [Int: Int] = [:]
        var transports: [SocketAddress: SimulatedTransport] = [:]
        var statistics = Statistics()
        var trace = Bytes32.zero
    }

    public let time: SimulatedTime
    private let seed: UInt64
    private let state = Lock(State())
    /// How soon a host answers that nothing listens on a port.
    private static let unreachableDelay = TimeSpan.microseconds(50)

    public init(seed: UInt64, time: SimulatedTime) {
        self.seed = seed
        self.time = time
    }

    public static func address(ofHost host: Int, port: UInt16) -> SocketAddress {
        .ipv4(10, 0, UInt8(truncatingIfNeeded: (host + 1) >> 8), UInt8(truncatingIfNeeded: host + 1), port: port)
    }

    static func host(of address: SocketAddress) -> Int? {
        let bytes = address.addressBytes
        guard bytes.count == 4, bytes[0] == 10, bytes[1] == 0 else { return nil }
        return Int(bytes[2]) << 8 + Int(bytes[3]) - 1
    }

    // MARK: Faults

    /// For every path that has no conditions of its own.
    public func setConditions(_ conditions: PathConditions) { state.withLock { $0.standard = conditions } }

    /// For the path from one host to another; `nil` for the standard again.
    public func setConditions(_ conditions: PathConditions?, from source: Int, to destination: Int) {
        state.withLock { $0.conditions[PathKey(from: source, to: destination)] = conditions }
    }

    /// No datagram passes between these two, either way, until `join`.
    public func cut(_ left: Int, _ right: Int) { setCut(true, left, right) }
    public func join(_ left: Int, _ right: Int) { setCut(false, left, right) }

    private func setCut(_ isCut: Bool, _ left: Int, _ right: Int) {
        state.withLock { state in
            for key in [PathKey(from: left, to: right), PathKey(from: right, to: left)] {
                var conditions = state.conditions[key] ?? state.standard
                conditions.isCut = isCut
                state.conditions[key] = conditions
            }
        }
    }

    /// Splits the hosts; those in no group form one together.
    public func partition(_ groups: [[Int]]) {
        state.withLock { state in
            state.groups = [:]
            for (number, hosts) in groups.enumerated() { for host in hosts { state.groups[host] = number + 1 } }
        }
    }

    /// Ends partitions, cuts and special conditions; the standard stays.
    public func heal() {
        state.withLock { state in
            state.groups = [:]
            state.conditions = [:]
        }
    }

    // MARK: Observing

    public var statistics: Statistics { state.withLock { $0.statistics } }

    /// A running digest over (time, source, destination, bytes) of every datagram and beacon.
    public var trace: Bytes32 { state.withLock { $0.trace } }

    // MARK: Sockets

    func bind(_ transport: SimulatedTransport) {
        state.withLock { $0.transports[transport.address] = transport }
    }

    func unbind(_ transport: SimulatedTransport) {
        state.withLock { state in
            if state.transports[transport.address] === transport { state.transports[transport.address] = nil }
        }
    }

    /// Takes one datagram and decides what becomes of it.
    func transmit(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress) {
        guard let from = Self.host(of: source), let to = Self.host(of: destination) else { return }
        let arrivals = state.withLock { state -> [Arrival] in
            state.statistics.sentDatagrams += 1
            state.trace = Self.extend(state.trace, at: time.now, source, destination, bytes)
            return decide(bytes, from, to, &state)
        }
        for arrival in arrivals {
            time.schedule(after: arrival.delay) { [self] in deliver(arrival.bytes, from: source, to: destination) }
        }
    }

    /// Multicasts on the segment that all hosts share, the sender's own among them.
    func transmitBeacon(_ bytes: [UInt8], from source: SocketAddress) {
        guard let from = Self.host(of: source) else { return }
        let heard = state.withLock { state -> [(SimulatedTransport, Arrival)] in
            state.statistics.beacons += 1
            state.trace = Self.extend(state.trace, at: time.now, source, source, bytes)
            var heard: [(SimulatedTransport, Arrival)] = []
            for address in state.transports.keys.sorted() {
                guard let transport = state.transports[address], let to = Self.host(of: address) else { continue }
                for arrival in decide(bytes, from, to, &state) { heard.append((transport, arrival)) }
            }
            return heard
        }
        for (transport, arrival) in heard {
            time.schedule(after: arrival.delay) { transport.deliverBeacon(arrival.bytes, from: source) }
        }
    }

    private struct Arrival {
        var bytes: [UInt8]
        var delay: TimeSpan
    }

    private func decide(_ bytes: [UInt8], _ from: Int, _ to: Int, _ state: inout State) -> [Arrival] {
        if from == to { return [Arrival(bytes: bytes, delay: .microseconds(20))] }
        let key = PathKey(from: from, to: to)
        let conditions = state.conditions[key] ?? state.standard
        guard !conditions.isCut, state.groups[from, default: 0] == state.groups[to, default: 0] else {
            state.statistics.cutDatagrams += 1
            return []
        }
        guard bytes.count <= conditions.maximumBytes else {
            state.statistics.tooLargeDatagrams += 1
            return []
        }
        var random = state.generators[key] ?? RandomStream(testSeed: pathSeed(key))
        defer { state.generators[key] = random }
        guard random.unit() >= conditions.loss else {
            state.statistics.lostDatagrams += 1
            return []
        }
        var arrivals = [arrival(bytes, conditions, &random, &state.statistics)]
        if random.unit() < conditions.duplication {
            state.statistics.duplicatedDatagrams += 1
            arrivals.append(arrival(bytes, conditions, &random, &state.statistics))
        }
        return arrivals
    }

    private func arrival(
        _ bytes: [UInt8], _ conditions: PathConditions, _ random: inout RandomStream, _ statistics: inout Statistics
    ) -> Arrival {
        var delay = conditions.delay + conditions.jitter.scaled(by: random.unit())
        if random.unit() < conditions.reordering {
            statistics.reorderedDatagrams += 1
            delay = delay + conditions.reorderingDelay.scaled(by: random.unit())
        }
        var bytes = bytes
        if random.unit() < conditions.corruption {
            statistics.corruptedDatagrams += 1
            corrupt(&bytes, &random)
        }
        return Arrival(bytes: bytes, delay: delay)
    }

    private func corrupt(_ bytes: inout [UInt8], _ random: inout RandomStream) {
        if random.below(4) == 0 {
            bytes.removeLast(random.below(bytes.count + 1))
            return
        }
        for _ in 0...random.below(4) where !bytes.isEmpty {
            bytes[random.below(bytes.count)] ^= 1 << UInt8(random.below(8))
        }
    }

    private func pathSeed(_ key: PathKey) -> UInt64 {
        seed &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(key.from + 1) << 32 &+ UInt64(key.to + 1)
    }

    private func deliver(_ bytes: [UInt8], from source: SocketAddress, to destination: SocketAddress) {
        let (receiver, sender) = state.withLock { state in
            let receiver = state.transports[destination]
            if receiver == nil {
                state.statistics.unreachableDatagrams += 1
            } else {
                state.statistics.deliveredDatagrams += 1
            }
            return (receiver, state.transports[source])
        }
        if let receiver {
            receiver.deliver(bytes, from: source, at: time.now)
        } else if let sender {
            time.schedule(after: Self.unreachableDelay) { sender.noteUnreachable(destination) }
        }
    }

    private static func extend(
        _ trace: Bytes32, at now: Int64, _ source: SocketAddress, _ destination: SocketAddress, _ bytes: [UInt8]
    ) -> Bytes32 {
        var input: [UInt8] = []
        input.reserveCapacity(bytes.count + 64)
        trace.append(to: &input)
        for shift in stride(from: 0, to: 64, by: 8) { input.append(UInt8(truncatingIfNeeded: now >> Int64(shift))) }
        for address in [source, destination] {
            input += address.addressBytes
            input += [UInt8(address.port >> 8), UInt8(address.port & 255)]
        }
        input += bytes
        return Digest.hash32(input)
    }
}
