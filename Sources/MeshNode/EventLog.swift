import MeshBase
import MeshProtocol

/// One line of the log of who did what, when.
public struct NodeEvent: Hashable, Sendable {
    /// Wall-clock seconds since 1970, for people to read only: nothing is ever decided by it.
    public var wallSeconds: Double
    public var hostTime: HostTime
    public var event: ProtocolEvent
    /// The subject's name as it was known then; the node's own name when the event is about itself.
    public var subjectName: String
}

/// The last events, oldest dropped first and counted.
struct EventLog: Sendable {
    static let capacity = 4096

    private(set) var events: [NodeEvent] = []
    private(set) var droppedCount = 0

    mutating func append(_ event: NodeEvent) {
        if events.count >= Self.capacity * 2 {
            events.removeFirst(events.count - Self.capacity)
            droppedCount += Self.capacity
        }
        events.append(event)
    }

    func events(since time: HostTime) -> ArraySlice<NodeEvent> {
        guard let first = events.firstIndex(where: { $0.hostTime >= time }) else { return [] }
        return events[first...]
    }
}

/// ISO 8601 in UTC, milliseconds: the display form of a wall-clock instant.
func timestampText(_ wallSeconds: Double) -> String {
    let milliseconds = Int64((wallSeconds * 1000).rounded(.down))
    let (days, rest) = (milliseconds.flooredQuotient(86_400_000), milliseconds.flooredRemainder(86_400_000))
    // Days since 1970 to a civil date: years begin in March, so that the leap day is the last of its year.
    let shifted = days + 719_468
    let era = shifted.flooredQuotient(146_097)
    let dayOfEra = shifted.flooredRemainder(146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let time = [rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60].map { padded($0, 2) }.joined(separator: ":")
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(time).\(padded(rest % 1000, 3))Z"
}

private func padded(_ value: Int64, _ width: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, width - text.count)) + text
}

extension Int64 {
    fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
        self / divisor - (self % divisor < 0 ? 1 : 0)
    }

    fileprivate func flooredRemainder(_ divisor: Int64) -> Int64 {
        let remainder = self % divisor
        return remainder < 0 ? remainder + divisor : remainder
    }
}
