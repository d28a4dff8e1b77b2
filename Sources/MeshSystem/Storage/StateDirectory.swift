import CMeshSystem
import Glibc

/// A node's state directory, held by one process.
final class StateDirectory: Sendable {
    let path: String
    private let lock: OpenFile

    /// Makes the directory (0700) and its parents if needed, and takes its lock. Throws `inUse` with the holder's pid.
    init(path: String) throws(StorageError) {
        self.path = path
        try Self.makeDirectory(path)
        try Self.makeDirectory(path + "/contents")
        lock = try OpenFile(path + "/lock", flags: O_RDWR | O_CREAT)
        let result = mesh_lock_file(lock.descriptor)
        guard result == 0 else {
            guard result == -EWOULDBLOCK else { throw .system(-result, "flock", path: lock.path) }
            throw .inUse(path: path, pid: Self.holder(lock.path))
        }
        _ = ftruncate(lock.descriptor, 0)
        try lock.write(Array("\(getpid())\n".utf8).span, at: 0, LinuxFileOperations())
    }

    /// Said outright: a child process that is just being started may still share the descriptor, and the lock with it.
    deinit { mesh_unlock_file(lock.descriptor) }

    /// Whether a process of this machine holds the directory's lock now. False where there is none.
    static func isHeld(_ path: String) -> Bool {
        guard let file = try? OpenFile(path + "/lock", flags: O_RDWR) else { return false }
        defer { mesh_unlock_file(file.descriptor) }
        return mesh_lock_file(file.descriptor) == -EWOULDBLOCK
    }

    /// Removes what a store made in `path`, and `path` itself when a log at most is left in it. Does nothing while a
    /// process holds it.
    static func remove(_ path: String) {
        // Held until the end, so that no other start finds half of it.
        guard let directory = try? StateDirectory(path: path) else { return }
        withExtendedLifetime(directory) {
            for name in DirectoryListing.names(path + "/contents") { _ = unsafe unlink(path + "/contents/" + name) }
            _ = unsafe rmdir(path + "/contents")
            for name in DirectoryListing.names(path) where name.hasPrefix("catalogue.sqlite") || name == "lock" {
                _ = unsafe unlink(path + "/" + name)
            }
            if DirectoryListing.names(path) == ["log"] { _ = unsafe unlink(path + "/log") }
            _ = unsafe rmdir(path)
        }
    }

    private static func holder(_ path: String) -> Int32? {
        SmallFile.read(path).flatMap { text in Int32(text.prefix { $0 != "\n" }) }
    }

    /// An existing directory keeps its mode: it may be one the user chose.
    private static func makeDirectory(_ path: String) throws(StorageError) {
        if unsafe mkdir(path, 0o700) == 0 { return }
        let error = errno
        if error == ENOENT, let slash = path.lastIndex(of: "/"), slash != path.startIndex {
            try makeDirectory(String(path[..<slash]))
            guard unsafe mkdir(path, 0o700) == 0 else { throw .system(errno, "mkdir", path: path) }
            return
        }
        let status = try? FileStatus(path: path)
        guard let status, error == EEXIST || status.kind == .directory else {
            throw .system(error, "mkdir", path: path)
        }
        guard status.kind == .directory else { throw .notAFile(path: path, kind: status.kind ?? .other) }
    }
}
