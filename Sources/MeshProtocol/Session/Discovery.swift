import MeshBase
import MeshCrypto
import MeshWire

/// Beacons on the local network: when to call, how a beacon is sealed and opened, and which ones are worth a dial.
///
/// A hint, never a gate. Beacons are sealed with a random nonce under a key that follows from a join or epoch secret,
/// so outsiders see random bytes of one size and cannot make us dial anybody. One who replays a beacon from an address
/// of its choice gets at most one dial per address in 5 s out of us, which is one 352-byte datagram (AB-64).
struct Discovery: Sendable {
    /// What a datagram on the beacon port turned out to be.
    enum Reading: Sendable {
        case beacon(Beacon, under: GroupSecret)
        case foreign
        /// Beyond the rate at which foreign datagrams are tried.
        case overRate
    }

    private(set) var nextAt: HostTime?
    /// How many calls of the burst at the start are done.
    private var burstStep = 0
    private var allowance = Allowance(burst: 200, perSecond: 100)
    private var answeredAt: HostTime?
    /// When an address was last dialled because of a beacon. Bounded: the oldest goes first.
    private var dialled: [SocketAddress: HostTime] = [:]

    /// Offsets of the burst: three calls, since a first one is often lost while an interface comes up.
    private static let burst: [TimeSpan] = [.zero, .milliseconds(100), .milliseconds(300)]
    private static let dialSpacing = TimeSpan.seconds(5 as Int64)
    private static let answerSpacing = TimeSpan.milliseconds(200)
    static let maximumDialled = 256
    /// Epoch secrets and join secrets tried on one datagram.
    static let maximumSecrets = 20

    /// Calls at once, and twice more soon: at the start, and when the network has changed.
    mutating func startBurst(at now: HostTime) {
        burstStep = 0
        nextAt = now
    }

    mutating func stop() { nextAt = nil }

    /// Sets the time of the next call; `interval` counts once the burst is over.
    mutating func noteCall(at now: HostTime, interval: TimeSpan) {
        burstStep += 1
        if burstStep < Self.burst.count {
            nextAt = now + (Self.burst[burstStep] - Self.burst[burstStep - 1])
        } else {
            nextAt = now + interval
        }
    }

    /// Brings the next call forward: a member is missing.
    mutating func hasten(to time: HostTime) {
        if let next = nextAt, next > time { nextAt = time }
    }

    static func seal(_ beacon: Beacon, under secret: GroupSecret, random: inout RandomStream) -> [UInt8] {
        let nonce = random.bytes(Beacon.nonceByteCount)
        let plain = beacon.encoded
        let nothing: [UInt8] = []
        guard
            let sealed = try? AuthenticatedCipher.sealExtended(
                plain.span, associated: nothing.span, nonce: nonce.span, key: secret.discoveryKey)
        else { preconditionFailure("sealing refused a key and nonce of the right size") }
        return nonce + sealed
    }

    /// Tries at most 17 secrets, and at most 100 datagrams a second.
    mutating func read(_ datagram: [UInt8], secrets: [GroupSecret], at now: HostTime) -> Reading {
        guard datagram.count == Beacon.datagramByteCount else { return .foreign }
        guard allowance.take(at: now) else { return .overRate }
        let nonce = Array(datagram.prefix(Beacon.nonceByteCount))
        let sealed = Array(datagram.dropFirst(Beacon.nonceByteCount))
        let nothing: [UInt8] = []
        for secret in secrets.prefix(Self.maximumSecrets) {
            // A failure to open is the normal case: the beacon belongs to another secret or to strangers.
            guard
                let plain = try? AuthenticatedCipher.openExtended(
                    sealed.span, associated: nothing.span, nonce: nonce.span, key: secret.discoveryKey)
            else { continue }
            guard let beacon = try? Beacon(decoding: plain) else { return .foreign }
            return .beacon(beacon, under: secret)
        }
        return .foreign
    }

    /// Whether a question may be answered now.
    mutating func mayAnswer(at now: HostTime) -> Bool {
        if let answeredAt, now - answeredAt < Self.answerSpacing { return false }
        answeredAt = now
        return true
    }

    /// Whether a beacon from `address` may lead to a dial now.
    mutating func mayDial(_ address: SocketAddress, at now: HostTime) -> Bool {
        if let last = dialled[address], now - last < Self.dialSpacing { return false }
        if dialled.count >= Self.maximumDialled, dialled[address] == nil {
            dialled = dialled.filter { now - $0.value < Self.dialSpacing }
            guard dialled.count < Self.maximumDialled else { return false }
        }
        dialled[address] = now
        return true
    }
}
