/// What the offset of a peer's clock can be at all, whatever the delays were.
///
/// No delay is negative, so each outward difference is an upper limit of the offset at its instant, each inward one a
/// lower limit. Clocks run straight but for `wander`, so the offsets that all limits allow are a polygon in the plane of
/// (rate, offset now): its least and greatest offset bound the truth, whatever estimate was made from the same points.
/// After the convex-hull method of Zhang, Liu and Xia (2002), by search instead of a hull: at a given rate the limits are
/// the least and the greatest of straight lines, hence concave and convex in the rate.
struct ClockLimits: Sendable {
    /// An age before now, nanoseconds, and a limit of the offset then.
    struct Point: Sendable {
        let age: Double
        let limit: Double
    }

    private let above: [Point]
    private let below: [Point]

    /// Two healthy oscillators differ in rate by no more than this.
    static let maximumRate = ClockFilter.maximumRate
    /// How far a rate may change while the points are kept (temperature).
    static let wander = 1e-6
    private static let steps = 26

    init(above: [Point], below: [Point]) {
        self.above = above
        self.below = below
    }

    /// The offset now, least and greatest, and the rates with which any is possible. `nil` without points both ways.
    /// Points that contradict each other (a clock jumped, or one that is not healthy) widen the range instead. Cost: about
    /// 80 looks at every point.
    func ranges() -> (offset: ClosedRange<Double>, rate: ClosedRange<Double>)? {
        guard !above.isEmpty, !below.isEmpty else { return nil }
        let best = widestRate()
        let room = upper(best).limit - lower(best).limit
        guard room >= 0 else {
            let middle = (upper(best).limit + lower(best).limit) / 2
            return ((middle + 2 * room)...(middle - 2 * room), -Self.maximumRate...Self.maximumRate)
        }
        let slowest = edge(from: best, towards: -Self.maximumRate)
        let fastest = edge(from: best, towards: Self.maximumRate)
        // No age is negative, so both limits only rise with the rate.
        let (low, high) = (lower(slowest).limit, upper(fastest).limit)
        return (min(low, high)...max(low, high), slowest...fastest)
    }

    /// The least upper limit of the offset now at a given rate, and by how much it rises with the rate.
    private func upper(_ rate: Double) -> Point {
        var least = Point(age: 0, limit: .infinity)
        for point in above {
            let limit = point.limit + (rate + Self.wander) * point.age
            if limit < least.limit { least = Point(age: point.age, limit: limit) }
        }
        return least
    }

    /// The greatest lower limit of the offset now at a given rate, and by how much it rises with the rate.
    private func lower(_ rate: Double) -> Point {
        var greatest = Point(age: 0, limit: -.infinity)
        for point in below {
            let limit = point.limit + (rate - Self.wander) * point.age
            if limit > greatest.limit { greatest = Point(age: point.age, limit: limit) }
        }
        return greatest
    }

    /// The rate that leaves the offset most room: where the room, which is concave, stops to grow.
    private func widestRate() -> Double {
        var (low, high) = (-Self.maximumRate, Self.maximumRate)
        for _ in 0..<Self.steps {
            let middle = (low + high) / 2
            if upper(middle).age > lower(middle).age { low = middle } else { high = middle }
        }
        return (low + high) / 2
    }

    /// The last rate towards `limit` that the points allow, a little beyond rather than short of it.
    private func edge(from possible: Double, towards limit: Double) -> Double {
        guard upper(limit).limit < lower(limit).limit else { return limit }
        var (inside, outside) = (possible, limit)
        for _ in 0..<Self.steps {
            let middle = (inside + outside) / 2
            if upper(middle).limit < lower(middle).limit { outside = middle } else { inside = middle }
        }
        return outside
    }
}
