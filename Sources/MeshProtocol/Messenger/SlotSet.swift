import MeshWire

/// Which slots of one message: up to 257 of them, in five words.
struct SlotSet: Sendable {
    static let maximumSlots =
        (WireLimits.maximumLinkMessageBytes + WireLimits.fragmentSlotBytes - 1)
        / WireLimits.fragmentSlotBytes

    private var words = InlineArray<5, UInt64>(repeating: 0)
    private(set) var count = 0

    func contains(_ slot: Int) -> Bool { words[slot >> 6] & (1 << UInt64(slot & 63)) != 0 }

    mutating func insert(_ slot: Int) {
        guard !contains(slot) else { return }
        words[slot >> 6] |= 1 << UInt64(slot & 63)
        count += 1
    }

    mutating func insert(_ slots: Range<Int>) {
        for slot in slots { insert(slot) }
    }

    /// The first slot at or after `slot` that is not in the set, below `limit`; `limit` when there is none.
    func firstMissing(from slot: Int, limit: Int) -> Int {
        var slot = slot
        while slot < limit, contains(slot) { slot += 1 }
        return slot
    }

    /// The first slot at or after `slot` that is in the set, below `limit`; `limit` when there is none.
    func firstContained(from slot: Int, limit: Int) -> Int {
        var slot = slot
        while slot < limit, !contains(slot) { slot += 1 }
        return slot
    }

    /// Slots of a message of `byteCount` bytes; an empty message has one.
    static func slots(of byteCount: Int) -> Int {
        max(1, (byteCount + WireLimits.fragmentSlotBytes - 1) / WireLimits.fragmentSlotBytes)
    }
}
