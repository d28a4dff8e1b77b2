import Glibc
import MeshBase
import MeshSystem

/// Round trips of a small reliable message between two nodes that run already, wherever they are: each is reached by its
/// control socket, so they may live in network namespaces of their own, with an impaired path between them.
struct PathRoundTrip {
    /// Control sockets of the two nodes.
    var first: String
    var second: String

    /// A message of 64 bytes there, one back, a pause of 2 ms.
    func run(runs: Int) throws -> BenchmarkResult {
        let (here, there) = (try Listener(first), try Listener(second))
        var samples: [Double] = []
        for run in 0..<runs {
            let text = "\(run) ".padded(to: 64)
            let start = Machine.seconds()
            try here.send(text)
            try there.wait(for: text)
            try there.send(text)
            try here.wait(for: text)
            samples.append((Machine.seconds() - start) * 1e3)
            usleep(2000)
        }
        return BenchmarkResult(name: "path-round-trip", unit: "ms", samples: samples)
    }

    /// One node's control socket: an endless `inbox`, and a connection for each message.
    private struct Listener {
        let path: String
        let inbox: UnixStream

        init(_ path: String) throws {
            self.path = path
            inbox = try UnixStream(connectingTo: path)
            let request: JSONValue = ["verb": "inbox", "follow": true, "backlog": false]
            try inbox.write(line: request.text)
            // Requests of one node are taken in order: once this one is answered, the inbox is followed.
            let clock = try UnixStream(connectingTo: path)
            defer { clock.close() }
            try clock.write(line: (["verb": "clock"] as JSONValue).text)
            _ = try clock.readLine(maximumBytes: 1 << 20)
        }

        func send(_ text: String) throws {
            let stream = try UnixStream(connectingTo: path)
            defer { stream.close() }
            let request: JSONValue = ["verb": "send", "text": .string(text), "timeoutSeconds": 60]
            try stream.write(line: request.text)
        }

        func wait(for text: String) throws {
            while let line = try inbox.readLine(maximumBytes: 1 << 20) {
                if try JSONValue.parse(line)["text"]?.stringValue == text { return }
            }
            throw BenchmarkFailure("the node at \(path) has ended")
        }
    }
}

extension String {
    fileprivate func padded(to count: Int) -> String {
        self + String(repeating: "x", count: max(0, count - utf8.count))
    }
}
