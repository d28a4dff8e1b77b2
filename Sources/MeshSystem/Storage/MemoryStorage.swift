import Glibc
public import MeshBase
import MeshCrypto

/// A node's state in memory, for `--ephemeral` and for simulations: the same answers as on disk, gone with the process.
/// Files are still read from and written to disk by import and export.
public final class MemoryStorage: NodeStorage {
    private struct Entry {
        var content: StoredContent
        var chunks: [[UInt8]?]
    }

    private struct State {
        var settings: [String: [UInt8]] = [:]
        var records: [StoredRecord] = []
        var recordIDs: Set<RecordID> = []
        var entries: [ContentID: Entry] = [:]
        var isStopped = false
    }

    /// Bytes of contents that may be held at once.
    private let byteLimit: UInt64
    private let state = Lock(State())

    public init(byteLimit: UInt64 = 4 << 30) { self.byteLimit = byteLimit }

    private func step<Result>(
        _ body: (inout State) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try state.withLock { (state: inout State) throws(StorageError) -> Result in
            guard !state.isStopped else { throw .stopped }
            return try body(&state)
        }
    }

    // MARK: Settings and records

    public func setting(_ name: String) throws(StorageError) -> [UInt8]? { try step { $0.settings[name] } }

    public func setSetting(_ name: String, _ value: [UInt8]) throws(StorageError) {
        try step { $0.settings[name] = value }
    }

    public func records() throws(StorageError) -> [StoredRecord] { try step { $0.records } }

    public func addRecords(_ records: [StoredRecord]) throws(StorageError) {
        try step { state in
            for record in records where state.recordIDs.insert(record.id).inserted { state.records.append(record) }
        }
    }

    // MARK: Contents

    public func contents() throws(StorageError) -> [StoredContent] {
        try step { state in state.entries.values.map(\.content).sorted { $0.id < $1.id } }
    }

    public func importFile(
        path: String, key: Bytes32, byteLimit: UInt64, progress: (UInt64, UInt64) -> Void
    ) throws(StorageError) -> ImportedContent {
        let source = try SourceFile(path: path, byteLimit: byteLimit)
        try step { (state) throws(StorageError) in try requireSpace(source.byteCount, state) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(clamping: source.byteCount))
        let tree = try source.read(key: key, progress: progress) { (block, _) throws(StorageError) in
            unsafe block.withUnsafeBufferPointer { buffer in unsafe bytes.append(contentsOf: buffer) }
        }
        return try adopt(bytes, tree)
    }

    /// Takes bytes as a complete content: what `importFile` does with a file's.
    public func importBytes(_ bytes: [UInt8], key: Bytes32) throws(StorageError) -> ImportedContent {
        try step { (state) throws(StorageError) in try requireSpace(UInt64(bytes.count), state) }
        let builder = ChunkTreeBuilder(key: key)
        builder.append(bytes.span)
        return try adopt(bytes, builder.finish())
    }

    private func adopt(
        _ bytes: [UInt8], _ tree: ChunkTreeBuilder.Result
    ) throws(StorageError) -> ImportedContent {
        try step { state in
            let wasPresent = state.entries[tree.content]?.content.isComplete == true
            let content = StoredContent(
                id: tree.content, byteCount: tree.byteCount, leaves: tree.leaves, isComplete: true)
            if !wasPresent {
                let size = ChunkTree.chunkByteCount
                let chunks = stride(from: 0, to: bytes.count, by: size).map { start in
                    Optional(Array(bytes[start..<min(start + size, bytes.count)]))
                }
                state.entries[content.id] = Entry(content: content, chunks: chunks)
            }
            return ImportedContent(
                id: content.id, byteCount: content.byteCount, leaves: content.leaves, wasPresent: wasPresent)
        }
    }

    public func beginContent(id: ContentID, byteCount: UInt64, leaves: [Bytes32]) throws(StorageError) {
        try step { (state) throws(StorageError) in
            guard state.entries[id] == nil else { return }
            guard UInt64(leaves.count) == ChunkTree.chunkCount(byteCount: byteCount) else {
                throw .invalidChunk(id, index: UInt64(leaves.count))
            }
            try requireSpace(byteCount, state)
            let content = StoredContent(id: id, byteCount: byteCount, leaves: leaves, isComplete: false)
            state.entries[id] = Entry(content: content, chunks: [[UInt8]?](repeating: nil, count: leaves.count))
        }
    }

    private func requireSpace(_ byteCount: UInt64, _ state: State) throws(StorageError) {
        let used = state.entries.values.reduce(into: UInt64(0)) { $0 &+= $1.content.byteCount }
        let available = byteLimit - min(used, byteLimit)
        guard byteCount <= available else { throw .noSpace(path: "memory", needed: byteCount, available: available) }
    }

    public func verifyPartial(id: ContentID, key: Bytes32) throws(StorageError) -> [Bool] {
        let entry = try step { (state) throws(StorageError) in try Self.known(id, state) }
        return zip(entry.content.leaves, entry.chunks).enumerated().map { position, pair in
            guard let chunk = pair.1 else { return false }
            return ChunkTree.leaf(key: key, index: UInt64(position), chunk: chunk.span) == pair.0
        }
    }

    public func writeChunk(id: ContentID, index: UInt64, bytes: [UInt8]) throws(StorageError) {
        try step { (state) throws(StorageError) in
            let entry = try Self.known(id, state)
            guard !entry.content.isComplete else { return }
            let position = try Self.position(index, count: bytes.count, entry)
            state.entries[id]?.chunks[position] = bytes
        }
    }

    public func readChunk(id: ContentID, index: UInt64) throws(StorageError) -> [UInt8] {
        try step { (state) throws(StorageError) in
            let entry = try Self.known(id, state)
            let count = ChunkTree.chunkByteCount(at: index, byteCount: entry.content.byteCount)
            let position = try Self.position(index, count: count, entry)
            return entry.chunks[position] ?? [UInt8](repeating: 0, count: count)
        }
    }

    public func finishContent(id: ContentID) throws(StorageError) {
        try step { (state) throws(StorageError) in
            guard try !Self.known(id, state).chunks.contains(nil) else { throw .incompleteContent(id) }
            state.entries[id]?.content.isComplete = true
        }
    }

    public func reopenContent(id: ContentID) throws(StorageError) {
        try step { (state) throws(StorageError) in
            _ = try Self.known(id, state)
            state.entries[id]?.content.isComplete = false
        }
    }

    public func removeContent(id: ContentID) throws(StorageError) { try step { $0.entries[id] = nil } }

    public func exportContent(
        id: ContentID, toDirectory directory: String, name: String, key: Bytes32, overwrite: Bool
    ) throws(StorageError) -> ExportResult {
        let content = try step { (state) throws(StorageError) in try Self.known(id, state).content }
        guard content.isComplete else { throw .incompleteContent(id) }
        let exporter = ContentExporter(
            content: content, key: key, operations: LinuxFileOperations(), random: "\(getpid())-\(id.shortDescription)",
            check: { () throws(StorageError) in }
        ) { (index) throws(StorageError) in try self.readChunk(id: id, index: index) }
        return try exporter.export(toDirectory: directory, name: name, overwrite: overwrite)
    }

    public func usage() throws(StorageError) -> StorageUsage {
        try step { state in
            let used = state.entries.values.reduce(into: UInt64(0)) { $0 &+= $1.content.byteCount }
            return StorageUsage(
                contentCount: state.entries.count, contentBytes: used, freeBytes: byteLimit - min(used, byteLimit))
        }
    }

    /// Nothing here takes long.
    public func interrupt() {}

    public func close() { state.withLock { $0.isStopped = true } }

    /// A copy of everything, as a backup of the disk would be; opened anew.
    public func copy() -> MemoryStorage {
        let copy = MemoryStorage(byteLimit: byteLimit)
        let current = state.withLock { $0 }
        copy.state.withLock { state in
            state = current
            state.isStopped = false
        }
        return copy
    }

    private static func known(_ id: ContentID, _ state: State) throws(StorageError) -> Entry {
        guard let entry = state.entries[id] else { throw .unknownContent(id) }
        return entry
    }

    private static func position(_ index: UInt64, count: Int, _ entry: Entry) throws(StorageError) -> Int {
        guard index < UInt64(entry.chunks.count),
            count == ChunkTree.chunkByteCount(at: index, byteCount: entry.content.byteCount)
        else { throw .invalidChunk(entry.content.id, index: index) }
        return Int(index)
    }
}
