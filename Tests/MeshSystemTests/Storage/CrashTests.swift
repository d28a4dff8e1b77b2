import Glibc
import MeshBase
import MeshCrypto
import Testing

@testable import MeshSystem

/// Crashes, failing disks and flipped bits.
@Suite struct CrashTests {
    /// A copy of the state directory as a crash at this moment would leave it, without the lock.
    private static func snapshot(_ state: String, to target: String) {
        Shell.run("/bin/cp", "-a", state, target)
        Shell.run("/bin/rm", "-f", target + "/lock")
    }

    private final class Snapshots: Sendable {
        let paths = Lock<[String]>([])
        let directory: TemporaryDirectory
        init(_ directory: TemporaryDirectory) { self.directory = directory }

        func take(_ state: String) {
            let number = paths.withLock { paths in
                paths.append(directory.file("crash\(paths.count)"))
                return paths.count - 1
            }
            CrashTests.snapshot(state, to: directory.file("crash\(number)"))
        }
    }

    @Test func `AB-78 bytes are synced, renamed and their folder synced before a content counts as stored`() throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        TestFile.write(patternBytes(100_000), to: directory.file("a"))
        let sample = SampleContent(70_000, seed: 3)
        operations.forgetSteps()

        _ = try storage.importFile(directory.file("a"))
        #expect(operations.steps.drop { $0 == .write } == [.syncFile, .rename, .syncFolder])
        operations.forgetSteps()
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)
        try storage.finishContent(id: sample.id)

        #expect(operations.steps == [.write, .write, .syncFile, .rename, .syncFolder])
    }

    @Test func `AB-78 a crash between any two steps leaves the old state or the new one`() throws {
        let directory = TemporaryDirectory()
        let state = directory.file("state")
        let snapshots = Snapshots(directory)
        let operations = ScriptedFileOperations { _ in snapshots.take(state) }
        let storage = try DiskStorage(path: state, operations: operations)
        let kept = SampleContent(66_000, seed: 1)
        let fetched = SampleContent(140_000, seed: 2)
        TestFile.write(kept.bytes, to: directory.file("a"))

        _ = try storage.importFile(directory.file("a"))
        try fetched.begin(in: storage)
        try fetched.writeAll(to: storage)
        try storage.finishContent(id: fetched.id)
        try storage.reopenContent(id: fetched.id)
        try storage.finishContent(id: fetched.id)
        try storage.removeContent(id: kept.id)
        snapshots.take(state)

        let paths = snapshots.paths.withLock { $0 }
        #expect(paths.count > 12)
        for path in paths {
            let reopened = try DiskStorage(path: path)
            for content in try reopened.contents() where content.isComplete {
                #expect(try reopened.verifyPartial(id: content.id, key: journalKey).allSatisfy { $0 }, "\(path)")
            }
            // Whatever state it was, the same work can be done again.
            _ = try reopened.importFile(directory.file("a"))
            try fetched.begin(in: reopened)
            try fetched.writeAll(to: reopened)
            try reopened.finishContent(id: fetched.id)
            #expect(try reopened.contents().map(\.isComplete) == [true, true])
            #expect(TestFile.names(path + "/contents").allSatisfy { !$0.contains(".") }, "\(path)")
            reopened.close()
        }
    }

    @Test(arguments: [ScriptedFileOperations.Step.syncFile, .syncFolder])
    func `AB-80 a failed sync is never retried: the store stops and a reopening verifies`(
        step: ScriptedFileOperations.Step
    ) throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        let sample = SampleContent(100_000)
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)
        operations.fail(step, EIO)

        let error = #expect(throws: StorageError.self) { try storage.finishContent(id: sample.id) }
        operations.heal()

        guard case .syncFailed(_, EIO) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(throws: StorageError.stopped) { try storage.finishContent(id: sample.id) }
        #expect(throws: StorageError.stopped) { try storage.setSetting("a", [1]) }
        storage.close()
        let reopened = try DiskStorage(path: directory.file("state"))
        #expect(try reopened.contents().map(\.isComplete) == [false])
        #expect(try reopened.verifyPartial(id: sample.id, key: journalKey) == [true, true])
        try reopened.finishContent(id: sample.id)
    }

    @Test func `AB-80 an import whose sync fails is not acknowledged`() throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        TestFile.write(patternBytes(1000), to: directory.file("a"))
        operations.fail(.syncFile, EIO)

        #expect(throws: StorageError.self) { try storage.importFile(directory.file("a")) }

        storage.close()
        #expect(try DiskStorage(path: directory.file("state")).contents().isEmpty)
    }

    @Test func `AB-80 short writes go on and a full disk leaves nothing behind`() throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        TestFile.write(patternBytes(200_000), to: directory.file("a"))
        operations.shortenWrites(to: 999)

        let content = try storage.importFile(directory.file("a"))
        #expect(try storage.verifyPartial(id: content.id, key: journalKey).allSatisfy { $0 })
        try storage.removeContent(id: content.id)
        operations.fail(.write, ENOSPC, after: 20)
        let error = #expect(throws: StorageError.self) { try storage.importFile(directory.file("a")) }
        operations.heal()

        guard case .noSpace = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(TestFile.names(directory.file("state/contents")) == [])
        #expect(try storage.importFile(directory.file("a")).id == content.id)
    }

    @Test func `AB-79 a flipped bit in a chunk is found, never passed on, and repaired`() throws {
        let directory = TemporaryDirectory()
        let storage = try DiskStorage(path: directory.file("state"))
        let sample = SampleContent(200_000)
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)
        try storage.finishContent(id: sample.id)
        let file = directory.file("state/contents/\(sample.id)")
        var damaged = sample.bytes
        damaged[70_000] ^= 0x10
        TestFile.write(damaged, to: file)

        #expect(try storage.verifyPartial(id: sample.id, key: journalKey) == [true, false, true, true])
        #expect(throws: StorageError.self) { try storage.export(sample.id, to: directory.path, as: "out") }
        #expect(!TestFile.names(directory.path).contains { $0.contains("out") || $0.contains("part") })

        try storage.reopenContent(id: sample.id)
        try storage.writeChunk(id: sample.id, index: 1, bytes: sample.chunk(1))
        try storage.finishContent(id: sample.id)
        #expect(try storage.verifyPartial(id: sample.id, key: journalKey).allSatisfy { $0 })
    }

    @Test func `AB-79 a complete content whose file is gone or short is fetched again`() throws {
        let directory = TemporaryDirectory()
        let samples = [SampleContent(100_000, seed: 1), SampleContent(100_000, seed: 2)]
        do {
            let storage = try DiskStorage(path: directory.path)
            for sample in samples {
                try sample.begin(in: storage)
                try sample.writeAll(to: storage)
                try storage.finishContent(id: sample.id)
            }
            storage.close()
        }
        unsafe unlink(directory.file("contents/\(samples[0].id)"))
        unsafe truncate(directory.file("contents/\(samples[1].id)"), 70_000)

        let storage = try DiskStorage(path: directory.path)

        #expect(try storage.contents().allSatisfy { !$0.isComplete })
        #expect(try storage.verifyPartial(id: samples[0].id, key: journalKey) == [false, false])
        #expect(try storage.verifyPartial(id: samples[1].id, key: journalKey) == [true, false])
    }

    @Test func `AB-79 a flipped bit in a record sets that record aside and keeps the others`() throws {
        let directory = TemporaryDirectory()
        let records = (0..<5).map { number in
            StoredRecord(
                id: RecordID(Digest.hash32([UInt8(number)])), bytes: patternBytes(300, seed: UInt64(number + 1)))
        }
        do {
            let storage = try DiskStorage(path: directory.path)
            try storage.addRecords(records)
            storage.close()
        }
        let path = directory.file("catalogue.sqlite")
        var file = try #require(TestFile.read(path))
        let position = try #require(file.indices.first { file[$0...].starts(with: records[2].bytes.prefix(40)) })
        file[position + 17] ^= 1
        TestFile.write(file, to: path)

        let storage = try DiskStorage(path: directory.path)

        #expect(try storage.records().map(\.id) == records.map(\.id).filter { $0 != records[2].id })
        #expect(storage.quarantinedCount == 1)
        try storage.addRecords([records[2]])
        #expect(try storage.records().count == 5)
    }

    @Test func `AB-79 flipped bits anywhere in the catalogue give a typed error or sound rows, never a trap`() throws {
        let directory = TemporaryDirectory()
        let records = (0..<8).map { number in
            StoredRecord(
                id: RecordID(Digest.hash32([UInt8(number)])), bytes: patternBytes(200, seed: UInt64(number + 1)))
        }
        do {
            let storage = try DiskStorage(path: directory.path)
            try storage.addRecords(records)
            try storage.setSetting("seed", patternBytes(32))
            storage.close()
        }
        let path = directory.file("catalogue.sqlite")
        let sound = try #require(TestFile.read(path))

        for position in stride(from: 0, to: sound.count, by: max(1, sound.count / 150)) {
            var damaged = sound
            damaged[position] ^= UInt8(1 << (position % 8))
            TestFile.write(damaged, to: path)
            unsafe unlink(path + "-wal")
            guard let storage = try? DiskStorage(path: directory.path) else { continue }
            let found = (try? storage.records()) ?? []
            #expect(found.allSatisfy { records.contains($0) }, "byte \(position)")
            let seed = try? storage.setting("seed")
            #expect(seed == nil || seed == patternBytes(32), "byte \(position)")
            storage.close()
        }
    }
}
