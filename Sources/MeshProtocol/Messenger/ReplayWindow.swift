/// Which counters were already accepted: a bitmap that slides with the newest one (the idea of RFC 6479).
///
/// A bitmap of B bits with one spare 64-bit word tells apart the newest B − 64 counters: 8,192 bits → 8,128. Two calls
/// and not one, because only a datagram whose tag matched may move it (AB-43, AB-44): `check`, open, `mark`.
struct ReplayWindow: Sendable {
    /// Counters from here on are never accepted and never sent: the nonce must not wrap.
    static let counterLimit = UInt64.max - (1 << 13)

    enum Outcome: Hashable, Sendable {
        case accept
        /// Older than the window reaches.
        case old
        /// Accepted before.
        case replay
        /// At or beyond `counterLimit`.
        case limit
    }

    private var words: [UInt64]
    /// One more than the newest accepted counter; zero before the first.
    private(set) var next: UInt64 = 0

    /// `bitCount`: a multiple of 64, at least 128.
    init(bitCount: Int = 8192) {
        precondition(bitCount >= 128 && bitCount.isMultiple(of: 64), "a replay window has whole words and a spare one")
        words = [UInt64](repeating: 0, count: bitCount / 64)
    }

    /// How many counters behind the newest are told apart.
    var size: UInt64 { UInt64(words.count - 1) * 64 }

    func check(_ counter: UInt64) -> Outcome {
        guard counter < Self.counterLimit else { return .limit }
        guard counter < next else { return .accept }
        guard next - 1 - counter < size else { return .old }
        return words[wordIndex(counter)] & bit(counter) == 0 ? .accept : .replay
    }

    /// Notes an accepted counter. The caller has checked it, and its datagram is authentic.
    mutating func mark(_ counter: UInt64) {
        if counter >= next {
            clearWords(from: next == 0 ? 0 : (next - 1) >> 6, to: counter >> 6)
            next = counter + 1
        }
        words[wordIndex(counter)] |= bit(counter)
    }

    private mutating func clearWords(from old: UInt64, to new: UInt64) {
        let steps = min(new - old, UInt64(words.count))
        for step in 0..<steps { words[Int((new - step) % UInt64(words.count))] = 0 }
    }

    private func wordIndex(_ counter: UInt64) -> Int { Int((counter >> 6) % UInt64(words.count)) }
    private func bit(_ counter: UInt64) -> UInt64 { 1 << (counter & 63) }
}
