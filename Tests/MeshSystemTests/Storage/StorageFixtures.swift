import Glibc
import MeshBase
import MeshCrypto

@testable import MeshSystem

let journalKey = Bytes32([UInt8](repeating: 7, count: 32))!

/// A content made of pattern bytes, with its tree.
struct SampleContent {
    var bytes: [UInt8]
    var tree: ChunkTreeBuilder.Result
    var id: ContentID { tree.content }

    init(_ count: Int, seed: UInt64 = 1) {
        let content = patternBytes(count, seed: seed)
        let builder = ChunkTreeBuilder(key: journalKey)
        builder.append(content.span)
        bytes = content
        tree = builder.finish()
    }

    func chunk(_ index: Int) -> [UInt8] {
        let start = index * ChunkTree.chunkByteCount
        return Array(bytes[start..<min(start + ChunkTree.chunkByteCount, bytes.count)])
    }

    var chunkCount: Int { tree.leaves.count }

    func begin(in storage: any NodeStorage) throws(StorageError) {
        try storage.beginContent(id: id, byteCount: UInt64(bytes.count), leaves: tree.leaves)
    }

    func writeAll(to storage: any NodeStorage) throws(StorageError) {
        for index in 0..<chunkCount { try storage.writeChunk(id: id, index: UInt64(index), bytes: chunk(index)) }
    }
}

extension NodeStorage {
    func importFile(_ path: String, limit: UInt64 = .max) throws(StorageError) -> ImportedContent {
        try importFile(path: path, key: journalKey, byteLimit: limit) { _, _ in }
    }

    func export(
        _ id: ContentID, to directory: String, as name: String, overwrite: Bool = false
    ) throws(StorageError) -> ExportResult {
        try exportContent(id: id, toDirectory: directory, name: name, key: journalKey, overwrite: overwrite)
    }
}

/// Records every step that decides about durability, and fails the one it is told to.
final class ScriptedFileOperations: FileOperations {
    enum Step: Equatable, Sendable {
        case write
        case syncFile
        case syncFolder
        case rename
        case remove
    }

    private struct State {
        var steps: [Step] = []
        var failure: (step: Step, error: Int32, after: Int)?
        var writeLimit = Int.max
        var takesAnyName = true
    }

    private let state = Lock(State())
    private let linux = LinuxFileOperations()
    /// Called before each step is done.
    private let before: @Sendable (Step) -> Void

    init(before: @escaping @Sendable (Step) -> Void = { _ in }) { self.before = before }

    var steps: [Step] { state.withLock { $0.steps } }
    func forgetSteps() { state.withLock { $0.steps = [] } }

    /// The `after`-th next step of this kind fails, and every later one.
    func fail(_ step: Step, _ error: Int32, after: Int = 0) { state.withLock { $0.failure = (step, error, after) } }
    func heal() { state.withLock { $0.failure = nil } }
    /// At most this many bytes are taken by one write.
    func shortenWrites(to count: Int) { state.withLock { $0.writeLimit = count } }

    /// From now on folders look as if they were on a file system with narrower rules for names.
    func narrowNames() { state.withLock { $0.takesAnyName = false } }
    func takesAnyName(_ descriptor: Int32) -> Bool { state.withLock { $0.takesAnyName } }

    /// 0, or the errno to fail with.
    private func enter(_ step: Step) -> Int32 {
        before(step)
        return state.withLock { state in
            state.steps.append(step)
            guard let failure = state.failure, failure.step == step else { return 0 }
            if failure.after > 0 {
                state.failure?.after -= 1
                return 0
            }
            return failure.error
        }
    }

    func write(_ descriptor: Int32, _ bytes: Span<UInt8>, at offset: UInt64) -> Int {
        let error = enter(.write)
        if error != 0 { return -Int(error) }
        let limit = state.withLock { $0.writeLimit }
        return linux.write(descriptor, bytes.extracting(0..<min(bytes.count, limit)), at: offset)
    }

    func synchronize(_ descriptor: Int32, isDirectory: Bool) -> Int32 {
        let error = enter(isDirectory ? .syncFolder : .syncFile)
        return error != 0 ? -error : linux.synchronize(descriptor, isDirectory: isDirectory)
    }

    func rename(_ source: String, to target: String) -> Int32 {
        let error = enter(.rename)
        return error != 0 ? -error : linux.rename(source, to: target)
    }

    func remove(_ path: String) -> Int32 {
        let error = enter(.remove)
        return error != 0 ? -error : linux.remove(path)
    }
}

/// A small file system of a test's own. `nil` where we may not mount.
final class SmallFileSystem {
    let path: String

    init?(sizeBytes: Int, in directory: TemporaryDirectory) {
        path = directory.file("small")
        guard geteuid() == 0, unsafe mkdir(path, 0o755) == 0,
            Shell.run("/bin/mount", "-t", "tmpfs", "-o", "size=\(sizeBytes)", "tmpfs", path) == 0
        else { return nil }
    }

    func makeReadOnly() -> Bool { Shell.run("/bin/mount", "-o", "remount,ro", path) == 0 }

    deinit { Shell.run("/bin/umount", "-l", path) }
}
