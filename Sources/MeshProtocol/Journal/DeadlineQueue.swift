import MeshBase

/// What the journal wants to be woken for.
enum JournalDeadline: Hashable, Sendable {
    case announce
    /// Drop what the store kept and no attachment names.
    case sweep
    /// Look whether the peer is silent with chunks asked of it, or may be asked again.
    case peer(PeerID)
    /// Look at the content again: hashes overdue, a full store, another try at its rarest chunks.
    case content(ContentID)
}

/// Instants in order, each with what to look at then: a binary heap. Entries are never taken back; whoever is woken
/// looks whether there is anything to do, so a stale entry costs one look.
struct DeadlineQueue: Sendable {
    private var heap: [(time: HostTime, number: UInt64, deadline: JournalDeadline)] = []
    private var armed: [JournalDeadline: HostTime] = [:]
    private var nextNumber: UInt64 = 0

    var next: HostTime? { heap.first?.time }

    /// Wakes at `time` for `deadline`, unless that is due earlier already.
    mutating func arm(_ deadline: JournalDeadline, at time: HostTime) {
        if let earlier = armed[deadline], earlier <= time { return }
        armed[deadline] = time
        heap.append((time, nextNumber, deadline))
        nextNumber &+= 1
        siftUp(heap.count - 1)
    }

    /// The next entry that is due at `now`.
    mutating func popDue(at now: HostTime) -> JournalDeadline? {
        while let first = heap.first, first.time <= now {
            removeFirst()
            // An entry that was armed again for an earlier instant has been handed out then.
            guard armed[first.deadline] == first.time else { continue }
            armed.removeValue(forKey: first.deadline)
            return first.deadline
        }
        return nil
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        siftDown(0)
    }

    private func isBefore(_ left: Int, _ right: Int) -> Bool {
        (heap[left].time, heap[left].number) < (heap[right].time, heap[right].number)
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0, isBefore(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && isBefore(child, least) {
                least = child
            }
            guard least != parent else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
