import MeshBase
import MeshCrypto
import MeshWire

/// Seals, signs, opens and checks messages that others pass on.
enum RelaySeal {
    private static let domain = Array("STARLING/1 relay\0".utf8)

    /// `recipient`: which process life of whom. `nonce`: 24 fresh random bytes.
    static func seal(
        _ inner: [UInt8], to recipient: ChainKey, counter: UInt64, hops: UInt8, mesh: MeshID, secret: GroupSecret,
        nonce: [UInt8], identity: NodeIdentity
    ) throws(CryptoError) -> RelayedMessage {
        var message = RelayedMessage(
            hopsLeft: hops, author: identity.peerID, incarnation: identity.incarnation, counter: counter,
            recipient: recipient.author, recipientIncarnation: recipient.incarnation, epoch: secret.id, nonce: nonce,
            sealed: [], signature: [])
        let associated = associatedBytes(message, mesh: mesh, sealedByteCount: inner.count + WireLimits.tagBytes)
        message.sealed = try AuthenticatedCipher.sealExtended(
            inner.span, associated: associated.span, nonce: nonce.span, key: secret.envelopeKey)
        message.signature = identity.signing.sign(signedBytes(message, mesh: mesh).span)
        return message
    }

    /// Only the author's own signature makes it the author's (AB-52).
    static func isSignatureValid(_ message: RelayedMessage, mesh: MeshID) -> Bool {
        Signature.isValid(message.signature.span, of: signedBytes(message, mesh: mesh).span, by: message.author)
    }

    static func open(_ message: RelayedMessage, mesh: MeshID, secret: GroupSecret) -> [UInt8]? {
        let associated = associatedBytes(message, mesh: mesh, sealedByteCount: message.sealed.count)
        // A seal that does not hold says nothing more.
        return try? AuthenticatedCipher.openExtended(
            message.sealed.span, associated: associated.span, nonce: message.nonce.span, key: secret.envelopeKey)
    }

    private static func associatedBytes(_ message: RelayedMessage, mesh: MeshID, sealedByteCount: Int) -> [UInt8] {
        var writer = ByteWriter(reserving: 160)
        writer.write(mesh.value)
        message.encodeHeader(into: &writer, sealedByteCount: sealedByteCount)
        return writer.bytes
    }

    private static func signedBytes(_ message: RelayedMessage, mesh: MeshID) -> [UInt8] {
        var writer = ByteWriter(reserving: message.sealed.count + 256)
        writer.write(bytes: domain)
        writer.write(mesh.value)
        message.encodeUnsigned(into: &writer)
        return writer.bytes
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
