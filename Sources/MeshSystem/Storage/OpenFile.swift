import CMeshSystem
import Glibc
import MeshBase

/// An open descriptor that closes itself, with the path for messages.
final class OpenFile: Sendable {
    let descriptor: Int32
    let path: String

    private init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { _ = mesh_close(descriptor) }

    /// `flags` without O_CLOEXEC, which is always added. New files are private to the user.
    init(_ path: String, flags: Int32) throws(StorageError) {
        guard !path.utf8.contains(0) else { throw .notFound(path: path) }
        var descriptor: Int32
        repeat {
            descriptor = unsafe open(path, flags | O_CLOEXEC | O_NOCTTY, 0o600)
        } while descriptor < 0 && errno == EINTR
        guard descriptor >= 0 else { throw .system(errno, "open", path: path) }
        self.descriptor = descriptor
        self.path = path
    }

    /// A file in an open folder, never through a link.
    init(name: String, in folder: OpenFile, flags: Int32) throws(StorageError) {
        let path = folder.path + "/" + name
        let descriptor = unsafe openat(folder.descriptor, name, flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .system(errno, "openat", path: path) }
        self.descriptor = descriptor
        self.path = path
    }

    /// Reads at `offset` until `buffer` is full or the file ends. The bytes read.
    func read(into buffer: inout [UInt8], at offset: UInt64) throws(StorageError) -> Int {
        var done = 0
        while done < buffer.count {
            let got = unsafe buffer.withUnsafeMutableBytes { bytes in
                unsafe pread(
                    descriptor, bytes.baseAddress! + done, bytes.count - done,
                    off_t(clamping: offset + UInt64(done)))
            }
            if got < 0 && errno == EINTR { continue }
            guard got >= 0 else { throw .system(errno, "read", path: path) }
            if got == 0 { break }
            done += got
        }
        return done
    }

    /// Writes all of `bytes`; a short write goes on where it stopped.
    func write(_ bytes: Span<UInt8>, at offset: UInt64, _ operations: any FileOperations) throws(StorageError) {
        var done = 0
        while done < bytes.count {
            let rest = bytes.extracting(done..<bytes.count)
            let put = operations.write(descriptor, rest, at: offset + UInt64(done))
            if put == -Int(EINTR) { continue }
            guard put > 0 else { throw .system(Int32(put == 0 ? Int(ENOSPC) : -put), "write", path: path) }
            done += put
        }
    }

    func status() throws(StorageError) -> FileStatus {
        var information = stat()
        guard unsafe fstat(descriptor, &information) == 0 else { throw .system(errno, "fstat", path: path) }
        return FileStatus(information)
    }
}

/// What tells one state of a file from another.
struct FileStatus {
    var device: UInt64
    var inode: UInt64
    var byteCount: UInt64
    var allocatedByteCount: UInt64
    var modified: Int64
    var changed: Int64
    var kind: FileKind?

    /// `kind` is `nil` for a regular file.
    init(_ information: stat) {
        device = UInt64(information.st_dev)
        inode = UInt64(information.st_ino)
        byteCount = UInt64(clamping: information.st_size)
        allocatedByteCount = UInt64(clamping: information.st_blocks) &* 512
        modified = Self.nanoseconds(information.st_mtim)
        changed = Self.nanoseconds(information.st_ctim)
        kind =
            switch information.st_mode & S_IFMT {
            case S_IFREG: nil
            case S_IFDIR: .directory
            case S_IFIFO: .pipe
            case S_IFSOCK: .socket
            case S_IFCHR, S_IFBLK: .device
            default: .other
            }
    }

    /// Whether nothing was written in between, as far as the file system can tell. Allocated blocks do not count: they
    /// may follow a write much later.
    func isUnchanged(since earlier: FileStatus) -> Bool {
        device == earlier.device && inode == earlier.inode && byteCount == earlier.byteCount
            && modified == earlier.modified && changed == earlier.changed
    }

    /// Follows links. Throws `notFound`, `permissionDenied` or `notAFile(.linkLoop)`.
    init(path: String) throws(StorageError) {
        guard !path.isEmpty, !path.utf8.contains(0) else { throw .notFound(path: path) }
        var information = stat()
        guard unsafe stat(path, &information) == 0 else { throw .system(errno, "stat", path: path) }
        self.init(information)
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
