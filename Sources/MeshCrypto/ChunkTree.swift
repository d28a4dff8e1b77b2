import MeshBase

/// The keyed hash tree whose root names an attachment's content (Docs/Protocol.md, "Attachments").
///
/// ```
/// leaf  = keyed BLAKE2b-256(0x00 ‖ chunk index u64 ‖ chunk)      chunks of 65,536 bytes, the last may be shorter
/// node  = keyed BLAKE2b-256(0x01 ‖ left ‖ right)                 an odd last node is carried up unchanged
/// root  = keyed BLAKE2b-256(0x02 ‖ byte count u64 ‖ top node)    no chunk at all: top node = 32 zero bytes
/// ```
/// The key is the mesh's journal key, so that a stranger cannot test for a known file. Three tags keep a leaf, a node
/// and a root from being taken for each other, and the byte count fixes the shape of the tree: a list of hashes is
/// only accepted with the length that the byte count demands.
///
/// Leaves travel in pages of 4,096 (256 MiB of content). A page is an aligned subtree, so its top node is a node of
/// the whole tree: a fetcher checks the page roots against the content id, each page against its root, and each chunk
/// against its leaf, and never keeps more than it has checked.
public enum ChunkTree {
    /// Bytes of every chunk but the last.
    public static let chunkByteCount = 65_536
    /// A power of two, so that pages are subtrees.
    public static let leavesPerPage = 4096

    /// How many chunks `byteCount` bytes are cut into; any value is safe.
    public static func chunkCount(byteCount: UInt64) -> UInt64 {
        let (quotient, remainder) = byteCount.quotientAndRemainder(dividingBy: UInt64(chunkByteCount))
        return remainder == 0 ? quotient : quotient + 1
    }

    /// How many bytes chunk `index` has: 65,536, less for the last, zero beyond it.
    public static func chunkByteCount(at index: UInt64, byteCount: UInt64) -> Int {
        let (start, overflow) = index.multipliedReportingOverflow(by: UInt64(chunkByteCount))
        guard !overflow, start < byteCount else { return 0 }
        return Int(min(UInt64(chunkByteCount), byteCount - start))
    }

    public static func pageCount(byteCount: UInt64) -> UInt64 {
        let (quotient, remainder) = chunkCount(byteCount: byteCount)
            .quotientAndRemainder(dividingBy: UInt64(leavesPerPage))
        return remainder == 0 ? quotient : quotient + 1
    }

    /// How many leaves page `page` has: 4,096, less for the last, zero beyond it.
    public static func leafCount(ofPage page: UInt64, byteCount: UInt64) -> Int {
        let count = chunkCount(byteCount: byteCount)
        let (start, overflow) = page.multipliedReportingOverflow(by: UInt64(leavesPerPage))
        guard !overflow, start < count else { return 0 }
        return Int(min(UInt64(leavesPerPage), count - start))
    }

    /// The leaf of chunk `index`. Cost: 82 µs for a full chunk, no allocation.
    public static func leaf(key: Bytes32, index: UInt64, chunk: Span<UInt8>) -> Bytes32 {
        hash(key: key, tag: 0, number: index, chunk)
    }

    /// The top node of each page of `leaves`. Cost: 0.7 µs a leaf.
    public static func pageRoots(key: Bytes32, leaves: [Bytes32]) -> [Bytes32] {
        stride(from: 0, to: leaves.count, by: leavesPerPage).map { start in
            topNode(key: key, Array(leaves[start..<min(start + leavesPerPage, leaves.count)]))
        }
    }

    /// The top node of one page's leaves, zeros for none.
    public static func pageRoot(key: Bytes32, leaves: [Bytes32]) -> Bytes32 { topNode(key: key, leaves) }

    /// The content id, or `nil` where the number of page roots is not the one `byteCount` demands.
    public static func contentID(key: Bytes32, pageRoots: [Bytes32], byteCount: UInt64) -> ContentID? {
        guard UInt64(pageRoots.count) == pageCount(byteCount: byteCount) else { return nil }
        return root(key: key, top: topNode(key: key, pageRoots), byteCount: byteCount)
    }

    /// The content id, or `nil` where the number of leaves is not the one `byteCount` demands.
    public static func contentID(key: Bytes32, leaves: [Bytes32], byteCount: UInt64) -> ContentID? {
        guard UInt64(leaves.count) == chunkCount(byteCount: byteCount) else { return nil }
        return root(key: key, top: topNode(key: key, leaves), byteCount: byteCount)
    }

    /// Whether `pageRoots` are all page roots of `content`, and as many as there must be.
    public static func verify(pageRoots: [Bytes32], byteCount: UInt64, content: ContentID, key: Bytes32) -> Bool {
        contentID(key: key, pageRoots: pageRoots, byteCount: byteCount) == content
    }

    /// Whether `leaves` are the leaves of page `page`, all of them, under a page root that was checked before.
    public static func verify(
        leaves: [Bytes32], ofPage page: UInt64, byteCount: UInt64, pageRoot: Bytes32, key: Bytes32
    ) -> Bool {
        let expected = leafCount(ofPage: page, byteCount: byteCount)
        return expected > 0 && leaves.count == expected && topNode(key: key, leaves) == pageRoot
    }

    static func root(key: Bytes32, top: Bytes32, byteCount: UInt64) -> ContentID {
        ContentID(top.withBytes { hash(key: key, tag: 2, number: byteCount, $0) })
    }

    private static func topNode(key: Bytes32, _ nodes: [Bytes32]) -> Bytes32 {
        guard !nodes.isEmpty else { return .zero }
        var level = nodes
        while level.count > 1 {
            let pairCount = level.count / 2
            for pair in 0..<pairCount { level[pair] = node(key: key, level[2 * pair], level[2 * pair + 1]) }
            if level.count.isMultiple(of: 2) {
                level.removeSubrange(pairCount...)
            } else {
                level[pairCount] = level[level.count - 1]
                level.removeSubrange((pairCount + 1)...)
            }
        }
        return level[0]
    }

    private static func node(key: Bytes32, _ left: Bytes32, _ right: Bytes32) -> Bytes32 {
        let tag: InlineArray<1, UInt8> = [1]
        return left.withBytes { left in
            right.withBytes { right in Sodium.keyedHash32(key: key, tag.span, left, right) }
        }
    }

    private static func hash(key: Bytes32, tag: UInt8, number: UInt64, _ body: Span<UInt8>) -> Bytes32 {
        let prefix = numberedPrefix(tag: tag, number: number)
        return Sodium.keyedHash32(key: key, prefix.span, body, Span())
    }

    /// `tag | number u64`, little-endian.
    static func numberedPrefix(tag: UInt8, number: UInt64) -> InlineArray<9, UInt8> {
        var prefix = InlineArray<9, UInt8>(repeating: tag)
        for offset in 0..<8 { prefix[1 + offset] = UInt8(truncatingIfNeeded: number >> UInt64(8 * offset)) }
        return prefix
    }
}

/// Hashes a file while it is read: bytes come in pieces of any size and are cut into chunks here.
///
/// Belongs to one owner; not for sharing between threads. Memory: 32 bytes a chunk.
public final class ChunkTreeBuilder {
    /// What a finished file is called and how it is checked.
    public struct Result: Hashable, Sendable {
        public var byteCount: UInt64
        public var leaves: [Bytes32]
        public var pageRoots: [Bytes32]
        public var content: ContentID
    }

    private let key: Bytes32
    private let state: Sodium.HashState
    private var leaves: [Bytes32] = []
    /// Bytes of the chunk that is being hashed; the state holds its prefix when this is above zero.
    private var openByteCount = 0
    private var byteCount: UInt64 = 0

    /// `key`: the mesh's journal key.
    public init(key: Bytes32) {
        self.key = key
        state = key.withBytes { Sodium.HashState(key: $0, byteCount: 32) }
    }

    /// The next bytes of the file. Cost: 1.27 ns a byte (127 ms for 100 MB), no copy.
    public func append(_ bytes: Span<UInt8>) {
        var position = 0
        while position < bytes.count {
            if openByteCount == 0 { openChunk() }
            let count = min(ChunkTree.chunkByteCount - openByteCount, bytes.count - position)
            state.update(bytes.extracting(position..<(position + count)))
            position += count
            openByteCount += count
            byteCount += UInt64(count)
            if openByteCount == ChunkTree.chunkByteCount { closeChunk() }
        }
    }

    /// Ends the file; the builder then stands at the beginning of a new one.
    public func finish() -> Result {
        if openByteCount > 0 { closeChunk() }
        defer {
            leaves = []
            byteCount = 0
        }
        let pageRoots = ChunkTree.pageRoots(key: key, leaves: leaves)
        let top = ChunkTree.pageRoot(key: key, leaves: pageRoots)
        let content = ChunkTree.root(key: key, top: top, byteCount: byteCount)
        return Result(byteCount: byteCount, leaves: leaves, pageRoots: pageRoots, content: content)
    }

    private func openChunk() {
        key.withBytes { state.restart(key: $0) }
        let prefix = ChunkTree.numberedPrefix(tag: 0, number: UInt64(leaves.count))
        state.update(prefix.span)
    }

    private func closeChunk() {
        leaves.append(state.finalize32())
        openByteCount = 0
    }
}
