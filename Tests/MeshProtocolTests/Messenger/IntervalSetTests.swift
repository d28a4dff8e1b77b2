import MeshCrypto
import Testing

@testable import MeshProtocol

struct `An interval set` {
    @Test(arguments: 0..<50)
    func `agrees with a plain set for any insertions`(seed: Int) {
        var random = RandomStream(testSeed: UInt64(seed))
        var set = IntervalSet(maximumIntervals: 1_000)
        var plain: Set<UInt64> = []
        for _ in 0..<300 {
            let value = UInt64(random.below(200))
            #expect(set.insert(value) == plain.insert(value).inserted)
        }
        for value in 0..<220 as Range<UInt64> { #expect(set.contains(value) == plain.contains(value)) }
        let missing = (plain.min()!...plain.max()!).filter { !plain.contains($0) }
        #expect(set.gaps().flatMap { Array($0) } == missing)
        for start in plain {
            let end = (start...).first { !plain.contains($0) }! - 1
            #expect(set.contiguousEnd(from: start) == end)
        }
    }

    @Test func `holds the ends of the number range`() {
        var set = IntervalSet()
        #expect(set.insert(.max) && set.insert(0) && set.insert(.max - 1) && set.insert(1))
        #expect(!set.insert(.max) && !set.insert(0))
        #expect(set.intervals == [0...1, (.max - 1)...(.max)])
        #expect(set.gaps() == [2...(.max - 2)])
        set.insertAll(below: .max)
        #expect(set.intervals == [0...(.max)])
    }

    @Test func `forgets its lowest gap when full, and never what it has seen`() {
        var set = IntervalSet(maximumIntervals: 4)
        for value in stride(from: UInt64(10), through: 100, by: 10) { set.insert(value) }
        #expect(set.intervals.count == 4)
        #expect(set.closedGaps == 6)
        for value in stride(from: UInt64(10), through: 100, by: 10) { #expect(set.contains(value)) }
        #expect(set.contains(11) && !set.contains(99))
    }

    @Test func `takes everything below a bound`() {
        var set = IntervalSet()
        for value in [3, 4, 8, 12] as [UInt64] { set.insert(value) }
        set.insertAll(below: 8)
        #expect(set.intervals == [0...8, 12...12])
        set.insertAll(below: 0)
        #expect(set.intervals == [0...8, 12...12])
        #expect(set.contiguousEnd(from: 5) == 8 && set.contiguousEnd(from: 9) == nil)
    }
}
