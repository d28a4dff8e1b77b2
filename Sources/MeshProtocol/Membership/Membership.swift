import MeshBase
import MeshWire

/// Who is in the mesh, who is out, and whether it is over: what the records say, the same on every node that holds the
/// same ones.
public struct Membership: Hashable, Sendable {
    /// Somebody whom a record that counts lets in, whether or not it was removed since.
    public struct Standing: Hashable, Sendable {
        /// Seniority: where the admission stands in total order; the creator comes first.
        public var order: RecordOrder
        /// Nil for the creator.
        public var admittedBy: PeerID?
        /// The ADMIT, or GENESIS.
        public var record: RecordID
        /// As the admission says it.
        public var name: String
    }

    /// A removal that counts. Of several of one member the first in total order is shown; the cuts of all count.
    public struct Removal: Hashable, Sendable {
        public var by: PeerID
        public var record: RecordID
        public var lamport: UInt64
    }

    public struct Ending: Hashable, Sendable {
        public var by: PeerID
        public var record: RecordID
    }

    public internal(set) var policies = MeshPolicies.standard
    public internal(set) var creator: PeerID?
    /// Everybody who was ever let in by a record that counts.
    public internal(set) var standings: [PeerID: Standing] = [:]
    /// Those who are out, for ever.
    public internal(set) var removals: [PeerID: Removal] = [:]
    public internal(set) var ending: Ending?

    public init() {}

    public func isMember(_ peer: PeerID) -> Bool { standings[peer] != nil && removals[peer] == nil }

    /// Ascending.
    public var members: [PeerID] { standings.keys.filter { removals[$0] == nil }.sorted() }

    /// How many members were let in before this one.
    public func rank(of peer: PeerID) -> Int {
        guard let own = standings[peer] else { return standings.count }
        return standings.values.count { $0.order < own.order }
    }

    /// Whether a REMOVE of `subject` by `author` counts, both being members.
    public func mayRemove(_ author: PeerID, _ subject: PeerID) -> Bool {
        guard subject != creator, author != subject else { return false }
        switch policies.remove {
        case .anyMember: return true
        case .creator: return author == creator
        case .creatorAndAdmitter: return author == creator || standings[subject]?.admittedBy == author
        }
    }

    public func mayEnd(_ author: PeerID) -> Bool { holds(policies.end, author) }

    public func mayInvite(_ author: PeerID) -> Bool { holds(policies.invite, author) }

    private func holds(_ right: MeshPolicies.Right, _ author: PeerID) -> Bool {
        right == .anyMember || author == creator
    }
}
