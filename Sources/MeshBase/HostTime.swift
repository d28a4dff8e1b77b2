/// An instant on this node's own monotonic clock, in nanoseconds since that clock's zero.
///
/// Never comparable with another node's `HostTime`, and never mixed with `MeshTime`. Arithmetic saturates, so
/// that no field read from the network can trap it (a deadline of 2⁶³−1 is simply "never").
public struct HostTime: Hashable, Comparable, Sendable {
    /// Nanoseconds since the clock's zero. Negative only on shifted test clocks.
    public var nanoseconds: Int64

    @inlinable
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    public static let zero = HostTime(nanoseconds: 0)
    public static let distantPast = HostTime(nanoseconds: .min)
    public static let distantFuture = HostTime(nanoseconds: .max)

    @inlinable
    public static func < (left: HostTime, right: HostTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    /// This instant moved by `duration`, saturating at the ends of the range.
    @inlinable
    public func advanced(by duration: TimeSpan) -> HostTime {
        HostTime(nanoseconds: saturatingSum(nanoseconds, duration.nanoseconds))
    }

    /// The signed span from `earlier` to this instant, saturating.
    @inlinable
    public func since(_ earlier: HostTime) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingDifference(nanoseconds, earlier.nanoseconds))
    }

    @inlinable
    public static func + (time: HostTime, span: TimeSpan) -> HostTime {
        time.advanced(by: span)
    }

    @inlinable
    public static func - (time: HostTime, span: TimeSpan) -> HostTime {
        HostTime(nanoseconds: saturatingDifference(time.nanoseconds, span.nanoseconds))
    }

    @inlinable
    public static func - (later: HostTime, earlier: HostTime) -> TimeSpan {
        later.since(earlier)
    }
}

/// An instant on the clock that all members of a mesh agree on, in nanoseconds.
public struct MeshTime: Hashable, Comparable, Sendable {
    public var nanoseconds: Int64

    @inlinable
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    @inlinable
    public static func < (left: MeshTime, right: MeshTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    @inlinable
    public func advanced(by span: TimeSpan) -> MeshTime {
        MeshTime(nanoseconds: saturatingSum(nanoseconds, span.nanoseconds))
    }

    /// The signed span from `earlier` to this instant, saturating.
    @inlinable
    public func since(_ earlier: MeshTime) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingDifference(nanoseconds, earlier.nanoseconds))
    }
}

/// A signed length of time in nanoseconds. Arithmetic saturates.
///
/// Its own type beside `Swift.Duration` because the machines compare and add spans per datagram: one 64-bit word,
/// no attoseconds, no trap.
public struct TimeSpan: Hashable, Comparable, Sendable {
    public var nanoseconds: Int64

    @inlinable
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    public static let zero = TimeSpan(nanoseconds: 0)

    @inlinable
    public static func nanoseconds(_ count: Int64) -> TimeSpan { TimeSpan(nanoseconds: count) }

    @inlinable
    public static func microseconds(_ count: Int64) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingProduct(count, 1_000))
    }

    @inlinable
    public static func milliseconds(_ count: Int64) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingProduct(count, 1_000_000))
    }

    @inlinable
    public static func seconds(_ count: Int64) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingProduct(count, 1_000_000_000))
    }

    /// Whole and broken seconds, rounded to the nearest nanosecond; beyond the range the ends, zero for "not a number".
    /// `.seconds(3)` means the other one.
    @_disfavoredOverload
    public static func seconds(_ value: Double) -> TimeSpan { rounding(value * 1e9) }

    public var seconds: Double { Double(nanoseconds) / 1e9 }
    public var milliseconds: Double { Double(nanoseconds) / 1e6 }
    public var microseconds: Double { Double(nanoseconds) / 1e3 }

    @inlinable
    public static func < (left: TimeSpan, right: TimeSpan) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    @inlinable
    public static func + (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingSum(left.nanoseconds, right.nanoseconds))
    }

    @inlinable
    public static func - (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingDifference(left.nanoseconds, right.nanoseconds))
    }

    @inlinable
    public static func * (span: TimeSpan, factor: Int64) -> TimeSpan {
        TimeSpan(nanoseconds: saturatingProduct(span.nanoseconds, factor))
    }

    /// Rounded towards zero. By zero: the end of the range on the span's side, the longest span there is.
    @inlinable
    public static func / (span: TimeSpan, divisor: Int64) -> TimeSpan {
        if divisor == 0 { return TimeSpan(nanoseconds: span.nanoseconds < 0 ? .min : .max) }
        // The one quotient that does not fit: the least number divided by −1.
        let (quotient, overflow) = span.nanoseconds.dividedReportingOverflow(by: divisor)
        return TimeSpan(nanoseconds: overflow ? .max : quotient)
    }

    /// The span scaled by a real factor, rounded to the nearest nanosecond, saturating; zero for "not a number".
    public func scaled(by factor: Double) -> TimeSpan {
        TimeSpan.rounding(Double(nanoseconds) * factor)
    }

    private static func rounding(_ nanoseconds: Double) -> TimeSpan {
        if nanoseconds.isNaN { return .zero }
        return TimeSpan(nanoseconds: Int64(exactly: nanoseconds.rounded()) ?? (nanoseconds > 0 ? .max : .min))
    }
}

@inlinable
func saturatingSum(_ left: Int64, _ right: Int64) -> Int64 {
    let (sum, overflow) = left.addingReportingOverflow(right)
    return overflow ? (right > 0 ? .max : .min) : sum
}

@inlinable
func saturatingDifference(_ left: Int64, _ right: Int64) -> Int64 {
    let (difference, overflow) = left.subtractingReportingOverflow(right)
    return overflow ? (right < 0 ? .max : .min) : difference
}

@inlinable
func saturatingProduct(_ left: Int64, _ right: Int64) -> Int64 {
    let (product, overflow) = left.multipliedReportingOverflow(by: right)
    return overflow ? ((left < 0) == (right < 0) ? .max : .min) : product
}

extension HostTime? {
    /// Whether a deadline has come; none never comes.
    @inlinable
    public func isDue(at now: HostTime) -> Bool {
        guard let self else { return false }
        return self <= now
    }
}
