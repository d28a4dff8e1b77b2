import CMeshSystem
import Glibc
import MeshBase
import MeshCrypto

/// The folder of contents: `<hex>` for a complete one, `<hex>.part` while chunks arrive, `<random>.import` while a file
/// is copied in. A name without an ending always stands for whole, synced bytes (ATT-15).
final class ContentFiles {
    let folder: String
    private let operations: any FileOperations
    /// Recently used files, oldest first: opening one costs more than reading a chunk of it.
    private var open: [(id: ContentID, file: OpenFile)] = []

    private static let maximumOpenFiles = 16

    init(folder: String, operations: any FileOperations) {
        self.folder = folder
        self.operations = operations
    }

    func finalPath(_ id: ContentID) -> String { folder + "/" + id.description }
    func partialPath(_ id: ContentID) -> String { finalPath(id) + ".part" }

    func path(_ content: StoredContent) -> String {
        content.isComplete ? finalPath(content.id) : partialPath(content.id)
    }

    /// The open file of a content. A partial one is made if it is missing.
    func file(_ content: StoredContent) throws(StorageError) -> OpenFile {
        if let position = open.firstIndex(where: { $0.id == content.id }) {
            let entry = open.remove(at: position)
            open.append(entry)
            return entry.file
        }
        let flags = content.isComplete ? O_RDONLY : O_RDWR | O_CREAT
        let file = try OpenFile(path(content), flags: flags | O_NOFOLLOW)
        if open.count >= Self.maximumOpenFiles { open.removeFirst() }
        open.append((content.id, file))
        return file
    }

    func forget(_ id: ContentID) { open.removeAll { $0.id == id } }

    /// Opens a new file for a copy.
    func newImport(_ random: [UInt8]) throws(StorageError) -> OpenFile {
        try OpenFile("\(folder)/\(Hexadecimal.encode(random)).import", flags: O_RDWR | O_CREAT | O_EXCL)
    }

    /// What `file` holds becomes visible under its final name, and stays so after a power cut: content synced (by the
    /// caller, who must not hold up others for it), renamed, folder synced, in this order. The catalogue notes it
    /// afterwards.
    func publish(_ file: OpenFile, as id: ContentID) throws(StorageError) {
        let result = operations.rename(file.path, to: finalPath(id))
        guard result == 0 else { throw .system(-result, "rename", path: finalPath(id)) }
        try synchronizeFolder()
        forget(id)
    }

    /// The other way: a complete file is to be repaired.
    func reopen(_ id: ContentID) throws(StorageError) {
        forget(id)
        let result = operations.rename(finalPath(id), to: partialPath(id))
        guard result == 0 || result == -ENOENT else { throw .system(-result, "rename", path: finalPath(id)) }
        try synchronizeFolder()
    }

    func remove(_ id: ContentID) throws(StorageError) {
        forget(id)
        for path in [finalPath(id), partialPath(id)] {
            let result = operations.remove(path)
            guard result == 0 || result == -ENOENT else { throw .system(-result, "unlink", path: path) }
        }
    }

    /// Removes a copy that came to nothing; what is left over is swept at the next start.
    func discard(_ file: OpenFile) { _ = operations.remove(file.path) }

    private func synchronizeFolder() throws(StorageError) {
        let file = try OpenFile(folder, flags: O_RDONLY | O_DIRECTORY)
        let result = operations.synchronize(file.descriptor, isDirectory: true)
        // Never tried again on this descriptor: the kernel dropped the dirty pages and would report success (AB-80).
        guard result == 0 else { throw .syncFailed(path: file.path, errorNumber: -result) }
    }

    // MARK: Start

    /// Brings the folder in line with the catalogue after any crash: a partial content whose file was already renamed
    /// gets its partial name back, everything the catalogue does not know is swept. Returns the contents that are noted
    /// as complete but have no file of the right size.
    func reconcile(with contents: [StoredContent]) -> [ContentID] {
        var known: Set<String> = []
        var damaged: [ContentID] = []
        for content in contents {
            known.insert(content.id.description + (content.isComplete ? "" : ".part"))
            let final = try? FileStatus(path: finalPath(content.id))
            if content.isComplete {
                if final?.kind != nil || final?.byteCount != content.byteCount {
                    damaged.append(content.id)
                    known.insert(content.id.description + ".part")
                }
            } else if final != nil, (try? FileStatus(path: partialPath(content.id))) == nil {
                _ = operations.rename(finalPath(content.id), to: partialPath(content.id))
            }
        }
        for name in DirectoryListing.names(folder) where !known.contains(name) {
            _ = operations.remove(folder + "/" + name)
        }
        return damaged
    }

    /// Bytes on disk of a partial content; holes do not count.
    func allocatedByteCount(_ content: StoredContent) -> UInt64 {
        (try? FileStatus(path: path(content)))?.allocatedByteCount ?? 0
    }

    // MARK: Chunks

    func write(_ bytes: [UInt8], at offset: UInt64, of content: StoredContent) throws(StorageError) {
        try file(content).write(bytes.span, at: offset, operations)
    }

    /// Which chunks on disk match their leaves. Holes are skipped without reading. Needs no state of the store.
    /// `check` throws when it shall end early.
    static func verify(
        _ content: StoredContent, in file: OpenFile, key: Bytes32, check: () throws(StorageError) -> Void
    ) throws(StorageError) -> [Bool] {
        var good = [Bool](repeating: false, count: content.leaves.count)
        var buffer = [UInt8](repeating: 0, count: ChunkTree.chunkByteCount)
        for (position, leaf) in content.leaves.enumerated() {
            try check()
            let index = UInt64(position)
            let offset = index * UInt64(ChunkTree.chunkByteCount)
            let count = ChunkTree.chunkByteCount(at: index, byteCount: content.byteCount)
            if !content.isComplete && isHole(file, offset: offset, count: count) { continue }
            // A chunk the device cannot read is as good as one that was never there: it is fetched again.
            guard let read = try? file.read(into: &buffer, at: offset), read >= count else { continue }
            good[position] = ChunkTree.leaf(key: key, index: index, chunk: buffer.span.extracting(0..<count)) == leaf
        }
        return good
    }

    private static func isHole(_ file: OpenFile, offset: UInt64, count: Int) -> Bool {
        let next = mesh_next_data(file.descriptor, Int64(clamping: offset))
        if next < 0 { return next == -Int64(ENXIO) }
        return UInt64(next) >= offset + UInt64(count)
    }
}
