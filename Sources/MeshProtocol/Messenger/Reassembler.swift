import MeshBase
import MeshWire

/// Puts messages together that came in pieces.
///
/// Memory grows with bytes that are really there, never with what a frame declares (AB-19, AB-29). Reliable messages and
/// others have a share each (AB-21), because the pieces of a reliable one were acknowledged and will not come again: 64
/// messages and 4 MiB, which a sender that keeps to the protocol never exceeds, so that none of its is ever dropped; 16
/// messages and 1 MiB of the others, of which the oldest goes beyond that, and any after 10 s without progress. The first
/// fragment pins size, channel and kind; another size, or other bytes at the same place, drops the message (AB-24,
/// AB-25).
struct Reassembler: Sendable {
    enum Outcome: Sendable {
        /// Taken, or already held.
        case stored
        case complete([UInt8])
        /// The message contradicted itself and is dropped.
        case refused
    }

    private struct Partial: Sendable {
        var messageID: UInt64
        var channel: UInt8
        var isReliable: Bool
        var totalBytes: Int
        /// The message from its start on, without gaps.
        var beginning: [UInt8] = []
        /// What came ahead of a gap, ascending by offset, not overlapping.
        var ahead: [(offset: Int, bytes: [UInt8])] = []
        var held = SlotSet()
        var heldBytes = 0
        /// Of the link's listening time: silence of the whole peer does not age a message.
        var progressAt: TimeSpan
    }

    /// Oldest first.
    private var partials: [Partial] = []
    private var reliable: Share
    private var unreliable: Share
    private(set) var abandoned: UInt64 = 0
    /// Ids given up: the rest of their pieces is not worth a new start.
    private var abandonedIDs: [UInt64] = []
    private let life: TimeSpan

    /// What messages of one kind hold, and may.
    private struct Share: Sendable {
        var count = 0
        var bytes = 0
        let maximumCount: Int
        let maximumBytes: Int
    }

    init(configuration: LinkConfiguration) {
        reliable = Share(
            maximumCount: configuration.maximumOpenMessages, maximumBytes: configuration.maximumOpenBytes)
        unreliable = Share(
            maximumCount: configuration.maximumOpenUnreliableMessages,
            maximumBytes: configuration.maximumOpenUnreliableBytes)
        life = configuration.openMessageLife
    }

    var openCount: Int { partials.count }
    var heldBytes: Int { reliable.bytes + unreliable.bytes }

    private subscript(share isReliable: Bool) -> Share {
        get { isReliable ? reliable : unreliable }
        set { if isReliable { reliable = newValue } else { unreliable = newValue } }
    }

    /// `data`: the fragment's bytes, already checked to lie within the message and to end on a slot's border or the end.
    mutating func insert(_ fragment: FragmentFrame, data: Span<UInt8>, listenedFor: TimeSpan) -> Outcome {
        guard !abandonedIDs.contains(fragment.messageID) else { return .stored }
        let position = place(of: fragment, listenedFor: listenedFor)
        guard partials[position].totalBytes == fragment.totalBytes, partials[position].channel == fragment.channel,
            partials[position].isReliable == fragment.isReliable
        else { return refuse(position) }
        let slots = fragment.firstSlot..<(fragment.firstSlot + SlotSet.slots(of: data.count))
        var slot = slots.lowerBound
        // Runs of slots that are new are stored, runs that are held must repeat the same bytes.
        while slot < slots.upperBound {
            let isHeld = partials[position].held.contains(slot)
            let end =
                isHeld
                ? partials[position].held.firstMissing(from: slot, limit: slots.upperBound)
                : partials[position].held.firstContained(from: slot, limit: slots.upperBound)
            let from = (slot - slots.lowerBound) * WireLimits.fragmentSlotBytes
            let to = min((end - slots.lowerBound) * WireLimits.fragmentSlotBytes, data.count)
            let part = data.extracting(from..<to)
            let offset = fragment.offset + from
            if isHeld {
                guard repeats(partials[position], part, at: offset) else { return refuse(position) }
            } else {
                store(part, at: offset, slots: slot..<end, in: position)
                partials[position].progressAt = listenedFor
            }
            slot = end
        }
        return finish(position, keeping: fragment.messageID)
    }

    private mutating func place(of fragment: FragmentFrame, listenedFor: TimeSpan) -> Int {
        // The newest is the likeliest.
        if let position = partials.lastIndex(where: { $0.messageID == fragment.messageID }) { return position }
        let share = self[share: fragment.isReliable]
        if share.count >= share.maximumCount { abandonOldest(isReliable: fragment.isReliable) }
        self[share: fragment.isReliable].count += 1
        partials.append(
            Partial(
                messageID: fragment.messageID, channel: fragment.channel, isReliable: fragment.isReliable,
                totalBytes: fragment.totalBytes, progressAt: listenedFor))
        return partials.count - 1
    }

    private mutating func store(_ part: Span<UInt8>, at offset: Int, slots: Range<Int>, in position: Int) {
        partials[position].held.insert(slots)
        partials[position].heldBytes += part.count
        self[share: partials[position].isReliable].bytes += part.count
        if offset == partials[position].beginning.count {
            unsafe part.withUnsafeBufferPointer { part in
                unsafe partials[position].beginning.append(contentsOf: part)
            }
            joinAhead(position)
        } else {
            let index = partials[position].ahead.partitionPoint { $0.offset <= offset }
            partials[position].ahead.insert((offset, [UInt8](copying: part)), at: index)
        }
    }

    private mutating func joinAhead(_ position: Int) {
        var joined = 0
        for piece in partials[position].ahead {
            guard piece.offset == partials[position].beginning.count else { break }
            partials[position].beginning.append(contentsOf: piece.bytes)
            joined += 1
        }
        if joined > 0 { partials[position].ahead.removeFirst(joined) }
    }

    private func repeats(_ partial: Partial, _ part: Span<UInt8>, at offset: Int) -> Bool {
        var index = 0
        while index < part.count {
            guard let held = run(of: partial, at: offset + index) else { return false }
            let count = min(held.count, part.count - index)
            for step in 0..<count where held[held.startIndex + step] != part[index + step] { return false }
            index += count
        }
        return true
    }

    /// What is held from `offset` on, until the next gap or the end of a piece; `nil` when nothing is.
    private func run(of partial: Partial, at offset: Int) -> ArraySlice<UInt8>? {
        if offset < partial.beginning.count { return partial.beginning[offset...] }
        let after = partial.ahead.partitionPoint { $0.offset <= offset }
        guard after > 0 else { return nil }
        let piece = partial.ahead[after - 1]
        let from = offset - piece.offset
        return from < piece.bytes.count ? piece.bytes[from...] : nil
    }

    private mutating func finish(_ position: Int, keeping messageID: UInt64) -> Outcome {
        let isReliable = partials[position].isReliable
        if partials[position].beginning.count == partials[position].totalBytes {
            return .complete(remove(at: position).beginning)
        }
        while self[share: isReliable].bytes > self[share: isReliable].maximumBytes {
            abandonOldest(isReliable: isReliable)
        }
        return .stored
    }

    private mutating func refuse(_ position: Int) -> Outcome {
        abandon(position)
        return .refused
    }

    /// Of a kind that holds something. Reliable ones go only when the peer sends more than it may.
    private mutating func abandonOldest(isReliable: Bool) {
        guard let position = partials.firstIndex(where: { $0.isReliable == isReliable }) else { return }
        abandon(position)
    }

    private mutating func remove(at position: Int) -> Partial {
        let partial = partials.remove(at: position)
        self[share: partial.isReliable].count -= 1
        self[share: partial.isReliable].bytes -= partial.heldBytes
        return partial
    }

    private mutating func abandon(_ position: Int) {
        let partial = remove(at: position)
        abandoned += 1
        if abandonedIDs.count >= 64 { abandonedIDs.removeFirst() }
        abandonedIDs.append(partial.messageID)
    }

    /// Forgets a message that came whole after all.
    mutating func discard(_ messageID: UInt64) {
        guard let position = partials.firstIndex(where: { $0.messageID == messageID }) else { return }
        _ = remove(at: position)
    }

    /// Drops unreliable messages without progress. A reliable one waits as long as its link lives: more urgent messages
    /// may keep its rest back for long. `listenedFor`: how long the link has been hearing its peer in all.
    mutating func expire(listenedFor: TimeSpan) {
        while let position = partials.firstIndex(where: { !$0.isReliable && listenedFor - $0.progressAt > life }) {
            abandon(position)
        }
    }

    /// The peer began anew: nothing of before will be completed.
    mutating func removeAll() {
        partials.removeAll()
        abandonedIDs.removeAll()
        for isReliable in [true, false] {
            self[share: isReliable].count = 0
            self[share: isReliable].bytes = 0
        }
    }
}
