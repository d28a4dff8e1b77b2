import Glibc
import MeshBase
import MeshConsole

/// A verb that a running node carries out: send it, show what comes back.
struct RequestCommand {
    let command: CommandRun

    private var invocation: Invocation { command.invocation }
    private var printer: Printer { command.printer }

    func run() throws -> ExitCode {
        let settings = try command.settings()
        var input: String?
        if invocation.verb == "send", invocation.argument(0) == "-" { input = try standardInput() }
        let surroundings = ControlRequest.Surroundings(
            currentDirectory: ProcessEnvironment.currentDirectory(), input: input)
        guard let requests = ControlRequest.make(invocation, surroundings) else {
            throw CommandFailure.usage("\(invocation.verb) cannot be run here", hint: "starling help")
        }
        let name = settings["node"]
        try confirm()
        var worst: CommandFailure?
        for request in requests {
            // One connection a request: an answer cut short by a failure leaves nothing behind for the next.
            let connection = try command.finder.pick(name)
            do throws(CommandFailure) {
                try exchange(request, over: connection)
            } catch {
                guard requests.count > 1, error.exit != .noSuchNode else { throw error }
                printer.failure(error)
                worst = worst ?? error
            }
            if let end { throw end }
        }
        return worst?.exit ?? .done
    }

    /// What cannot be undone is asked about, where somebody is there to answer.
    private func confirm() throws {
        guard let question = Self.questions[invocation.verb], !invocation.flag("yes"),
            ProcessEnvironment.isTerminal(0), ProcessEnvironment.isTerminal(2)
        else { return }
        guard !invocation.flag("no-input") else {
            throw CommandFailure.usage("this would be asked first", hint: "starling \(invocation.verb) --yes")
        }
        StandardStream.talk(text: "\(question)? [y/N] ")
        guard ["y", "yes"].contains((readLine() ?? "").lowercased()) else {
            throw CommandFailure(
                code: "failed", message: "nothing was done", hint: "starling \(invocation.verb) --yes", exit: .failed)
        }
    }

    private static let questions = [
        "end": "end the mesh for everybody; nobody can undo it",
        "remove": "put the member out of the mesh for ever",
    ]

    private final class OutputEnd {
        var end: StandardStream.End?
    }
    private let output = OutputEnd()
    private var end: StandardStream.End? { output.end }

    init(command: CommandRun) {
        self.command = command
    }

    private func standardInput() throws -> String {
        guard let bytes = ProcessEnvironment.standardInput(limit: CommandLineParser.maximumArgumentBytes) else {
            throw CommandFailure(
                code: "limitExceeded",
                message: "the text on standard input is longer than \(CommandLineParser.maximumArgumentBytes) bytes",
                hint: "share it as a file: starling journal add FILE", exit: .failed)
        }
        guard var text = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure.usage("the text on standard input is not UTF-8", hint: "starling journal add FILE")
        }
        if text.hasSuffix("\n") { text.removeLast() }
        return text
    }

    private func exchange(_ request: JSONValue, over connection: ControlConnection) throws(CommandFailure) {
        guard connection.send(request) else { throw Self.lost(connection.nodeName) }
        var progress = ProgressLine(printer: printer)
        defer { progress.clear() }
        let patience = Patience(invocation)
        while output.end == nil {
            switch connection.next(milliseconds: patience.milliseconds) {
            case .object(let object):
                if object["schema"]?.stringValue == "starling/progress/1" {
                    progress.show(object, output: show)
                } else {
                    progress.clear()
                    show(object)
                }
            case .done: return
            case .failure(let failure): throw failure
            case .timedOut where patience.isFollowing: return
            case .timedOut: throw Self.silent(connection.nodeName)
            }
        }
    }

    private func show(_ object: JSONValue) {
        do throws(StandardStream.End) {
            try printer.result(object)
        } catch {
            output.end = error
        }
        if invocation.flag("qr"), let invite = object["invite"]?.stringValue { QRCode.print(invite, printer) }
    }

    static func lost(_ name: String) -> CommandFailure {
        CommandFailure(
            code: "nodeGone", message: "\(name) is not there any more", hint: "starling nodes", exit: .noSuchNode)
    }

    static func silent(_ name: String) -> CommandFailure {
        CommandFailure(
            code: "timedOut", message: "\(name) runs but does not answer",
            hint: "wait longer with --timeout 60, or look at its process: starling nodes", exit: .unreachable)
    }
}

/// How long the parts of an answer are waited for.
struct Patience {
    /// A stream: it goes on until Ctrl-C, or for as long as `--timeout` says, and its end is no failure.
    let isFollowing: Bool
    private let perPart: Int32
    private let deadline: Int64?

    /// What the node awaits on our behalf has the limit given and a little more, so that the node is the one to say so.
    init(_ invocation: Invocation) {
        isFollowing = invocation.flag("follow")
        let timeout = invocation.number("timeout").map { min($0, 2_000_000) }
        let isAwaited = invocation.verb.hasPrefix("journal ")
        let seconds = timeout ?? ControlRequest.defaultTimeoutSeconds
        perPart = Int32(clamping: Int64(seconds * 1_000) + (isAwaited ? 10_000 : 0))
        deadline = timeout.map { ProcessEnvironment.monotonicNanoseconds() + Int64($0 * 1e9) }
    }

    /// For the next part; negative means for ever.
    var milliseconds: Int32 {
        guard isFollowing else { return perPart }
        guard let deadline else { return -1 }
        return Int32(clamping: max(0, deadline - ProcessEnvironment.monotonicNanoseconds()) / 1_000_000)
    }
}

/// The line that shows a transfer: drawn over itself on a terminal, absent elsewhere, raw with `--json`.
struct ProgressLine {
    let printer: Printer
    private var isShown = false

    init(printer: Printer) {
        self.printer = printer
    }

    mutating func show(_ object: JSONValue, output: (JSONValue) -> Void) {
        if printer.isJSON { return output(object) }
        guard !printer.isQuiet, ProcessEnvironment.isTerminal(2) else { return }
        StandardStream.talk(text: "\r\u{1b}[K" + printer.errorRendering.progress(object))
        isShown = true
    }

    mutating func clear() {
        if isShown { StandardStream.talk(text: "\r\u{1b}[K") }
        isShown = false
    }
}

/// `down`: told, then waited for, so that what is typed next finds the node gone.
struct DownCommand {
    let command: CommandRun

    func run() throws -> ExitCode {
        let connections: [ControlConnection]
        if command.invocation.flag("all") {
            connections = command.finder.running()
        } else {
            connections = [try command.finder.pick(try command.settings()["node"])]
        }
        if connections.isEmpty { command.printer.talk("no node is running") }
        var worst: CommandFailure?
        // All are asked before any is waited for.
        let asked = connections.map { connection in
            (connection, Result { () throws(CommandFailure) in try Self.ask(connection, paths: command.paths) })
        }
        for (connection, result) in asked {
            do throws(CommandFailure) {
                try Self.awaitEnd(of: try result.get(), connection)
                try? command.printer.result([  // A closed output must not keep the others from being stopped.
                    "schema": "starling/down/1", "name": .string(connection.nodeName),
                ])
            } catch {
                command.printer.failure(error)
                worst = worst ?? error
            }
        }
        return worst?.exit ?? .done
    }

    /// Asks the node to end; returns its process, as far as it said.
    static func ask(_ connection: ControlConnection, paths: NodePaths? = nil) throws(CommandFailure) -> Int32? {
        let status = connection.answer(to: ["verb": "status"], milliseconds: 1_000)
        let pid = status?["node"]?["pid"]?.integerValue.flatMap { Int32(exactly: $0) }
        // `answer` leaves the closing line of its request unread.
        _ = connection.next(milliseconds: 1_000)
        guard connection.send(["verb": "down"]) else { throw RequestCommand.lost(connection.nodeName) }
        return pid ?? paths.flatMap { holder(of: connection.nodeName, $0) }
    }

    /// The process that holds the state directory, as its lock says: for one that does not answer.
    private static func holder(of name: String, _ paths: NodePaths) -> Int32? {
        guard let directory = try? paths.stateDirectory(of: name),
            let bytes = ProcessEnvironment.file(directory + "/lock", limit: 64)
        else { return nil }
        return Int32(String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace })
    }

    /// Waits up to ten seconds until the process is gone, and with it its lock and its port.
    static func awaitEnd(of pid: Int32?, _ connection: ControlConnection) throws(CommandFailure) {
        loop: while true {
            switch connection.next(milliseconds: 5_000) {
            case .object: continue
            case .done: break loop
            // The node may be gone before its last line is read.
            case .failure(let failure) where failure.code == "nodeGone": break loop
            case .failure(let failure): throw failure
            case .timedOut: throw stuck(connection.nodeName, pid)
            }
        }
        guard let pid, pid > 1 else { return }
        for _ in 0..<1_000 {
            guard isRunning(pid) else { return }
            usleep(10_000)
        }
        throw stuck(connection.nodeName, pid)
    }

    private static func stuck(_ name: String, _ pid: Int32?) -> CommandFailure {
        guard let pid else { return RequestCommand.silent(name) }
        let message =
            isStopped(pid)
            ? "\(name) does not answer: its process \(pid) is stopped"
            : "\(name) has not ended yet; its process is \(pid)"
        return CommandFailure(
            code: "timedOut", message: message,
            hint: isStopped(pid) ? "kill -CONT \(pid), or kill -9 \(pid)" : "wait for it, or: kill -9 \(pid)",
            exit: .unreachable)
    }

    private static func isStopped(_ pid: Int32) -> Bool { state(of: pid) == "T" }

    /// A process that ended and was not collected by its parent yet is still listed, as a zombie.
    private static func isRunning(_ pid: Int32) -> Bool {
        guard let state = state(of: pid) else { return false }
        return state != "Z" && state != "X"
    }

    private static func state(of pid: Int32) -> Substring? {
        guard let bytes = ProcessEnvironment.file("/proc/\(pid)/stat", limit: 4_096) else { return nil }
        // The state stands behind the name in parentheses, which may hold anything.
        return String(decoding: bytes, as: UTF8.self).split(separator: ")").last?.split(separator: " ").first
    }
}
