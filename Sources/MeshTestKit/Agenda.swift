/// What a run has planned, in order of time; of one instant, in order of planning.
struct Agenda {
    enum Item {
        case say, add, look
        case recur(RecurringHazard)
        case strike(ScheduledHazard)
        case undo(Undoing)
    }

    /// What ends a hazard.
    enum Undoing {
        case endPartition(number: Int)
        case join(Int, Int)
        case listen(Int, to: Int)
        case rejoin(Int)
        case isolate(Int)
        case widen(Int)
        case hasten(Int)
        case bindBack(Int)
        case start(Int)
        case repair(Int)
        case wake(Int, slept: Int64)
    }

    private var items: [(at: Int64, order: Int, item: Item)] = []
    private var order = 0

    var next: Int64? { items.last?.at }

    mutating func add(_ item: Item, at instant: Int64) {
        order += 1
        // Latest first, so that the next one is last.
        let place = items.firstIndex { ($0.at, $0.order) < (instant, order) } ?? items.count
        items.insert((instant, order, item), at: place)
    }

    mutating func takeFirst() -> Item? { items.popLast()?.item }

    /// Everything, in order.
    mutating func takeAll() -> [Item] {
        defer { items = [] }
        return items.reversed().map(\.item)
    }
}
