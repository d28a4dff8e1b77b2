import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct RandomStreamTests {
    @Test func `one seed gives one sequence, however it is drawn`() {
        var first = RandomStream(testSeed: 7)
        var second = RandomStream(testSeed: 7)
        let whole = first.bytes(5000)
        var pieces: [UInt8] = []
        for count in [0, 1, 2, 500, 991, 992, 993, 1521] { pieces += second.bytes(count) }

        #expect(pieces == whole)
        #expect(first.uint64() == second.uint64())
        var other = RandomStream(testSeed: 8)
        #expect(other.bytes(5000) != whole)
    }

    @Test func `the sequence is pinned, so that listed seeds mean the same for ever`() {
        // Both numbers were computed with another implementation of ChaCha20.
        var random = RandomStream(testSeed: 1)
        #expect(Hexadecimal.encode(random.bytes(16)) == "efc2968ab2e8a2e8d854795bca767cd1")
        _ = random.bytes(2000)
        #expect(random.uint64() == 4_798_911_147_538_212_516)
    }

    @Test func `what was handed out, and the seed behind it, are gone from the state`() {
        // Fast key erasure: whoever reads the state later cannot tell what was drawn before.
        var random = RandomStream(testSeed: 3)
        let drawn = random.bytes(500)
        #expect(random.unusedBlock.count == 992 - 500)
        #expect(random.wholeBlock.prefix(32 + 500).allSatisfy { $0 == 0 })
        #expect(!random.unusedBlock.starts(with: drawn.suffix(32)))
    }

    @Test func `bytes are spread evenly`() {
        var random = RandomStream(testSeed: 11)
        var counts = [Int](repeating: 0, count: 256)
        for byte in random.bytes(256 * 400) { counts[Int(byte)] += 1 }
        // Chi-square with 255 degrees of freedom: 400 is far beyond any plausible value, 150 far below.
        let chiSquare = counts.reduce(0.0) { $0 + Double(($1 - 400) * ($1 - 400)) / 400 }
        #expect((150..<400).contains(chiSquare), "\(chiSquare)")
    }

    @Test func `a bounded draw reaches every value and no other`() {
        var random = RandomStream(testSeed: 5)
        for bound in [1, 2, 3, 7, 100] {
            var seen: Set<Int> = []
            for _ in 0..<(bound * 40) { seen.insert(random.below(bound)) }
            #expect(seen == Set(0..<bound))
        }
        #expect(random.below(0) == 0)
        #expect(random.below(-5) == 0)
        #expect((0..<Int.max).contains(random.below(.max)))
    }

    @Test func `a unit draw stays below one and a jittered span within its spread`() {
        var random = RandomStream(testSeed: 6)
        for _ in 0..<1000 {
            #expect((0..<1).contains(random.unit()))
            let span = random.jittered(.milliseconds(250), spread: 0.2)
            #expect((.milliseconds(200)...TimeSpan.milliseconds(300)).contains(span))
        }
    }

    @Test func `split streams are independent of each other`() {
        var parent = RandomStream(testSeed: 2)
        var (first, second) = (parent.split(), parent.split())
        let drawn = [first.bytes(64), second.bytes(64), parent.bytes(64)]
        #expect(Set(drawn).count == 3)
    }

    @Test func `a secret is as long as asked for and differs each time`() {
        var random = RandomStream(testSeed: 4)
        let (first, second) = (random.secret(), random.secret(count: 64))
        #expect((first.count, second.count) == (32, 64))
        #expect(!second.prefix(32).matches(first))
        var again = RandomStream(testSeed: 4)
        #expect(first.revealed() == again.bytes(32))
    }
}

@Suite struct RandomSeedTests {
    @Test func `AB-49 a random source of zeros, of one byte or of one repeated block stops the start`() {
        let sound = sampleSecret(1)
        let patterns = [
            [UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xff, count: 32),
            sampleBytes(16) + sampleBytes(16), sampleBytes(31), sampleBytes(33), [],
        ]
        for bytes in patterns {
            let weak = SecretBytes(copying: bytes)
            #expect(throws: CryptoError.unavailable) { try RandomSeed.validate(weak, sound) }
            #expect(throws: CryptoError.unavailable) { try RandomSeed.validate(sound, weak) }
        }
    }

    @Test func `AB-49 a random source that repeats itself stops the start`() {
        #expect(throws: CryptoError.unavailable) { try RandomSeed.validate(sampleSecret(1), sampleSecret(1)) }
    }

    @Test func `two seeds that differ are accepted, be it in one bit`() {
        let base = sampleBytes(32)
        for bit in 0..<256 {
            var other = base
            other[bit / 8] ^= 1 << (bit % 8)
            let (first, second) = (SecretBytes(copying: base), SecretBytes(copying: other))
            #expect(throws: Never.self, "bit \(bit)") { try RandomSeed.validate(first, second) }
        }
    }
}
