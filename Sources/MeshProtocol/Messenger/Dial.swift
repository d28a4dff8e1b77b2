import MeshBase
import MeshCrypto
import MeshWire

/// One attempt to link: all addresses of a request raced, the first finished handshake wins. Also how keys are replaced:
/// a rekey is a dial to the link's own address.
struct Dial: Sendable {
    enum Purpose: Hashable, Sendable {
        case link
        case rekey(PeerID)
    }

    /// One address under trial.
    struct Target: Sendable {
        let address: SocketAddress
        /// When the next INIT goes; `nil` when this address has failed.
        var nextSendAt: HostTime?
        var sendCount = 0
        var firstSentAt: HostTime = .distantPast
        var localIndex: UInt32?
        var handshake: NoiseHandshake?
        /// INIT up to and with `mac1`: 336 bytes, the same at every retransmission.
        var initiation: [UInt8] = []
        var cookie: SecretBytes?
        /// A cookie may cause one datagram out of turn, not a volley.
        var cookiesTaken = 0
    }

    /// How often an INIT goes at an agreed instant: at once, after 250 and after 750 ms.
    static let punchRounds = 3

    let number: UInt64
    let request: DialRequest
    let purpose: Purpose
    let deadline: HostTime
    var targets: [Target]
    /// The most telling failure so far.
    var failure = DialFailure.noAnswer

    /// When something is to be done.
    var nextDeadline: HostTime {
        var next = deadline
        for target in targets {
            if let sendAt = target.nextSendAt { next = min(next, sendAt) }
        }
        return next
    }

    var hasFailedEverywhere: Bool { targets.allSatisfy { $0.nextSendAt == nil } }
}

/// The last message of a handshake, sent again until the peer shows that it has it.
struct PendingFinal: Sendable {
    let localIndex: UInt32
    let slot: Int
    let address: SocketAddress
    let bytes: [UInt8]
    var nextSendAt: HostTime
    var sendCount: Int
    let endsAt: HostTime
}

/// Remembers when addresses were last tried, and which speak a foreign version. Bounded: the oldest is forgotten.
struct DialHistory: Sendable {
    struct Mismatch: Sendable {
        var theirMinimum: UInt8
        var theirMaximum: UInt8
        var notBefore: HostTime
        var wait: TimeSpan
        var peer: PeerID
        var address: SocketAddress
    }

    private var attempts: [(address: SocketAddress, at: HostTime)] = []
    private var mismatches: [Mismatch] = []
    private let interval: TimeSpan
    private let firstWait: TimeSpan
    private let longestWait: TimeSpan
    private static let maximumAttempts = 1024
    private static let maximumMismatches = 64

    init(configuration: LinkConfiguration) {
        interval = configuration.dialIntervalPerAddress
        firstWait = configuration.versionBackOff
        longestWait = configuration.maximumVersionBackOff
    }

    /// When the next attempt at an address may begin: 5 s after the one before.
    ///
    /// AB-64 wants one INIT per 5 s and unproven target; the protocol wants retransmissions from 250 ms on. Both hold
    /// when "one INIT" is read as one attempt: the same 352 bytes, at most six times in 10 s, never a new handshake. So
    /// a hint, a ticket or a gossiped address can cause at most six small datagrams per 10 s, and never an answer-sized
    /// flood. An address that answered is proven, and forgotten here.
    mutating func nextAttempt(at address: SocketAddress, now: HostTime) -> HostTime {
        attempts.removeAll { now - $0.at >= interval }
        return attempts.last { $0.address == address }.map { $0.at + interval } ?? now
    }

    mutating func noteAttempt(at address: SocketAddress, now: HostTime) {
        if attempts.count >= Self.maximumAttempts { attempts.removeFirst() }
        attempts.append((address, now))
    }

    mutating func noteProven(_ address: SocketAddress) {
        attempts.removeAll { $0.address == address }
        mismatches.removeAll { $0.address == address }
    }

    // MARK: Foreign versions

    func mismatch(peer: PeerID?, address: SocketAddress, at now: HostTime) -> Mismatch? {
        mismatches.first { ($0.address == address || $0.peer == peer) && now < $0.notBefore }
    }

    /// Returns whether this peer's version is news.
    mutating func noteMismatch(_ payload: HandshakePayload, address: SocketAddress, at now: HostTime) -> Bool {
        let position = mismatches.firstIndex { $0.peer == payload.node }
        let wait = position.map { min(mismatches[$0].wait * 2, longestWait) } ?? firstWait
        if let position { mismatches.remove(at: position) }
        if mismatches.count >= Self.maximumMismatches { mismatches.removeFirst() }
        mismatches.append(
            Mismatch(
                theirMinimum: payload.minimumVersion, theirMaximum: payload.maximumVersion, notBefore: now + wait,
                wait: wait, peer: payload.node, address: address))
        return position == nil
    }
}
