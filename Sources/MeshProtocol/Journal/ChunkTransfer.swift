import MeshBase
import MeshCrypto

/// Which chunks of one content are here, asked for and missing, and which to ask for next.
///
/// **From a peer that has a part**: its rarest chunks first, ties broken at random.
/// **From a peer that has all**: receivers that fetch the same content rank themselves by id and each asks the
/// complete holders for its own stripe only, taking the other stripes from the other receivers as those announce them;
/// so the adder uploads each chunk about once, however many receivers there are (super-seeding without hiding
/// anything). A receiver that has had nothing left in its stripe for a while helps with the other stripes, first with
/// its own share of each, then with anything: a slow or dead receiver delays nobody for long.
///
/// Cost: picking scans words of 64 chunks from a remembered place; bookkeeping is constant per chunk.
struct ChunkTransfer: Sendable {
    struct Ask: Hashable, Sendable {
        var peer: PeerID
        var time: HostTime
    }

    /// This node's place among the receivers of the content.
    struct Rank: Hashable, Sendable {
        var index: Int
        var count: Int
    }

    let chunkCount: Int
    /// Written to the store.
    private(set) var present: ChunkSet
    /// Present, asked for, or verified and on the way to the store.
    private(set) var taken: ChunkSet
    /// Chunks that some partial holder has.
    private var spread = ChunkSet()
    /// How many partial holders have each chunk.
    private var availability: [UInt16]
    private(set) var asks: [UInt32: [Ask]] = [:]
    private var rank = Rank(index: 0, count: 1)
    private var stripeExhaustedAt: HostTime?
    /// Below word `cursorWord` of the stripe `cursorStripe` nothing is left to pick.
    private var cursorStripe = Stripe(start: -1, onlyUnspread: false)
    private var cursorWord = 0

    private struct Stripe: Hashable, Sendable {
        var start: Int
        var onlyUnspread: Bool
    }

    init(chunkCount: Int, present: ChunkSet = ChunkSet()) {
        self.chunkCount = chunkCount
        self.present = present
        taken = present
        availability = [UInt16](repeating: 0, count: chunkCount)
    }

    var missingCount: Int { chunkCount - present.count }
    var isComplete: Bool { present.count == chunkCount }
    /// Nothing is left that is not asked for or on its way.
    var isAllTaken: Bool { taken.count == chunkCount }
    /// The last hundredth, where a chunk may be asked of two peers.
    var isNearEnd: Bool { missingCount <= max(16, chunkCount / 100) }

    /// Only chunks that others were asked for are left to ask for.
    var isEndgame: Bool { isNearEnd && isAllTaken && !asks.isEmpty }

    // MARK: Holders

    mutating func holderGained(_ chunk: Int) {
        guard chunk < chunkCount else { return }
        availability[chunk] &+= availability[chunk] == .max ? 0 : 1
        spread.insert(chunk)
    }

    mutating func holderLost(_ chunk: Int) {
        guard chunk < chunkCount, availability[chunk] > 0 else { return }
        availability[chunk] -= 1
        if availability[chunk] == 0 {
            spread.remove(chunk)
            reopenCursor(chunk)
        }
    }

    // MARK: The way of a chunk

    mutating func asked(_ chunk: UInt32, of peer: PeerID, at now: HostTime) {
        taken.insert(Int(chunk))
        asks[chunk, default: []].append(Ask(peer: peer, time: now))
    }

    /// The peer will not bring it; others may be asked.
    mutating func released(_ chunk: UInt32, by peer: PeerID) {
        guard var left = asks[chunk] else { return }
        left.removeAll { $0.peer == peer }
        if left.isEmpty {
            asks.removeValue(forKey: chunk)
            putBack(chunk)
        } else {
            asks[chunk] = left
        }
    }

    /// Verified and on its way to the store. Returns everybody who was asked; `nil` when it is here already.
    mutating func arrived(_ chunk: UInt32) -> [Ask]? {
        let others = asks.removeValue(forKey: chunk)
        guard others != nil || !taken.contains(Int(chunk)) else { return nil }
        taken.insert(Int(chunk))
        return others ?? []
    }

    /// Whether it was new.
    mutating func wrote(_ chunk: UInt32) -> Bool {
        guard Int(chunk) < chunkCount else { return false }
        taken.insert(Int(chunk))
        return present.insert(Int(chunk))
    }

    /// It is on its way to the store again.
    mutating func hold(_ chunk: UInt32) { taken.insert(Int(chunk)) }

    /// It did not get into the store, or nobody brings it.
    mutating func putBack(_ chunk: UInt32) {
        guard !present.contains(Int(chunk)) else { return }
        taken.remove(Int(chunk))
        reopenCursor(Int(chunk))
    }

    /// Forgets everybody who was asked; returns them with their chunks, ascending.
    mutating func releaseAll() -> [(chunk: UInt32, asks: [Ask])] {
        let all = asks.keys.sorted().map { (chunk: $0, asks: asks[$0] ?? []) }
        asks.removeAll()
        for item in all { putBack(item.chunk) }
        return all
    }

    private mutating func reopenCursor(_ chunk: Int) { cursorWord = min(cursorWord, chunk >> 6) }

    // MARK: Picking

    /// Up to `count` chunks to ask of a peer that has the chunks in `holding`.
    func pick(fromPartial holding: ChunkSet, count: Int, random: inout RandomStream) -> [UInt32] {
        let wordCount = min(holding.words.count, (chunkCount + 63) / 64)
        var sample: [Int] = []
        let wanted = max(64, 2 * count)
        let start = random.below(wordCount)
        for step in 0..<max(wordCount, 0) where sample.count < wanted {
            let index = (start + step) % wordCount
            appendMembers(of: holding.words[index] & ~taken.word(index), word: index, to: &sample)
        }
        return rarest(of: &sample, count: count, random: &random)
    }

    private func appendMembers(of word: UInt64, word index: Int, to sample: inout [Int]) {
        var word = word
        while word != 0 {
            let chunk = index << 6 + word.trailingZeroBitCount
            if chunk < chunkCount { sample.append(chunk) }
            word &= word &- 1
        }
    }

    private func rarest(of sample: inout [Int], count: Int, random: inout RandomStream) -> [UInt32] {
        var output: [UInt32] = []
        while output.count < count, !sample.isEmpty {
            let start = random.below(sample.count)
            var best = start
            for step in 1..<max(sample.count, 1) {
                let candidate = (start + step) % sample.count
                if availability[sample[candidate]] < availability[sample[best]] { best = candidate }
            }
            output.append(UInt32(sample[best]))
            sample.swapAt(best, sample.count - 1)
            sample.removeLast()
        }
        return output
    }

    /// Up to `count` chunks to ask of a peer that has everything, and when to look again if that left something.
    mutating func pick(
        fromCompleteAs newRank: Rank, count: Int, at now: HostTime, patience: TimeSpan, random: inout RandomStream
    ) -> (chunks: [UInt32], retryAt: HostTime?) {
        if newRank != rank {
            rank = newRank
            stripeExhaustedAt = nil
        }
        guard rank.count > 1, chunkCount >= 4 * rank.count else {
            return (unpicked(in: 0..<chunkCount, count: count, onlyUnspread: false), nil)
        }
        var chunks = unpicked(in: stripe(rank.index, of: 0..<chunkCount), count: count, onlyUnspread: true)
        guard chunks.count < count, !isAllTaken else { return (chunks, nil) }
        let exhaustedAt = stripeExhaustedAt ?? now
        stripeExhaustedAt = exhaustedAt
        guard now >= exhaustedAt + patience else { return (chunks, exhaustedAt + patience) }
        appendShareOfOtherStripes(to: &chunks, count: count)
        guard chunks.count < count else { return (chunks, nil) }
        guard now >= exhaustedAt + patience * 2 else { return (chunks, exhaustedAt + patience * 2) }
        let picked = ChunkSet(repeating: true, count: chunkCount)
        let already = Set(chunks)
        for chunk in pick(fromPartial: picked, count: count, random: &random)
        where chunks.count < count && !already.contains(chunk) { chunks.append(chunk) }
        return (chunks, nil)
    }

    private mutating func appendShareOfOtherStripes(to chunks: inout [UInt32], count: Int) {
        for other in 0..<rank.count where other != rank.index && chunks.count < count {
            let share = stripe(rank.index, of: stripe(other, of: 0..<chunkCount))
            chunks += unpicked(in: share, count: count - chunks.count, onlyUnspread: true)
        }
    }

    private func stripe(_ index: Int, of range: Range<Int>) -> Range<Int> {
        let start = range.lowerBound + range.count * index / rank.count
        let end = range.lowerBound + range.count * (index + 1) / rank.count
        return start..<end
    }

    /// The first chunks of the range that nobody was asked for, in order: reads and writes stay sequential.
    private mutating func unpicked(in range: Range<Int>, count: Int, onlyUnspread: Bool) -> [UInt32] {
        guard !range.isEmpty, count > 0 else { return [] }
        var output: [UInt32] = []
        let firstWord = range.lowerBound >> 6
        let lastWord = (range.upperBound - 1) >> 6
        let stripe = Stripe(start: range.lowerBound, onlyUnspread: onlyUnspread)
        var index = cursorStripe == stripe ? max(firstWord, cursorWord) : firstWord
        cursorStripe = stripe
        while index <= lastWord {
            var free = ~(taken.word(index) | (onlyUnspread ? spread.word(index) : 0))
            while free != 0 {
                let chunk = index << 6 + free.trailingZeroBitCount
                free &= free &- 1
                guard range.contains(chunk) else { continue }
                output.append(UInt32(chunk))
                if output.count == count {
                    cursorWord = index
                    return output
                }
            }
            index += 1
        }
        cursorWord = lastWord
        return output
    }

    /// Near the end: up to `count` chunks that another peer was asked for at least `age` ago, to ask this one as well.
    func duplicates(
        heldIn holding: ChunkSet?, notAskedOf peer: PeerID, count: Int, age: TimeSpan, at now: HostTime
    ) -> [UInt32] {
        guard isEndgame else { return [] }
        var output: [UInt32] = []
        for chunk in asks.keys.sorted() where output.count < count {
            guard let asked = asks[chunk], asked.count == 1, asked[0].peer != peer, now - asked[0].time >= age,
                holding?.contains(Int(chunk)) ?? true
            else { continue }
            output.append(chunk)
        }
        return output
    }
}
