import CSQLite
import Glibc
import MeshBase

/// One SQLite connection, used by one thread at a time. Exclusive: no second connection of any process can open the
/// file while this one lives (AB-77).
@safe final class Database {
    enum Value {
        case integer(Int64)
        case bytes([UInt8])
        case text(String)
    }

    let path: String
    private var handle: OpaquePointer?
    private var statements: [String: OpaquePointer] = unsafe [:]

    /// Opens or creates; the folder must exist.
    init(path: String) throws(StorageError) {
        self.path = path
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX
        let result = unsafe sqlite3_open_v2(path, &handle, flags, nil)
        guard result == SQLITE_OK else {
            let error = failure(result)
            unsafe sqlite3_close_v2(handle)
            unsafe handle = nil
            throw error
        }
        unsafe sqlite3_extended_result_codes(handle, 1)
        unsafe sqlite3_busy_timeout(handle, 0)
    }

    deinit { close() }

    func close() {
        unsafe statements.values.forEach { unsafe sqlite3_finalize($0) }
        unsafe statements = unsafe [:]
        unsafe sqlite3_close_v2(handle)
        unsafe handle = nil
    }

    /// Runs statements without values.
    func execute(_ sql: String) throws(StorageError) {
        let result = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
        guard result == SQLITE_OK else { throw failure(result) }
    }

    /// Runs one statement; `row` sees each row it yields.
    func run(
        _ sql: String, _ values: [Value] = [], row: (borrowing Row) throws(StorageError) -> Void = { _ in }
    ) throws(StorageError) {
        let statement = unsafe try prepared(sql)
        defer {
            unsafe sqlite3_reset(statement)
            unsafe sqlite3_clear_bindings(statement)
        }
        for (position, value) in values.enumerated() { unsafe try bind(value, Int32(position + 1), statement) }
        while true {
            let result = unsafe sqlite3_step(statement)
            if result == SQLITE_DONE { return }
            guard result == SQLITE_ROW else { throw failure(result) }
            unsafe try row(Row(statement: statement))
        }
    }

    /// All of `body` or nothing; durable when this returns.
    func transaction(_ body: () throws(StorageError) -> Void) throws(StorageError) {
        try execute("BEGIN IMMEDIATE")
        do throws(StorageError) {
            try body()
            try execute("COMMIT")
        } catch {
            // The first error is the one that matters; SQLite may have rolled back by itself.
            try? execute("ROLLBACK")
            throw error
        }
    }

    private func prepared(_ sql: String) throws(StorageError) -> OpaquePointer {
        if let statement = unsafe statements[sql] { return unsafe statement }
        var statement: OpaquePointer?
        let result = unsafe sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        guard result == SQLITE_OK, let statement = unsafe statement else { throw failure(result) }
        unsafe statements[sql] = statement
        return unsafe statement
    }

    private func bind(_ value: Value, _ position: Int32, _ statement: OpaquePointer) throws(StorageError) {
        // SQLITE_TRANSIENT: SQLite copies before the call returns.
        let transient = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        let result =
            switch value {
            case .integer(let number): unsafe sqlite3_bind_int64(statement, position, number)
            case .text(let text): unsafe sqlite3_bind_text(statement, position, text, -1, transient)
            case .bytes(let bytes):
                bytes.isEmpty
                    ? unsafe sqlite3_bind_zeroblob(statement, position, 0)
                    : unsafe sqlite3_bind_blob64(statement, position, bytes, UInt64(bytes.count), transient)
            }
        guard result == SQLITE_OK else { throw failure(result) }
    }

    private func failure(_ code: Int32) -> StorageError {
        switch code & 0xff {
        case SQLITE_FULL: return full
        case SQLITE_READONLY:
            return FileSystemSpace.isReadOnly(at: path) ? .readOnly(path: path) : .permissionDenied(path: path)
        case SQLITE_CORRUPT, SQLITE_NOTADB: return .corrupt(path: path)
        case SQLITE_BUSY, SQLITE_LOCKED: return .inUse(path: path, pid: nil)
        case SQLITE_IOERR where code == Self.fsyncFailed || code == Self.directoryFsyncFailed:
            return .syncFailed(path: path, errorNumber: unsafe sqlite3_system_errno(handle))
        case SQLITE_IOERR, SQLITE_CANTOPEN: return cause() ?? unexplained(code)
        default: return unexplained(code)
        }
    }

    /// What SQLite calls an input/output error or "unable to open" is mostly a full or read-only disk, or a missing
    /// right: never a reason to give up a sound catalogue.
    private func cause() -> StorageError? {
        switch unsafe handle == nil ? 0 : unsafe sqlite3_system_errno(handle) {
        case ENOSPC, EDQUOT: return full
        case EROFS: return .readOnly(path: path)
        case EACCES, EPERM: return .permissionDenied(path: path)
        default:
            if FileSystemSpace.isReadOnly(at: path) { return .readOnly(path: path) }
            let available = FileSystemSpace.available(at: path) ?? .max
            return available < Self.leastUsefulSpace ? full : nil
        }
    }

    private var full: StorageError {
        .noSpace(path: path, needed: nil, available: FileSystemSpace.available(at: path))
    }

    /// With less than this free, the log's shared index cannot be made.
    private static let leastUsefulSpace: UInt64 = 64 << 10

    private func unexplained(_ code: Int32) -> StorageError {
        let text = unsafe sqlite3_errmsg(handle).map { unsafe String(cString: $0) } ?? "error \(code)"
        return .catalogueFailed(path: path, code: code, text: text)
    }

    private static let fsyncFailed = SQLITE_IOERR | 4 << 8
    private static let directoryFsyncFailed = SQLITE_IOERR | 5 << 8

    /// The columns of one row, valid inside the closure that receives it.
    @safe struct Row: ~Copyable {
        fileprivate let statement: OpaquePointer

        fileprivate init(statement: OpaquePointer) { unsafe self.statement = statement }

        func integer(_ column: Int32) -> Int64 { unsafe sqlite3_column_int64(statement, column) }

        func bytes(_ column: Int32) -> [UInt8] {
            let count = Int(unsafe sqlite3_column_bytes(statement, column))
            guard count > 0, let start = unsafe sqlite3_column_blob(statement, column) else { return [] }
            return unsafe Array(UnsafeRawBufferPointer(start: start, count: count))
        }
    }
}
