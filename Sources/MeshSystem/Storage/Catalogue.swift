import Glibc
import MeshBase
import MeshCrypto

/// The database of a state directory: settings, records, and which contents there are. Write-ahead log, one exclusive
/// connection, a full sync at each commit.
///
/// Every row carries a digest of itself, because SQLite has no checksums: a row with a flipped bit is set aside and
/// counted, and the node fetches it again from others (AB-79).
final class Catalogue {
    static let schemaVersion = 1

    private let database: Database
    /// Damaged rows that were set aside since the catalogue was opened.
    private(set) var quarantinedCount = 0

    /// Opens or creates. Throws `newerSchema` (nothing is changed then), `corrupt`, `inUse`, `readOnly` and others.
    init(path: String) throws(StorageError) {
        // Made by us first, so that it is private from its first byte; the log files take over its mode.
        _ = try OpenFile(path, flags: O_RDWR | O_CREAT)
        database = try Database(path: path)
        let found = try Self.version(of: database)
        guard found <= Self.schemaVersion else {
            throw .newerSchema(path: path, found: found, supported: Self.schemaVersion)
        }
        try database.execute("PRAGMA locking_mode = EXCLUSIVE")
        try database.execute("PRAGMA journal_mode = WAL")
        try database.execute("PRAGMA synchronous = FULL")
        try Self.checkIntegrity(of: database)
        if found == 0 { try createSchema() }
    }

    func close() { database.close() }

    private static func version(of database: Database) throws(StorageError) -> Int {
        var version = 0
        try database.run("PRAGMA user_version") { row in version = Int(row.integer(0)) }
        return version
    }

    private static func checkIntegrity(of database: Database) throws(StorageError) {
        var verdict: [UInt8] = []
        try database.run("PRAGMA quick_check(1)") { row in verdict = row.bytes(0) }
        guard verdict == Array("ok".utf8) else { throw .corrupt(path: database.path) }
    }

    private func createSchema() throws(StorageError) {
        try database.transaction { () throws(StorageError) in
            try database.execute(
                """
                CREATE TABLE settings(name TEXT PRIMARY KEY, value BLOB NOT NULL, digest BLOB NOT NULL);
                CREATE TABLE records(position INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE,
                                     bytes BLOB NOT NULL, digest BLOB NOT NULL);
                CREATE TABLE contents(id BLOB PRIMARY KEY, byteCount INTEGER NOT NULL, leaves BLOB NOT NULL,
                                      isComplete INTEGER NOT NULL, digest BLOB NOT NULL);
                CREATE TABLE quarantine(position INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, id BLOB,
                                        bytes BLOB);
                PRAGMA user_version = \(Self.schemaVersion);
                """)
        }
    }

    // MARK: Settings

    func setting(_ name: String) throws(StorageError) -> [UInt8]? {
        var value: [UInt8]?
        var isSound = true
        try database.run("SELECT value, digest FROM settings WHERE name = ?", [.text(name)]) { row in
            let found = row.bytes(0)
            isSound = row.bytes(1) == Self.digest(Array(name.utf8), found)
            value = found
        }
        guard isSound else { throw .corrupt(path: database.path) }
        return value
    }

    func setSetting(_ name: String, _ value: [UInt8]) throws(StorageError) {
        try database.run(
            "INSERT OR REPLACE INTO settings(name, value, digest) VALUES(?, ?, ?)",
            [.text(name), .bytes(value), .bytes(Self.digest(Array(name.utf8), value))])
    }

    // MARK: Records

    func records() throws(StorageError) -> [StoredRecord] {
        var records: [StoredRecord] = []
        var damaged: [Int64] = []
        try database.run("SELECT id, bytes, digest, position FROM records ORDER BY position") { row in
            let name = row.bytes(0)
            let bytes = row.bytes(1)
            if let id = RecordID(bytes: name), row.bytes(2) == Self.digest(name, bytes) {
                records.append(StoredRecord(id: id, bytes: bytes))
            } else {
                damaged.append(row.integer(3))
            }
        }
        for position in damaged { try quarantineRecord(position) }
        return records
    }

    func addRecords(_ records: [StoredRecord]) throws(StorageError) {
        try database.transaction { () throws(StorageError) in
            for record in records {
                try database.run(
                    "INSERT OR IGNORE INTO records(id, bytes, digest) VALUES(?, ?, ?)",
                    [.bytes(record.id.bytes), .bytes(record.bytes), .bytes(Self.digest(record.id.bytes, record.bytes))])
            }
        }
    }

    private func quarantineRecord(_ position: Int64) throws(StorageError) {
        quarantinedCount += 1
        try database.transaction { () throws(StorageError) in
            try database.run(
                "INSERT INTO quarantine(origin, id, bytes) SELECT 'records', id, bytes FROM records WHERE position = ?",
                [.integer(position)])
            try database.run("DELETE FROM records WHERE position = ?", [.integer(position)])
        }
    }

    // MARK: Contents

    func contents() throws(StorageError) -> [StoredContent] {
        var contents: [StoredContent] = []
        var damaged: [[UInt8]] = []
        try database.run("SELECT id, byteCount, leaves, isComplete, digest FROM contents ORDER BY id") { row in
            let name = row.bytes(0)
            let byteCount = UInt64(bitPattern: row.integer(1))
            let leafBytes = row.bytes(2)
            let isSound = row.bytes(4) == Self.digest(name, Self.littleEndian(byteCount) + leafBytes)
            if let id = ContentID(bytes: name), isSound {
                let leaves = Self.leaves(leafBytes)
                let isComplete = row.integer(3) == 1
                contents.append(
                    StoredContent(id: id, byteCount: byteCount, leaves: leaves, isComplete: isComplete))
            } else {
                damaged.append(name)
            }
        }
        for name in damaged {
            quarantinedCount += 1
            try database.run("DELETE FROM contents WHERE id = ?", [.bytes(name)])
        }
        return contents
    }

    func setContent(_ content: StoredContent) throws(StorageError) {
        let leafBytes = content.leaves.flatMap(\.bytes)
        let digest = Self.digest(content.id.bytes, Self.littleEndian(content.byteCount) + leafBytes)
        try database.run(
            "INSERT OR REPLACE INTO contents(id, byteCount, leaves, isComplete, digest) VALUES(?, ?, ?, ?, ?)",
            [
                .bytes(content.id.bytes), .integer(Int64(bitPattern: content.byteCount)), .bytes(leafBytes),
                .integer(content.isComplete ? 1 : 0), .bytes(digest),
            ])
    }

    func setComplete(_ id: ContentID, _ isComplete: Bool) throws(StorageError) {
        try database.run(
            "UPDATE contents SET isComplete = ? WHERE id = ?", [.integer(isComplete ? 1 : 0), .bytes(id.bytes)])
    }

    func removeContent(_ id: ContentID) throws(StorageError) {
        try database.run("DELETE FROM contents WHERE id = ?", [.bytes(id.bytes)])
    }

    // MARK: Rows

    private static func digest(_ name: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        Digest.hash16((littleEndian(UInt64(name.count)) + name + bytes).span).bytes
    }

    private static func littleEndian(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }

    private static func leaves(_ bytes: [UInt8]) -> [Bytes32] {
        stride(from: 0, to: bytes.count - bytes.count % 32, by: 32).compactMap { Bytes32(bytes[$0..<($0 + 32)]) }
    }
}
