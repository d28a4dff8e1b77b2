import Glibc
import MeshBase
import MeshCrypto
import Testing

@testable import MeshSystem

/// What a disk may make of a crash: not only the steps so far in their order, but any later state of what was not
/// synced. Bytes of a file that were not synced may be missing or zero although its new name is there; a new name may be
/// missing although the bytes are there; what was removed may be there again.
@Suite struct ReorderingTests {
    @Test func `AB-81 after a crash at any step, with unsynced bytes lost and unsynced names undone, all is sound`()
        throws
    {
        let directory = TemporaryDirectory()
        /// Each world with what had been acknowledged as durable by then.
        let worlds = Lock<[(path: String, promised: Set<ContentID>)]>([])
        let promised = Lock<Set<ContentID>>([])
        let operations = ForgetfulFileOperations(root: directory.file("world"), attic: directory.file("attic"))
        operations.onStep = { operations in
            let number = worlds.withLock { $0.count }
            let made = operations.leaveWorlds(named: directory.file("crash\(number)-"))
            let kept = promised.withLock { $0 }
            worlds.withLock { $0 += made.map { ($0, kept) } }
        }
        let state = directory.file("world/state")
        unsafe mkdir(directory.file("world/out"), 0o755)
        let storage = try DiskStorage(path: state, operations: operations)
        let (kept, fetched) = (SampleContent(66_000, seed: 1), SampleContent(140_000, seed: 2))
        TestFile.write(kept.bytes, to: directory.file("a"))

        _ = try storage.importFile(directory.file("a"))
        promised.withLock { _ = $0.insert(kept.id) }
        try fetched.begin(in: storage)
        try fetched.writeAll(to: storage)
        try storage.finishContent(id: fetched.id)
        promised.withLock { _ = $0.insert(fetched.id) }
        _ = try storage.export(fetched.id, to: directory.file("world/out"), as: "film")
        promised.withLock { _ = $0.remove(fetched.id) }
        try storage.reopenContent(id: fetched.id)
        try storage.finishContent(id: fetched.id)
        promised.withLock { $0 = [fetched.id] }
        try storage.removeContent(id: kept.id)
        operations.step()

        let all = worlds.withLock { $0 }
        #expect(all.count > 40)
        for world in all {
            try Self.expectSound(world.path, world.promised, kept, fetched, source: directory.file("a"))
        }
    }

    private static func expectSound(
        _ world: String, _ promised: Set<ContentID>, _ kept: SampleContent, _ fetched: SampleContent, source: String
    ) throws {
        let storage = try DiskStorage(path: world + "/state")
        defer { storage.close() }
        let complete = Set(try storage.contents().filter(\.isComplete).map(\.id))
        #expect(promised.isSubset(of: complete), "\(world): what was acknowledged as durable is gone")
        for content in try storage.contents() where content.isComplete {
            #expect(
                try storage.verifyPartial(id: content.id, key: journalKey).allSatisfy { $0 },
                "\(world): a content counts as whole and is not")
        }
        for name in TestFile.names(world + "/out") where !name.hasPrefix(".") {
            #expect(TestFile.read(world + "/out/" + name) == fetched.bytes, "\(world): \(name) is not whole")
        }
        // Whatever state it was, the same work can be done again, and leaves nothing beside it.
        _ = try storage.importFile(source)
        try fetched.begin(in: storage)
        for content in try storage.contents() where !content.isComplete && content.id == fetched.id {
            try fetched.writeAll(to: storage)
            try storage.finishContent(id: fetched.id)
        }
        #expect(try storage.contents().map(\.isComplete) == [true, true], "\(world)")
        for sample in [kept, fetched] {
            #expect(try storage.verifyPartial(id: sample.id, key: journalKey).allSatisfy { $0 }, "\(world)")
        }
        #expect(TestFile.names(world + "/state/contents").allSatisfy { !$0.contains(".") }, "\(world)")
    }
}

/// Does what it is told, and knows what of it a power cut may still take back.
private final class ForgetfulFileOperations: FileOperations {
    private enum Change {
        case renamed(from: String, to: String)
        /// `copy`: where the file's bytes are kept, to put it back.
        case removed(path: String, copy: String)

        var folder: Substring {
            switch self {
            case .renamed(_, let path), .removed(let path, _): path[..<(path.lastIndex(of: "/") ?? path.startIndex)]
            }
        }
    }

    private struct State {
        /// Files with bytes that were not synced, by inode.
        var unsyncedFiles: Set<UInt> = []
        /// Names that changed in folders that were not synced since, oldest first.
        var changes: [Change] = []
        var removedCount = 0
        var onStep: (@Sendable (ForgetfulFileOperations) -> Void)?
    }

    private let state = Lock(State())
    private let linux = LinuxFileOperations()
    private let root: String
    private let attic: String

    init(root: String, attic: String) {
        self.root = root
        self.attic = attic
        unsafe mkdir(root, 0o755)
        unsafe mkdir(attic, 0o755)
    }

    var onStep: (@Sendable (ForgetfulFileOperations) -> Void)? {
        get { state.withLock { $0.onStep } }
        set { state.withLock { $0.onStep = newValue } }
    }

    func step() { onStep?(self) }

    // MARK: What a crash leaves

    private enum Bytes: CaseIterable { case kept, zeroed, cut }

    /// Copies of the root as a crash now could leave it: any number of the latest unsynced names undone, the unsynced
    /// bytes there, zero or missing.
    func leaveWorlds(named prefix: String) -> [String] {
        let (files, changes) = state.withLock { ($0.unsyncedFiles, $0.changes) }
        var output: [String] = []
        for undone in 0...changes.count {
            for bytes in Bytes.allCases where bytes == .kept || !files.isEmpty {
                let world = "\(prefix)\(undone)-\(bytes)"
                Shell.run("/bin/cp", "-a", root, world)
                Shell.run("/bin/rm", "-f", world + "/state/lock")
                spoil(files, bytes, in: world)
                for change in changes.suffix(undone).reversed() { undo(change, in: world) }
                output.append(world)
            }
        }
        return output
    }

    private func spoil(_ files: Set<UInt>, _ bytes: Bytes, in world: String) {
        guard bytes != .kept else { return }
        for folder in ["/state/contents", "/out"] {
            for name in TestFile.names(root + folder) where files.contains(Self.inode(root + folder + "/" + name)) {
                let path = world + folder + "/" + name
                let size = TestFile.read(path)?.count ?? 0
                TestFile.write(bytes == .zeroed ? [UInt8](repeating: 0, count: size) : [], to: path)
            }
        }
    }

    private func undo(_ change: Change, in world: String) {
        let moved = { (path: String) in world + path.dropFirst(self.root.count) }
        switch change {
        case .renamed(let from, let to): _ = unsafe Glibc.rename(moved(to), moved(from))
        case .removed(let path, let copy): Shell.run("/bin/cp", "-a", copy, moved(path))
        }
    }

    private static func inode(_ path: String) -> UInt {
        var information = stat()
        return unsafe lstat(path, &information) == 0 ? UInt(information.st_ino) : 0
    }

    private static func path(of descriptor: Int32) -> String {
        var bytes = [CChar](repeating: 0, count: 4_096)
        let count = unsafe readlink("/proc/self/fd/\(descriptor)", &bytes, bytes.count)
        return String(decoding: bytes.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    // MARK: Operations

    func write(_ descriptor: Int32, _ bytes: Span<UInt8>, at offset: UInt64) -> Int {
        step()
        var information = stat()
        if unsafe fstat(descriptor, &information) == 0 {
            state.withLock { _ = $0.unsyncedFiles.insert(UInt(information.st_ino)) }
        }
        return linux.write(descriptor, bytes, at: offset)
    }

    func synchronize(_ descriptor: Int32, isDirectory: Bool) -> Int32 {
        step()
        var information = stat()
        _ = unsafe fstat(descriptor, &information)
        let path = Self.path(of: descriptor)
        state.withLock { state in
            if isDirectory {
                state.changes.removeAll { $0.folder == path }
            } else {
                state.unsyncedFiles.remove(UInt(information.st_ino))
            }
        }
        return linux.synchronize(descriptor, isDirectory: isDirectory)
    }

    func rename(_ source: String, to target: String) -> Int32 {
        step()
        let result = linux.rename(source, to: target)
        if result == 0 { state.withLock { $0.changes.append(.renamed(from: source, to: target)) } }
        return result
    }

    func remove(_ path: String) -> Int32 {
        step()
        let copy = state.withLock { state in
            state.removedCount += 1
            return attic + "/\(state.removedCount)"
        }
        Shell.run("/bin/cp", "-a", path, copy)
        let result = linux.remove(path)
        if result == 0 { state.withLock { $0.changes.append(.removed(path: path, copy: copy)) } }
        return result
    }

    func takesAnyName(_ descriptor: Int32) -> Bool { linux.takesAnyName(descriptor) }
}
