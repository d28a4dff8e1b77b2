import MeshBase
import MeshCrypto
import MeshWire

/// The secrets between this node and each other member, and who may not link at all.
///
/// Under them two members find each other when a removal has changed the epoch secret while one of them was away; a
/// removed member knows none but its own, and is refused by its key. Each is made when it is first needed.
struct PairSecrets: Sendable {
    private let identity: NodeIdentity
    private(set) var members: Set<PeerID> = []
    private(set) var removed: Set<PeerID> = []
    private var secrets: [PeerID: GroupSecret] = [:]
    private var peers: [SecretID: PeerID] = [:]
    /// First datagrams that no other secret opens and that may be tried against these: a try costs half a microsecond a
    /// member, and anybody can send junk.
    private var allowance = Allowance(burst: 64, perSecond: 32)

    init(identity: NodeIdentity) { self.identity = identity }

    mutating func admit(_ peer: PeerID) {
        if peer != identity.peerID, !removed.contains(peer) { members.insert(peer) }
    }

    mutating func set(members: Set<PeerID>, removed: Set<PeerID>) {
        self.members = members.subtracting([identity.peerID])
        self.removed = removed
        for (peer, secret) in secrets where !self.members.contains(peer) {
            secrets[peer] = nil
            peers[secret.id] = nil
        }
    }

    /// With a member; nil for anybody else. Cost: 100 µs the first time.
    mutating func secret(with peer: PeerID, mesh: MeshID) -> GroupSecret? {
        if let known = secrets[peer] { return known }
        guard members.contains(peer), let secret = PairSecret.between(identity.signing, peer, mesh: mesh) else {
            return nil
        }
        secrets[peer] = secret
        peers[secret.id] = peer
        return secret
    }

    func secret(_ id: SecretID) -> GroupSecret? { peers[id].flatMap { secrets[$0] } }

    /// Between whom: the only one who may finish a handshake under it.
    func peer(_ id: SecretID) -> PeerID? { peers[id] }

    /// Whether a first datagram that no other secret opens is worth a look.
    mutating func mayTry(at now: HostTime) -> Bool { !members.isEmpty && allowance.take(at: now) }

    /// The one that a first datagram was made under; `excluded` have no need of one.
    mutating func secret(
        opening initiation: Span<UInt8>, mesh: MeshID, besides excluded: Set<PeerID>
    ) -> GroupSecret? {
        for peer in members where !excluded.contains(peer) {
            guard let secret = secret(with: peer, mesh: mesh) else { continue }
            if HandshakeSuite.hasValidMAC1(initiation, secret: secret) { return secret }
        }
        return nil
    }
}
