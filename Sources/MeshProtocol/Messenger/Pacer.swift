import MeshBase

/// Spreads datagrams over time: a bucket of bytes that fills at the pacing rate and holds a millisecond of it.
struct Pacer: Sendable {
    /// Bytes that may leave now; negative after something urgent passed the bucket.
    private var budget: Double
    private var filledAt: HostTime = .distantPast
    private(set) var bytesPerSecond: Double
    private var datagramBytes: Int

    /// A burst: one millisecond of the rate, or ten datagrams, but not more than these bytes of them.
    private static let smallBurstBytes = 65_536.0

    init(bytesPerSecond: Double, datagramBytes: Int) {
        self.bytesPerSecond = bytesPerSecond
        self.datagramBytes = datagramBytes
        budget = min(Double(10 * datagramBytes), Self.smallBurstBytes)
    }

    private var burst: Double {
        let datagrams = max(Double(datagramBytes), min(Double(10 * datagramBytes), Self.smallBurstBytes))
        return max(bytesPerSecond * 0.001, datagrams)
    }

    mutating func update(bytesPerSecond: Double, datagramBytes: Int, at now: HostTime) {
        fill(at: now)
        self.bytesPerSecond = max(bytesPerSecond, 1)
        self.datagramBytes = datagramBytes
        budget = min(budget, burst)
    }

    private mutating func fill(at now: HostTime) {
        guard filledAt != .distantPast else {
            filledAt = now
            return
        }
        guard now > filledAt else { return }
        budget = min(burst, budget + (now - filledAt).seconds * bytesPerSecond)
        filledAt = now
    }

    /// Whether a datagram may leave now. One that starts within the budget may overdraw it.
    mutating func allows(at now: HostTime) -> Bool {
        fill(at: now)
        return budget > 0
    }

    mutating func spend(_ bytes: Int) {
        // Urgent datagrams overdraw by at most one burst, so that bulk is never locked out for long.
        budget = max(budget - Double(bytes), -burst)
    }

    /// When the next datagrams may leave: a quarter of a burst at once, to wake seldom.
    func nextTime(from now: HostTime) -> HostTime {
        let missing = max(1, burst / 4 - budget)
        return max(now, filledAt) + .seconds(missing / bytesPerSecond) + .nanoseconds(1)
    }
}
