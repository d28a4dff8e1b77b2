import Glibc
import MeshBase
import MeshSystem

/// Node processes of the `starling` binary beside this one, in one mesh on loopback.
final class NodeProcesses {
    private let root: String
    private var pids: [pid_t] = []
    private let count: Int

    init(count: Int) throws {
        self.count = count
        var template = Array("/tmp/starling-mesh-XXXXXX\0".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw BenchmarkFailure("no temporary directory") }
        root = String(decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        try start(0, arguments: ["up", "--mesh", "benchmark"], input: nil)
        let invite = try waitForInvite()
        for index in 1..<count { try start(index, arguments: ["join", "-"], input: invite) }
    }

    deinit { stop() }

    func stop() {
        for pid in pids where pid > 0 { _ = Glibc.kill(pid, SIGKILL) }
        for pid in pids where pid > 0 { _ = waitpid(pid, nil, 0) }
        pids = []
        _ = try? FileTree.remove(root)  // Left behind in the temporary directory at worst.
    }

    func kill(_ index: Int) {
        _ = Glibc.kill(pids[index], SIGKILL)
        _ = waitpid(pids[index], nil, 0)
        pids[index] = 0
    }

    /// Stops a process without ending it; `stop()` ends it all the same.
    func freeze(_ index: Int) { _ = Glibc.kill(pids[index], SIGSTOP) }

    /// Starts one more process, which joins; its index. It need not be up yet.
    func add() throws -> Int {
        try start(pids.count, arguments: ["join", "-"], input: try waitForInvite())
        return pids.count - 1
    }

    /// A connection that tells each message from now on.
    func follow(_ index: Int) throws -> UnixStream {
        let stream = try UnixStream(connectingTo: socketPath(index))
        try stream.write(line: (["verb": "inbox", "follow": true, "backlog": false] as JSONValue).text)
        // Requests of one node are taken in order: once this one is answered, the inbox is followed.
        _ = try ask(index, ["verb": "clock"])
        return stream
    }

    /// Hands over one message; does not wait for its delivery.
    func send(_ index: Int, _ text: String) throws {
        let stream = try UnixStream(connectingTo: socketPath(index))
        defer { stream.close() }
        try stream.write(line: (["verb": "send", "text": .string(text), "timeoutSeconds": 60] as JSONValue).text)
    }

    /// Hands over one message as soon as the node takes it.
    func sendWhenUp(_ index: Int, _ text: String) throws {
        for _ in 0..<20_000 {
            let answer = try? ask(index, ["verb": "send", "text": .string(text), "timeoutSeconds": 60])
            if answer?["schema"]?.stringValue == "starling/send/1" { return }
            usleep(500)
        }
        throw BenchmarkFailure("node \(index) never took a message")
    }

    func waitUntilMeshed() async throws {
        for index in 0..<count {
            try await until(seconds: 60, interval: .milliseconds(20), "the mesh did not form") {
                let links = try? self.ask(index, ["verb": "links"])
                return (links?["links"]?.arrayValue?.count ?? 0) == self.count - 1
            }
        }
    }

    func deadCount(_ index: Int) throws -> Int {
        let peers = try ask(index, ["verb": "peers"])["peers"]?.arrayValue ?? []
        return peers.count { $0["state"]?.stringValue == "dead" }
    }

    /// User and system time of each process so far.
    func processorSeconds() throws -> [Double] {
        try pids.map { pid in
            let fields = try statistics(pid, "stat").split(separator: ")").last?.split(separator: " ") ?? []
            guard fields.count > 13, let user = Double(fields[11]), let system = Double(fields[12]) else {
                throw BenchmarkFailure("no processor time")
            }
            return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
        }
    }

    func residentBytes() throws -> [Double] {
        try pids.map { pid in
            let line = try statistics(pid, "status").split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
            guard let kilobytes = line.split(separator: " ").dropLast().last.flatMap({ Double($0) }) else {
                throw BenchmarkFailure("no memory figure")
            }
            return kilobytes * 1024
        }
    }

    private func statistics(_ pid: pid_t, _ name: String) throws -> String {
        try TextFile.read("/proc/\(pid)/\(name)")
    }

    private func ask(_ index: Int, _ request: JSONValue) throws -> JSONValue {
        let stream = try UnixStream(connectingTo: socketPath(index))
        defer { stream.close() }
        try stream.write(line: request.text)
        guard let line = try stream.readLine(maximumBytes: 1 << 22) else { throw BenchmarkFailure("no answer") }
        return try JSONValue.parse(line)
    }

    private func socketPath(_ index: Int) -> String { "\(root)/run/starling/node\(index).sock" }

    private func waitForInvite() throws -> String {
        for _ in 0..<500 {
            if let text = try? ask(0, ["verb": "invite"])["invite"]?.stringValue { return text }
            usleep(10_000)
        }
        throw BenchmarkFailure("the first node did not start")
    }

    private func start(_ index: Int, arguments: [String], input: String?) throws {
        let binary = String(CommandLine.arguments[0].dropLast("-benchmark".count))
        let all = [binary] + arguments + ["--name", "node\(index)", "--bind", "127.0.0.1", "--no-discovery"]
        var pipes: [Int32] = [0, 0]
        guard unsafe pipe(&pipes) == 0 else { throw BenchmarkFailure("no pipe") }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_adddup2(&actions, pipes[0], 0)
        unsafe posix_spawn_file_actions_addclose(&actions, pipes[1])
        unsafe posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 2, "\(root)/node\(index).log", O_WRONLY | O_CREAT, 0o600)
        let environment = [
            "XDG_STATE_HOME=\(root)/state", "XDG_RUNTIME_DIR=\(root)/run", "HOME=\(root)", "PATH=/usr/bin:/bin",
        ]
        _ = unsafe mkdir("\(root)/run", 0o700)
        var pid = pid_t()
        let result = unsafe withCStrings(all) { arguments in
            unsafe withCStrings(environment) { environment in
                unsafe posix_spawn(&pid, binary, &actions, nil, arguments, environment)
            }
        }
        close(pipes[0])
        if let input {
            let bytes = Array((input + "\n").utf8)
            _ = unsafe write(pipes[1], bytes, bytes.count)
        }
        close(pipes[1])
        guard result == 0 else { throw BenchmarkFailure("cannot start \(binary) (errno \(result)); build it first") }
        pids.append(pid)
    }
}

/// Small files of `/proc`.
enum TextFile {
    static func read(_ path: String) throws -> String {
        guard let file = unsafe fopen(path, "r") else { throw BenchmarkFailure("\(path) cannot be read") }
        defer { unsafe fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}

/// Null-terminated C strings for one call.
private func withCStrings<Result>(
    _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var pointers = unsafe strings.map { unsafe strdup($0) } + [nil]
    defer { unsafe pointers.forEach { unsafe free($0) } }
    return unsafe pointers.withUnsafeMutableBufferPointer { unsafe body($0.baseAddress!) }
}
