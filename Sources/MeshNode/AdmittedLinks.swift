import MeshBase
import MeshWire

/// Which links the journal and the coordinator may know of: those of admitted members, nobody else's.
///
/// Whoever holds an invite can make a link, and a link alone proves no membership. Its first messages may nevertheless
/// overtake the record that admits its owner (that one comes by another way), so a little of what it says is held back
/// until then; beyond the bounds the newest is dropped and counted, and what was dropped is said again by the machines'
/// own repair.
struct AdmittedLinks: Sendable {
    struct Message: Sendable {
        var channel: Channel
        var bytes: [UInt8]
    }

    private(set) var linked: Set<PeerID> = []
    private(set) var admitted: Set<PeerID> = []
    private var held: [PeerID: [Message]] = [:]
    private var heldBytes: [PeerID: Int] = [:]
    private(set) var droppedMessages: UInt64 = 0

    /// Of one link.
    static let maximumMessages = 32
    static let maximumBytes = 256 * 1024
    /// Links for which anything is held at once.
    static let maximumLinks = 32

    /// Whether what comes from this peer may be heard, and whether it may be told anything.
    func isOpen(_ peer: PeerID) -> Bool { linked.contains(peer) && admitted.contains(peer) }

    /// A link is ready. True when the machines are to know.
    mutating func linkUp(_ peer: PeerID) -> Bool {
        linked.insert(peer)
        return admitted.contains(peer)
    }

    /// A link is gone. True when the machines knew of it.
    mutating func linkDown(_ peer: PeerID) -> Bool {
        let wasOpen = isOpen(peer)
        linked.remove(peer)
        forget(peer)
        return wasOpen
    }

    /// The members as they are now. Returns linked peers that have become members, with what they said before, in
    /// order of their ids, and those that are none any more.
    mutating func membersChanged(
        _ members: Set<PeerID>
    ) -> (opened: [(peer: PeerID, messages: [Message])], closed: [PeerID]) {
        guard members != admitted else { return ([], []) }
        let opened = linked.filter { members.contains($0) && !admitted.contains($0) }.sorted()
        let closed = linked.filter { admitted.contains($0) && !members.contains($0) }.sorted()
        admitted = members
        return (opened.map { ($0, forget($0)) }, closed)
    }

    /// Keeps a message of a linked stranger for its admission.
    mutating func hold(_ message: Message, from peer: PeerID) {
        let count = held[peer]?.count ?? 0
        let byteCount = heldBytes[peer, default: 0] + message.bytes.count
        guard linked.contains(peer), count > 0 || held.count < Self.maximumLinks, count < Self.maximumMessages,
            byteCount <= Self.maximumBytes
        else {
            droppedMessages &+= 1
            return
        }
        held[peer, default: []].append(message)
        heldBytes[peer] = byteCount
    }

    @discardableResult
    private mutating func forget(_ peer: PeerID) -> [Message] {
        heldBytes[peer] = nil
        return held.removeValue(forKey: peer) ?? []
    }
}
