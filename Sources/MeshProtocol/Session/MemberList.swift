import MeshBase
import MeshCrypto
import MeshWire

/// Everybody who was ever admitted, each with the newest presence record it signed. The full list, on every node.
///
/// Who is a member follows from records alone (GENESIS, ADMIT); what a member says about itself follows from its own
/// signed presence. Neither says whether it is alive: that is each node's own judgement (`Liveness`).
struct MemberList: Sendable {
    struct Entry: Sendable {
        let peer: PeerID
        /// How it came in; `nil` for the founder, who needs none.
        var admission: Admission?
        /// The record of that admission is of a forked chain: it holds until another one comes.
        var isAdmissionVoid = false
        var isFounder = false
        /// The name it was admitted under, until its own record is here.
        var admittedName: String
        var presence: PresenceRecord?
        /// Process lives that a newer one has replaced, latest last: one that returns means two processes with one key.
        var superseded: [Incarnation] = []
        /// Its record came from this very machine, so its loopback addresses mean something here.
        var isToldFromThisHost = false
        /// Where it was last linked from, in this life or an earlier one. Newest first, at most four.
        var contacts: [SocketAddress] = []
        var conflictReportedAt: HostTime?

        var name: String { presence?.name ?? admittedName }
    }

    struct Admission: Hashable, Sendable {
        var by: PeerID
        var lamport: UInt64
        var record: RecordID
    }

    /// What became of a presence record.
    enum Verdict: Hashable, Sendable {
        /// Known already, or older than what is known.
        case stale
        /// Not signed by the one it names.
        case forged
        /// Of somebody not admitted, kept for a while in case an ADMIT follows.
        case parked
        case accepted(Change)
    }

    struct Change: Hashable, Sendable {
        var previousName: String?
        var isNewIncarnation = false
        var isFarewell = false
        /// Two processes use this key.
        var isConflict = false
    }

    /// Admitted peers in ascending order.
    private(set) var order: [PeerID] = []
    private var entries: [PeerID: Entry] = [:]
    /// Records of peers not admitted (yet). Oldest first in `parkedOrder`; the oldest goes when it is full (AB-35).
    private var parked: [PeerID: Parked] = [:]
    private var parkedOrder: [PeerID] = []
    private(set) var evictedCount: UInt64 = 0
    private var cachedDigest: Bytes16?

    private struct Parked: Sendable {
        var presence: PresenceRecord
        var isToldFromThisHost: Bool
    }

    static let maximumParked = 64
    private static let maximumSuperseded = 4
    private static let maximumContacts = SessionState.maximumContactAddresses

    var count: Int { order.count }

    func contains(_ peer: PeerID) -> Bool { entries[peer] != nil }

    subscript(peer: PeerID) -> Entry? { entries[peer] }

    /// Changes an entry in place; nothing happens for a stranger.
    mutating func update(_ peer: PeerID, _ body: (inout Entry) -> Void) {
        guard var entry = entries.removeValue(forKey: peer) else { return }
        body(&entry)
        entries[peer] = entry
    }

    /// Adds a member, or a second admission of one: the least in total order names who let it in, so that every node
    /// shows the same. True when it is new.
    mutating func admit(_ peer: PeerID, name: String, admission: Admission?) -> Bool {
        if let entry = entries[peer] {
            let isEarlier = admission.map { new in entry.admission.map { Self.isEarlier(new, $0) } ?? true } ?? false
            guard !entry.isFounder, isEarlier || entry.isAdmissionVoid && admission != nil else { return false }
            entries[peer]?.admission = admission
            entries[peer]?.isAdmissionVoid = false
            return false
        }
        entries[peer] = Entry(peer: peer, admission: admission, admittedName: name)
        order.insert(peer, at: order.partitionPoint { $0 < peer })
        return true
    }

    /// Out of the mesh: what it said about itself goes with it.
    mutating func remove(_ peer: PeerID) {
        guard entries.removeValue(forKey: peer) != nil else { return }
        order.removeAll { $0 == peer }
        cachedDigest = nil
    }

    private static func isEarlier(_ left: Admission, _ right: Admission) -> Bool {
        (left.lamport, left.by, left.record) < (right.lamport, right.by, right.record)
    }

    /// Remembers where `peer` answered.
    mutating func note(contact: SocketAddress, of peer: PeerID) {
        update(peer) { entry in
            entry.contacts.removeAll { $0 == contact }
            entry.contacts.insert(contact, at: 0)
            if entry.contacts.count > Self.maximumContacts { entry.contacts.removeLast() }
        }
    }

    // MARK: Presence

    /// Takes a record, whoever brought it. Compared before it is verified: a known record costs no signature check.
    mutating func apply(_ presence: PresenceRecord, mesh: MeshID, isToldFromThisHost: Bool) -> Verdict {
        guard let entry = entries[presence.peer] else {
            park(presence, isToldFromThisHost: isToldFromThisHost)
            return .parked
        }
        if let known = entry.presence, !presence.supersedes(known) { return .stale }
        guard presence.isSigned(mesh: mesh) else { return .forged }
        return .accepted(replace(entry, with: presence, isToldFromThisHost: isToldFromThisHost))
    }

    private mutating func replace(
        _ entry: Entry, with presence: PresenceRecord, isToldFromThisHost: Bool
    ) -> Change {
        var entry = entry
        var change = Change()
        if let known = entry.presence {
            if known.name != presence.name { change.previousName = known.name }
            if known.incarnation != presence.incarnation {
                change.isNewIncarnation = true
                change.isConflict =
                    known.startCount == presence.startCount || entry.superseded.contains(presence.incarnation)
                entry.superseded.append(known.incarnation)
                if entry.superseded.count > Self.maximumSuperseded { entry.superseded.removeFirst() }
            }
        }
        change.isFarewell = presence.state == .left
        entry.presence = presence
        entry.isToldFromThisHost = isToldFromThisHost
        entries[presence.peer] = entry
        cachedDigest = nil
        return change
    }

    private mutating func park(_ presence: PresenceRecord, isToldFromThisHost: Bool) {
        if let known = parked[presence.peer] {
            guard presence.supersedes(known.presence) else { return }
        } else {
            if parkedOrder.count >= Self.maximumParked {
                parked[parkedOrder.removeFirst()] = nil
                evictedCount &+= 1
            }
            parkedOrder.append(presence.peer)
        }
        parked[presence.peer] = Parked(presence: presence, isToldFromThisHost: isToldFromThisHost)
    }

    /// The record that was waiting for this admission, if any.
    mutating func takeParked(_ peer: PeerID) -> (presence: PresenceRecord, isToldFromThisHost: Bool)? {
        guard let waiting = parked.removeValue(forKey: peer) else { return nil }
        parkedOrder.removeAll { $0 == peer }
        return (waiting.presence, waiting.isToldFromThisHost)
    }

    var parkedCount: Int { parkedOrder.count }

    // MARK: Comparing with another node

    /// Equal on nodes that hold the same records. BLAKE2b-128 over `peer | start count | incarnation | revision` in
    /// ascending order of peers; computed when asked after a change.
    mutating func digest() -> Bytes16 {
        if let cachedDigest { return cachedDigest }
        var writer = ByteWriter(reserving: order.count * 56)
        for version in versions {
            writer.write(version.peer.value)
            writer.write(version.startCount)
            writer.write(version.incarnation.value)
            writer.write(version.revision)
        }
        let digest = Digest.hash16(writer.bytes)
        cachedDigest = digest
        return digest
    }

    var versions: [PresenceVersion] {
        order.compactMap { entries[$0]?.presence?.version }
    }

    /// Every record held, in ascending order of peers.
    var presences: [PresenceRecord] { order.compactMap { entries[$0]?.presence } }

    /// What a peer that holds `theirs` lacks, and what it has that is newer than ours.
    func difference(from theirs: [PresenceVersion]) -> (newerHere: [PresenceRecord], newerThere: [PeerID]) {
        var known: [PeerID: PresenceVersion] = [:]
        for version in theirs { known[version.peer] = version }
        var newerHere: [PresenceRecord] = []
        var newerThere: [PeerID] = []
        for peer in order {
            let own = entries[peer]?.presence
            switch (own, known[peer]) {
            case (let own?, nil): newerHere.append(own)
            case (let own?, let their?):
                if their < own.version { newerHere.append(own) } else if own.version < their { newerThere.append(peer) }
            case (nil, .some): newerThere.append(peer)
            case (nil, nil): break
            }
        }
        return (newerHere, newerThere)
    }
}

extension PresenceVersion: Comparable {
    /// Order of the records of one peer: start count, then incarnation, then revision. The incarnation decides only
    /// between two processes on copies of one state (MEM-02), the same way everywhere; it stands before the revision
    /// because revisions of two lives have nothing to do with each other.
    public static func < (left: PresenceVersion, right: PresenceVersion) -> Bool {
        (left.startCount, left.incarnation, left.revision) < (right.startCount, right.incarnation, right.revision)
    }
}

extension PresenceRecord {
    var version: PresenceVersion {
        PresenceVersion(peer: peer, startCount: startCount, revision: revision, incarnation: incarnation)
    }

    func supersedes(_ other: PresenceRecord) -> Bool { other.version < version }

    /// Whether the peer it names signed it, for this mesh (AB-52). Cost: 36 µs.
    func isSigned(mesh: MeshID) -> Bool {
        Signature.isValid(signature.span, of: signedBytes(mesh: mesh).span, by: peer)
    }

    /// The same record with the signature of `signer`.
    func signed(by signer: SigningKeyPair, mesh: MeshID) -> PresenceRecord {
        var record = self
        record.signature = signer.sign(signedBytes(mesh: mesh).span)
        return record
    }
}
