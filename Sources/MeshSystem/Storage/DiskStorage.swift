import CMeshSystem
import Glibc
public import MeshBase
import MeshCrypto

/// A node's state on disk: `<state>/catalogue.sqlite`, `<state>/contents/`, and `<state>/lock` that one process holds.
///
/// Order of every durable step: bytes synced, renamed, folder synced, catalogue committed. A crash between any two
/// leaves either what was before or what was meant; the next start sweeps the rest (AB-78).
public final class DiskStorage: NodeStorage {
    private struct State {
        var catalogue: Catalogue
        var files: ContentFiles
        var contents: [ContentID: StoredContent]
        var directory: StateDirectory?
        var isStopped = false
    }

    private let path: String
    private let operations: any FileOperations
    /// Held for one step at a time; long reads and hashing happen outside.
    private let state: Lock<State>
    /// Long calls look at it between blocks.
    private let isInterrupted = Lock(false)

    /// Opens or creates the state in `path`. Throws `inUse` with the other process's pid, `newerSchema`, `corrupt`,
    /// `readOnly`, `permissionDenied`, `noSpace` and others; nothing is damaged then.
    public convenience init(path: String) throws(StorageError) {
        try self.init(path: path, operations: LinuxFileOperations())
    }

    init(path: String, operations: any FileOperations) throws(StorageError) {
        self.path = path
        self.operations = operations
        let directory = try StateDirectory(path: path)
        let catalogue = try Catalogue(path: path + "/catalogue.sqlite")
        let files = ContentFiles(folder: path + "/contents", operations: operations)
        var contents: [ContentID: StoredContent] = [:]
        let listed = try catalogue.contents()
        for content in listed { contents[content.id] = content }
        for id in files.reconcile(with: listed) {
            contents[id]?.isComplete = false
            try catalogue.setComplete(id, false)
            try files.reopen(id)
        }
        state = Lock(State(catalogue: catalogue, files: files, contents: contents, directory: directory))
    }

    /// Whether there is a store in `path`.
    public static func exists(at path: String) -> Bool { (try? FileStatus(path: path + "/catalogue.sqlite")) != nil }

    /// Whether a process holds the store in `path` now.
    public static func isInUse(at path: String) -> Bool { StateDirectory.isHeld(path) }

    /// Removes a store that came to nothing, unless a process holds it; and its directory, unless it holds other things.
    public static func remove(at path: String) { StateDirectory.remove(path) }

    /// One step with the state. A failed sync stops the store: what the kernel holds can no longer be trusted (AB-80).
    private func step<Result>(
        _ body: (inout State) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try state.withLock { (state: inout State) throws(StorageError) -> Result in
            guard !state.isStopped else { throw .stopped }
            do throws(StorageError) {
                return try body(&state)
            } catch {
                if case .syncFailed = error { state.isStopped = true }
                throw error
            }
        }
    }

    // MARK: Settings and records

    public func setting(_ name: String) throws(StorageError) -> [UInt8]? {
        try step { (state) throws(StorageError) in try state.catalogue.setting(name) }
    }

    public func setSetting(_ name: String, _ value: [UInt8]) throws(StorageError) {
        try step { (state) throws(StorageError) in try state.catalogue.setSetting(name, value) }
    }

    public func records() throws(StorageError) -> [StoredRecord] {
        try step { (state) throws(StorageError) in try state.catalogue.records() }
    }

    public func addRecords(_ records: [StoredRecord]) throws(StorageError) {
        try step { (state) throws(StorageError) in try state.catalogue.addRecords(records) }
    }

    // MARK: Contents

    public func contents() throws(StorageError) -> [StoredContent] {
        try step { (state) throws(StorageError) in state.contents.values.sorted { $0.id < $1.id } }
    }

    public func importFile(
        path: String, key: Bytes32, byteLimit: UInt64, progress: (UInt64, UInt64) -> Void
    ) throws(StorageError) -> ImportedContent {
        let source = try SourceFile(path: path, byteLimit: byteLimit)
        let copy = try step { (state) throws(StorageError) in
            try Self.requireSpace(source.byteCount, state, at: self.path)
            return try state.files.newImport(try Self.random(8))
        }
        do throws(StorageError) {
            let tree = try source.read(key: key, progress: progress) { (bytes, offset) throws(StorageError) in
                try self.checkInterruption()
                try copy.write(bytes, at: offset, self.operations)
                if (offset + UInt64(bytes.count)) % Self.syncInterval == 0 { try self.synchronize(copy) }
            }
            try synchronize(copy)
            return try step { (state) throws(StorageError) in try Self.adopt(copy, tree, &state) }
        } catch {
            state.withLock { $0.files.discard(copy) }
            throw error
        }
    }

    /// A large copy goes to the device bit by bit: what else must be durable meanwhile waits for a little of it only.
    private static let syncInterval: UInt64 = 64 << 20

    /// Content to the device, without holding up the other calls. A failure stops the store, as in `step`.
    private func synchronize(_ file: OpenFile) throws(StorageError) {
        let result = operations.synchronize(file.descriptor, isDirectory: false)
        guard result != 0 else { return }
        let error = StorageError.syncFailed(path: file.path, errorNumber: -result)
        try step { (_) throws(StorageError) in throw error }
    }

    private func checkInterruption() throws(StorageError) {
        guard !isInterrupted.withLock({ $0 }) else { throw .stopped }
    }

    public func interrupt() { isInterrupted.withLock { $0 = true } }

    /// Makes a finished and synced copy a complete content, unless the same is here already.
    private static func adopt(
        _ copy: OpenFile, _ tree: ChunkTreeBuilder.Result, _ state: inout State
    ) throws(StorageError) -> ImportedContent {
        let content = StoredContent(
            id: tree.content, byteCount: tree.byteCount, leaves: tree.leaves, isComplete: true)
        let wasPresent = state.contents[content.id]?.isComplete == true
        if wasPresent {
            state.files.discard(copy)
        } else {
            try state.files.publish(copy, as: content.id)
            try state.catalogue.setContent(content)
            state.contents[content.id] = content
            // A partial copy that was being fetched is of no use any more; a leftover is swept at the next start.
            _ = LinuxFileOperations().remove(state.files.partialPath(content.id))
        }
        return ImportedContent(
            id: content.id, byteCount: content.byteCount, leaves: content.leaves, wasPresent: wasPresent)
    }

    public func beginContent(id: ContentID, byteCount: UInt64, leaves: [Bytes32]) throws(StorageError) {
        try step { (state) throws(StorageError) in
            guard state.contents[id] == nil else { return }
            guard UInt64(leaves.count) == ChunkTree.chunkCount(byteCount: byteCount) else {
                throw .invalidChunk(id, index: UInt64(leaves.count))
            }
            try Self.requireSpace(byteCount, state, at: self.path)
            let content = StoredContent(id: id, byteCount: byteCount, leaves: leaves, isComplete: false)
            try state.catalogue.setContent(content)
            state.contents[id] = content
        }
    }

    /// Checked beforehand, with what other partial contents will still need and what stays free for everything else.
    private static func requireSpace(_ byteCount: UInt64, _ state: State, at path: String) throws(StorageError) {
        guard let free = FileSystemSpace.available(at: path) else { return }
        var promised: UInt64 = 0
        for content in state.contents.values where !content.isComplete {
            let present = state.files.allocatedByteCount(content)
            promised =
                promised.addingReportingOverflow(content.byteCount - min(present, content.byteCount)).partialValue
        }
        let taken = promised.addingReportingOverflow(FileSystemSpace.reserve(at: path)).partialValue
        let available = free - min(taken, free)
        guard byteCount <= available else { throw .noSpace(path: path, needed: byteCount, available: available) }
    }

    public func verifyPartial(id: ContentID, key: Bytes32) throws(StorageError) -> [Bool] {
        let (content, file) = try step { (state) throws(StorageError) in
            let content = try Self.known(id, state)
            return (content, try? state.files.file(content))
        }
        guard let file else { return [Bool](repeating: false, count: content.leaves.count) }
        return try ContentFiles.verify(content, in: file, key: key, check: checkInterruption)
    }

    public func writeChunk(id: ContentID, index: UInt64, bytes: [UInt8]) throws(StorageError) {
        try step { (state) throws(StorageError) in
            let content = try Self.known(id, state)
            guard !content.isComplete else { return }
            let offset = try Self.offset(of: index, count: bytes.count, in: content)
            try state.files.write(bytes, at: offset, of: content)
        }
    }

    public func readChunk(id: ContentID, index: UInt64) throws(StorageError) -> [UInt8] {
        try step { (state) throws(StorageError) in try Self.chunk(index, of: try Self.known(id, state), state) }
    }

    private static func chunk(
        _ index: UInt64, of content: StoredContent, _ state: State
    ) throws(StorageError) -> [UInt8] {
        let count = ChunkTree.chunkByteCount(at: index, byteCount: content.byteCount)
        let offset = try offset(of: index, count: count, in: content)
        var bytes = [UInt8](repeating: 0, count: count)
        guard try state.files.file(content).read(into: &bytes, at: offset) == count else {
            throw .corrupt(path: state.files.path(content))
        }
        return bytes
    }

    public func finishContent(id: ContentID) throws(StorageError) {
        let unfinished = try step { (state) throws(StorageError) -> OpenFile? in
            let content = try Self.known(id, state)
            guard !content.isComplete else { return nil }
            let file = try state.files.file(content)
            guard try file.status().byteCount == content.byteCount else { throw .incompleteContent(id) }
            return file
        }
        guard let file = unfinished else { return }
        try synchronize(file)
        try step { (state) throws(StorageError) in
            guard try !Self.known(id, state).isComplete else { return }
            try state.files.publish(file, as: id)
            try state.catalogue.setComplete(id, true)
            state.contents[id]?.isComplete = true
        }
    }

    public func reopenContent(id: ContentID) throws(StorageError) {
        try step { (state) throws(StorageError) in
            guard try Self.known(id, state).isComplete else { return }
            try state.catalogue.setComplete(id, false)
            state.contents[id]?.isComplete = false
            try state.files.reopen(id)
        }
    }

    public func removeContent(id: ContentID) throws(StorageError) {
        try step { (state) throws(StorageError) in
            // Forgotten first: a file without a row is swept, a row without a file would be a lie.
            try state.catalogue.removeContent(id)
            state.contents[id] = nil
            try state.files.remove(id)
        }
    }

    public func exportContent(
        id: ContentID, toDirectory directory: String, name: String, key: Bytes32, overwrite: Bool
    ) throws(StorageError) -> ExportResult {
        let content = try step { (state) throws(StorageError) in try Self.known(id, state) }
        guard content.isComplete else { throw .incompleteContent(id) }
        let exporter = ContentExporter(
            content: content, key: key, operations: operations, random: Hexadecimal.encode(try Self.random(8)),
            check: checkInterruption
        ) { (index) throws(StorageError) in try self.readChunk(id: id, index: index) }
        return try exporter.export(toDirectory: directory, name: name, overwrite: overwrite)
    }

    // MARK: The whole

    public func usage() throws(StorageError) -> StorageUsage {
        try step { (state) throws(StorageError) in
            let bytes = state.contents.values.reduce(into: UInt64(0)) { sum, content in
                sum &+= content.isComplete ? content.byteCount : state.files.allocatedByteCount(content)
            }
            return StorageUsage(
                contentCount: state.contents.count, contentBytes: bytes,
                freeBytes: FileSystemSpace.available(at: self.path) ?? 0)
        }
    }

    /// Rows with flipped bits that were set aside since the opening.
    public var quarantinedCount: Int { state.withLock { $0.catalogue.quarantinedCount } }

    public func close() {
        state.withLock { state in
            state.isStopped = true
            state.catalogue.close()
            state.directory = nil
        }
    }

    private static func known(_ id: ContentID, _ state: State) throws(StorageError) -> StoredContent {
        guard let content = state.contents[id] else { throw .unknownContent(id) }
        return content
    }

    /// The offset of a chunk that must have exactly `count` bytes.
    private static func offset(
        of index: UInt64, count: Int, in content: StoredContent
    ) throws(StorageError) -> UInt64 {
        guard index < UInt64(content.leaves.count),
            count == ChunkTree.chunkByteCount(at: index, byteCount: content.byteCount)
        else { throw .invalidChunk(content.id, index: index) }
        return index * UInt64(ChunkTree.chunkByteCount)
    }

    private static func random(_ count: Int) throws(StorageError) -> [UInt8] {
        do throws(SystemError) {
            return try SystemEntropy().fill(count: count).revealed()
        } catch {
            throw .callFailed(call: "getrandom", path: "", errorNumber: EIO)
        }
    }
}
