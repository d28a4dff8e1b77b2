import MeshBase
import MeshCrypto
import MeshWire

/// The mesh's invites: join secrets that any member may admit with, until their time is up or one revokes them.
///
/// Which invites count is a pure function of the INVITE and REVOKE records that count, whatever their order; when each
/// expires is this node's own judgement: it starts a timer of the lifetime in the record when it accepts it, because no
/// two hosts need agree on the time of day. Everybody's timer is about as old, the first to run out publishes a REVOKE,
/// and a node whose own has run out honours the secret no more, REVOKE or not.
///
/// Bounds, each again a function of the records alone: the newest 256 INVITEs and the newest 4,096 REVOKEs are kept.
struct Invites: Sendable {
    /// One INVITE record.
    struct Invite: Sendable {
        let secret: GroupSecret
        let author: PeerID
        let lamport: UInt64
        let record: RecordID

        var id: SecretID { secret.id }

        static func isOlder(_ left: Invite, _ right: Invite) -> Bool {
            (left.lamport, left.id, left.record) < (right.lamport, right.id, right.record)
        }
    }

    private struct Revocation: Sendable {
        let lamport: UInt64
        let record: RecordID
        let id: SecretID

        static func isOlder(_ left: Revocation, _ right: Revocation) -> Bool {
            (left.lamport, left.record) < (right.lamport, right.record)
        }
    }

    /// Oldest first.
    private var invites: [Invite] = []
    /// Oldest first. A REVOKE may come before its INVITE.
    private var revocations: [Revocation] = []
    private var revokedCounts: [SecretID: Int] = [:]
    /// When each runs out here; kept while its INVITE is, so that an invite whose REVOKE turns out void expires all the
    /// same. Those of an earlier life wait here for their record.
    private var expiries: [SecretID: HostTime] = [:]
    private var expired: Set<SecretID> = []
    /// Run out here, with no REVOKE seen: when this node publishes one.
    private var revokeAt: [SecretID: HostTime] = [:]
    /// Made here and not yet a record; revoked here and not yet a record.
    private var creating: [SecretID: CommandToken?] = [:]
    private var revoking: [SecretID: CommandToken] = [:]

    /// Worth something now, newest first, each secret once.
    private(set) var inForce: [Invite] = []
    private(set) var nextDeadline: HostTime?

    static let maximumInvites = 256
    static let maximumRevocations = 4096
    /// Beyond it a lifetime is as good as none.
    static let maximumLifetime = TimeSpan.seconds(10 * 366 * 86_400 as Int64)

    /// At most `limit`: when members made more at once, the newest count, the same ones on every node that holds the
    /// same records.
    func active(limit: Int) -> ArraySlice<Invite> { inForce.prefix(limit) }

    var count: Int { inForce.count + creating.count }

    /// An invite that no REVOKE names, expired or not.
    subscript(id: SecretID) -> Invite? { isRevoked(id) ? nil : invites.last { $0.id == id } }

    /// `nil` when it never expires.
    func expiresAt(_ id: SecretID) -> HostTime? { expiries[id] }

    private func isRevoked(_ id: SecretID) -> Bool { revokedCounts[id] != nil }

    // MARK: Commands

    mutating func beginCreating(_ id: SecretID, token: CommandToken?) { creating[id] = .some(token) }

    mutating func beginRevoking(_ id: SecretID, token: CommandToken) { revoking[id] = token }

    /// Its record cannot be made. Returns who waits for it.
    mutating func cancelCreating(_ id: SecretID) -> CommandToken? { creating.removeValue(forKey: id) ?? nil }

    /// The record cannot be made. Returns who waits for it; one that nobody asked for by hand is tried again.
    mutating func cancelRevoking(_ id: SecretID, retryAt: HostTime) -> CommandToken? {
        if let token = revoking.removeValue(forKey: id) { return token }
        planRevocation(of: id, at: retryAt)
        return nil
    }

    /// The time that was left in an earlier life goes on from here.
    mutating func inherit(_ id: SecretID, expiresAt: HostTime) {
        expiries[id] = min(expiries[id] ?? expiresAt, expiresAt)
        refresh()
    }

    // MARK: Records

    /// An INVITE record. Returns whether it is worth something now, and who waits for it. `lifetime`: `nil` for ever.
    mutating func add(
        _ invite: Invite, lifetime: TimeSpan?, at now: HostTime
    ) -> (isActive: Bool, token: CommandToken?) {
        let token = creating.removeValue(forKey: invite.id) ?? nil
        let place = invites.partitionPoint { Invite.isOlder($0, invite) }
        guard !invites.contains(where: { $0.record == invite.record }) else { return (isInForce(invite.id), token) }
        guard place > 0 || invites.count < Self.maximumInvites else { return (false, token) }
        invites.insert(invite, at: place)
        if let lifetime { inherit(invite.id, expiresAt: now + min(lifetime, Self.maximumLifetime)) }
        if invites.count > Self.maximumInvites { forgetTimers(of: invites.removeFirst().id) }
        refresh()
        return (isInForce(invite.id), token)
    }

    private func isInForce(_ id: SecretID) -> Bool { inForce.contains { $0.id == id } }

    /// A REVOKE record. Returns whether anything changed, and who waits for it.
    mutating func revoke(
        _ id: SecretID, lamport: UInt64, record: RecordID
    ) -> (isNew: Bool, token: CommandToken?) {
        let token = revoking.removeValue(forKey: id)
        let revocation = Revocation(lamport: lamport, record: record, id: id)
        let place = revocations.partitionPoint { Revocation.isOlder($0, revocation) }
        let isKnown = place < revocations.count && revocations[place].record == record
        guard !isKnown, place > 0 || revocations.count < Self.maximumRevocations else { return (false, token) }
        let isNew = !isRevoked(id)
        revocations.insert(revocation, at: place)
        revokedCounts[id, default: 0] += 1
        if revocations.count > Self.maximumRevocations { takeBack(at: 0) }
        revokeAt[id] = nil
        refresh()
        return (isNew, token)
    }

    private mutating func takeBack(at position: Int) {
        let id = revocations.remove(at: position).id
        let count = (revokedCounts[id] ?? 1) - 1
        revokedCounts[id] = count > 0 ? count : nil
    }

    /// A record that counted does so no longer, because its author forked. True when it was an INVITE or REVOKE here.
    mutating func void(_ record: RecordID) -> Bool {
        if let position = invites.firstIndex(where: { $0.record == record }) {
            forgetTimers(of: invites.remove(at: position).id)
        } else if let position = revocations.firstIndex(where: { $0.record == record }) {
            takeBack(at: position)
        } else {
            return false
        }
        refresh()
        return true
    }

    /// Unless another INVITE of the same secret is left.
    private mutating func forgetTimers(of id: SecretID) {
        guard !invites.contains(where: { $0.id == id }) else { return }
        expiries[id] = nil
        expired.remove(id)
        revokeAt[id] = nil
    }

    // MARK: Time

    /// Time that passed while the clock stood still.
    mutating func age(by span: TimeSpan) {
        for id in expiries.keys { expiries[id] = expiries[id].map { $0 - max(span, .zero) } }
        refresh()
    }

    /// Invites whose time is up, each handed out once, with their authors; those that were revoked are not told.
    mutating func takeExpired(at now: HostTime) -> [Invite] {
        let due = running.filter { $0.value <= now }.keys.sorted()
        guard !due.isEmpty else { return [] }
        expired.formUnion(due)
        refresh()
        return due.compactMap { self[$0] }
    }

    /// Timers of invites whose record is here.
    private var running: [SecretID: HostTime] {
        let known = Set(invites.lazy.map(\.id))
        return expiries.filter { known.contains($0.key) && !expired.contains($0.key) }
    }

    /// This node publishes the REVOKE then, unless another member has done so.
    mutating func planRevocation(of id: SecretID, at time: HostTime) {
        revokeAt[id] = time
        refresh()
    }

    mutating func takeRevocationsDue(at now: HostTime) -> [SecretID] {
        let due = revokeAt.filter { $0.value <= now }.keys.sorted()
        for id in due { revokeAt[id] = nil }
        if !due.isEmpty { refresh() }
        return due
    }

    /// What must survive a restart: an expired one too, until it is revoked.
    func expiring(at now: HostTime) -> [SessionState.ExpiringInvite] {
        let pending = expiries.filter { !isRevoked($0.key) }.sorted { $0.key < $1.key }
        return pending.prefix(SessionState.maximumExpiringInvites).map {
            SessionState.ExpiringInvite(id: $0.key, remaining: max($0.value - now, .zero))
        }
    }

    /// After every change. Cost: at most 256 invites are looked at.
    private mutating func refresh() {
        var seen: Set<SecretID> = []
        inForce = invites.reversed().filter { invite in
            !isRevoked(invite.id) && !expired.contains(invite.id) && seen.insert(invite.id).inserted
        }
        nextDeadline = [running.values.min(), revokeAt.values.min()].compactMap(\.self).min()
    }
}
