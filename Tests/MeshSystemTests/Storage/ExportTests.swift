import Glibc
import MeshBase
import Testing

@testable import MeshSystem

@Suite struct SafeFileNameTests {
    @Test(arguments: [
        ("report.pdf", "report.pdf"), ("häßlich 猫 🐈.txt", "häßlich 猫 🐈.txt"), ("a b'c\"d.txt", "a b'c\"d.txt"),
        ("CON", "CON"), ("👩‍👩‍👧", "👩‍👩‍👧"),
    ])
    func `harmless names stay as they are`(name: String, expected: String) {
        let result = SafeFileName.make(name)

        #expect(result.name == expected)
        #expect(result.change == nil)
    }

    @Test(arguments: [
        ("../../x", "%2E.%2F..%2Fx"), ("/etc/x", "%2Fetc%2Fx"), ("a/../b", "a%2F..%2Fb"), ("a//b", "a%2F%2Fb"),
        ("..", "%2E."), (".", "%2E"), (".bashrc", "%2Ebashrc"), ("C:\\x", "C:%5Cx"), ("a\0b", "a%00b"),
        ("a\nb\u{1b}[2J", "a%0Ab%1B[2J"), ("a\u{202e}gpj.exe", "a%E2%80%AEgpj.exe"), ("", "attachment"), ("./a", "a"),
    ])
    func `AB-83 ATT-04 names that lead elsewhere are made harmless, readably`(name: String, expected: String) {
        let result = SafeFileName.make(name)

        #expect(result.name == expected)
        #expect(result.change == .madeSafe)
    }

    @Test(arguments: [
        String(repeating: "a", count: 256), String(repeating: "猫", count: 90) + ".jpeg",
        String(repeating: "🐈", count: 85) + ".png", String(repeating: "x", count: 300) + ".tar.gz",
        String(repeating: "👩‍👩‍👧", count: 40) + ".txt", String(repeating: "/", count: 200) + ".txt",
        "e" + String(repeating: "\u{301}", count: 400) + ".txt",
    ])
    func `ATT-02 long names are cut at a character and keep their extension`(name: String) {
        let result = SafeFileName.make(name)

        #expect(result.name.utf8.count <= 255)
        #expect(result.name.utf8.count > 200)
        #expect(result.change == .shortened)
        if let dot = name.lastIndex(of: ".") { #expect(result.name.hasSuffix(name[dot...])) }
    }

    @Test(arguments: [
        ("a:b?.txt", "a%3Ab%3F.txt"), ("<x>|y", "%3Cx%3E%7Cy"), ("end.", "end%2E"), ("end ", "end%20"),
        ("CON", "%43ON"), ("nul.txt", "%6Eul.txt"), ("Com1", "%43om1"), ("line\nbreak", "line%0Abreak"),
        ("\"quoted\"*", "%22quoted%22%2A"),
    ])
    func `ATT-03 names that a shared file system refuses are mapped so that they can be read back`(
        name: String, expected: String
    ) {
        let narrow = SafeFileName.make(name, isNarrow: true)

        #expect(narrow.name == expected)
        #expect(narrow.change == .madeSafe)
        // Harmless there is harmless here: nothing is changed twice.
        #expect(SafeFileName.make("console 1.txt", isNarrow: true).change == nil)
    }

    @Test func `ATT-02 255 bytes fit, 255 characters may not`() {
        #expect(SafeFileName.make(String(repeating: "a", count: 255)).change == nil)
        #expect(SafeFileName.make(String(repeating: "é", count: 255)).name.utf8.count == 254)
    }

    @Test func `numbers go before the extension and within the limit`() {
        #expect(SafeFileName.numbered("a.txt", 2) == "a (2).txt")
        #expect(SafeFileName.numbered("a", 10) == "a (10)")
        #expect(SafeFileName.numbered(String(repeating: "猫", count: 83) + ".jpeg", 2).utf8.count <= 255)
    }
}

@Suite struct ExportTests {
    private struct Fixture {
        let directory = TemporaryDirectory()
        let storage: DiskStorage
        let first = SampleContent(100_000, seed: 1)
        let second = SampleContent(100_000, seed: 2)
        var folder: String { directory.file("out") }

        init() throws {
            storage = try DiskStorage(path: directory.file("state"))
            for sample in [first, second] {
                try sample.begin(in: storage)
                try sample.writeAll(to: storage)
                try storage.finishContent(id: sample.id)
            }
            unsafe mkdir(directory.file("out"), 0o755)
        }
    }

    @Test(arguments: ["../../x", "/etc/x", "a/../b", "./a", "a//b", "", ".", "..", "a\0b", "..\\..\\x", "C:\\x"])
    func `AB-83 ATT-04 nothing lands outside the chosen folder`(name: String) throws {
        let fixture = try Fixture()
        let before = TestFile.names(fixture.directory.path)

        let result = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: name)

        #expect(TestFile.names(fixture.directory.path) == before)
        #expect(TestFile.names(fixture.folder).count == 1)
        #expect(TestFile.read(result.path) == fixture.first.bytes)
        #expect(result.nameChange == .madeSafe)
    }

    @Test(arguments: ["new", "new/"])
    func `the last part of the folder is made, as any folder of the user's`(name: String) throws {
        let fixture = try Fixture()
        let folder = fixture.directory.file(name)

        let result = try fixture.storage.export(fixture.first.id, to: folder, as: "a.txt")

        #expect(TestFile.read(result.path) == fixture.first.bytes)
        #expect(TestFile.mode(fixture.directory.file("new")) & 0o700 == 0o700)
    }

    @Test func `more than the last part is not made, and a file is no folder`() throws {
        let fixture = try Fixture()
        let missing = fixture.directory.file("no/such")
        let file = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: "a.txt").path

        #expect(throws: StorageError.noDirectory(path: missing)) {
            try fixture.storage.export(fixture.first.id, to: missing, as: "a.txt")
        }
        #expect(throws: StorageError.notADirectory(path: file)) {
            try fixture.storage.export(fixture.first.id, to: file, as: "a.txt")
        }
        #expect(!TestFile.names(fixture.directory.path).contains("no"))
    }

    @Test func `a folder made for an export that failed goes again`() throws {
        let fixture = try Fixture()
        let unknown = SampleContent(1_000, seed: 9)

        #expect(throws: StorageError.self) {
            try fixture.storage.export(unknown.id, to: fixture.directory.file("new"), as: "a.txt")
        }
        #expect(!TestFile.names(fixture.directory.path).contains("new"))
    }

    @Test(arguments: [255, 256, 300])
    func `ATT-02 content of any name length arrives`(length: Int) throws {
        let fixture = try Fixture()
        let name = String(repeating: "n", count: length - 4) + ".bin"

        let result = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: name)

        #expect(TestFile.read(result.path) == fixture.first.bytes)
        #expect(result.nameChange == (length > 255 ? .shortened : nil))
    }

    @Test func `ATT-02 two long names that are cut alike become two files`() throws {
        let fixture = try Fixture()
        let name = String(repeating: "猫", count: 100)

        _ = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: name + "a.txt")
        let result = try fixture.storage.export(fixture.second.id, to: fixture.folder, as: name + "b.txt")

        #expect(result.nameChange == .numbered)
        #expect(TestFile.names(fixture.folder).count == 2)
    }

    @Test func `ATT-17 names that look the same become two files, the second numbered`() throws {
        let fixture = try Fixture()

        _ = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: "\u{e9}.txt")
        let result = try fixture.storage.export(fixture.second.id, to: fixture.folder, as: "e\u{301}.txt")

        #expect(result.nameChange == .numbered)
        #expect(result.path == fixture.folder + "/e\u{301} (2).txt")
        #expect(TestFile.names(fixture.folder).count == 2)
    }

    @Test func `ATT-20 the same content again is already there, numbered or not`() throws {
        let fixture = try Fixture()
        let export = { (sample: SampleContent) throws(StorageError) in
            try fixture.storage.export(sample.id, to: fixture.folder, as: "a.txt")
        }

        #expect(try export(fixture.first).outcome == .written)
        #expect(try export(fixture.first).outcome == .alreadyThere)
        #expect(try export(fixture.second).outcome == .written)
        let again = try export(fixture.second)

        #expect(again.outcome == .alreadyThere)
        #expect(again.path == fixture.folder + "/a (2).txt")
        #expect(TestFile.names(fixture.folder) == ["a (2).txt", "a.txt"])
    }

    @Test func `ATT-20 other content is replaced only when told`() throws {
        let fixture = try Fixture()
        TestFile.write([1, 2, 3], to: fixture.folder + "/a.txt")

        let kept = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: "a.txt")
        #expect(kept.path == fixture.folder + "/a (2).txt")
        #expect(TestFile.read(fixture.folder + "/a.txt") == [1, 2, 3])
        let replaced = try fixture.storage.export(fixture.first.id, to: fixture.folder, as: "a.txt", overwrite: true)

        #expect(replaced.outcome == .replaced)
        #expect(TestFile.read(fixture.folder + "/a.txt") == fixture.first.bytes)
    }

    @Test(arguments: [false, true])
    func `AB-83 a link in the way is never followed`(overwrite: Bool) throws {
        let fixture = try Fixture()
        let victim = fixture.directory.file("victim")
        TestFile.write([9], to: victim)
        unsafe symlink(victim, fixture.folder + "/a.txt")

        let result = try fixture.storage.export(
            fixture.first.id, to: fixture.folder, as: "a.txt", overwrite: overwrite)

        #expect(TestFile.read(victim) == [9])
        #expect(TestFile.read(result.path) == fixture.first.bytes)
        #expect(result.path.hasSuffix(overwrite ? "a.txt" : "a (2).txt"))
    }

    @Test func `ATT-03 on a file system with narrower names each file arrives, under a name it takes`() throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        unsafe mkdir(directory.file("out"), 0o755)
        operations.narrowNames()
        let names = ["a:b?.txt", "<x>|y", "dot.", "CON", "plain.txt", "new\nline"]

        for (position, name) in names.enumerated() {
            let sample = SampleContent(1_000, seed: UInt64(position + 1))
            try sample.begin(in: storage)
            try sample.writeAll(to: storage)
            try storage.finishContent(id: sample.id)
            let result = try storage.export(sample.id, to: directory.file("out"), as: name)
            #expect(TestFile.read(result.path) == sample.bytes)
            #expect(result.nameChange == (name == "plain.txt" ? nil : .madeSafe))
            #expect(try storage.export(sample.id, to: directory.file("out"), as: name).outcome == .alreadyThere)
        }

        let written = TestFile.names(directory.file("out"))
        #expect(written.count == names.count)
        #expect(written.allSatisfy { name in !name.contains { "\"*:<>?|\n".contains($0) } && !name.hasSuffix(".") })
    }

    @Test func `ATT-15 a failed export leaves nothing`() throws {
        let directory = TemporaryDirectory()
        let operations = ScriptedFileOperations()
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        let sample = SampleContent(200_000)
        try sample.begin(in: storage)
        try sample.writeAll(to: storage)
        try storage.finishContent(id: sample.id)
        unsafe mkdir(directory.file("out"), 0o755)

        operations.fail(.write, ENOSPC, after: 2)
        #expect(throws: StorageError.self) { try storage.export(sample.id, to: directory.file("out"), as: "a") }
        operations.fail(.syncFile, EIO)
        #expect(throws: StorageError.self) { try storage.export(sample.id, to: directory.file("out"), as: "a") }
        operations.heal()

        #expect(TestFile.names(directory.file("out")) == [])
        // The user's disk is not ours: the store goes on.
        #expect(try storage.export(sample.id, to: directory.file("out"), as: "a").outcome == .written)
    }

    @Test func `a folder that is full is a typed error`() throws {
        let fixture = try Fixture()
        guard let small = SmallFileSystem(sizeBytes: 64 << 10, in: fixture.directory) else {
            try Test.cancel("mounting a small file system needs root")
        }

        let error = #expect(throws: StorageError.self) {
            try fixture.storage.export(fixture.first.id, to: small.path, as: "a")
        }

        guard case .noSpace(small.path, 100_000, .some) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(TestFile.names(small.path) == [])
    }

    @Test func `what a killed export left is swept by the next one there, what another one writes is not`() throws {
        let directory = TemporaryDirectory()
        let opened = Lock<DiskStorage?>(nil)
        let (first, second) = (SampleContent(100_000, seed: 1), SampleContent(100_000, seed: 2))
        let folder = directory.file("out")
        unsafe mkdir(folder, 0o755)
        let operations = ScriptedFileOperations { step in
            guard step == .write, let storage = opened.withLock({ $0.take() }) else { return }
            _ = try? storage.export(second.id, to: folder, as: "second")
        }
        let storage = try DiskStorage(path: directory.file("state"), operations: operations)
        for sample in [first, second] {
            try sample.begin(in: storage)
            try sample.writeAll(to: storage)
            try storage.finishContent(id: sample.id)
        }
        TestFile.write([1, 2, 3], to: folder + "/.0123456789abcdef.starling-part")
        opened.withLock { $0 = storage }

        // The second export runs while the first is being written.
        _ = try storage.export(first.id, to: folder, as: "first")

        #expect(TestFile.names(folder).sorted() == ["first", "second"])
    }
}
