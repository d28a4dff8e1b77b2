/// A set of small numbers that is filled and emptied every turn; each number once, taken in ascending order.
struct SlotMarks: Sendable {
    private var isMarked: [Bool] = []
    private var slots: [Int] = []

    mutating func mark(_ slot: Int) {
        if slot >= isMarked.count {
            isMarked.append(contentsOf: repeatElement(false, count: slot + 1 - isMarked.count))
        }
        guard !isMarked[slot] else { return }
        isMarked[slot] = true
        slots.append(slot)
    }

    mutating func takeAll() -> [Int] {
        guard !slots.isEmpty else { return [] }
        defer { slots.removeAll(keepingCapacity: true) }
        for slot in slots { isMarked[slot] = false }
        return slots.sorted()
    }
}
