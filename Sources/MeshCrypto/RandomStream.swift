import MeshBase

/// A cryptographic generator from a 32-byte seed, so that machines take randomness as an input.
///
/// ChaCha20 keystream in blocks of 992 bytes with fast key erasure: the first 32 bytes of each block are the next
/// seed, so a later state says nothing about earlier output. The same seed gives the same bytes in every process.
/// A value: a copy repeats its bytes, so a machine owns exactly one and never hands out copies.
public struct RandomStream: Sendable {
    private var seed: SecretBytes
    private var block: [UInt8] = []
    private var position = 0

    private static let blockByteCount = 1024

    /// `seed`: 32 bytes from the environment's entropy (in tests, from the test's seed).
    public init(seed: SecretBytes) {
        precondition(seed.count == 32, "a generator seed has 32 bytes")
        self.seed = seed
    }

    /// A seed made of a number, for tests and simulations only.
    public init(testSeed: UInt64) {
        var bytes = [UInt8](repeating: 0, count: 32)
        for offset in 0..<8 { bytes[offset] = UInt8(truncatingIfNeeded: testSeed >> UInt64(8 * offset)) }
        self.init(seed: SecretBytes(copying: bytes))
    }

    private mutating func refill() {
        if block.isEmpty { block = [UInt8](repeating: 0, count: Self.blockByteCount) }
        unsafe block.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            unsafe Sodium.deterministicBytes(base, count: buffer.count, seed: seed)
            seed = SecretBytes(copying: unsafe UnsafeBufferPointer(start: base, count: 32).span)
            unsafe Sodium.wipe(base, count: 32)
        }
        position = 32
    }

    public mutating func nextByte() -> UInt8 {
        if position >= block.count { refill() }
        let byte = block[position]
        block[position] = 0
        position += 1
        return byte
    }

    /// The next `count` bytes; none for a count below 1. Cost: 0.2 µs for 24 bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        guard count > 0 else { return [] }
        var output = [UInt8](repeating: 0, count: count)
        unsafe output.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            unsafe fill(base, count: count)
        }
        return output
    }

    /// `count` bytes that never stood in an array.
    public mutating func secret(count: Int = 32) -> SecretBytes {
        unsafe SecretBytes(count: count) { unsafe fill($0, count: count) }
    }

    /// Moves bytes out of the block, leaving zeros.
    private mutating func fill(_ output: UnsafeMutablePointer<UInt8>, count: Int) {
        var filled = 0
        while filled < count {
            if position >= block.count { refill() }
            let step = min(count - filled, block.count - position)
            unsafe block.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { return }
                unsafe (output + filled).update(from: base + position, count: step)
                unsafe Sodium.wipe(base + position, count: step)
            }
            filled += step
            position += step
        }
    }

    /// For tests: what the state still holds.
    var wholeBlock: [UInt8] { block }
    var unusedBlock: ArraySlice<UInt8> { block[min(position, block.count)...] }

    public mutating func uint64() -> UInt64 {
        var value: UInt64 = 0
        for offset in 0..<8 { value |= UInt64(nextByte()) << UInt64(8 * offset) }
        return value
    }

    public mutating func uint32() -> UInt32 { UInt32(truncatingIfNeeded: uint64()) }

    /// Uniform in `0..<bound`; zero for a bound below 1.
    public mutating func below(_ bound: Int) -> Int {
        guard bound > 1 else { return 0 }
        let limit = UInt64(bound)
        // Multiply-shift with rejection of the biased low part.
        while true {
            let (high, low) = uint64().multipliedFullWidth(by: limit)
            if low >= (0 &- limit) % limit { return Int(high) }
        }
    }

    /// Uniform in `[0, 1)`.
    public mutating func unit() -> Double { Double(uint64() >> 11) / 9_007_199_254_740_992 }

    /// `span` times a uniform factor in `[1 − spread, 1 + spread]`.
    public mutating func jittered(_ span: TimeSpan, spread: Double = 0.2) -> TimeSpan {
        span.scaled(by: 1 + spread * (2 * unit() - 1))
    }

    /// Another generator, independent of this one's later output.
    public mutating func split() -> RandomStream { RandomStream(seed: secret()) }
}
