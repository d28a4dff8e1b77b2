import Glibc
import MeshBase
import MeshProtocol
import MeshSystem

/// The node's local control channel: a Unix socket with mode 0600, JSON lines, one thread per client.
///
/// Only processes of this user reach it, and no verb starts a program; there is no TCP port that a web page could drive,
/// and a line that is no request ends the connection, so that nothing hides behind a foreign protocol's header (AB-88,
/// AB-89). Reading and writing block the client's own thread, never the node's loop.
final class ControlServer: Sendable {
    private let listener: UnixListener
    private let inbox: Inbox
    private let clientCount = Lock<Int>(0)

    static let maximumClients = 64
    /// A message of 256 KiB, every byte escaped as `\u0000`, fits.
    static let maximumRequestBytes = 2 << 20

    init(path: String, inbox: Inbox) throws(SystemError) {
        listener = try UnixListener(path: path)
        self.inbox = inbox
    }

    func start() throws(SystemError) {
        _ = try SystemThread(name: "starling-control") { [self] in
            while true {
                switch accept() {
                case .stream(let stream): serve(stream)
                case .nothing: usleep(Self.acceptPauseMicroseconds)
                case .end: return
                }
            }
        }
    }

    /// Removes the socket and wakes the accepting thread.
    func stop() { listener.close() }

    private enum Arrival {
        case stream(UnixStream)
        /// The system refused, for want of descriptors or memory: that passes.
        case nothing
        case end
    }

    private static let acceptPauseMicroseconds: UInt32 = 100_000

    private func accept() -> Arrival {
        do throws(SystemError) {
            return .stream(try listener.accept())
        } catch {
            return error == .closed ? .end : .nothing
        }
    }

    private func serve(_ stream: UnixStream) {
        let isWelcome = clientCount.withLock { count -> Bool in
            guard count < Self.maximumClients else { return false }
            count += 1
            return true
        }
        guard isWelcome else {
            let text = "\(Self.maximumClients) control clients are connected"
            write(NodeError("queueFull", text, hint: "close some of them", exit: 1).json, to: stream)
            return stream.close()
        }
        do throws(SystemError) {
            _ = try SystemThread(name: "starling-client") { [self] in
                handleRequests(of: stream)
                stream.close()
                clientCount.withLock { $0 -= 1 }
            }
        } catch {
            stream.close()
            clientCount.withLock { $0 -= 1 }
        }
    }

    /// False when the client is gone.
    @discardableResult
    private func write(_ object: JSONValue, to stream: UnixStream) -> Bool {
        do throws(SystemError) {
            try stream.write(Array((object.text + "\n").utf8))
            return true
        } catch {
            return false
        }
    }

    private func handleRequests(of stream: UnixStream) {
        while true {
            do throws(SystemError) {
                guard let line = try stream.readLine(maximumBytes: Self.maximumRequestBytes) else { return }
                guard answer(line, on: stream) else { return }
            } catch {
                let text = "the request line is longer than \(Self.maximumRequestBytes) bytes, or unreadable"
                write(NodeError.usage(text, hint: "one JSON object a line").json, to: stream)
                return
            }
        }
    }

    /// Answers one request; false when the client is gone or speaks something else. While an endless answer is quiet,
    /// the client's hang-up is looked for once a second.
    private func answer(_ line: [UInt8], on stream: UnixStream) -> Bool {
        let queue = ReplyQueue()
        let reply = ControlReply { queue.append($0) }
        let isRequest = submit(line, reply)
        while true {
            switch queue.next(within: 1) {
            case .end: return isRequest
            case .nothing:
                if stream.isPeerGone {
                    reply.abandon()
                    return false
                }
            case .object(let object):
                if !write(object, to: stream) {
                    reply.abandon()
                    return false
                }
            }
        }
    }

    /// False when the line is not JSON.
    private func submit(_ line: [UInt8], _ reply: ControlReply) -> Bool {
        let request: JSONValue
        do throws(JSONError) {
            request = try JSONValue.parse(line)
        } catch {
            reply.fail(.usage("the request is not valid JSON", hint: "one JSON object a line"))
            return false
        }
        guard request["verb"]?.stringValue != nil else {
            reply.fail(.usage("a request is an object with a verb", hint: "{\"verb\":\"status\"}"))
            return true
        }
        do throws(CommandError) {
            try inbox.append(.call(ControlCall(request: request, reply: reply)))
        } catch {
            reply.fail(NodeError(error))
        }
        return true
    }
}
