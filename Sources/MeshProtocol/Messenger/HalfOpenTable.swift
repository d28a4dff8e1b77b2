import MeshBase
import MeshCrypto
import MeshWire

/// Handshakes that this node answered and that are not finished: 64 in all, each for 10 s, a few per network.
///
/// When a network's share or the table is full the newest is refused: the older ones may be about to finish, and all are
/// gone in seconds. A finished or failed handshake gives its place back at once (AB-37).
struct HalfOpenTable: Sendable {
    struct Entry: Sendable {
        let localIndex: UInt32
        let remoteIndex: UInt32
        var handshake: NoiseHandshake
        let secretID: SecretID
        let source: SocketAddress
        /// Its `mac1` and the source name the INIT.
        let initiationMAC: Bytes16
        /// The RESP, for the same INIT again.
        let response: [UInt8]
        let createdAt: HostTime
    }

    /// Oldest first.
    private(set) var entries: [Entry] = []
    private let maximum: Int
    private let maximumPerNetwork: Int
    private let maximumPerProvenNetwork: Int
    private let life: TimeSpan

    init(configuration: LinkConfiguration) {
        maximum = configuration.maximumHalfOpen
        maximumPerNetwork = configuration.maximumHalfOpenPerNetwork
        maximumPerProvenNetwork = configuration.maximumHalfOpenPerProvenNetwork
        life = configuration.halfOpenLife
    }

    enum Admission {
        case admitted
        /// The network's share is used up, but not that of addresses which are proven.
        case needsProof
        case full
    }

    func admission(of source: SocketAddress, isProven: Bool) -> Admission {
        guard entries.count < maximum else { return .full }
        var sameNetwork = 0
        for entry in entries where entry.source.networkPrefix == source.networkPrefix { sameNetwork += 1 }
        if sameNetwork < maximumPerNetwork { return .admitted }
        guard sameNetwork < maximumPerProvenNetwork else { return .full }
        return isProven ? .admitted : .needsProof
    }

    mutating func insert(_ entry: Entry) { entries.append(entry) }

    func entry(initiationMAC: Bytes16, source: SocketAddress) -> Entry? {
        entries.first { $0.initiationMAC == initiationMAC && $0.source == source }
    }

    func entry(localIndex: UInt32) -> Entry? { entries.first { $0.localIndex == localIndex } }

    mutating func remove(localIndex: UInt32) { entries.removeAll { $0.localIndex == localIndex } }

    /// Forgets what is too old; returns the indexes.
    mutating func expire(at now: HostTime) -> [UInt32] {
        var indexes: [UInt32] = []
        while let first = entries.first, now - first.createdAt >= life {
            indexes.append(first.localIndex)
            entries.removeFirst()
        }
        return indexes
    }

    var nextDeadline: HostTime? { entries.first.map { $0.createdAt + life } }
}
