/// Which numbers were seen, exactly, as sorted disjoint closed intervals.
///
/// Bounded: when a new interval would be one too many, the lowest gap is closed, which means its numbers count as seen.
/// So the set may forget that something old is missing, and never that something was seen. A query or an insertion
/// costs O(log n) to find and O(n) to shift.
public struct IntervalSet: Hashable, Sendable {
    /// Rising, with at least one number missing between two neighbours.
    public private(set) var intervals: [ClosedRange<UInt64>] = []
    /// At least 1.
    public let maximumIntervals: Int
    /// Gaps closed without having been filled.
    public private(set) var closedGaps = 0

    public init(maximumIntervals: Int = 256) {
        precondition(maximumIntervals >= 1, "an interval set needs room for one interval")
        self.maximumIntervals = maximumIntervals
    }

    public func contains(_ value: UInt64) -> Bool {
        let position = firstInterval(endingAtOrAfter: value)
        return position < intervals.count && intervals[position].contains(value)
    }

    /// Adds `value`; false when it was seen before.
    @discardableResult
    public mutating func insert(_ value: UInt64) -> Bool {
        let position = firstInterval(endingAtOrAfter: value)
        if position < intervals.count, intervals[position].contains(value) { return false }
        let joinsLower = position > 0 && intervals[position - 1].upperBound == value &- 1 && value > 0
        let joinsUpper = position < intervals.count && intervals[position].lowerBound == value &+ 1 && value < .max
        switch (joinsLower, joinsUpper) {
        case (true, true):
            intervals[position - 1] = intervals[position - 1].lowerBound...intervals[position].upperBound
            intervals.remove(at: position)
        case (true, false):
            intervals[position - 1] = intervals[position - 1].lowerBound...value
        case (false, true):
            intervals[position] = value...intervals[position].upperBound
        case (false, false):
            intervals.insert(value...value, at: position)
            closeLowestGapIfFull()
        }
        return true
    }

    /// Adds every number below `bound`.
    public mutating func insertAll(below bound: UInt64) {
        guard bound > 0 else { return }
        var upper = bound - 1
        var remaining: [ClosedRange<UInt64>] = []
        for interval in intervals {
            if interval.lowerBound <= upper || interval.lowerBound == upper &+ 1 {
                upper = max(upper, interval.upperBound)
            } else {
                remaining.append(interval)
            }
        }
        intervals = [0...upper] + remaining
    }

    /// The greatest `n` such that every number from `start` to `n` was seen; nil when `start` was not.
    public func contiguousEnd(from start: UInt64) -> UInt64? {
        let position = firstInterval(endingAtOrAfter: start)
        guard position < intervals.count, intervals[position].contains(start) else { return nil }
        return intervals[position].upperBound
    }

    /// The numbers missing between the least and the greatest seen, in order, at most `limit` gaps.
    public func gaps(limit: Int = .max) -> [ClosedRange<UInt64>] {
        var gaps: [ClosedRange<UInt64>] = []
        for (lower, upper) in zip(intervals, intervals.dropFirst()) where gaps.count < limit {
            gaps.append((lower.upperBound + 1)...(upper.lowerBound - 1))
        }
        return gaps
    }

    private func firstInterval(endingAtOrAfter value: UInt64) -> Int {
        var low = 0
        var high = intervals.count
        while low < high {
            let middle = (low + high) / 2
            if intervals[middle].upperBound < value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private mutating func closeLowestGapIfFull() {
        guard intervals.count > maximumIntervals, intervals.count >= 2 else { return }
        intervals[0] = intervals[0].lowerBound...intervals[1].upperBound
        intervals.remove(at: 1)
        closedGaps += 1
    }
}
