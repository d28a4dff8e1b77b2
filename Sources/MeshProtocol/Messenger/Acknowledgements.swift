import MeshBase
import MeshWire

/// Which counters of one key arrived, and when that must be told: the receiver's half of reliability.
///
/// At most 64 ranges are kept, the oldest dropped (AB-28): its datagrams are sent again and recognised as copies.
struct Acknowledgements: Sendable {
    /// From the newest downwards, disjoint, never touching.
    private(set) var ranges: [ClosedRange<UInt64>] = []
    private(set) var largestReceivedAt: HostTime = .distantPast
    /// Datagrams that ask for an acknowledgement and have none yet.
    private(set) var pendingCount = 0
    /// When an acknowledgement must have left; `nil` while none is owed.
    private(set) var deadline: HostTime?

    /// Every second datagram is acknowledged at once.
    static let pendingLimit = 2

    var isDue: Bool { pendingCount >= Self.pendingLimit }

    mutating func note(_ counter: UInt64, isEliciting: Bool, receivedAt: HostTime, at now: HostTime, delay: TimeSpan) {
        let isNewest = ranges.first.map { counter > $0.upperBound } ?? true
        let leavesGap = ranges.first.map { counter > $0.upperBound + 1 } ?? false
        insert(counter)
        if isNewest { largestReceivedAt = receivedAt }
        guard isEliciting else { return }
        // Out of order: the sender wants to know at once (RFC 9000, section 13.2.1).
        pendingCount += !isNewest || leavesGap ? Self.pendingLimit : 1
        let due = now + (isDue ? .zero : delay)
        deadline = deadline.map { min($0, due) } ?? due
    }

    private mutating func insert(_ counter: UInt64) {
        var index = 0
        while index < ranges.count, ranges[index].lowerBound > counter, ranges[index].lowerBound - 1 != counter {
            index += 1
        }
        if index < ranges.count {
            let range = ranges[index]
            if range.contains(counter) { return }
            if counter < range.lowerBound {
                // Touches this range from below; perhaps it closes the gap to the next one.
                ranges[index] = counter...range.upperBound
                mergeDownwards(at: index)
                return
            }
            if range.upperBound + 1 == counter {
                ranges[index] = range.lowerBound...counter
                return
            }
        }
        ranges.insert(counter...counter, at: index)
        if ranges.count > WireLimits.maximumAcknowledgementRanges { ranges.removeLast() }
    }

    private mutating func mergeDownwards(at index: Int) {
        guard index + 1 < ranges.count, ranges[index + 1].upperBound + 1 == ranges[index].lowerBound else { return }
        ranges[index] = ranges[index + 1].lowerBound...ranges[index].upperBound
        ranges.remove(at: index + 1)
    }

    /// What is owed has been written into a datagram.
    mutating func didSend() {
        pendingCount = 0
        deadline = nil
    }

    /// The peer has an acknowledgement that reached up to `largest`: everything up to there need not be told again.
    mutating func prune(through largest: UInt64) {
        while let last = ranges.last, last.upperBound <= largest, ranges.count > 1 { ranges.removeLast() }
        if let last = ranges.last, last.lowerBound <= largest, last.upperBound > largest {
            ranges[ranges.count - 1] = (largest + 1)...last.upperBound
        }
    }
}
