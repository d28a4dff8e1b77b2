import Foundation
import Glibc
import Testing

/// The scenarios: real processes of the built command on 127.0.0.1, one test at a time. What they wait for is bounded
/// by deadlines of its own; what they start is ended by process id. Under a sanitizer the command has it too, and a
/// report of any of its processes is an issue of the test.
@Suite(.serialized) struct Scenarios {}

/// The built command, beside the test bundle.
enum Command {
    static let path: String = {
        if let path = ProcessInfo.processInfo.environment["STARLING"] { return path }
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? "/proc/self/exe"
        let directory = URL(filePath: bundle).resolvingSymlinksInPath().deletingLastPathComponent()
        return directory.appending(path: "starling").path
    }()
}

/// One test's own user: state, sockets, configuration and home in a directory that goes with it.
final class Household {
    let directory: URL
    var environment: [String: String]
    private var children: [Subprocess] = []
    private var grandchildren: [pid_t] = []
    private var runCount = 0

    init() throws {
        directory = URL(filePath: "/tmp/starling-scenario-\(UUID().uuidString.prefix(8))")
        environment = [
            "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": directory.appending(path: "home").path,
            "XDG_STATE_HOME": directory.appending(path: "state").path,
            "XDG_RUNTIME_DIR": directory.appending(path: "run").path,
            "XDG_CONFIG_HOME": directory.appending(path: "config").path, "TMPDIR": directory.path,
            "SWIFT_BACKTRACE": "enable=no", "STARLING": Command.path,
        ].merging(Sanitizer.environment(in: directory)) { first, _ in first }
        for name in ["home", "state", "run", "config", "files", "out"] {
            try FileManager.default.createDirectory(
                at: directory.appending(path: name), withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        }
    }

    /// Ends every process that this test started and that is still there, and removes its files.
    func end() {
        for child in children where child.exitCode() == nil {
            kill(child.pid, SIGKILL)
            while child.exitCode() == nil { usleep(1_000) }
        }
        for pid in grandchildren where isOurs(pid) { kill(pid, SIGKILL) }
        for report in Sanitizer.reports(in: directory) { Issue.record("\(report)") }
        // The directory is unique to this test; what remains of it is no harm.
        try? FileManager.default.removeItem(at: directory)
    }

    // MARK: Running

    /// The command with `--json`, until it ends or its time is over (exit 137 then).
    @discardableResult
    func run(_ arguments: String..., input: String? = nil, seconds: Double = 15) async throws -> Outcome {
        try await run(Command.path, arguments + ["--json"], input: input, seconds: seconds)
    }

    /// A shell script with the command in `$STARLING`.
    @discardableResult
    func shell(_ script: String, seconds: Double = 15) async throws -> Outcome {
        try await run("/bin/bash", ["-c", script], input: nil, seconds: seconds)
    }

    func run(_ path: String, _ arguments: [String], input: String?, seconds: Double) async throws -> Outcome {
        let child = try spawn(path, arguments, input: input)
        let deadline = Deadline(seconds)
        var exit = child.exitCode()
        while exit == nil {
            if deadline.isOver {
                Issue.record("\(arguments.joined(separator: " ").prefix(120)) did not end within \(seconds) s")
                kill(child.pid, SIGKILL)
            }
            try await Task.sleep(for: .milliseconds(deadline.isOver ? 50 : 5))
            exit = child.exitCode()
        }
        children.removeAll { $0.pid == child.pid }
        return Outcome(exit: exit ?? 0, output: child.outputText, errorOutput: child.errorText)
    }

    private func spawn(_ path: String, _ arguments: [String], input: String?) throws -> Subprocess {
        runCount += 1
        var source = URL(filePath: "/dev/null")
        if let input {
            source = directory.appending(path: "input-\(runCount)")
            try Data(input.utf8).write(to: source)
        }
        let child = try Subprocess.start(
            path, arguments, environment: environment, input: source,
            output: directory.appending(path: "output-\(runCount)"),
            errorOutput: directory.appending(path: "error-\(runCount)"))
        children.append(child)
        return child
    }

    // MARK: Nodes

    /// A node in the foreground, ready.
    func up(_ name: String, _ arguments: String...) async throws -> RunningNode {
        try await start(["up", "--name", name] + arguments, name: name, input: nil)
    }

    /// A node that joins with `invite`, ready.
    func join(_ name: String, with invite: String, _ arguments: String...) async throws -> RunningNode {
        try await start(["join", "-", "--name", name] + arguments, name: name, input: invite + "\n")
    }

    /// Founds a mesh with the first and joins the others by its invite.
    func mesh(_ names: String...) async throws -> [RunningNode] {
        var nodes = [try await up(names[0])]
        for name in names.dropFirst() {
            let invite = try #require(nodes[0].ready["invite"].text)
            nodes.append(try await join(name, with: invite))
        }
        return nodes
    }

    private func start(_ arguments: [String], name: String, input: String?) async throws -> RunningNode {
        let options = ["--bind", "127.0.0.1", "--no-discovery", "--json"]
        let child = try spawn(Command.path, arguments + options, input: input)
        let deadline = Deadline(15)
        while true {
            let ready = Document.lines(child.outputText).first { $0["schema"].text == "starling/up/1" }
            if let ready { return RunningNode(name: name, process: child, ready: ready, household: self) }
            if child.exitCode() != nil || deadline.isOver {
                throw NotReady(text: "\(name): \(child.outputText) \(child.errorText)")
            }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    struct NotReady: Error { var text: String }

    /// Remembers background nodes, so that they end with the test.
    func adopt(_ pids: [Int?]) { grandchildren += pids.compactMap { $0.map(pid_t.init) } }

    /// Process numbers are used again: ours carry this household in their environment.
    func isOurs(_ pid: pid_t) -> Bool {
        guard let data = try? Data(contentsOf: URL(filePath: "/proc/\(pid)/environ")) else { return false }
        return String(decoding: data, as: UTF8.self).contains(directory.path)
    }

    // MARK: Files

    func file(_ name: String, bytes: Int, seed: UInt64 = 1) throws -> URL {
        let url = directory.appending(path: "files").appending(path: name)
        var state = seed
        var data = Data(capacity: bytes)
        while data.count < bytes {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            var word = state
            unsafe Swift.withUnsafeBytes(of: &word) { unsafe data.append(contentsOf: $0) }
        }
        try data.prefix(bytes).write(to: url)
        return url
    }

    var outputDirectory: URL { directory.appending(path: "out") }

    /// Asks until the answer is what is wanted. Records an issue when `seconds` are over.
    func eventually(
        _ what: String, within seconds: Double = 10, sourceLocation: SourceLocation = #_sourceLocation,
        _ isTrue: () async throws -> Bool
    ) async throws {
        let deadline = Deadline(seconds)
        while try await !isTrue() {
            guard !deadline.isOver else {
                Issue.record("not within \(seconds) s: \(what)", sourceLocation: sourceLocation)
                return
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}

/// A point on the monotonic clock, so many seconds away on a machine without a sanitizer.
struct Deadline {
    private let end: ContinuousClock.Instant

    init(_ seconds: Double) { end = ContinuousClock.now.advanced(by: .seconds(seconds * Sanitizer.patience)) }

    var isOver: Bool { ContinuousClock.now >= end }
}

/// A node of this household, in the foreground of a child process.
struct RunningNode {
    let name: String
    let process: Subprocess
    /// Its `starling/up/1` object.
    let ready: Document
    let household: Household

    var pid: pid_t { process.pid }
    var port: Int { ready["port"].integer ?? 0 }
    var log: String { process.outputText }

    @discardableResult
    func ask(_ arguments: String..., seconds: Double = 15) async throws -> Outcome {
        try await household.run(
            Command.path, arguments + ["-n", name, "--json"], input: nil, seconds: seconds)
    }

    /// State by name, of everybody else.
    func peerStates() async throws -> [String: String] {
        var states: [String: String] = [:]
        for peer in try await ask("peers").document["peers"].list {
            states[peer["name"].text ?? ""] = peer["state"].text
        }
        return states
    }

    func attachment(_ name: String) async throws -> Document {
        try await ask("journal", "ls").document["attachments"].list.first { $0["name"].text == name } ?? .empty
    }

    func inboxTexts() async throws -> [String] { try await ask("inbox").documents.compactMap(\.["text"].text) }

    func invite() async throws -> String { try #require(try await ask("invite").document["invite"].text) }

    /// SIGKILL, and gone.
    func killAtOnce() async throws {
        kill(pid, SIGKILL)
        try await household.eventually("\(name) is gone") { process.exitCode() != nil }
    }

    /// Waits until the process has ended, and returns its exit code.
    func end(within seconds: Double = 8) async throws -> Int32? {
        let deadline = Deadline(seconds)
        while !deadline.isOver {
            if let code = process.exitCode() { return code }
            try await Task.sleep(for: .milliseconds(10))
        }
        return nil
    }
}
