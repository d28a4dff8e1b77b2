import Glibc
import MeshBase
import MeshCrypto
import Testing

@testable import MeshSystem

/// What both stores promise.
@Suite struct NodeStorageTests {
    enum Kind: CaseIterable, Sendable { case disk, memory }

    private static func make(_ kind: Kind, _ directory: TemporaryDirectory) throws -> any NodeStorage {
        switch kind {
        case .disk: try DiskStorage(path: directory.file("state"))
        case .memory: MemoryStorage()
        }
    }

    @Test(arguments: Kind.allCases)
    func `settings are kept and replaced`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)

        #expect(try storage.setting("name") == nil)
        try storage.setSetting("name", [1, 2])
        try storage.setSetting("empty", [])
        try storage.setSetting("name", [3])

        #expect(try storage.setting("name") == [3])
        #expect(try storage.setting("empty") == [])
    }

    @Test(arguments: Kind.allCases)
    func `records keep their order and repeats change nothing`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        let records = (0..<20).map { number in
            StoredRecord(id: RecordID(Digest.hash32([UInt8(number)])), bytes: patternBytes(number * 40))
        }

        try storage.addRecords(Array(records[0..<12]))
        try storage.addRecords([StoredRecord(id: records[3].id, bytes: [9])] + records[12...])

        #expect(try storage.records() == records)
    }

    @Test(arguments: Kind.allCases, [0, 1, 65_536, 65_537, 300_000])
    func `a content arrives in chunks of any order`(kind: Kind, size: Int) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        let sample = SampleContent(size)

        try sample.begin(in: storage)
        try sample.begin(in: storage)
        for index in (0..<sample.chunkCount).reversed() {
            try storage.writeChunk(id: sample.id, index: UInt64(index), bytes: sample.chunk(index))
        }
        try storage.finishContent(id: sample.id)
        try storage.finishContent(id: sample.id)

        #expect(try storage.contents().map(\.isComplete) == [true])
        #expect(try storage.verifyPartial(id: sample.id, key: journalKey).allSatisfy { $0 })
        for index in 0..<sample.chunkCount {
            #expect(try storage.readChunk(id: sample.id, index: UInt64(index)) == sample.chunk(index))
        }
        let result = try storage.export(sample.id, to: directory.path, as: "out.bin")
        #expect(result == ExportResult(path: directory.file("out.bin"), outcome: .written, nameChange: nil))
        #expect(TestFile.read(directory.file("out.bin")) == sample.bytes)
    }

    @Test(arguments: Kind.allCases)
    func `ATT-01 a zero-byte file is added, stored once and exported`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        TestFile.write([], to: directory.file("empty"))

        let first = try storage.importFile(directory.file("empty"))
        let second = try storage.importFile(directory.file("empty"))

        #expect(first.byteCount == 0 && first.leaves.isEmpty && !first.wasPresent)
        #expect(second.id == first.id && second.wasPresent)
        _ = try storage.export(first.id, to: directory.path, as: "copy")
        #expect(TestFile.read(directory.file("copy")) == [])
    }

    @Test(arguments: Kind.allCases)
    func `chunks that a content does not have are refused`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        let sample = SampleContent(70_000)
        let unknown = SampleContent(5, seed: 9)
        try sample.begin(in: storage)

        #expect(throws: StorageError.invalidChunk(sample.id, index: 2)) {
            try storage.writeChunk(id: sample.id, index: 2, bytes: [1])
        }
        #expect(throws: StorageError.invalidChunk(sample.id, index: .max)) {
            try storage.readChunk(id: sample.id, index: .max)
        }
        #expect(throws: StorageError.invalidChunk(sample.id, index: 1)) {
            try storage.writeChunk(id: sample.id, index: 1, bytes: sample.chunk(1) + [0])
        }
        #expect(throws: StorageError.unknownContent(unknown.id)) { try storage.readChunk(id: unknown.id, index: 0) }
        #expect(throws: StorageError.invalidChunk(unknown.id, index: 0)) {
            try storage.beginContent(id: unknown.id, byteCount: 5, leaves: [])
        }
        #expect(throws: StorageError.incompleteContent(sample.id)) {
            try storage.export(sample.id, to: directory.path, as: "x")
        }
        #expect(throws: StorageError.incompleteContent(sample.id)) { try storage.finishContent(id: sample.id) }
    }

    @Test(arguments: Kind.allCases)
    func `a removed content is gone and may come back`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        TestFile.write(patternBytes(100_000), to: directory.file("a"))
        let content = try storage.importFile(directory.file("a"))

        try storage.removeContent(id: content.id)
        try storage.removeContent(id: content.id)

        #expect(try storage.contents().isEmpty)
        #expect(try storage.usage().contentBytes == 0)
        #expect(try !storage.importFile(directory.file("a")).wasPresent)
    }

    @Test(arguments: Kind.allCases)
    func `after closing everything is refused`(kind: Kind) throws {
        let directory = TemporaryDirectory()
        let storage = try Self.make(kind, directory)
        storage.close()
        storage.close()

        #expect(throws: StorageError.stopped) { try storage.records() }
        #expect(throws: StorageError.stopped) { try storage.setSetting("a", [1]) }
    }

    @Test func `memory has its own limit`() throws {
        let storage = MemoryStorage(byteLimit: 1000)

        #expect(throws: StorageError.noSpace(path: "memory", needed: 1001, available: 1000)) {
            try storage.importBytes(patternBytes(1001), key: journalKey)
        }
        #expect(try storage.importBytes(patternBytes(1000), key: journalKey).byteCount == 1000)
    }
}
