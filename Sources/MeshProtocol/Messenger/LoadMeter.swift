import MeshBase

/// Counts what happens in one second, and says when it is more than a limit. Two numbers, no list.
struct LoadMeter: Sendable {
    let limitPerSecond: Int
    private var secondStart: HostTime = .distantPast
    private var count = 0
    /// How many in the whole second before.
    private var previousCount = 0

    init(limitPerSecond: Int) { self.limitPerSecond = limitPerSecond }

    /// Notes one event and says whether the limit is passed, in this second or the one before.
    mutating func note(at now: HostTime) -> Bool {
        if now - secondStart >= .seconds(1) {
            previousCount = now - secondStart < .seconds(2) ? count : 0
            count = 0
            secondStart = now
        }
        count += 1
        return count > limitPerSecond || previousCount > limitPerSecond
    }
}
