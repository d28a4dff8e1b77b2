import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct ChunkTreeTests {
    let key = Bytes32(sampleBytes(32, from: 100)) ?? .zero

    @Test func `leaf, node and root are the keyed digests of the specification`() throws {
        // Written out with the general digest, byte by byte, for three chunks: the third is carried up.
        let content = sampleBytes(2 * 65_536 + 5)
        let chunks = [content[0..<65_536], content[65_536..<131_072], content[131_072...]]
        let leaves = chunks.enumerated().map { index, chunk in digest([0] + littleEndian(UInt64(index)) + chunk) }
        let pair = digest([1] + leaves[0] + leaves[1])
        let top = digest([1] + pair + leaves[2])
        let root = digest([2] + littleEndian(UInt64(content.count)) + top)

        let result = build(content)

        #expect(result.leaves.map(\.bytes) == leaves)
        #expect(result.pageRoots.map(\.bytes) == [top])
        #expect(result.content.bytes == root)
        for (index, chunk) in chunks.enumerated() {
            #expect(leaf(UInt64(index), Array(chunk)).bytes == leaves[index])
        }
    }

    @Test func `an empty file has no chunk and a content id of its own`() {
        let result = build([])
        #expect(result.leaves.isEmpty)
        #expect(result.pageRoots.isEmpty)
        #expect(result.byteCount == 0)
        #expect(result.content.bytes == digest([2] + littleEndian(0) + [UInt8](repeating: 0, count: 32)))
        #expect(ChunkTree.contentID(key: key, leaves: [], byteCount: 0) == result.content)
        #expect(ChunkTree.contentID(key: key, pageRoots: [], byteCount: 0) == result.content)
    }

    @Test func `the tree does not depend on how the file is read`() {
        let content = sampleBytes(3 * 65_536 + 17)
        let whole = build(content)
        for step in [1000, 65_535, 65_536, 65_537, 131_072] { #expect(build(content, step: step) == whole) }
        #expect(whole.leaves.count == 4)
        #expect(ChunkTree.contentID(key: key, leaves: whole.leaves, byteCount: whole.byteCount) == whole.content)
    }

    @Test func `a builder begins anew after each file`() {
        let builder = ChunkTreeBuilder(key: key)
        builder.append(sampleBytes(70_000).span)
        let first = builder.finish()
        builder.append(sampleBytes(70_000).span)
        #expect(builder.finish() == first)
        #expect(builder.finish() == build([]))
    }

    @Test func `every byte, the order, the length and the key count`() {
        let content = sampleBytes(65_536 + 10)
        let id = build(content).content
        for index in [0, 65_535, 65_536, content.count - 1] {
            var altered = content
            altered[index] ^= 1
            #expect(build(altered).content != id)
        }
        #expect(build(content + [0]).content != id)
        #expect(build(Array(content.dropLast())).content != id)
        #expect(build(content, key: .zero).content != id)
        #expect(leaf(0, content.prefixArray(100)) != leaf(1, content.prefixArray(100)))
    }

    @Test(arguments: [1, 2, 3, 4095, 4096, 4097, 8191, 8192, 8193, 12_300])
    func `pages are subtrees: the page roots give the same content id as the leaves`(count: Int) {
        let leaves = (0..<count).map { Digest.hash32(littleEndian(UInt64($0))) }
        let byteCount = UInt64(count) * 65_536
        let roots = ChunkTree.pageRoots(key: key, leaves: leaves)

        #expect(roots.count == (count + 4095) / 4096)
        #expect(UInt64(roots.count) == ChunkTree.pageCount(byteCount: byteCount))
        let content = ChunkTree.contentID(key: key, leaves: leaves, byteCount: byteCount)
        #expect(content != nil)
        #expect(ChunkTree.contentID(key: key, pageRoots: roots, byteCount: byteCount) == content)
        for (page, root) in roots.enumerated() {
            let start = page * 4096
            let slice = Array(leaves[start..<min(start + 4096, count)])
            #expect(slice.count == ChunkTree.leafCount(ofPage: UInt64(page), byteCount: byteCount))
            #expect(ChunkTree.pageRoot(key: key, leaves: slice) == root)
            #expect(
                ChunkTree.verify(leaves: slice, ofPage: UInt64(page), byteCount: byteCount, pageRoot: root, key: key))
        }
    }

    @Test func `inner nodes passed off as leaves are refused, though they give the same top`() {
        let leaves = (0..<4).map { Digest.hash32([UInt8($0)]) }
        let byteCount: UInt64 = 4 * 65_536
        let inner = [
            ChunkTree.pageRoot(key: key, leaves: Array(leaves[0..<2])),
            ChunkTree.pageRoot(key: key, leaves: Array(leaves[2..<4])),
        ]
        let root = ChunkTree.pageRoot(key: key, leaves: leaves)
        #expect(ChunkTree.pageRoot(key: key, leaves: inner) == root)

        #expect(!ChunkTree.verify(leaves: inner, ofPage: 0, byteCount: byteCount, pageRoot: root, key: key))
        #expect(ChunkTree.contentID(key: key, leaves: inner, byteCount: byteCount) == nil)
        #expect(ChunkTree.contentID(key: key, pageRoots: inner, byteCount: byteCount) == nil)
    }

    @Test func `one wrong, missing or extra hash is refused`() throws {
        let leaves = (0..<5).map { Digest.hash32([UInt8($0)]) }
        let byteCount: UInt64 = 5 * 65_536 - 3
        let root = ChunkTree.pageRoot(key: key, leaves: leaves)
        let content = try #require(ChunkTree.contentID(key: key, leaves: leaves, byteCount: byteCount))
        #expect(ChunkTree.verify(pageRoots: [root], byteCount: byteCount, content: content, key: key))
        #expect(ChunkTree.verify(leaves: leaves, ofPage: 0, byteCount: byteCount, pageRoot: root, key: key))

        for index in leaves.indices {
            var altered = leaves
            altered[index] = .zero
            #expect(!ChunkTree.verify(leaves: altered, ofPage: 0, byteCount: byteCount, pageRoot: root, key: key))
        }
        for other in [Array(leaves.dropLast()), leaves + [.zero], []] {
            #expect(!ChunkTree.verify(leaves: other, ofPage: 0, byteCount: byteCount, pageRoot: root, key: key))
        }
        #expect(!ChunkTree.verify(leaves: leaves, ofPage: 1, byteCount: byteCount, pageRoot: root, key: key))
        #expect(!ChunkTree.verify(leaves: [], ofPage: 1, byteCount: byteCount, pageRoot: .zero, key: key))
        #expect(!ChunkTree.verify(pageRoots: [.zero], byteCount: byteCount, content: content, key: key))
        #expect(!ChunkTree.verify(pageRoots: [root], byteCount: byteCount + 1, content: content, key: key))
        #expect(!ChunkTree.verify(pageRoots: [], byteCount: byteCount, content: content, key: key))
        #expect(!ChunkTree.verify(pageRoots: [root], byteCount: byteCount, content: content, key: .zero))
    }

    @Test func `AB-02 AB-19 sizes up to 2⁶⁴−1 are counted without a trap and without memory`() {
        #expect(ChunkTree.chunkCount(byteCount: 0) == 0)
        #expect(ChunkTree.chunkCount(byteCount: 1) == 1)
        #expect(ChunkTree.chunkCount(byteCount: 65_536) == 1)
        #expect(ChunkTree.chunkCount(byteCount: 65_537) == 2)
        #expect(ChunkTree.chunkCount(byteCount: .max) == 1 << 48)
        #expect(ChunkTree.pageCount(byteCount: .max) == 1 << 36)
        #expect(ChunkTree.chunkByteCount(at: 0, byteCount: 5) == 5)
        #expect(ChunkTree.chunkByteCount(at: 1, byteCount: 5) == 0)
        #expect(ChunkTree.chunkByteCount(at: 1, byteCount: 65_536 + 5) == 5)
        #expect(ChunkTree.chunkByteCount(at: .max, byteCount: .max) == 0)
        #expect(ChunkTree.chunkByteCount(at: (1 << 48) - 1, byteCount: .max) == 65_535)
        #expect(ChunkTree.leafCount(ofPage: .max, byteCount: .max) == 0)
        #expect(ChunkTree.leafCount(ofPage: (1 << 36) - 1, byteCount: .max) == 4096)
        #expect(ChunkTree.contentID(key: key, leaves: [.zero], byteCount: .max) == nil)
    }

    // MARK: Means

    private func digest(_ bytes: [UInt8]) -> [UInt8] {
        key.withBytes { Sodium.genericHash(bytes.span, key: $0, byteCount: 32) }
    }

    private func littleEndian(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }

    private func leaf(_ index: UInt64, _ chunk: [UInt8]) -> Bytes32 {
        ChunkTree.leaf(key: key, index: index, chunk: chunk.span)
    }

    private func build(_ content: [UInt8], step: Int = .max, key: Bytes32? = nil) -> ChunkTreeBuilder.Result {
        let builder = ChunkTreeBuilder(key: key ?? self.key)
        var position = 0
        while position < content.count {
            let count = min(step, content.count - position)
            builder.append(content.span.extracting(position..<(position + count)))
            position += count
        }
        return builder.finish()
    }
}

extension Array {
    fileprivate func prefixArray(_ count: Int) -> [Element] { Array(prefix(count)) }
}
