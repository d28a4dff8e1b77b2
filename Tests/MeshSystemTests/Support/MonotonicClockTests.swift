import Glibc
import MeshBase
import MeshCrypto
import MeshSystem
import Testing

@Suite struct MonotonicClockTests {
    @Test func `an unshifted clock is CLOCK_MONOTONIC`() {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        let before = Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)

        let now = MonotonicClock().now()

        #expect(now.nanoseconds >= before)
        #expect(now.nanoseconds - before < 1_000_000_000)
    }

    @Test(
        arguments: [0, 1, -1, 34_560_000_000_000_000, 1_000_000_000_000_000_000, -900_000_000_000_000_000] as [Int64])
    func `CLK-02 shifted origins convert there and back without rounding at 1e18 ns`(offset: Int64) throws {
        for rate in [0.0, 0.001, 50, -50, 500, -99_999.5] {
            let clock = try #require(MonotonicClock(offsetNanoseconds: offset, ratePartsPerMillion: rate))
            for instant in [0, 1, 999_999_999, 123_456_789_012_345_678, 1_000_000_000_000_000_001] as [Int64] {
                let host = clock.hostTime(ofTrue: instant)
                #expect(abs(clock.trueTime(of: host) - instant) <= 1, "\(offset) \(rate) \(instant)")
            }
        }
    }

    @Test func `the rate counts from the clock's zero`() throws {
        let clock = try #require(MonotonicClock(offsetNanoseconds: 5, ratePartsPerMillion: 100))

        #expect(clock.hostTime(ofTrue: 0).nanoseconds == 5)
        #expect(clock.hostTime(ofTrue: 10_000_000_000).nanoseconds == 10_001_000_005)
        #expect(clock.hostTime(ofTrue: 1_000_000_000_000_000_000).nanoseconds == 1_000_100_000_000_000_005)
    }

    @Test func `conversions saturate and never trap`() throws {
        let clock = try #require(MonotonicClock(offsetNanoseconds: .max, ratePartsPerMillion: 100_000))

        #expect(clock.hostTime(ofTrue: .max) == .distantFuture)
        #expect(clock.trueTime(of: .distantFuture) == .max)
        #expect(clock.trueTime(of: .distantPast) == .min)
    }

    @Test(arguments: [Double.nan, .infinity, 100_001, -1e9])
    func `a rate that no clock has is refused`(rate: Double) {
        #expect(MonotonicClock(offsetNanoseconds: 0, ratePartsPerMillion: rate) == nil)
    }
}

@Suite struct SystemEntropyTests {
    @Test func `entropy gives as many bytes as asked and never the same twice`() throws {
        let first = try SystemEntropy().fill(count: 32)
        let second = try SystemEntropy().fill(count: 32)

        #expect(first.count == 32)
        #expect(!first.matches(second))
        #expect(try SystemEntropy().fill(count: 0).count == 0)
    }
}
