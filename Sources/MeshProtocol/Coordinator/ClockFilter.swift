import MeshBase

/// A peer's clock offset and rate from noisy one-way differences: each direction is filtered alone, because two
/// independent edges need no single lucky round trip.
///
/// Samples fall into blocks of one second (an eighth in the first seconds of a link, so that a quiet one knows its rate
/// within one). A closed block keeps its three least values and its median, so the whole memory is 60 blocks a
/// direction, a sample costs O(1), and an estimate O(blocks). The statistic is the mean of the three least within 10 s,
/// brought to one instant by the rate; or the median where its block values scatter less than half as much (symmetric
/// noise without a sharp edge). The rate is Theil and Sen's median slope over 8 groups of blocks within 40 s. Quiet
/// links use 2 s and 8 s, which follow an oscillator faster; thin ones 20 s and 60 s, because an edge needs many
/// samples. Measured on recorded paths this gives 17 µs where the least round trip gives 1110.
///
/// Differences are kept relative to the first, in nanoseconds: clocks 400 days apart lose no digit (CLK-02).
struct ClockFilter: Sendable {
    /// The offset at one instant, with what is known about its error.
    struct Estimate: Hashable, Sendable {
        /// The instant on our host clock.
        var at: HostTime
        /// Peer's host clock minus ours.
        var offset: TimeSpan
        /// Peer's rate over ours minus one.
        var rate: Double
        /// Standard uncertainty of `rate`.
        var rateError: Double
        /// Standard uncertainty of `offset` from the scatter alone, nanoseconds.
        var scatter: Double
        /// Sum of the two edges: never above the least round trip in the window.
        var roundTrip: TimeSpan
        /// Samples in the direction that has fewer.
        var sampleCount: Int
        /// Whatever the asymmetry and the noise, the offset is within this at `at`: how far the farther end of what the
        /// measured differences leave possible lies (`ClockLimits`). One exchange is enough for that.
        var bound: TimeSpan
        /// How far the rate may be off at worst: what the bound grows by after `at`.
        var rateLimit: Double

        func offset(at now: HostTime) -> TimeSpan {
            offset + TimeSpan(nanoseconds: clampedNanoseconds(Double(now.since(at).nanoseconds) * rate))
        }
    }

    static let blockLength = 1_000_000_000.0
    /// Blocks of a young link are so many times shorter, until it is `youth` nanoseconds old.
    static let youngDivisor: Int64 = 8
    static let youth = 6_000_000_000.0
    static let blockLimit = 60
    static let groupCount = 8
    /// Blocks in the offset's window and in the rate's, for ordinary, quiet and thin links.
    static let ordinaryBlocks = Window(offset: 10, rate: 40)
    static let quietBlocks = Window(offset: 2, rate: 8)
    static let thinBlocks = Window(offset: 20, rate: 60)
    /// A link is thin with fewer samples than this in the ordinary window.
    static let thinSamples = 200
    /// Below `enter` a link is quiet, above `leave` it is not: the gap keeps it from flapping.
    static let quietScatter = (enter: 20_000.0, leave: 40_000.0)
    /// Samples that a short window must hold to be preferred.
    static let quietSamples = 8
    /// No healthy pair of oscillators is further apart (Docs/Protocol.md, clock).
    static let maximumRate = 300e-6
    /// What is known about an oscillator before it is measured: 50 ppm, as crystals are sold.
    static let priorRateError = 50e-6
    /// Timestamps themselves are no better than this, nanoseconds.
    static let scatterFloor = 200.0
    /// Contradicting samples in a row after which the peer's clock has jumped and history is void.
    static let jumpSamples = 8

    private(set) var outward = ClockDirection(slopeSign: 1)
    private(set) var inward = ClockDirection(slopeSign: -1)
    private(set) var estimate: Estimate?
    private(set) var newestSample: HostTime?
    private var origin: HostTime?
    /// The first offset: all values are kept relative to it.
    private var base = TimeSpan.zero
    private var contradictions = 0
    private var isQuiet = false
    private var usesMedian = false

    /// Blocks that an offset and a rate look back.
    struct Window: Hashable, Sendable {
        var offset: Int
        var rate: Int
    }

    /// What became of a sample.
    enum Admission: Hashable, Sendable {
        case accepted
        /// An echo that was counted before, or older than its block.
        case repeated
        /// The peer's clock jumped: everything before was dropped.
        case restarted
    }

    /// Takes one measurement. O(1), amortised: a block's 64 values are sorted once a second.
    mutating func add(_ measurement: ClockMeasurement) -> Admission {
        var admission = Admission.accepted
        if contradicts(measurement) {
            contradictions += 1
            if contradictions >= Self.jumpSamples {
                self = ClockFilter()
                admission = .restarted
            }
        } else {
            contradictions = 0
        }
        if origin == nil {
            origin = measurement.outwardAt
            base = measurement.middle
        }
        let rate = estimate?.rate ?? 0
        let isNewOut = outward.add(
            at: relative(measurement.outwardAt), Double((measurement.outward - base).nanoseconds), rate: rate)
        let isNewIn = inward.add(
            at: relative(measurement.inwardAt), Double((measurement.inward + base).nanoseconds), rate: rate)
        guard isNewOut || isNewIn else { return .repeated }
        newestSample = max(newestSample ?? measurement.inwardAt, measurement.inwardAt)
        return admission
    }

    /// Clocks do not jump, paths do. But a delay cannot be negative: a sample that says so shows that the peer's clock
    /// moved (it slept, or is not the process it was).
    private func contradicts(_ measurement: ClockMeasurement) -> Bool {
        guard let estimate else { return false }
        let expected = estimate.offset(at: measurement.inwardAt)
        let margin = TimeSpan(nanoseconds: 500_000 + clampedNanoseconds(8 * estimate.scatter))
        return expected > measurement.outward + margin || expected < TimeSpan.zero - measurement.inward - margin
    }

    private func relative(_ time: HostTime) -> Double { Double(time.since(origin ?? time).nanoseconds) }

    /// Computes the estimate at `now`; `nil` until both directions have samples, the last one when the window holds
    /// none. O(blocks).
    @discardableResult
    mutating func update(at now: HostTime) -> Estimate? {
        guard origin != nil else { return nil }
        let instant = relative(now)
        if outward.isYoung, instant > Self.youth {
            outward.growUp(rate: estimate?.rate ?? 0)
            inward.growUp(rate: estimate?.rate ?? 0)
        }
        let newest = Int64(min(9e9, (instant / outward.blockLength).rounded(.down)))
        outward.discard(before: newest - Int64(Self.blockLimit) + 1)
        inward.discard(before: newest - Int64(Self.blockLimit) + 1)
        outward.prepare(rate: estimate?.rate ?? 0)
        inward.prepare(rate: estimate?.rate ?? 0)
        let window = window(newest: newest)
        let slope = fitRate(newest: newest, blocks: window.rate)
        let blocks = window.offset
        guard let edge = values(from: newest - Int64(blocks) + 1, at: instant, rate: slope.rate, median: false) else {
            return estimate
        }
        let early = (edge.out.spread + edge.back.spread) / 2
        var difference = edge.difference
        var scatter = max(Self.scatterFloor, slope.edgeScatter ?? early)
        if usesMedian, let scattered = slope.edgeScatter, let medianScatter = slope.medianScatter,
            let middle = values(from: newest - Int64(blocks) + 1, at: instant, rate: slope.rate, median: true),
            abs(middle.difference - difference) < 3 * scattered
        {
            // Where the two disagree the ways differ in the noise itself, and only the edges are alike (CLK-07).
            difference = middle.difference
            scatter = max(Self.scatterFloor, medianScatter)
        }
        // A rate that is off by its error moves the window's mean age of samples.
        let ageing = slope.error * min(instant, Double(blocks) * outward.blockLength) / 2
        let (bound, rateLimit) = limits(of: difference, rate: slope.rate, at: instant)
        let fresh = Estimate(
            at: now, offset: base + TimeSpan(nanoseconds: clampedNanoseconds(difference)), rate: slope.rate,
            rateError: slope.error, scatter: scatter + (slope.edgeScatter == nil ? 0 : ageing),
            roundTrip: TimeSpan(nanoseconds: clampedNanoseconds(max(0, edge.out.value + edge.back.value))),
            sampleCount: min(edge.out.count, edge.back.count),
            bound: bound, rateLimit: rateLimit)
        estimate = fresh
        return fresh
    }

    /// How far the true offset can lie from `difference`, and the true rate from `rate`.
    private func limits(of difference: Double, rate: Double, at instant: Double) -> (TimeSpan, Double) {
        let limits = ClockLimits(
            above: outward.limits(at: instant),
            below: inward.limits(at: instant).map { .init(age: $0.age, limit: -$0.limit) })
        guard let ranges = limits.ranges() else { return (TimeSpan(nanoseconds: .max), Self.maximumRate) }
        let farthest = max(ranges.offset.upperBound - difference, difference - ranges.offset.lowerBound)
        let rateLimit = max(ranges.rate.upperBound - rate, rate - ranges.rate.lowerBound) + ClockLimits.wander
        return (TimeSpan(nanoseconds: clampedNanoseconds(farthest + 2 * Self.scatterFloor)), rateLimit)
    }

    private struct Values {
        var out: ClockDirection.Value
        var back: ClockDirection.Value
        /// The offset that they mean.
        var difference: Double { (out.value - back.value) / 2 }
    }

    private func values(from first: Int64, at instant: Double, rate: Double, median: Bool) -> Values? {
        guard let out = outward.value(from: first, at: instant, rate: rate, median: median),
            let back = inward.value(from: first, at: instant, rate: rate, median: median)
        else { return nil }
        return Values(out: out, back: back)
    }

    private func window(newest: Int64) -> Window {
        if outward.isYoung { return Window(offset: Self.blockLimit, rate: Self.blockLimit) }
        if isQuiet, sampleCount(within: Self.quietBlocks.offset, newest: newest) >= Self.quietSamples {
            return Self.quietBlocks
        }
        if sampleCount(within: Self.ordinaryBlocks.offset, newest: newest) < Self.thinSamples {
            return Self.thinBlocks
        }
        return Self.ordinaryBlocks
    }

    private func sampleCount(within blocks: Int, newest: Int64) -> Int {
        let first = newest - Int64(blocks) + 1
        return min(outward.count(from: first), inward.count(from: first))
    }

    /// A rate, its standard error, and how either statistic's group values scatter around their line.
    private struct Slope {
        var rate: Double
        var error: Double
        var edgeScatter: Double?
        var medianScatter: Double?
    }

    private mutating func fitRate(newest: Int64, blocks: Int) -> Slope {
        let previous = estimate?.rate ?? 0
        let edge = fit(newest: newest, blocks: blocks, rate: previous, median: false)
        let middle = fit(newest: newest, blocks: blocks, rate: previous, median: true)
        // Too few samples of late: the oscillators go on as they did, known a little worse each time.
        guard let edge else {
            return Slope(
                rate: previous, error: min(Self.priorRateError, (estimate?.rateError ?? Self.priorRateError) * 1.02),
                edgeScatter: estimate?.scatter)
        }
        // Where the choice is close it stays as it was, so that the estimate does not flap between two statistics.
        let threshold = usesMedian ? 0.7 : 0.5
        usesMedian = middle.map { $0.scatter < threshold * edge.scatter } ?? false
        let chosen = usesMedian ? (middle ?? edge) : edge
        isQuiet = chosen.scatter < (isQuiet ? Self.quietScatter.leave : Self.quietScatter.enter)
        let clamped = max(-Self.maximumRate, min(Self.maximumRate, chosen.rate))
        let error = min(Self.priorRateError, chosen.rateError)
        return Slope(
            rate: shrunk(clamped, chosen.rateError), error: error, edgeScatter: edge.scatter,
            medianScatter: middle?.scatter)
    }

    /// A short noisy measurement counts only as far as it knows more than the prior does.
    private func shrunk(_ rate: Double, _ error: Double) -> Double {
        let prior = Self.priorRateError * Self.priorRateError
        return rate * prior / (prior + error * error)
    }

    private struct Fit {
        var rate: Double
        var rateError: Double
        var scatter: Double
    }

    /// Theil and Sen over up to 8 groups of blocks; `nil` below four.
    private func fit(newest: Int64, blocks: Int, rate: Double, median: Bool) -> Fit? {
        let first = max(outward.firstIndex ?? newest, inward.firstIndex ?? newest, newest - Int64(blocks) + 1)
        let span = Int(newest - first) + 1
        guard span >= 4 else { return nil }
        let size = max(1, (span + Self.groupCount - 1) / Self.groupCount)
        var points: [(at: Double, value: Double)] = []
        var spreads: [Double] = []
        points.reserveCapacity(Self.groupCount)
        spreads.reserveCapacity(Self.groupCount)
        var last = newest
        while last >= first {
            let low = max(first, last - Int64(size) + 1)
            let middle = (Double(low) + Double(last) + 1) / 2 * outward.blockLength
            if let out = outward.value(from: low, through: last, at: middle, rate: rate, median: median),
                let back = inward.value(from: low, through: last, at: middle, rate: rate, median: median)
            {
                points.append((middle, (out.value - back.value) / 2))
                spreads.append((out.spread + back.spread) / 4)
            }
            last = low - 1
        }
        guard points.count >= 4 else { return nil }
        // The edge of many samples lies lower than that of few, so where traffic thins out a false slope shows. How far
        // the least values lie apart tells how far the edge may be.
        return theilSen(points, floor: median ? 0 : MeshProtocol.middle(of: &spreads))
    }

    private func theilSen(_ points: [(at: Double, value: Double)], floor: Double) -> Fit {
        var slopes: [Double] = []
        for left in points.indices {
            for right in (left + 1)..<points.endIndex where points[left].at != points[right].at {
                slopes.append((points[right].value - points[left].value) / (points[right].at - points[left].at))
            }
        }
        let rate = middle(of: &slopes)
        var steps = zip(points, points.dropFirst()).map { ($1.value - $0.value) - rate * ($1.at - $0.at) }
        let centre = middle(of: &steps)
        var deviations = steps.map { abs($0 - centre) }
        // 1.4826 makes a standard deviation of a median deviation; a step holds the noise of two values.
        let scatter = max(Self.scatterFloor, floor, 1.4826 / 2.0.squareRoot() * middle(of: &deviations))
        let span = abs((points.first?.at ?? 0) - (points.last?.at ?? 0))
        let error = scatter * 12.0.squareRoot() / (max(span, 1) * Double(points.count).squareRoot())
        return Fit(rate: rate, rateError: error, scatter: scatter)
    }
}

/// The median, the mean of the middle two for an even count; zero of nothing. Sorts in place.
func middle(of values: inout [Double]) -> Double {
    guard !values.isEmpty else { return 0 }
    values.sort()
    let half = values.count / 2
    return values.count.isMultiple(of: 2) ? (values[half - 1] + values[half]) / 2 : values[half]
}
