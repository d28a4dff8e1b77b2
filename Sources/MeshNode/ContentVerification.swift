import MeshBase
import MeshCrypto
import MeshSystem

/// What reading a content back came to.
struct VerifiedContent: Sendable {
    var id: ContentID
    var chunkCount: Int
    /// Chunks that cannot be read, or whose hash is not theirs.
    var badCount: Int
}

/// Contents being read back and hashed, a piece at a time on the storage thread.
struct ContentVerification: Sendable {
    /// One mebibyte: milliseconds even from a slow disk.
    static let chunksPerPiece = 16

    private let contents: [StoredContent]
    private let key: Bytes32
    private var position = 0
    private var chunk = 0
    private var badCount = 0
    private(set) var results: [VerifiedContent] = []

    init(_ contents: [StoredContent], key: Bytes32) {
        self.contents = contents
        self.key = key
    }

    /// The content being read; `nil` when all are.
    var current: StoredContent? { position < contents.count ? contents[position] : nil }

    var bytesDone: UInt64 { UInt64(chunk) * UInt64(ChunkTree.chunkByteCount) }

    /// Reads and hashes the next chunks of the current content.
    mutating func readPiece(from storage: any NodeStorage) {
        guard let content = current else { return }
        let end = min(chunk + Self.chunksPerPiece, content.leaves.count)
        while chunk < end {
            do throws(StorageError) {
                if try !isGood(chunk, of: content, in: storage) { badCount += 1 }
            } catch {
                // Removed or taken apart meanwhile: nobody asks about it any more.
                if case .unknownContent = error { return next() }
                if case .incompleteContent = error { return next() }
                badCount += 1
            }
            chunk += 1
        }
        guard chunk == content.leaves.count else { return }
        results.append(VerifiedContent(id: content.id, chunkCount: chunk, badCount: badCount))
        next()
    }

    private mutating func next() {
        position += 1
        chunk = 0
        badCount = 0
    }

    private func isGood(
        _ chunk: Int, of content: StoredContent, in storage: any NodeStorage
    ) throws(StorageError) -> Bool {
        let index = UInt64(chunk)
        let bytes = try storage.readChunk(id: content.id, index: index)
        return ChunkTree.leaf(key: key, index: index, chunk: bytes.span) == content.leaves[chunk]
    }
}
