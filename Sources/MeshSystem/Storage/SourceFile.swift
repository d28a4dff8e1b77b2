import Glibc
import MeshBase
import MeshCrypto

/// A file of the user's that is read once, hashed on the way, and must not change meanwhile (ATT-22).
struct SourceFile {
    static let blockByteCount = 1 << 20

    private let file: OpenFile
    private let before: FileStatus
    private let path: String
    var byteCount: UInt64 { before.byteCount }

    /// Refuses before anything is read: what is no regular file (ATT-18), cannot be read, or is too large.
    init(path: String, byteLimit: UInt64) throws(StorageError) {
        self.path = path
        // Looked at before it is opened: opening a device or pipe may do something.
        try Self.check(try FileStatus(path: path), path: path, byteLimit: byteLimit)
        file = try OpenFile(path, flags: O_RDONLY | O_NONBLOCK)
        before = try file.status()
        try Self.check(before, path: path, byteLimit: byteLimit)
    }

    private static func check(_ status: FileStatus, path: String, byteLimit: UInt64) throws(StorageError) {
        if let kind = status.kind { throw .notAFile(path: path, kind: kind) }
        guard status.byteCount <= byteLimit else {
            throw .tooLarge(path: path, byteCount: status.byteCount, limit: byteLimit)
        }
    }

    /// Reads the file to its end, handing each block and its offset to `block`, and hashes the same bytes.
    func read(
        key: Bytes32, progress: (UInt64, UInt64) -> Void,
        _ block: (Span<UInt8>, UInt64) throws(StorageError) -> Void
    ) throws(StorageError) -> ChunkTreeBuilder.Result {
        let builder = ChunkTreeBuilder(key: key)
        var buffer = [UInt8](repeating: 0, count: Self.blockByteCount)
        var offset: UInt64 = 0
        progress(0, byteCount)
        while true {
            let count = try file.read(into: &buffer, at: offset)
            if count == 0 { break }
            guard offset + UInt64(count) <= byteCount else { throw .fileChanged(path: path) }
            let bytes = buffer.span.extracting(0..<count)
            builder.append(bytes)
            try block(bytes, offset)
            offset += UInt64(count)
            progress(offset, byteCount)
        }
        guard offset == byteCount, try file.status().isUnchanged(since: before) else { throw .fileChanged(path: path) }
        return builder.finish()
    }
}
