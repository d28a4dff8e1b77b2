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
        /// Datagrams to an address that a translator no longer knows.
        public var staleDatagrams: UInt64 = 0

        /// Everything that was done to datagrams against their will.
        public var faults: UInt64 {
            lostDatagrams + cutDatagrams + tooLargeDatagrams + duplicatedDatagrams + reorderedDatagrams
                + corruptedDatagrams + staleDatagrams
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
        /// Hosts that reach nobody.
        var isolated: Set<Int> = []
        /// What the address translator in front of a host shows of it, and the way back.
        var outside: [SocketAddress: SocketAddress] = [:]
        var inside: [SocketAddress: SocketAddress] = [:]
        /// Largest UDP payload that reaches a host, where it is less than the path's.
        var narrowHosts: [Int: Int] = [:]
        var slowHosts: [Int: TimeSpan] = [:]
        var tap: (@Sendable (SocketAddress, SocketAddress, [UInt8]) -> Void)?
        var transports: [SocketAddress: SimulatedTransport] = [:]
        /// Hosts behind an address translator.
        var translators: [Int: AddressTranslator] = [:]
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

    /// From now on nothing from `source` reaches `destination`; the other way stays as it is.
    public func deafen(_ destination: Int, to source: Int, _ isDeaf: Bool = true) {
        state.withLock { state in
            let key = PathKey(from: source, to: destination)
            var conditions = state.conditions[key] ?? state.standard
            conditions.isCut = isDeaf
            state.conditions[key] = conditions
        }
    }

    /// No datagram reaches or leaves this host, until it is taken back.
    public func isolate(_ host: Int, _ isIsolated: Bool = true) {
        state.withLock { state in
            if isIsolated { state.isolated.insert(host) } else { state.isolated.remove(host) }
        }
    }

    /// Nothing with a larger UDP payload reaches this host; `nil` takes it back.
    public func narrow(_ host: Int, to byteCount: Int?) { state.withLock { $0.narrowHosts[host] = byteCount } }

    /// Everything to this host takes up to so much longer; `nil` takes it back.
    public func slow(_ host: Int, by span: TimeSpan?) { state.withLock { $0.slowHosts[host] = span } }

    /// An address translator in front of the host gives it another port: its datagrams come from there, datagrams to
    /// there reach it, and whatever still goes to the address before vanishes. `nil` takes the translator away.
    public func rebind(_ host: Int, to port: UInt16?, own: UInt16 = 47800) {
        let address = Self.address(ofHost: host, port: own)
        state.withLock { state in
            if let earlier = state.outside.removeValue(forKey: address) { state.inside[earlier] = nil }
            guard let port else { return }
            let outside = Self.address(ofHost: host, port: port)
            state.outside[address] = outside
            state.inside[outside] = address
        }
    }

    /// Sees every datagram as it leaves its host, with its addresses on the wire.
    public func setTap(_ tap: (@Sendable (SocketAddress, SocketAddress, [UInt8]) -> Void)?) {
        state.withLock { $0.tap = tap }
    }

    /// Ends partitions, cuts, translators and special conditions; the standard stays.
    public func heal() {
        state.withLock { state in
            state.groups = [:]
            state.conditions = [:]
            state.isolated = []
            state.outside = [:]
            state.inside = [:]
            state.narrowHosts = [:]
            state.slowHosts = [:]
        }
    }

    // MARK: Address translators

    /// Puts a host behind a translator, before it starts: others see the host's address with another port, and what it
    /// did not ask for does not get in. `nil` takes the translator away.
    public func setTranslator(_ kind: AddressTranslator.Kind?, forHost host: Int) {
        state.withLock { $0.translators[host] = kind.map { AddressTranslator(kind: $0, host: host) } }
    }

    /// The translator restarts: all its mappings are gone, and new ones get new ports.
    public func forgetMappings(ofHost host: Int) {
        state.withLock { $0.translators[host]?.forget() }
    }

    /// What a host's own interface says, behind its translator.
    func innerAddress(of address: SocketAddress) -> SocketAddress {
        guard let host = Self.host(of: address) else { return address }
        let isBehind = state.withLock { $0.translators[host] != nil }
        return isBehind ? AddressTranslator.innerAddress(ofHost: host, port: address.port) : address
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
        let (arrivals, seen, tap) = state.withLock { state in
            var seen = state.outside[source] ?? source
            if from != to {
                seen = state.translators[from]?.outward(from: source, to: destination, at: time.now) ?? seen
            }
            state.statistics.sentDatagrams += 1
            state.trace = Self.extend(state.trace, at: time.now, seen, destination, bytes)
            return (decide(bytes, from, to, &state), seen, state.tap)
        }
        tap?(seen, destination, bytes)
        for arrival in arrivals {
            time.schedule(after: arrival.delay) { [self] in
                deliver(arrival.bytes, from: seen, of: source, to: destination)
            }
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
                guard let transport = state.transports[address], let to = Self.host(of: address),
                    from == to || state.translators[from] == nil && state.translators[to] == nil
                else { continue }
                for arrival in decide(bytes, from, to, &state) { heard.append((transport, arrival)) }
            }
            return heard
        }
        let seen = state.withLock { $0.outside[source] ?? source }
        for (transport, arrival) in heard {
            time.schedule(after: arrival.delay) { transport.deliverBeacon(arrival.bytes, from: seen) }
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
        let isParted = state.groups[from, default: 0] != state.groups[to, default: 0]
        guard !conditions.isCut, !isParted, !state.isolated.contains(from), !state.isolated.contains(to) else {
            state.statistics.cutDatagrams += 1
            return []
        }
        guard bytes.count <= min(conditions.maximumBytes, state.narrowHosts[to] ?? .max) else {
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
        if let slowness = state.slowHosts[to] {
            for index in arrivals.indices {
                arrivals[index].delay = arrivals[index].delay + slowness.scaled(by: random.unit())
            }
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

    private func deliver(
        _ bytes: [UInt8], from source: SocketAddress, of sender: SocketAddress, to destination: SocketAddress
    ) {
        let (receiver, sender) = state.withLock { state -> (SimulatedTransport?, SimulatedTransport?) in
            // Behind a translator only its present address leads to the host; it says nothing of the others.
            guard state.outside[destination] == nil else {
                state.statistics.staleDatagrams += 1
                return (nil, nil)
            }
            var inner: SocketAddress? = state.inside[destination] ?? destination
            if let host = Self.host(of: destination), state.translators[host] != nil, Self.host(of: sender) != host {
                inner = state.translators[host]?.inward(from: source, to: destination, at: time.now)
                // A translator that knows of nothing says nothing.
                guard inner != nil else {
                    state.statistics.cutDatagrams += 1
                    return (nil, nil)
                }
            }
            let receiver = inner.flatMap { state.transports[$0] }
            if receiver == nil {
                state.statistics.unreachableDatagrams += 1
            } else {
                state.statistics.deliveredDatagrams += 1
            }
            return (receiver, state.transports[sender])
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
