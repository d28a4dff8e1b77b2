import MeshBase
import MeshSystem

/// A node's host clock on simulated time, with its own offset and rate, which a fault may change while it runs.
public final class SimulatedClock: HostClock {
    private let time: SimulatedTime
    private let shape: Lock<MonotonicClock>
    private let slept = Lock(TimeSpan.zero)

    /// `ratePartsPerMillion` within ±100,000.
    public init(time: SimulatedTime, offset: TimeSpan = .zero, ratePartsPerMillion: Double = 0) {
        self.time = time
        shape = Lock(Self.clock(offset, ratePartsPerMillion))
    }

    private static func clock(_ offset: TimeSpan, _ rate: Double) -> MonotonicClock {
        guard let clock = MonotonicClock(offsetNanoseconds: offset.nanoseconds, ratePartsPerMillion: rate) else {
            preconditionFailure("a clock's rate error is at most 100,000 ppm")
        }
        return clock
    }

    public func now() -> HostTime { hostTime(ofTrue: time.now) }
    public func trueTime(of time: HostTime) -> Int64 { shape.withLock { $0 }.trueTime(of: time) }
    public func hostTime(ofTrue nanoseconds: Int64) -> HostTime { shape.withLock { $0 }.hostTime(ofTrue: nanoseconds) }

    public func suspendedSpan() -> TimeSpan { slept.withLock { $0 } }

    /// The machine wakes from a sleep of `span`, for which its clock stood still: said at the end of the sleep.
    public func wakeUp(after span: TimeSpan) {
        jump(by: .zero - span)
        slept.withLock { $0 = $0 + span }
    }

    /// From now on the clock runs at another rate, without a jump.
    public func setRate(partsPerMillion rate: Double) {
        let now = now()
        shape.withLock { clock in
            let other = Self.clock(.zero, rate)
            clock = Self.clock(now - other.hostTime(ofTrue: time.now), rate)
        }
    }

    /// The clock jumps by `span`, as one that stood still (negative) or was set does.
    public func jump(by span: TimeSpan) {
        shape.withLock { clock in
            clock = Self.clock(
                TimeSpan(nanoseconds: clock.offset) + span, Double(clock.ratePartsPerTrillion) / 1e6)
        }
    }
}
