import MeshWire

/// A set of chunk indices as a bitfield that grows to the highest one: 64 chunks a word, so that "what has this peer
/// that I miss" is answered a word at a time.
///
/// Indices are below `JournalLimits.maximumChunkCount`; the callers check.
struct ChunkSet: Hashable, Sendable {
    private(set) var words: [UInt64] = []
    /// How many chunks are in the set.
    private(set) var count = 0

    static let empty = ChunkSet()

    init() {}

    init(repeating isMember: Bool, count: Int) {
        guard isMember, count > 0 else { return }
        words = [UInt64](repeating: .max, count: (count + 63) / 64)
        if !count.isMultiple(of: 64) { words[words.count - 1] = 1 << UInt64(count % 64) &- 1 }
        self.count = count
    }

    init(_ members: [Bool]) {
        for (index, isMember) in members.enumerated() where isMember { insert(index) }
    }

    var isEmpty: Bool { count == 0 }
    /// Bytes of memory behind the set.
    var byteCount: Int { words.count * 8 }

    /// Zero beyond the end.
    func word(_ index: Int) -> UInt64 { index < words.count ? words[index] : 0 }

    func contains(_ chunk: Int) -> Bool { word(chunk >> 6) >> UInt64(chunk & 63) & 1 == 1 }

    /// Whether it was not there before.
    @discardableResult
    mutating func insert(_ chunk: Int) -> Bool {
        let index = chunk >> 6
        if index >= words.count { words.append(contentsOf: repeatElement(0, count: index + 1 - words.count)) }
        let bit: UInt64 = 1 << UInt64(chunk & 63)
        guard words[index] & bit == 0 else { return false }
        words[index] |= bit
        count += 1
        return true
    }

    /// Whether it was there before.
    @discardableResult
    mutating func remove(_ chunk: Int) -> Bool {
        guard contains(chunk) else { return false }
        words[chunk >> 6] &= ~(1 << UInt64(chunk & 63))
        count -= 1
        return true
    }

    /// Adds a run of chunks, a word at a time.
    mutating func insert(_ range: Range<Int>) {
        guard !range.isEmpty else { return }
        let lastWord = (range.upperBound - 1) >> 6
        if lastWord >= words.count { words.append(contentsOf: repeatElement(0, count: lastWord + 1 - words.count)) }
        for index in (range.lowerBound >> 6)...lastWord {
            var mask = UInt64.max
            if index == range.lowerBound >> 6 { mask &= .max << UInt64(range.lowerBound & 63) }
            if index == lastWord { mask &= .max >> UInt64(63 - (range.upperBound - 1) & 63) }
            count += (mask & ~words[index]).nonzeroBitCount
            words[index] |= mask
        }
    }

    /// Adds the members of `other`; returns those that were new.
    mutating func formUnion(_ other: ChunkSet) -> ChunkSet {
        var added = ChunkSet()
        added.words = other.words
        for index in other.words.indices {
            added.words[index] &= ~word(index)
            added.count += added.words[index].nonzeroBitCount
        }
        if other.words.count > words.count {
            words.append(contentsOf: repeatElement(0, count: other.words.count - words.count))
        }
        for index in other.words.indices { words[index] |= other.words[index] }
        count += added.count
        return added
    }

    /// Takes out every chunk from `limit` on.
    mutating func truncate(to limit: Int) {
        let wordCount = (limit + 63) / 64
        if words.count > wordCount { words.removeSubrange(wordCount...) }
        if words.count == wordCount, !limit.isMultiple(of: 64) {
            words[wordCount - 1] &= 1 << UInt64(limit % 64) &- 1
        }
        count = words.reduce(0) { $0 + $1.nonzeroBitCount }
    }

    /// Whether any member is not in `other`. Cost: a word per 64 chunks.
    func hasMember(outside other: ChunkSet) -> Bool {
        for index in words.indices where words[index] & ~other.word(index) != 0 { return true }
        return false
    }

    /// The members in ascending order.
    var members: [Int] {
        var output: [Int] = []
        output.reserveCapacity(count)
        for index in words.indices {
            var word = words[index]
            while word != 0 {
                output.append(index << 6 + word.trailingZeroBitCount)
                word &= word &- 1
            }
        }
        return output
    }

    /// The wire's form: bit `i % 8` of byte `i / 8` is chunk `i`.
    var bitfield: [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(words.count * 8)
        for word in words {
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                output.append(UInt8(truncatingIfNeeded: word >> shift))
            }
        }
        while output.last == 0 { output.removeLast() }
        return output
    }

    /// From the wire's form.
    init(bitfield: [UInt8]) {
        words = [UInt64](repeating: 0, count: (bitfield.count + 7) / 8)
        for (index, byte) in bitfield.enumerated() { words[index >> 3] |= UInt64(byte) << UInt64(8 * (index & 7)) }
        count = words.reduce(0) { $0 + $1.nonzeroBitCount }
    }

    /// Ascending chunk indices as runs.
    static func ranges(of chunks: [Int]) -> [ChunkRange] {
        var output: [ChunkRange] = []
        for chunk in chunks {
            if let last = output.last, Int(last.first) + Int(last.count) == chunk {
                output[output.count - 1].count += 1
            } else {
                output.append(ChunkRange(first: UInt32(chunk), count: 1))
            }
        }
        return output
    }
}
