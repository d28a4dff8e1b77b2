import Glibc
import MeshBase
import MeshCrypto
import Testing

@testable import MeshSystem

@Suite struct DiskStorageTests {
    @Test func `state is private and survives a restart`() throws {
        let directory = TemporaryDirectory()
        let state = directory.file("deep/er/state")
        let sample = SampleContent(200_000)
        let record = StoredRecord(id: RecordID(Digest.hash32([1])), bytes: [1, 2, 3])
        do {
            let storage = try DiskStorage(path: state)
            try storage.setSetting("seed", [5])
            try storage.addRecords([record])
            try sample.begin(in: storage)
            try sample.writeAll(to: storage)
            try storage.finishContent(id: sample.id)
            storage.close()
        }

        let storage = try DiskStorage(path: state)

        #expect(try storage.setting("seed") == [5])
        #expect(try storage.records() == [record])
        #expect(try storage.contents().map(\.leaves) == [sample.tree.leaves])
        #expect(TestFile.mode(state) == 0o700)
        for name in ["catalogue.sqlite", "lock", "contents/\(sample.id)"] {
            #expect(TestFile.mode(state + "/" + name) == 0o600, "\(name)")
        }
    }

    @Test func `a second process on one state is refused with the holder's pid`() throws {
        let directory = TemporaryDirectory()
        let first = try DiskStorage(path: directory.path)

        let error = #expect(throws: StorageError.self) { try DiskStorage(path: directory.path) }

        #expect(error == .inUse(path: directory.path, pid: getpid()))
        #expect(error?.message.contains("process \(getpid())") == true)
        first.close()
        #expect(throws: Never.self) { try DiskStorage(path: directory.path).close() }
    }

    @Test func `AB-77 no second connection can open the catalogue`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.path)
        try storage.setSetting("a", [1])

        let error = #expect(throws: StorageError.self) {
            let second = try Database(path: directory.file("catalogue.sqlite"))
            try second.execute("SELECT count(*) FROM settings")
        }

        guard case .inUse = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        try storage.setSetting("a", [2])
        storage.close()
    }

    @Test func `a catalogue of a newer version is refused and left as it is`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("catalogue.sqlite")
        do {
            let newer = try Database(path: path)
            try newer.execute("CREATE TABLE future(x); PRAGMA user_version = 2")
            newer.close()
        }
        let before = TestFile.read(path)

        #expect(throws: StorageError.newerSchema(path: path, found: 2, supported: 1)) {
            try DiskStorage(path: directory.path)
        }

        #expect(TestFile.read(path) == before)
    }

    @Test func `what is no catalogue is refused and left as it is`() throws {
        let directory = TemporaryDirectory()
        let path = directory.file("catalogue.sqlite")
        TestFile.write(patternBytes(5000), to: path)

        #expect(throws: StorageError.corrupt(path: path)) { try DiskStorage(path: directory.path) }

        #expect(TestFile.read(path) == patternBytes(5000))
    }

    @Test func `a partial content goes on where it was`() throws {
        let directory = TemporaryDirectory()
        let sample = SampleContent(5 * 65_536 + 100)
        do {
            let storage = try DiskStorage(path: directory.path)
            try sample.begin(in: storage)
            for index in [0, 3, 5] {
                try storage.writeChunk(id: sample.id, index: UInt64(index), bytes: sample.chunk(index))
            }
            storage.close()
        }

        let storage = try DiskStorage(path: directory.path)

        let good = try storage.verifyPartial(id: sample.id, key: journalKey)
        #expect(good == [true, false, false, true, false, true])
        #expect(try storage.usage().contentBytes < UInt64(sample.bytes.count))
        for (index, isGood) in good.enumerated() where !isGood {
            try storage.writeChunk(id: sample.id, index: UInt64(index), bytes: sample.chunk(index))
        }
        try storage.finishContent(id: sample.id)
        #expect(try storage.verifyPartial(id: sample.id, key: journalKey).allSatisfy { $0 })
    }

    @Test func `ATT-15 a name without an ending always holds whole bytes`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.path)
        let sample = SampleContent(150_000)

        try sample.begin(in: storage)
        try storage.writeChunk(id: sample.id, index: 1, bytes: sample.chunk(1))
        #expect(TestFile.names(directory.file("contents")) == ["\(sample.id).part"])
        try sample.writeAll(to: storage)
        try storage.finishContent(id: sample.id)

        #expect(TestFile.names(directory.file("contents")) == ["\(sample.id)"])
    }

    @Test func `leftovers of a crash are swept`() throws {
        let directory = TemporaryDirectory()
        try DiskStorage(path: directory.path).close()
        let strange = ["0123abcd.import", "\(SampleContent(3).id)", "\(SampleContent(3).id).part", "junk"]
        for name in strange { TestFile.write([1], to: directory.file("contents/\(name)")) }

        try DiskStorage(path: directory.path).close()

        #expect(TestFile.names(directory.file("contents")) == [])
    }

    @Test func `a full disk is said beforehand and leaves the store working`() throws {
        let directory = TemporaryDirectory()
        guard let small = SmallFileSystem(sizeBytes: 2 << 20, in: directory) else {
            try Test.cancel("mounting a small file system needs root")
        }
        let storage = try DiskStorage(path: small.path + "/state")
        let sample = SampleContent(4 << 20)
        TestFile.write(sample.bytes, to: directory.file("big"))

        let beginning = #expect(throws: StorageError.self) { try sample.begin(in: storage) }
        let importing = #expect(throws: StorageError.self) { try storage.importFile(directory.file("big")) }

        for error in [beginning, importing] {
            guard case .noSpace(_, let needed?, let available?) = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(needed == 4 << 20 && available < 2 << 20)
        }
        #expect(TestFile.names(small.path + "/state/contents") == [])
        try storage.setSetting("still", [1])
        #expect(try storage.usage().freeBytes < 2 << 20)
        storage.close()
    }

    @Test func `promises to partial contents count against the free space`() throws {
        let directory = TemporaryDirectory()
        guard let small = SmallFileSystem(sizeBytes: 4 << 20, in: directory) else {
            try Test.cancel("mounting a small file system needs root")
        }
        let storage = try DiskStorage(path: small.path + "/state")

        try SampleContent(2 << 20).begin(in: storage)

        #expect(throws: StorageError.self) { try SampleContent(2 << 20, seed: 2).begin(in: storage) }
        storage.close()
    }

    @Test func `a read-only state is a typed error`() throws {
        let directory = TemporaryDirectory()
        guard let small = SmallFileSystem(sizeBytes: 1 << 20, in: directory), small.makeReadOnly() else {
            try Test.cancel("mounting a small file system needs root")
        }

        #expect(throws: StorageError.readOnly(path: small.path + "/contents")) { try DiskStorage(path: small.path) }
    }

    @Test func `a state path that is a file is a typed error`() throws {
        let directory = TemporaryDirectory()
        TestFile.write([1], to: directory.file("state"))

        #expect(throws: StorageError.self) { try DiskStorage(path: directory.file("state")) }
        #expect(throws: StorageError.self) { try DiskStorage(path: directory.file("state/below")) }
        #expect(TestFile.read(directory.file("state")) == [1])
    }
}
