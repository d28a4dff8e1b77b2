import Glibc
import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// A whole node in this process: its own event loop, sockets on loopback and store on disk.
final class LocalNode: Sendable {
    let node: Node
    let loop: EventLoop
    let directory: String
    private let boot: NodeBoot
    private let threads: [StorageThread]
    private let storage: DiskStorage

    init(name: String) throws {
        directory = try Self.temporaryDirectory()
        let clock = MonotonicClock()
        loop = try EventLoop(clock: clock)
        let socket = try DatagramSocket(
            options: TransportOptions(port: 0, bindAddresses: [.loopback(port: 0)], discovery: false), clock: clock,
            loop: loop)
        storage = try DiskStorage(path: directory)
        threads = try [StorageThread(), StorageThread(), StorageThread()]
        boot = try NodeBoot.load(storage: storage, entropy: SystemEntropy())
        var configuration = NodeConfiguration(name: name)
        configuration.session.isDiscoveryEnabled = false
        configuration.journal.maximumAttachmentBytes = 4 << 30
        configuration.journal.maximumFetchBytes = 4 << 30
        node = Node(
            configuration: configuration,
            environment: Environment(
                clock: clock, entropy: SystemEntropy(), transport: socket, storage: storage, executor: loop),
            queues: StorageQueues(prompt: threads[0], contents: threads[1], files: threads[2]), boot: boot,
            wallClock: { 0 })
        try loop.start()
    }

    func run(_ start: NodeStart) async {
        await node.run(start, boot: boot)
    }

    /// After `run` has returned; not from the node's own loop.
    func close() {
        storage.interrupt()
        for thread in threads.reversed() { thread.stop() }
        storage.close()
        loop.stop()
        _ = try? FileTree.remove(directory)  // Left behind in the temporary directory at worst.
    }

    /// The first object of a verb's answer; throws what the node refuses with.
    func ask(_ request: JSONValue) async throws -> JSONValue {
        let answer = Answer()
        let reply = ControlReply { answer.take($0) }
        try node.submit(ControlCall(request: request, reply: reply))
        return try await answer.value()
    }

    /// Objects of an endless answer, as they come, on the node's thread.
    func follow(_ request: JSONValue, _ body: @escaping @Sendable (JSONValue) -> Void) throws {
        let reply = ControlReply { item in
            if case .object(let object) = item { body(object) }
            return true
        }
        try node.submit(ControlCall(request: request, reply: reply))
    }

    func invite() async throws -> Ticket {
        guard let text = try await ask(["verb": "invite"])["invite"]?.stringValue else {
            throw BenchmarkFailure("no invite")
        }
        return try Ticket(text: text)
    }

    private static func temporaryDirectory() throws -> String {
        var template = Array("/tmp/starling-benchmark-XXXXXX\0".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw BenchmarkFailure("no temporary directory") }
        return String(decoding: template.dropLast().prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// The one answer of a request, handed from the node's thread to the asking task.
private final class Answer: Sendable {
    private let stream: AsyncThrowingStream<JSONValue, any Error>
    private let continuation: AsyncThrowingStream<JSONValue, any Error>.Continuation

    init() {
        (stream, continuation) = AsyncThrowingStream.makeStream(bufferingPolicy: .bufferingNewest(64))
    }

    func take(_ item: ControlReply.Item) -> Bool {
        switch item {
        case .end(let closing):
            let isFailure = closing["schema"]?.stringValue == "starling/error/1"
            continuation.finish(throwing: isFailure ? BenchmarkFailure(closing.text) : nil)
        case .later(let make): continuation.yield(make())
        case .object(let object):
            if object["schema"]?.stringValue != "starling/progress/1" { continuation.yield(object) }
        }
        return true
    }

    func value() async throws -> JSONValue {
        for try await value in stream { return value }
        throw BenchmarkFailure("no answer")
    }
}

enum FileTree {
    /// Removes a directory of files and directories; never follows links.
    static func remove(_ path: String) throws {
        guard let directory = unsafe opendir(path) else { throw BenchmarkFailure("cannot read \(path)") }
        defer { unsafe closedir(directory) }
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard name != ".", name != ".." else { continue }
            let child = "\(path)/\(name)"
            if unsafe entry.pointee.d_type == UInt8(DT_DIR) { try remove(child) } else { _ = unsafe unlink(child) }
        }
        _ = unsafe rmdir(path)
    }
}

/// `count` nodes in one mesh, run until `body` returns.
func withMesh<Value: Sendable>(
    _ count: Int, _ body: @escaping @Sendable ([LocalNode]) async throws -> Value
) async throws -> Value {
    let nodes = try (0..<count).map { try LocalNode(name: "node\($0)") }
    defer { for node in nodes { node.close() } }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        defer { for node in nodes { node.node.stop() } }
        group.addTask(executorPreference: nodes[0].loop) { await nodes[0].run(.found(label: "benchmark")) }
        let ticket = try await nodes[0].invite()
        for node in nodes.dropFirst() {
            group.addTask(executorPreference: node.loop) { await node.run(.join(ticket, extraAddresses: [])) }
        }
        for node in nodes { try await meets(count - 1, node) }
        let value = try await body(nodes)
        for node in nodes { node.node.stop() }
        try await group.waitForAll()
        return value
    }
}

/// Waits until the node has a link to `count` others.
func meets(_ count: Int, _ node: LocalNode) async throws {
    try await until(seconds: 20, interval: .milliseconds(5), "the mesh did not form") {
        let links = try await node.ask(["verb": "links"])
        return (links["links"]?.arrayValue?.count ?? 0) >= count
    }
}
