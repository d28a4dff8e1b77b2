import MeshBase
import MeshCrypto
import MeshWire

/// The mesh's invites: join secrets that any member may admit with, until one revokes them.
///
/// A pure function of the INVITE and REVOKE records seen, whatever their order, but for `expiresAt`, which only the
/// node that made an invite knows: its own monotonic timer revokes it by a record.
struct Invites: Sendable {
    struct Invite: Sendable {
        var secret: GroupSecret
        var author: PeerID
        var lamport: UInt64
        var expiresAt: HostTime?
    }

    private var invites: [SecretID: Invite] = [:]
    /// Revoked for ever; a REVOKE may come before its INVITE. Bounded: beyond it the oldest are forgotten, whose INVITE
    /// has long come.
    private var revoked: Set<SecretID> = []
    private var revokedOrder: [SecretID] = []
    /// Made here and not yet a record.
    private var creating: [SecretID: Creation] = [:]
    private var revoking: [SecretID: CommandToken] = [:]
    /// Expiries of invites made in an earlier life, until their record is replayed.
    private var inherited: [SecretID: HostTime] = [:]

    private struct Creation: Sendable {
        var token: CommandToken?
        var expiresAt: HostTime?
    }

    static let maximumRevoked = 4096

    /// Secrets worth something, newest first. At most `limit`: when members made more at once, the newest count, the
    /// same ones on every node that holds the same records.
    func active(limit: Int) -> [(id: SecretID, invite: Invite)] {
        let newestFirst = invites.sorted { ($0.value.lamport, $0.key) > ($1.value.lamport, $1.key) }
        return newestFirst.prefix(limit).map { ($0.key, $0.value) }
    }

    var count: Int { invites.count + creating.count }

    subscript(id: SecretID) -> Invite? { invites[id] }

    mutating func beginCreating(_ id: SecretID, token: CommandToken?, expiresAt: HostTime?) {
        creating[id] = Creation(token: token, expiresAt: expiresAt)
    }

    mutating func beginRevoking(_ id: SecretID, token: CommandToken) { revoking[id] = token }

    /// Its record cannot be made. Returns who waits for it.
    mutating func cancelCreating(_ id: SecretID) -> CommandToken? { creating.removeValue(forKey: id)?.token }

    /// The record cannot be made. Returns who waits for it; an invite that nobody revoked by hand expires later.
    mutating func cancelRevoking(_ id: SecretID, retryAt: HostTime) -> CommandToken? {
        if let token = revoking.removeValue(forKey: id) { return token }
        invites[id]?.expiresAt = retryAt
        return nil
    }

    mutating func inherit(_ id: SecretID, expiresAt: HostTime) {
        if invites[id] != nil { invites[id]?.expiresAt = expiresAt } else { inherited[id] = expiresAt }
    }

    /// An INVITE record. Returns whether it counts, and who waits for it.
    mutating func add(
        _ secret: GroupSecret, author: PeerID, lamport: UInt64
    ) -> (isActive: Bool, token: CommandToken?) {
        let creation = creating.removeValue(forKey: secret.id)
        let inheritedExpiry = inherited.removeValue(forKey: secret.id)
        guard !revoked.contains(secret.id) else { return (false, creation?.token) }
        guard invites[secret.id] == nil else { return (true, creation?.token) }
        invites[secret.id] = Invite(
            secret: secret, author: author, lamport: lamport, expiresAt: creation?.expiresAt ?? inheritedExpiry)
        return (true, creation?.token)
    }

    /// A REVOKE record. Returns whether anything changed, and who waits for it.
    mutating func revoke(_ id: SecretID) -> (isNew: Bool, token: CommandToken?) {
        let token = revoking.removeValue(forKey: id)
        guard revoked.insert(id).inserted else { return (false, token) }
        revokedOrder.append(id)
        if revokedOrder.count > Self.maximumRevoked { revoked.remove(revokedOrder.removeFirst()) }
        invites[id] = nil
        return (true, token)
    }

    /// Invites whose time is up; each is handed out once.
    mutating func takeExpired(at now: HostTime) -> [SecretID] {
        let expired = invites.filter { $0.value.expiresAt ?? .distantFuture <= now }.keys.sorted()
        for id in expired { invites[id]?.expiresAt = nil }
        return expired
    }

    var nextDeadline: HostTime? { invites.values.lazy.compactMap(\.expiresAt).min() }

    /// What must survive a restart.
    func expiring(at now: HostTime) -> [SessionState.ExpiringInvite] {
        let pending = invites.compactMapValues(\.expiresAt).sorted { $0.key < $1.key }
        return pending.prefix(SessionState.maximumExpiringInvites).map {
            SessionState.ExpiringInvite(id: $0.key, remaining: max($0.value - now, .zero))
        }
    }
}
