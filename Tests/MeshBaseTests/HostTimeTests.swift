import MeshBase
import Testing

@Suite struct HostTimeTests {
    /// What a field from the network may hold (AB-16).
    static let extremes: [Int64] = [.min, .min + 1, -1_000_000_000, -1, 0, 1, 1_000_000_000, .max - 1, .max]

    @Test func `AB-16 sums and differences of any two instants and spans saturate`() {
        for left in Self.extremes {
            for right in Self.extremes {
                let (time, span) = (HostTime(nanoseconds: left), TimeSpan(nanoseconds: right))
                let sum = clamped(Int128(left) + Int128(right))
                let difference = clamped(Int128(left) - Int128(right))
                #expect((time + span).nanoseconds == sum)
                #expect((time - span).nanoseconds == difference)
                #expect((time - HostTime(nanoseconds: right)).nanoseconds == difference)
                #expect(MeshTime(nanoseconds: left).advanced(by: span).nanoseconds == sum)
                #expect(MeshTime(nanoseconds: left).since(MeshTime(nanoseconds: right)).nanoseconds == difference)
                #expect((TimeSpan(nanoseconds: left) + span).nanoseconds == sum)
                #expect((TimeSpan(nanoseconds: left) - span).nanoseconds == difference)
            }
        }
    }

    @Test func `AB-16 products and quotients of any span saturate`() {
        for left in Self.extremes {
            for right in Self.extremes {
                let span = TimeSpan(nanoseconds: left)
                #expect((span * right).nanoseconds == clamped(Int128(left) * Int128(right)))
                if right != 0 { #expect((span / right).nanoseconds == clamped(Int128(left) / Int128(right))) }
            }
            #expect(TimeSpan.seconds(left).nanoseconds == clamped(Int128(left) * 1_000_000_000))
            #expect(TimeSpan.milliseconds(left).nanoseconds == clamped(Int128(left) * 1_000_000))
            #expect(TimeSpan.microseconds(left).nanoseconds == clamped(Int128(left) * 1_000))
        }
        #expect(TimeSpan.seconds(5) / 0 == TimeSpan(nanoseconds: .max))
        #expect(TimeSpan.seconds(-5) / 0 == TimeSpan(nanoseconds: .min))
    }

    @Test func `AB-17 a deadline at the end of the range stays there when time goes on`() {
        var deadline = HostTime.distantFuture
        for _ in 0..<3 { deadline = deadline + .seconds(120) }
        #expect(deadline == .distantFuture)
        #expect(HostTime.distantFuture - .distantPast == TimeSpan(nanoseconds: .max))
        #expect(HostTime.distantPast - .seconds(1) == .distantPast)
    }

    @Test func `broken seconds are rounded, and clamped where they do not fit`() {
        #expect(TimeSpan.seconds(0.25) == .milliseconds(250))
        #expect(TimeSpan.seconds(0.000_000_000_6) == .nanoseconds(1))
        #expect(TimeSpan.seconds(-1.5) == .milliseconds(-1500))
        #expect(TimeSpan.seconds(.nan) == .zero)
        for value in [1e10, 1e300, .infinity] {
            #expect(TimeSpan.seconds(value).nanoseconds == .max)
            #expect(TimeSpan.seconds(-value).nanoseconds == .min)
        }
    }

    @Test func `scaling keeps the nanosecond and clamps`() {
        #expect(TimeSpan.milliseconds(250).scaled(by: 1) == .milliseconds(250))
        #expect(TimeSpan.nanoseconds(3).scaled(by: 0.5) == .nanoseconds(2))
        #expect(TimeSpan.seconds(-2).scaled(by: 1.5) == .seconds(-3))
        #expect(TimeSpan(nanoseconds: .max).scaled(by: 2).nanoseconds == .max)
        #expect(TimeSpan(nanoseconds: .min).scaled(by: 2).nanoseconds == .min)
        #expect(TimeSpan(nanoseconds: .max).scaled(by: 1).nanoseconds == .max)
        #expect(TimeSpan.seconds(1).scaled(by: .nan) == .zero)
        #expect(TimeSpan.zero.scaled(by: .infinity) == .zero)
    }

    @Test func `units agree with each other`() {
        let span = TimeSpan.microseconds(1_500_250)
        #expect((span.seconds, span.milliseconds, span.microseconds) == (1.50025, 1500.25, 1_500_250))
        #expect(HostTime(nanoseconds: 5) < HostTime(nanoseconds: 6))
        #expect(MeshTime(nanoseconds: -6) < MeshTime(nanoseconds: 5))
    }

    private func clamped(_ value: Int128) -> Int64 { Int64(clamping: value) }
}
