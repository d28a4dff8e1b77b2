public import MeshBase

/// Why the store refused. Each case carries the facts a message needs; sizes in bytes.
public enum StorageError: Error, Hashable, Sendable {
    /// Another process uses this state directory.
    case inUse(path: String, pid: Int32?)
    /// The file system has no room. `needed` and `available` where known.
    case noSpace(path: String, needed: UInt64?, available: UInt64?)
    case readOnly(path: String)
    case permissionDenied(path: String)
    case notFound(path: String)
    /// Neither the folder to write into nor the one above it is there.
    case noDirectory(path: String)
    /// What should be a folder to write into is something else.
    case notADirectory(path: String)
    /// Not a regular file: a folder, pipe, socket, device or a loop of links (ATT-18).
    case notAFile(path: String, kind: FileKind)
    case tooLarge(path: String, byteCount: UInt64, limit: UInt64)
    /// The source changed while it was read (ATT-22).
    case fileChanged(path: String)
    /// A file of other content has that name already.
    case exists(path: String)
    /// No content of that id is here, or not all of it.
    case unknownContent(ContentID)
    case incompleteContent(ContentID)
    /// A chunk index or length that the content does not have.
    case invalidChunk(ContentID, index: UInt64)
    /// Bytes on disk are not what was stored (AB-79).
    case corrupt(path: String)
    /// The catalogue was written by a newer version; it was left alone.
    case newerSchema(path: String, found: Int, supported: Int)
    /// A sync failed: what was written may be gone. The store takes nothing more (AB-80).
    case syncFailed(path: String, errorNumber: Int32)
    /// Used after `close()` or after a failed sync.
    case stopped
    /// Any other error of the operating system.
    case callFailed(call: String, path: String, errorNumber: Int32)
    /// An error of the catalogue's database, with SQLite's own text.
    case catalogueFailed(path: String, code: Int32, text: String)
}

/// What stands where a regular file was expected.
public enum FileKind: String, Hashable, Sendable {
    case directory
    case pipe
    case socket
    case device
    case linkLoop
    case other
}
