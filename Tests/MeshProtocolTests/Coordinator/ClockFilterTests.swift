import MeshBase
import MeshCrypto
import Testing

@testable import MeshProtocol

/// One filter, fed with exchanges whose truth is known.
struct ClockFilterTests {
    /// Exchanges with a peer whose clock is `offset` ahead and `rate` faster; delays in nanoseconds.
    private struct Exchange {
        var offset: Int64
        var rate = 0.0
        var start = HostTime(nanoseconds: 5_000_000_000)

        func trueOffset(at time: HostTime) -> Int64 {
            offset + Int64((Double(time.since(start).nanoseconds) * rate).rounded())
        }

        func sample(at sent: HostTime, outward: Int64, hold: Int64 = 100_000, inward: Int64) -> ClockSample {
            let arrived = sent + .nanoseconds(outward)
            let answered = arrived + .nanoseconds(hold)
            return ClockSample(
                sentHere: sent, receivedThere: arrived + .nanoseconds(trueOffset(at: arrived)),
                sentThere: answered + .nanoseconds(trueOffset(at: answered)),
                receivedHere: answered + .nanoseconds(inward))
        }
    }

    private func feed(_ filter: inout ClockFilter, _ sample: ClockSample) throws {
        let measurement = try #require(
            ClockMeasurement(sample, at: sample.receivedHere, window: .seconds(10)))
        _ = filter.add(measurement)
    }

    @Test(arguments: [0, 400 * 86_400_000_000_000, 30 * 365 * 86_400_000_000_000] as [Int64])
    func `CLK-02 clocks decades apart lose no nanosecond`(offset: Int64) throws {
        let exchange = Exchange(offset: offset + 12_347)
        var filter = ClockFilter()
        for number in 0..<200 {
            let sent = exchange.start + .milliseconds(Int64(number) * 50)
            try feed(&filter, exchange.sample(at: sent, outward: 100_000, inward: 100_000))
        }

        let now = exchange.start + .seconds(10)
        let updated = filter.update(at: now)
        let estimate = try #require(updated)
        #expect(abs(estimate.offset(at: now).nanoseconds - exchange.trueOffset(at: now)) <= 1)
        #expect(estimate.roundTrip.nanoseconds == 200_000)
    }

    @Test(arguments: [
        (Int64(1_000_000), Int64(1_000_000)), (9_000_000, 3_000_000), (100_000, 20_000_000), (0, 500_000),
    ])
    func `one exchange bounds the offset by half its round trip, however lopsided`(outward: Int64, inward: Int64) throws
    {
        let exchange = Exchange(offset: 77_000_000_000, rate: 100e-6)
        var filter = ClockFilter()
        let sample = exchange.sample(at: exchange.start, outward: outward, inward: inward)
        try feed(&filter, sample)

        let updated = filter.update(at: sample.receivedHere)
        let estimate = try #require(updated)

        let error = abs(estimate.offset.nanoseconds - exchange.trueOffset(at: sample.receivedHere))
        #expect(error <= estimate.bound.nanoseconds)
        #expect(estimate.bound.nanoseconds < (outward + inward) / 2 + 20_000)
    }

    /// Seeds of young links over jittery paths: the bound holds at every sample, and is never far above half the round
    /// trip once there is one.
    @Test(arguments: 1...20)
    func `in a link's first seconds the stated bound holds and is small`(seed: UInt64) throws {
        var random = RandomStream(testSeed: seed)
        let exchange = Exchange(offset: -3 * 86_400_000_000_000, rate: (random.unit() - 0.5) * 400e-6)
        var filter = ClockFilter()
        var sent = exchange.start
        while sent < exchange.start + .seconds(4) {
            let outward = 1_000_000 + Int64(4e6 * random.unit())
            let sample = exchange.sample(
                at: sent, outward: outward, hold: Int64(1e7 * random.unit()),
                inward: 2_000_000 + Int64(2e7 * random.unit()))
            try feed(&filter, sample)
            let now = sample.receivedHere
            let updated = filter.update(at: now)
            let estimate = try #require(updated)
            #expect(abs(estimate.offset.nanoseconds - exchange.trueOffset(at: now)) <= estimate.bound.nanoseconds)
            if now < exchange.start + .milliseconds(400) { #expect(estimate.bound < .milliseconds(15)) }
            sent = now + .milliseconds(Int64(5 + 200 * random.unit()))
        }
    }

    /// Two nodes on one machine, whose clocks are one: quiet, a transfer that fills the queues of one way, quiet again.
    /// Whatever the filter makes of it, the truth lies within what it states, and after a second it states little.
    @Test(arguments: 1...8)
    func `a true offset of zero lies within the stated error through any queueing`(seed: UInt64) throws {
        var random = RandomStream(testSeed: seed &+ 900)
        let exchange = Exchange(offset: 0)
        var filter = ClockFilter()
        var sent = exchange.start
        var violations = 0
        var worst: Int64 = 0
        while sent < exchange.start + .seconds(40) {
            let age = (sent - exchange.start).seconds
            let isBusy = age > 10 && age < 25
            func queue(_ most: Double) -> Int64 { Int64(most * random.unit() * random.unit()) }
            let outward = 12_000 + queue(6_000) + (isBusy ? queue(3e6) + 40_000 : 0)
            let inward = 15_000 + queue(9_000) + (isBusy ? queue(2e5) : 0)
            let sample = exchange.sample(
                at: sent, outward: outward, hold: Int64(2e6 * random.unit()), inward: inward)
            try feed(&filter, sample)
            let now = sample.receivedHere
            let updated = filter.update(at: now)
            let estimate = try #require(updated)
            if abs(estimate.offset.nanoseconds) > estimate.bound.nanoseconds { violations += 1 }
            if age > 1 { worst = max(worst, estimate.bound.nanoseconds) }
            sent = now + .milliseconds(isBusy ? 5 : Int64(20 + 200 * random.unit()))
        }

        #expect(violations == 0)
        #expect(worst < 250_000, "and it is worth something: \(worst) ns")
    }
}
