import Glibc
import MeshBase
import MeshSystem
import Testing

@testable import MeshNode

/// The control socket with clients that do not behave.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ControlServerTests {
    /// A server in a directory of its own, and a thread in the node's place that answers each request with its verb.
    private final class Fixture: Sendable {
        let path: String
        private let folder: String
        private let server: ControlServer
        private let inbox: Inbox
        private let isOver = Lock(false)
        let verbs = Lock<[String]>([])

        init() throws {
            var template = Array("/tmp/starling-control-XXXXXX".utf8CString)
            _ = unsafe mkdtemp(&template)
            folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            path = folder + "/ana.sock"
            inbox = Inbox(executor: try EventLoop(clock: MonotonicClock()))
            server = try ControlServer(path: path, inbox: inbox)
            try server.start()
            _ = try SystemThread(name: "test-node") { [self] in
                while !isOver.withLock({ $0 }) {
                    for case .call(let call) in inbox.takeAll() {
                        verbs.withLock { $0.append(call.verb) }
                        if call.verb == "follow" {
                            call.reply.send(["schema": "starling/first/1"])
                        } else {
                            call.reply.answer(["schema": "starling/answer/1", "verb": .string(call.verb)])
                        }
                    }
                    usleep(1_000)
                }
            }
        }

        func end() {
            isOver.withLock { $0 = true }
            server.stop()
            unsafe unlink(path)
            unsafe rmdir(folder)
        }

        /// Asks as an ordinary client does; `nil` when there is no proper answer.
        func ask(_ verb: String) -> String? {
            guard let stream = try? UnixStream(connectingTo: path) else { return nil }
            defer { stream.close() }
            try? stream.write(line: "{\"verb\":\"\(verb)\"}")
            let line = try? stream.readLine(maximumBytes: 10_000)
            return line.flatMap { $0 }.flatMap { try? JSONValue.parse($0) }?["verb"]?.stringValue
        }
    }

    @Test(arguments: ["at once", "in the middle of a line", "after a request", "while it follows", "after a long line"])
    func `AB-12 a client that goes away at any step gives its place back`(step: String) throws {
        let fixture = try Fixture()
        defer { fixture.end() }

        for round in 0..<(ControlServer.maximumClients + 36) {
            let stream = try UnixStream(connectingTo: fixture.path)
            switch step {
            case "in the middle of a line": try stream.write(Array("{\"verb\":".utf8))
            case "after a request": try stream.write(line: "{\"verb\":\"status\"}")
            case "while it follows":
                try stream.write(line: "{\"verb\":\"follow\"}")
                // Its place is looked for once a second while nothing is said: no more than there are places at once.
                if round >= ControlServer.maximumClients / 2 { stream.close(); continue }
                _ = try stream.readLine(maximumBytes: 10_000)
            case "after a long line": try? stream.write([UInt8](repeating: 0x61, count: 100_000))
            default: break
            }
            stream.close()
            usleep(2_000)
        }

        var answer: String?
        for _ in 0..<50 where answer == nil {
            answer = fixture.ask("status")
            if answer == nil { usleep(100_000) }
        }
        #expect(answer == "status", "\(step): no place is left")
    }

    @Test func `AB-89 a request of a web page is refused, and nothing in it is carried out`() throws {
        let fixture = try Fixture()
        defer { fixture.end() }
        let body = "{\"verb\":\"down\"}\n"
        for head in ["GET / HTTP/1.1", "POST / HTTP/1.1", "PUT /{\"verb\":\"down\"} HTTP/1.0", "OPTIONS * HTTP/1.1"] {
            let stream = try UnixStream(connectingTo: fixture.path)
            defer { stream.close() }
            let text = "\(head)\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\n\(body)"
            try stream.write(Array(text.utf8))

            let line = try #require(try stream.readLine(maximumBytes: 10_000))
            #expect(try JSONValue.parse(line)["code"]?.stringValue == "usage")
            #expect((try? stream.readLine(maximumBytes: 10_000)).flatMap { $0 } == nil, "hung up after the first line")
        }

        #expect(fixture.ask("status") == "status")
        #expect(fixture.verbs.withLock { $0 } == ["status"])
    }
}
