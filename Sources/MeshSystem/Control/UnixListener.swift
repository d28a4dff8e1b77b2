import CMeshSystem
import Glibc

/// A control socket (0600) that accepts connections, blocking. `close()` from another thread wakes a blocked `accept`
/// and removes the file.
public final class UnixListener: Sendable {
    public let path: String
    private let descriptor: Int32
    private let bell: Int32
    /// Which file is ours: somebody may have put another in its place.
    private let inode: UInt64
    private let isClosed = Lock(false)

    /// A socket file that nobody answers is removed first; one that is answered, or is somebody else's, is left alone
    /// (CLI-08). Throws `socketPathTooLong` (CLI-07), `socketInUse`, `socketForeign` or `callFailed`.
    public init(path: String) throws(SystemError) {
        try SocketPath.check(path)
        self.path = path
        var result = unsafe mesh_local_listen(path, 16)
        if result == -EADDRINUSE {
            try Self.removeStale(path)
            result = unsafe mesh_local_listen(path, 16)
        }
        if result == -EACCES || result == -EPERM { throw .socketForeign(path: path) }
        let listening = try checked(result, "bind")
        let ring = mesh_bell_create()
        guard ring >= 0 else {
            _ = mesh_close(listening)
            throw .callFailed(call: "eventfd", errorNumber: -ring)
        }
        descriptor = listening
        bell = ring
        inode = Self.inode(of: path) ?? 0
    }

    deinit {
        close()
        _ = mesh_close(descriptor)
        _ = mesh_close(bell)
    }

    private static func removeStale(_ path: String) throws(SystemError) {
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFSOCK, information.st_uid == geteuid() else {
            throw .socketForeign(path: path)
        }
        let probe = unsafe mesh_local_connect(path)
        if probe >= 0 { _ = mesh_close(probe) }
        // Only a refusal proves that nobody listens; a full queue (EAGAIN) or a missing right does not.
        guard probe == -ECONNREFUSED || probe == -ENOENT else { throw .socketInUse(path: path) }
        _ = unsafe unlink(path)
    }

    private static func inode(of path: String) -> UInt64? {
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return nil }
        return UInt64(information.st_ino)
    }

    /// The next connection, waited for. Throws `closed` after `close()`. For want of descriptors it throws `callFailed`,
    /// and who wanted to connect still waits: what a connection needs beside itself is made before it is taken.
    public func accept() throws(SystemError) -> UnixStream {
        let streamBell = try checked(mesh_bell_create(), "eventfd")
        let result = mesh_local_accept(descriptor, bell)
        guard result >= 0 else {
            _ = mesh_close(streamBell)
            throw result == -ECANCELED ? .closed : .callFailed(call: "accept", errorNumber: -result)
        }
        return UnixStream(descriptor: result, bell: streamBell)
    }

    /// Ends accepting and removes the file, if it is still ours. Any thread; more than once does nothing.
    public func close() {
        let isFirst = isClosed.withLock { closed in
            defer { closed = true }
            return !closed
        }
        guard isFirst else { return }
        mesh_bell_ring(bell)
        if Self.inode(of: path) == inode { _ = unsafe unlink(path) }
    }
}
