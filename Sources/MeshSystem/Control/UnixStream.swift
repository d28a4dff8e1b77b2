import CMeshSystem
import Glibc

/// One control connection: lines in, bytes out, blocking. One thread reads and one may write; `close()` from any other
/// thread wakes both.
public final class UnixStream: Sendable {
    private let descriptor: Int32
    /// Rung once by `close`, never cleared: every later wait ends at once.
    private let bell: Int32
    private let reading = Lock(ReadState())
    private let isClosed = Lock(false)

    private struct ReadState {
        var buffered: [UInt8] = []
        /// Bytes of `buffered` already searched for a line's end.
        var searched = 0
    }

    /// Both descriptors are its own from now on.
    init(descriptor: Int32, bell: Int32) {
        self.descriptor = descriptor
        self.bell = bell
    }

    deinit {
        _ = mesh_close(descriptor)
        _ = mesh_close(bell)
    }

    /// Connects to a listening socket. Throws `socketAbsent` when nobody listens, `socketPathTooLong`.
    public convenience init(connectingTo path: String) throws(SystemError) {
        try SocketPath.check(path)
        let result = unsafe mesh_local_connect(path)
        switch -result {
        case ENOENT, ECONNREFUSED, ENOTDIR: throw .socketAbsent(path: path)
        case ENOTSOCK, EPROTOTYPE, EACCES: throw .socketForeign(path: path)
        default: break
        }
        let connected = try checked(result, "connect")
        let bell = mesh_bell_create()
        guard bell >= 0 else {
            _ = mesh_close(connected)
            throw .callFailed(call: "eventfd", errorNumber: -bell)
        }
        self.init(descriptor: connected, bell: bell)
    }

    /// The next line without its line feed; `nil` at the end. What follows the last line feed is a line too. Throws
    /// `lineTooLong` (close then) and `closed`. Nothing but the line is kept beyond 64 KiB.
    public func readLine(maximumBytes: Int) throws(SystemError) -> [UInt8]? {
        try reading.withLock { (state: inout ReadState) throws(SystemError) -> [UInt8]? in
            while true {
                if let end = state.buffered[state.searched...].firstIndex(of: 0x0a) {
                    guard end <= maximumBytes else { throw .lineTooLong(limit: maximumBytes) }
                    let line = Array(state.buffered[..<end])
                    state.buffered.removeSubrange(...end)
                    state.searched = 0
                    return line
                }
                state.searched = state.buffered.count
                guard state.buffered.count <= maximumBytes else { throw .lineTooLong(limit: maximumBytes) }
                if try fill(&state.buffered) { continue }
                guard !state.buffered.isEmpty else { return nil }
                defer { state = ReadState() }
                return state.buffered
            }
        }
    }

    /// Whether more bytes came; false at the end.
    private func fill(_ buffered: inout [UInt8]) throws(SystemError) -> Bool {
        var block = [UInt8](repeating: 0, count: 65_536)
        let got = unsafe mesh_local_read(descriptor, bell, &block, block.count)
        if got == -Int64(ECANCELED) { throw .closed }
        if got == -Int64(ECONNRESET) { return false }
        guard got >= 0 else { throw .callFailed(call: "recv", errorNumber: Int32(-got)) }
        buffered.append(contentsOf: block[..<Int(got)])
        return got > 0
    }

    /// Writes all of it, waiting for the reader. Throws `closed` when either end was closed.
    public func write(_ bytes: [UInt8]) throws(SystemError) {
        let put = unsafe mesh_local_write(descriptor, bell, bytes, bytes.count)
        switch Int32(truncatingIfNeeded: -min(put, 0)) {
        case 0: return
        case ECANCELED, EPIPE, ECONNRESET: throw .closed
        case let number: throw .callFailed(call: "send", errorNumber: number)
        }
    }

    public func write(line: String) throws(SystemError) { try write(Array((line + "\n").utf8)) }

    /// The process at the other end.
    public var peer: ProcessName? {
        var pid: Int32 = 0
        var user: UInt32 = 0
        guard unsafe mesh_local_peer(descriptor, &pid, &user) == 0 else { return nil }
        let command = SmallFile.read("/proc/\(pid)/comm") ?? ""
        return ProcessName(pid: pid, command: String(command.prefix { $0 != "\n" }))
    }

    /// Whether the other end has closed both directions, or is gone. A peer that only ended its sending side still reads.
    public var isPeerGone: Bool {
        var state = pollfd(fd: descriptor, events: 0, revents: 0)
        guard unsafe poll(&state, 1, 0) == 1 else { return false }
        return state.revents & Int16(POLLHUP | POLLERR | POLLNVAL) != 0
    }

    /// Ends the connection; blocked and later calls of any thread throw `closed`.
    public func close() {
        let isFirst = isClosed.withLock { closed in
            defer { closed = true }
            return !closed
        }
        guard isFirst else { return }
        mesh_bell_ring(bell)
        _ = shutdown(descriptor, Int32(SHUT_RDWR))
    }
}

/// Paths of Unix sockets.
public enum SocketPath {
    /// In bytes, without the final zero.
    public static var limit: Int { Int(mesh_local_path_limit()) }

    public static func check(_ path: String) throws(SystemError) {
        let count = path.utf8.count
        guard count <= limit, !path.utf8.contains(0) else {
            throw .socketPathTooLong(path: path, byteCount: count, limit: limit)
        }
    }
}
