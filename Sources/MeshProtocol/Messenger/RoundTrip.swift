import MeshBase

/// Round trip of one path: smoothed, its mean deviation (RFC 9002, section 5), and the least of the last 10 s.
struct RoundTrip: Sendable {
    private(set) var smoothed: TimeSpan?
    private(set) var variance: TimeSpan = .zero
    private(set) var latest: TimeSpan = .zero
    private(set) var least: TimeSpan?
    /// When `least` was last measured or renewed.
    private(set) var leastAt: HostTime = .distantPast

    /// The least is forgotten after this long: a path may have become longer.
    static let leastLife: TimeSpan = .seconds(10)
    /// No timer is finer than this: a turn of the loop costs some hundred microseconds.
    static let granularity: TimeSpan = .milliseconds(1)

    /// `acknowledgementDelay`: what the peer says it waited; believed only as far as the least stays plausible.
    mutating func measure(_ sample: TimeSpan, acknowledgementDelay: TimeSpan, at now: HostTime) {
        guard sample > .zero else { return }
        if least.map({ sample <= $0 }) ?? true {
            least = sample
            leastAt = now
        }
        let floor = least ?? sample
        let adjusted = sample - acknowledgementDelay >= floor ? sample - acknowledgementDelay : sample
        latest = adjusted
        guard let old = smoothed else {
            smoothed = adjusted
            variance = adjusted / 2
            return
        }
        let deviation = old > adjusted ? old - adjusted : adjusted - old
        variance = (variance * 3 + deviation) / 4
        smoothed = (old * 7 + adjusted) / 8
    }

    func isLeastStale(at now: HostTime) -> Bool { least != nil && now - leastAt > Self.leastLife }

    /// Takes the latest as the least: after the queue was let run empty to measure anew.
    mutating func renewLeast(to sample: TimeSpan?, at now: HostTime) {
        if let sample { least = sample }
        leastAt = now
    }

    /// After this long without an acknowledgement something is sent again; no floor but the timer's.
    func probeTimeout(acknowledgementDelay: TimeSpan, initial: TimeSpan) -> TimeSpan {
        guard let smoothed else { return initial * 3 }
        return smoothed + max(variance * 4, Self.granularity) + acknowledgementDelay
    }

    /// A datagram sent this long before an acknowledged one is lost.
    func lossDelay(initial: TimeSpan) -> TimeSpan {
        guard let smoothed else { return initial * 9 / 8 }
        return max(max(smoothed, latest) * 9 / 8, Self.granularity)
    }
}
