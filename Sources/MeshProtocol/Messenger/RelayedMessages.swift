import MeshBase
import MeshCrypto
import MeshWire

/// Makes messages that others pass on.
enum RelaySeal {
    /// `recipient`: which process life of whom. `nonce`: 24 fresh random bytes.
    static func seal(
        _ inner: [UInt8], to recipient: ChainKey, counter: UInt64, hops: UInt8, mesh: MeshID, secret: GroupSecret,
        nonce: [UInt8], identity: NodeIdentity
    ) throws(CryptoError) -> RelayedMessage {
        var message = RelayedMessage(
            hopsLeft: hops, author: identity.peerID, incarnation: identity.incarnation, counter: counter,
            recipient: recipient.author, recipientIncarnation: recipient.incarnation, epoch: secret.id, nonce: nonce,
            sealed: [], signature: [])
        try message.seal(inner, mesh: mesh, secret: secret, signing: identity.signing)
        return message
    }
}

/// Which relayed messages were seen, by author and process life: bounded in every direction.
struct RelayHistory: Sendable {
    private struct Seen: Sendable {
        var counters = IntervalSet(maximumIntervals: 256)
        var usedAt: HostTime
    }

    /// Process lives remembered of one author; the least recently used goes first.
    private static let maximumLives = 4
    private var seen: [PeerID: [Incarnation: Seen]] = [:]

    func contains(_ message: RelayedMessage) -> Bool {
        seen[message.author]?[message.incarnation]?.counters.contains(message.counter) ?? false
    }

    /// For authors admitted to the mesh only, so that the table is bounded by the members.
    mutating func insert(_ message: RelayedMessage, at now: HostTime) {
        var lives = seen[message.author] ?? [:]
        var life = lives[message.incarnation] ?? Seen(usedAt: now)
        life.counters.insert(message.counter)
        life.usedAt = now
        lives[message.incarnation] = life
        if lives.count > Self.maximumLives,
            let oldest = lives.min(by: { ($0.value.usedAt, $0.key) < ($1.value.usedAt, $1.key) })
        {
            lives[oldest.key] = nil
        }
        seen[message.author] = lives
    }
}
