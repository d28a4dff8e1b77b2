import MeshBase
import MeshWire

/// What one linked peer says it holds, bounded in contents and bytes. Claims are hints: a chunk is checked when it
/// comes, and a peer that lacks what it claimed is asked no more for it.
struct HolderTable: Sendable {
    struct Holding: Hashable, Sendable {
        var generation: UInt32
        var isComplete = false
        /// Empty when complete.
        var chunks = ChunkSet()

        var hasAnything: Bool { isComplete || !chunks.isEmpty }
        func has(_ chunk: Int) -> Bool { isComplete || chunks.contains(chunk) }
    }

    enum Update: Hashable, Sendable {
        /// Older than what is known, or beyond the table's bounds.
        case ignored(isRefused: Bool)
        /// Partial holdings that came and went.
        case changed(gained: ChunkSet, lost: ChunkSet)
    }

    private(set) var holdings: [ContentID: Holding] = [:]
    private var byteCount = 0

    subscript(content: ContentID) -> Holding? { holdings[content] }

    /// `chunkLimit`: the content's chunk count where it is known; claims beyond it are cut off.
    mutating func apply(_ entry: HaveEntry, chunkLimit: Int?, configuration: JournalConfiguration) -> Update {
        let known = holdings[entry.content]
        if known == nil, holdings.count >= configuration.maximumHoldingsPerPeer { return .ignored(isRefused: true) }
        var holding = known ?? Holding(generation: entry.generation)
        guard entry.generation >= holding.generation else { return .ignored(isRefused: false) }
        var lost = ChunkSet()
        if entry.generation > holding.generation {
            lost = holding.chunks
            holding = Holding(generation: entry.generation)
        }
        guard let incoming = Self.chunks(of: entry, limit: chunkLimit ?? JournalLimits.maximumChunkCount) else {
            return .ignored(isRefused: true)
        }
        var gained = ChunkSet()
        if entry.chunks == .complete {
            if lost.isEmpty { lost = holding.chunks }
            holding.isComplete = true
            holding.chunks = ChunkSet()
        } else if !holding.isComplete {
            gained = holding.chunks.formUnion(incoming)
        }
        let growth = holding.chunks.byteCount - (known?.chunks.byteCount ?? 0)
        guard byteCount + growth <= configuration.maximumHoldingBytesPerPeer else { return .ignored(isRefused: true) }
        byteCount += growth
        holdings[entry.content] = holding
        return .changed(gained: gained, lost: lost)
    }

    /// `nil` when the runs of an entry overlap so much that they name more chunks than there can be.
    private static func chunks(of entry: HaveEntry, limit: Int) -> ChunkSet? {
        switch entry.chunks {
        case .complete: return ChunkSet()
        case .bitfield(let bytes):
            var chunks = ChunkSet(bitfield: bytes)
            if chunks.words.count * 64 > limit { chunks.truncate(to: limit) }
            return chunks
        case .ranges(let ranges):
            var chunks = ChunkSet()
            var total = 0
            for range in ranges {
                total += Int(range.count)
                guard total <= JournalLimits.maximumChunkCount else { return nil }
                let end = min(Int(range.first) + Int(range.count), limit)
                if Int(range.first) < end { chunks.insert(Int(range.first)..<end) }
            }
            return chunks
        }
    }

    /// The peer does not have this chunk after all. Whether it was a partial holding that is now smaller.
    mutating func remove(_ chunk: Int, of content: ContentID) -> Bool {
        guard var holding = holdings.removeValue(forKey: content) else { return false }
        let wasThere = holding.chunks.remove(chunk)
        holdings[content] = holding
        return wasThere
    }

    /// The peer has nothing of this content. Returns what was known.
    mutating func removeAll(of content: ContentID) -> Holding? {
        guard let holding = holdings[content] else { return nil }
        byteCount -= holding.chunks.byteCount
        // The generation stays, so that an older claim does not come back.
        holdings[content] = Holding(generation: holding.generation)
        return holding
    }

    /// The content's chunk count became known: claims beyond it go.
    mutating func truncate(_ content: ContentID, to chunkCount: Int) {
        guard var holding = holdings.removeValue(forKey: content) else { return }
        byteCount -= holding.chunks.byteCount
        holding.chunks.truncate(to: chunkCount)
        byteCount += holding.chunks.byteCount
        holdings[content] = holding
    }
}
