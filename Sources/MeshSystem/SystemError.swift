public import MeshBase

/// Why the operating system did not do what was asked. `message` and `hint` make text of it.
public enum SystemError: Error, Hashable, Sendable {
    /// An explicitly chosen port is taken (MEM-20).
    case portInUse(port: UInt16, holder: ProcessName?)
    /// A port below 1024 without the right to it.
    case portForbidden(port: UInt16)
    /// Every port of the range was taken.
    case noFreePort(first: UInt16, last: UInt16)
    /// An address to bind to that no interface has.
    case addressUnavailable(SocketAddress)
    /// The kernel's generator gave nothing. Nothing may run.
    case entropyUnavailable(errorNumber: Int32)
    /// A control socket's path does not fit the kernel's limit (CLI-07); lengths in bytes.
    case socketPathTooLong(path: String, byteCount: Int, limit: Int)
    /// Another process answers on this control socket (CLI-08).
    case socketInUse(path: String)
    /// The file belongs to somebody else, or is no socket; it is left alone (CLI-08).
    case socketForeign(path: String)
    /// Nothing listens there.
    case socketAbsent(path: String)
    /// A line longer than the reader allows, in bytes.
    case lineTooLong(limit: Int)
    /// The other end, or another thread of this process, closed it.
    case closed
    /// Any other refusal of a system call.
    case callFailed(call: String, errorNumber: Int32)
}

/// A process that holds something wanted.
public struct ProcessName: Hashable, Sendable {
    public var pid: Int32
    /// The command's short name; may be empty.
    public var command: String

    public init(pid: Int32, command: String) {
        self.pid = pid
        self.command = command
    }
}
