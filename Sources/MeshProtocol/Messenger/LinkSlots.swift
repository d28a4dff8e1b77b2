import MeshBase

/// The links by slot, with what a turn asks of all of them kept beside.
///
/// A link is a large value: it is changed in place, and never copied to be asked something. With sixteen idle links
/// such copies alone were a quarter of a node's processor time.
struct LinkSlots: Sendable {
    /// What every turn wants to know, as of the last change.
    private struct Glance {
        var peer: PeerID?
        /// `distantFuture` for a free slot.
        var deadline = HostTime.distantFuture
        var attachmentBytes = 0
        var isRelayed = false
        /// What the journal was told last; `nil` before the first time.
        var toldAttachmentBytes: Int?
    }

    private var storage: [SecureLink?] = []
    private var glances: [Glance] = []
    private var changed = SlotMarks()
    private var refilled = SlotMarks()

    var indices: Range<Int> { storage.indices }

    /// The least deadline of all links. Cost: a pass over one small entry a link.
    var nextDeadline: HostTime? {
        var least = HostTime.distantFuture
        for glance in glances { least = min(least, glance.deadline) }
        return least == .distantFuture ? nil : least
    }

    /// Reading copies the link, which is for rare questions. Writing changes it in place, after which its deadline is
    /// asked again and the next flush looks at it.
    subscript(slot: Int) -> SecureLink? {
        get { storage[slot] }
        _modify {
            defer { noteChange(slot) }
            yield &storage[slot]
        }
    }

    func peer(_ slot: Int) -> PeerID? { glances[slot].peer }

    /// The link goes through a member.
    func isRelayed(_ slot: Int) -> Bool { glances[slot].isRelayed }

    func isDue(_ slot: Int, at now: HostTime) -> Bool { glances[slot].deadline <= now }

    /// Takes a free slot, or makes one.
    mutating func insert(_ link: SecureLink) -> Int {
        let slot: Int
        if let free = glances.firstIndex(where: { $0.peer == nil }) {
            slot = free
            glances[slot] = Glance(peer: link.peer)
        } else {
            storage.append(nil)
            glances.append(Glance(peer: link.peer))
            slot = storage.count - 1
        }
        self[slot] = link
        return slot
    }

    mutating func remove(_ slot: Int) {
        storage[slot] = nil
        glances[slot] = Glance()
    }

    /// When the link's last datagrams really left: moves no deadline and leaves nothing to send.
    mutating func noteTransmission(_ slot: Int, at actual: HostTime) {
        storage[slot]?.timing.didTransmit(at: actual)
    }

    /// Slots changed since the last call, ascending.
    mutating func takeChanged() -> [Int] { changed.takeAll() }

    /// Links whose queue of attachments grew or shrank since the last call, and the bytes it holds; a new link is among
    /// them once.
    mutating func takeAttachmentBytes() -> [(peer: PeerID, byteCount: Int)] {
        refilled.takeAll().compactMap { slot in
            guard let peer = glances[slot].peer, glances[slot].attachmentBytes != glances[slot].toldAttachmentBytes
            else { return nil }
            glances[slot].toldAttachmentBytes = glances[slot].attachmentBytes
            return (peer, glances[slot].attachmentBytes)
        }
    }

    private mutating func noteChange(_ slot: Int) {
        changed.mark(slot)
        guard let glance = storage[slot]?.glance() else { return }
        glances[slot].deadline = glance.deadline
        glances[slot].attachmentBytes = glance.attachmentBytes
        glances[slot].isRelayed = glance.isRelayed
        if glance.attachmentBytes != glances[slot].toldAttachmentBytes { refilled.mark(slot) }
    }
}
