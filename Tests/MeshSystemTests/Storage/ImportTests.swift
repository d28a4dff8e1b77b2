import Glibc
import MeshBase
import MeshCrypto
import Testing

@testable import MeshSystem

@Suite(.timeLimit(.minutes(10))) struct ImportTests {
    @Test func `an import is the tree of the file's bytes and reports progress`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let sample = SampleContent(3_000_000)
        TestFile.write(sample.bytes, to: directory.file("a"))

        var seen: [UInt64] = []
        let content = try storage.importFile(
            path: directory.file("a"), key: journalKey, byteLimit: 3_000_000
        ) { done, total in
            seen.append(done)
            #expect(total == 3_000_000)
        }

        #expect(
            content
                == ImportedContent(
                    id: sample.id, byteCount: 3_000_000, leaves: sample.tree.leaves, wasPresent: false))
        #expect(seen.first == 0 && seen.last == 3_000_000 && seen == seen.sorted())
    }

    @Test func `settings are kept while an import or a fetched content goes to the device`() throws {
        let directory = TemporaryDirectory()
        let opened = Lock<DiskStorage?>(nil)
        let wasKept = Lock<[Bool]>([])
        let other = try StorageThread(name: "other")
        defer { other.stop() }
        let operations = ScriptedFileOperations { step in
            guard step == .syncFile, let storage = opened.withLock({ $0 }) else { return }
            other.run { _ = try? storage.setSetting("name", [1]) }
            for _ in 0..<2_000 where other.pendingCount > 0 { usleep(1_000) }
            wasKept.withLock { $0.append(other.pendingCount == 0) }
        }
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        opened.withLock { $0 = storage }
        TestFile.write(patternBytes(100_000), to: directory.file("a"))
        let sample = SampleContent(70_000, seed: 3)

        _ = try storage.importFile(directory.file("a"))
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)
        try storage.finishContent(id: sample.id)

        #expect(wasKept.withLock { $0 } == [true, true])
    }

    @Test func `an interrupted import ends within a block and leaves nothing, and settings are still kept`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        TestFile.write(patternBytes(8 << 20), to: directory.file("a"))
        let sample = SampleContent(3_000_000)
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)

        var last: UInt64 = 0
        #expect(throws: StorageError.stopped) {
            _ = try storage.importFile(path: directory.file("a"), key: journalKey, byteLimit: .max) { done, _ in
                last = done
                if done > 0 { storage.interrupt() }
            }
        }

        #expect(last <= 2 << 20)
        #expect(TestFile.names(directory.file("state/contents")) == ["\(sample.id).part"])
        #expect(throws: StorageError.stopped) { try storage.verifyPartial(id: sample.id, key: journalKey) }
        try storage.setSetting("name", [1])
    }

    @Test func `the same content is stored once, a partial one is completed by the file`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let sample = SampleContent(100_000)
        TestFile.write(sample.bytes, to: directory.file("a"))
        TestFile.write(sample.bytes, to: directory.file("b"))
        try sample.begin(in: storage)
        try storage.writeChunk(id: sample.id, index: 0, bytes: sample.chunk(0))

        #expect(try !storage.importFile(directory.file("a")).wasPresent)
        #expect(try storage.importFile(directory.file("b")).wasPresent)

        #expect(TestFile.names(directory.file("state/contents")) == ["\(sample.id)"])
        #expect(try storage.readChunk(id: sample.id, index: 1) == sample.chunk(1))
    }

    @Test func `ATT-18 what is no readable file is refused by kind, at once and without a trace`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let pipe = directory.file("pipe")
        let loop = directory.file("loop")
        let dangling = directory.file("dangling")
        unsafe mkfifo(pipe, 0o600)
        unsafe symlink(loop, loop)
        unsafe symlink(directory.file("nothing"), dangling)
        let listener = try UnixListener(path: directory.file("socket"))
        defer { listener.close() }
        let cases: [(String, StorageError)] = [
            (".", .notAFile(path: ".", kind: .directory)),
            ("..", .notAFile(path: "..", kind: .directory)),
            ("/", .notAFile(path: "/", kind: .directory)),
            (directory.path, .notAFile(path: directory.path, kind: .directory)),
            (pipe, .notAFile(path: pipe, kind: .pipe)),
            (listener.path, .notAFile(path: listener.path, kind: .socket)),
            ("/dev/zero", .notAFile(path: "/dev/zero", kind: .device)),
            (loop, .notAFile(path: loop, kind: .linkLoop)),
            (dangling, .notFound(path: dangling)),
            ("", .notFound(path: "")),
            ("/etc/passwd\0.txt", .notFound(path: "/etc/passwd\0.txt")),
        ]

        for (path, expected) in cases {
            #expect(throws: expected) { try storage.importFile(path) }
            #expect(!expected.message.isEmpty)
        }
        #expect(try storage.contents().isEmpty)
        #expect(TestFile.names(directory.file("state/contents")) == [])
    }

    @Test func `ATT-18 a link to a file is the file`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        TestFile.write([1, 2, 3], to: directory.file("a"))
        unsafe symlink("a", directory.file("link"))

        #expect(try storage.importFile(directory.file("link")).byteCount == 3)
    }

    @Test func `a file without permission is refused`() throws {
        let directory = TemporaryDirectory()
        unsafe chmod(directory.path, 0o755)
        TestFile.write([1], to: directory.file("secret"))
        unsafe chmod(directory.file("secret"), 0)
        let storage = try DiskStorage(path: directory.file("state"))

        try withRightsOfNobody {
            #expect(throws: StorageError.permissionDenied(path: directory.file("secret"))) {
                try storage.importFile(directory.file("secret"))
            }
        }
    }

    /// Root may read everything: this thread alone looks at files as nobody does while `body` runs.
    private func withRightsOfNobody(_ body: () throws -> Void) throws {
        guard geteuid() == 0 else { return try body() }
        // Glibc's module does not show sys/fsuid.h.
        typealias SetFileUser = @convention(c) (uid_t) -> Int32
        let symbol = unsafe dlsym(dlopen(nil, RTLD_NOW), "setfsuid")
        let setFileUser = try #require(unsafe unsafeBitCast(symbol, to: SetFileUser?.self))
        _ = setFileUser(65_534)
        defer { _ = setFileUser(0) }
        try body()
    }

    @Test func `the byte limit holds, the limit itself included`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        TestFile.write(patternBytes(1000), to: directory.file("a"))

        #expect(throws: StorageError.tooLarge(path: directory.file("a"), byteCount: 1000, limit: 999)) {
            try storage.importFile(directory.file("a"), limit: 999)
        }
        #expect(try storage.importFile(directory.file("a"), limit: 1000).byteCount == 1000)
    }

    enum Change: CaseIterable, Sendable { case grow, shrink, overwrite }

    @Test(arguments: Change.allCases)
    func `ATT-22 a file that changes while it is read is refused`(change: Change) throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let path = directory.file("a")
        let bytes = patternBytes(3 << 20)
        TestFile.write(bytes, to: path)

        #expect(throws: StorageError.fileChanged(path: path)) {
            try storage.importFile(path: path, key: journalKey, byteLimit: .max) { done, _ in
                guard done == 1 << 20 else { return }
                switch change {
                case .grow: TestFile.write(bytes + [1], to: path)
                case .shrink: unsafe truncate(path, 1 << 20)
                case .overwrite: TestFile.write(patternBytes(3 << 20, seed: 2), to: path)
                }
            }
        }

        #expect(try storage.contents().isEmpty)
        #expect(TestFile.names(directory.file("state/contents")) == [])
    }

    @Test func `ATT-22 a file that is replaced or deleted while it is read is taken as it was, or refused`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let path = directory.file("a")
        let sample = SampleContent(3 << 20)
        TestFile.write(sample.bytes, to: path)

        let content = try? storage.importFile(path: path, key: journalKey, byteLimit: .max) { done, _ in
            if done == 1 << 20 { unsafe unlink(path) }
        }

        #expect(content == nil || content?.id == sample.id)
    }

    @Test func `ATT-22 what was announced is what is served after the source changed`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let sample = SampleContent(100_000)
        TestFile.write(sample.bytes, to: directory.file("a"))
        let content = try storage.importFile(directory.file("a"))

        TestFile.write(patternBytes(100_000, seed: 5), to: directory.file("a"))

        #expect(try storage.readChunk(id: content.id, index: 0) == sample.chunk(0))
    }
}
