import MeshWire

/// Which slots of one message, as runs: pieces mostly come in order, and then there is one, which costs no allocation.
///
/// At most every other slot of a message starts a run, so the memory is a fraction of the bytes it stands for.
struct SlotSet: Sendable {
    /// Ascending, none empty, none touching: the first run beside the others.
    private var first: Range<Int32> = 0..<0
    private var more: [Range<Int32>] = []
    private(set) var count = 0

    private var runCount: Int { first.isEmpty ? 0 : 1 + more.count }

    private func run(_ index: Int) -> Range<Int32> { index == 0 ? first : more[index - 1] }

    /// The first run that ends after `slot`.
    private func firstRun(endingAfter slot: Int) -> Int {
        var low = 0
        var high = runCount
        while low < high {
            let middle = (low + high) / 2
            if Int(run(middle).upperBound) > slot { high = middle } else { low = middle + 1 }
        }
        return low
    }

    func contains(_ slot: Int) -> Bool {
        let index = firstRun(endingAfter: slot)
        return index < runCount && Int(run(index).lowerBound) <= slot
    }

    /// `slots` lies within 0…65,535 and is not empty.
    mutating func insert(_ slots: Range<Int>) {
        var (low, high) = (Int32(slots.lowerBound), Int32(slots.upperBound))
        // Runs that overlap or touch become one.
        let from = firstRun(endingAfter: slots.lowerBound - 1)
        var to = from
        while to < runCount, run(to).lowerBound <= high {
            low = min(low, run(to).lowerBound)
            high = max(high, run(to).upperBound)
            count -= run(to).count
            to += 1
        }
        count += Int(high - low)
        replace(from..<to, with: low..<high)
    }

    private mutating func replace(_ runs: Range<Int>, with new: Range<Int32>) {
        if runs.lowerBound > 0 {
            more.replaceSubrange((runs.lowerBound - 1)..<(runs.upperBound - 1), with: CollectionOfOne(new))
        } else {
            if runs.isEmpty, !first.isEmpty { more.insert(first, at: 0) }
            if runs.count > 1 { more.removeFirst(runs.count - 1) }
            first = new
        }
    }

    /// The first slot at or after `slot` that is not in the set, below `limit`; `limit` when there is none.
    func firstMissing(from slot: Int, limit: Int) -> Int {
        let index = firstRun(endingAfter: slot)
        guard index < runCount, Int(run(index).lowerBound) <= slot else { return min(slot, limit) }
        return min(Int(run(index).upperBound), limit)
    }

    /// The first slot at or after `slot` that is in the set, below `limit`; `limit` when there is none.
    func firstContained(from slot: Int, limit: Int) -> Int {
        let index = firstRun(endingAfter: slot)
        guard index < runCount else { return limit }
        return min(max(Int(run(index).lowerBound), slot), limit)
    }

    /// Slots of a message of `byteCount` bytes; an empty message has one.
    static func slots(of byteCount: Int) -> Int {
        max(1, (byteCount + WireLimits.fragmentSlotBytes - 1) / WireLimits.fragmentSlotBytes)
    }
}
