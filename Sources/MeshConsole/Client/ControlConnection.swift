import Glibc
import MeshBase

/// One connection to a running node: a request, then the objects of the answer. Blocking, one thread.
public final class ControlConnection {
    public enum Event: Hashable, Sendable {
        /// Part of the answer.
        case object(JSONValue)
        /// The answer is whole.
        case done
        case failure(CommandFailure)
        /// Nothing came in the given time.
        case timedOut
    }

    /// The longest line a node may send: a listing of many attachments.
    public static let maximumLineBytes = 16 << 20

    public let nodeName: String
    public let descriptor: Int32
    private var framer = LineFramer(limit: ControlConnection.maximumLineBytes)
    private var lines: [LineFramer.Line] = []
    private var isEnded = false

    /// Connects to the socket at `path`; `nil` when nobody listens there.
    public init?(path: String, nodeName: String) {
        guard let descriptor = Self.connected(to: path) else { return nil }
        self.descriptor = descriptor
        self.nodeName = nodeName
    }

    /// Over a descriptor that is connected already.
    init(descriptor: Int32, nodeName: String) {
        self.descriptor = descriptor
        self.nodeName = nodeName
    }

    deinit { Glibc.close(descriptor) }

    private static func connected(to path: String) -> Int32? {
        guard path.utf8.count <= NodePaths.socketPathLimit else { return nil }
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { buffer in
            unsafe buffer.copyBytes(from: Array(path.utf8))
        }
        let result = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                unsafe connect(descriptor, generic, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            Glibc.close(descriptor)
            return nil
        }
        return descriptor
    }

    /// Sends one request. False when the node is gone.
    public func send(_ request: JSONValue) -> Bool {
        StandardStream.write(Array((request.text + "\n").utf8), to: descriptor) == 0
    }

    /// The next part of the answer, waited for at most `milliseconds` (negative: for ever).
    public func next(milliseconds: Int32) -> Event {
        let start = ProcessEnvironment.monotonicNanoseconds()
        while true {
            if let event = buffered() { return event }
            if isEnded { return .failure(gone) }
            let spent = Int32(clamping: (ProcessEnvironment.monotonicNanoseconds() - start) / 1_000_000)
            let left = milliseconds < 0 ? -1 : max(milliseconds - spent, 0)
            var wanted = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let ready = unsafe poll(&wanted, 1, left)
            if ready > 0 {
                fill()
            } else if ready == 0 {
                return .timedOut
            } else if errno != EINTR {
                isEnded = true
            }
        }
    }

    /// Reads what is there without waiting, for callers that poll `descriptor` themselves.
    public func available() -> [Event] {
        fill(flags: Int32(MSG_DONTWAIT))
        var events: [Event] = []
        while let event = buffered() { events.append(event) }
        if isEnded { events.append(.failure(gone)) }
        return events
    }

    private func fill(flags: Int32 = 0) {
        var block = [UInt8](repeating: 0, count: 65_536)
        let got = unsafe recv(descriptor, &block, block.count, flags)
        if got > 0 {
            lines += framer.receive(block.prefix(got))
        } else if got == 0 || (errno != EINTR && errno != EAGAIN) {
            isEnded = true
        }
    }

    private func buffered() -> Event? {
        guard !lines.isEmpty else { return nil }
        let line = lines.removeFirst()
        guard case .bytes(let bytes) = line else { return .failure(malformed("a line is too long")) }
        do throws(JSONError) {
            return event(try JSONValue.parse(bytes))
        } catch {
            return .failure(malformed("a line is not JSON"))
        }
    }

    private func event(_ value: JSONValue) -> Event {
        if value["schema"]?.stringValue == "starling/done/1" { return .done }
        return CommandFailure(json: value).map(Event.failure) ?? .object(value)
    }

    private var gone: CommandFailure {
        CommandFailure(
            code: "nodeGone", message: "\(nodeName) ended before it had answered", hint: "starling nodes",
            exit: .noSuchNode)
    }

    private func malformed(_ what: String) -> CommandFailure {
        CommandFailure(
            code: "protocol", message: "\(nodeName) sent what this starling does not understand: \(what)",
            hint: "run the same version: starling down -n \(nodeName), then starling up", exit: .failed)
    }
}
