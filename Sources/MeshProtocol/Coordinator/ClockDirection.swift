import MeshBase

/// One direction of a link: blocks of one-way differences, at most `ClockFilter.blockLimit` and the open one.
///
/// Times are nanoseconds since the filter's origin, values nanoseconds relative to its base.
struct ClockDirection: Sendable {
    /// One difference and when it was taken.
    struct Point: Hashable, Sendable {
        var at: Double
        var value: Double
    }

    /// A second of differences, reduced to what estimates need.
    struct Block: Sendable {
        var index: Int64
        var count: Int
        /// The least three, ascending; fewer in a thin block.
        var least: [Point]
        var median: Point
    }

    /// A statistic of a window.
    struct Value: Hashable, Sendable {
        var value: Double
        var count: Int
        /// How far the least three lie apart: the error of an edge before blocks can tell.
        var spread: Double
    }

    /// Points kept of one open block; beyond it, neighbours are merged and the lesser stays.
    static let openLimit = 64

    /// +1 where the value grows with the offset, −1 where it shrinks.
    let slopeSign: Double
    private(set) var closed: [Block] = []
    private var open: [Point] = []
    private var openIndex: Int64 = .min
    private var openCount = 0
    private var openSummary: Block?
    /// Samples merged into one kept point of the open block, and into the last of them so far.
    private var mergeSize = 1
    private var merged = 0
    private var newest = -Double.infinity

    /// Blocks are short until the link has grown up.
    private(set) var isYoung = true

    init(slopeSign: Double) { self.slopeSign = slopeSign }

    /// Nanoseconds.
    var blockLength: Double {
        isYoung ? ClockFilter.blockLength / Double(ClockFilter.youngDivisor) : ClockFilter.blockLength
    }

    /// Merges short blocks into whole ones.
    mutating func growUp(rate: Double) {
        guard isYoung else { return }
        close(rate: rate)
        let short = closed
        closed.removeAll(keepingCapacity: true)
        isYoung = false
        openIndex = .min
        for block in short {
            let index = floorDivided(block.index, by: ClockFilter.youngDivisor)
            if let last = closed.last, last.index == index {
                closed[closed.count - 1] = merged(last, block, index: index, rate: rate)
            } else {
                var block = block
                block.index = index
                closed.append(block)
            }
        }
    }

    private func floorDivided(_ value: Int64, by divisor: Int64) -> Int64 {
        value >= 0 ? value / divisor : -((divisor - 1 - value) / divisor)
    }

    /// The median of two blocks is the one of the fuller: near enough for a few seconds of a link's youth.
    private func merged(_ left: Block, _ right: Block, index: Int64, rate: Double) -> Block {
        let slope = slopeSign * rate
        let least = (left.least + right.least).sorted { $0.value - slope * $0.at < $1.value - slope * $1.at }
        return Block(
            index: index, count: left.count + right.count, least: Array(least.prefix(3)),
            median: left.count >= right.count ? left.median : right.median)
    }

    var firstIndex: Int64? { closed.first?.index ?? (open.isEmpty ? nil : openIndex) }

    /// Takes a point; `false` for one older than the last, or as old where that means an echo seen before. (Inward,
    /// datagrams that arrived in one burst share their instant, and the last of them waited least: CLK-07.)
    mutating func add(at time: Double, _ value: Double, rate: Double) -> Bool {
        guard time > newest || (time == newest && slopeSign < 0), time < 9e18 else { return false }
        newest = time
        let index = Int64((time / blockLength).rounded(.down))
        if index != openIndex {
            close(rate: rate)
            openIndex = index
        }
        openCount += 1
        append(Point(at: time, value: value))
        return true
    }

    private mutating func append(_ point: Point) {
        if merged > 0, merged < mergeSize, let last = open.last {
            if point.value < last.value { open[open.count - 1] = point }
            merged += 1
            return
        }
        if open.count == Self.openLimit {
            for index in 0..<(Self.openLimit / 2) {
                let (left, right) = (open[2 * index], open[2 * index + 1])
                open[index] = left.value <= right.value ? left : right
            }
            open.removeLast(Self.openLimit / 2)
            mergeSize *= 2
        }
        open.append(point)
        merged = 1
    }

    private mutating func close(rate: Double) {
        if !open.isEmpty {
            if closed.count == ClockFilter.blockLimit { closed.removeFirst() }
            closed.append(summary(rate: rate))
        }
        open.removeAll(keepingCapacity: true)
        openSummary = nil
        openCount = 0
        mergeSize = 1
        merged = 0
    }

    private func summary(rate: Double) -> Block {
        let slope = slopeSign * rate
        let sorted = open.sorted { $0.value - slope * $0.at < $1.value - slope * $1.at }
        return Block(
            index: openIndex, count: openCount, least: Array(sorted.prefix(3)), median: sorted[sorted.count / 2])
    }

    mutating func discard(before index: Int64) {
        while let first = closed.first, first.index < index { closed.removeFirst() }
        if openIndex < index, !open.isEmpty {
            open.removeAll(keepingCapacity: true)
            openSummary = nil
            openCount = 0
        }
    }

    /// Samples in blocks from `first` on.
    func count(from first: Int64) -> Int {
        var total = openIndex >= first ? openCount : 0
        for place in firstPlace(from: first)..<closed.count { total += closed[place].count }
        return total
    }

    /// Sums up the open block, so that the values that follow read blocks only.
    mutating func prepare(rate: Double) { openSummary = open.isEmpty ? nil : summary(rate: rate) }

    /// The edge, or the median, of the blocks `first ... last`, brought to `instant` by `rate`; `nil` of none. The open
    /// block is seen as of the last `prepare`. O(blocks in the range).
    func value(
        from first: Int64, through last: Int64 = .max, at instant: Double, rate: Double, median: Bool
    ) -> Value? {
        let slope = slopeSign * rate
        var edge = Least()
        var middles: [Double] = []
        var count = 0
        var place = firstPlace(from: first)
        while place <= closed.count {
            guard let block = place < closed.count ? closed[place] : openSummary, block.index <= last else { break }
            place += 1
            guard block.index >= first else { continue }
            count += block.count
            if median {
                middles.append(block.median.value + slope * (instant - block.median.at))
            }
            for point in block.least { edge.add(point.value + slope * (instant - point.at)) }
        }
        guard count > 0 else { return nil }
        let value = median ? middleHalf(&middles) : edge.mean(ofSampleCount: count)
        return Value(value: value, count: count, spread: edge.spread)
    }

    /// The least value of every block, with its age at `instant`: a delay is never negative, so each limits the offset.
    /// The open block as of the last `prepare`.
    func limits(at instant: Double) -> [ClockLimits.Point] {
        var points: [ClockLimits.Point] = []
        points.reserveCapacity(closed.count + 1)
        for block in closed {
            if let point = block.least.first {
                points.append(.init(age: max(0, instant - point.at), limit: point.value))
            }
        }
        if let point = openSummary?.least.first {
            points.append(.init(age: max(0, instant - point.at), limit: point.value))
        }
        return points
    }

    /// Where in `closed` the first block from `first` on stands.
    private func firstPlace(from first: Int64) -> Int { closed.partitionPoint { $0.index < first } }

    /// The mean of the middle half: nearly as good as the mean in quiet, as hard to spoil as the median.
    private func middleHalf(_ values: inout [Double]) -> Double {
        guard values.count >= 4 else { return middle(of: &values) }
        values.sort()
        let quarter = values.count / 4
        let kept = values[quarter..<(values.count - quarter)]
        return kept.reduce(0, +) / Double(kept.count)
    }
}

/// The three least of many values.
private struct Least {
    private var first = Double.infinity
    private var second = Double.infinity
    private var third = Double.infinity

    mutating func add(_ value: Double) {
        if value < first {
            (first, second, third) = (value, first, second)
        } else if value < second {
            (second, third) = (value, second)
        } else if value < third {
            third = value
        }
    }

    /// Of few samples the third least is no edge at all: one counts below 12, two below 24.
    func mean(ofSampleCount count: Int) -> Double {
        if count >= 24, third.isFinite { return (first + second + third) / 3 }
        if count >= 12, second.isFinite { return (first + second) / 2 }
        return first
    }

    var spread: Double {
        if third.isFinite { return third - first }
        if second.isFinite { return second - first }
        return 1e9
    }
}
