import Glibc
import MeshBase
import MeshConsole

/// `repl`: verbs typed into a running node. On a terminal with the line editor, from a pipe line by line.
struct ReplCommand {
    let command: CommandRun

    func run() throws -> ExitCode {
        let settings = try command.settings()
        let asked = command.invocation.argument(0) ?? settings["node"]
        let connection = try command.finder.pick(asked)
        let name = connection.nodeName
        if !command.printer.isJSON, let terminal = TerminalDevice() {
            defer { terminal.restore() }
            return ReplTerminal(name: name, command: command, terminal: terminal).loop()
        }
        return try ReplPipe(name: name, command: command).loop()
    }
}

/// One line of the REPL, understood: what to do with it.
enum ReplLine {
    case nothing
    case quit
    case text(String)
    /// What to send, and the invocation behind it.
    case requests([JSONValue], Invocation)
    /// What to send again and again.
    case watch([JSONValue])

    static func read(_ line: String) throws(CommandFailure) -> ReplLine {
        let split = LineTokenizer.split(line)
        if let quote = split.openQuote {
            throw .usage("the quote \(quote) is not closed", hint: "close it, or put a backslash before it")
        }
        guard let first = split.words.first, !first.hasPrefix("#") else { return .nothing }
        let invocation = try CommandLineParser(isREPL: true).parse(split.words.map { Array($0.utf8) })
        switch invocation.verb {
        case "quit", "exit": return .quit
        case "help": return .text(try HelpText(isREPL: true).text(for: invocation.argumentTexts))
        case "version": return .text("starling \(CommandTable.version)\n")
        case "watch": return .watch(try watched(invocation))
        default:
            if invocation.verb == "send", invocation.argument(0) == "-" {
                throw .usage("in the REPL there is no other input to send", hint: "send TEXT")
            }
            let surroundings = ControlRequest.Surroundings(
                currentDirectory: ProcessEnvironment.currentDirectory(),
                homeDirectory: ProcessEnvironment.variable("HOME"))
            guard let requests = ControlRequest.make(invocation, surroundings) else {
                throw .usage("\(invocation.verb) cannot be run here", hint: "help")
            }
            return .requests(requests, invocation)
        }
    }
}

extension ReplLine {
    /// Verbs that only look, and whose answer ends.
    private static let reading: Set<String> = [
        "status", "peers", "members", "links", "clock", "session", "metrics", "why", "events", "inbox", "invite ls",
        "journal ls", "log",
    ]

    private static func watched(_ invocation: Invocation) throws(CommandFailure) -> [JSONValue] {
        let words = invocation.argumentTexts
        let inner = try CommandLineParser(isREPL: true).parse(words.map { Array($0.utf8) })
        let changes = inner.verb == "log" && !inner.arguments.isEmpty
        guard reading.contains(inner.verb), !inner.flag("follow"), !changes,
            let requests = ControlRequest.make(inner, ControlRequest.Surroundings(currentDirectory: "/"))
        else {
            throw .usage(
                "\(SafeText.escaped(inner.verb)) cannot be watched", hint: "watch peers, watch journal ls, watch clock")
        }
        return requests
    }
}

/// The REPL without a terminal: plain lines in, results out, failures on standard error; the end of input ends it.
struct ReplPipe {
    let name: String
    let command: CommandRun

    func loop() throws -> ExitCode {
        var framer = LineFramer(limit: CommandLineParser.maximumArgumentBytes)
        var number = 0
        var worst: ExitCode?
        var block = [UInt8](repeating: 0, count: 65_536)
        while true {
            let got = unsafe read(0, &block, block.count)
            if got < 0, errno == EINTR { continue }
            var lines = got > 0 ? framer.receive(block.prefix(got)) : []
            if got <= 0, let last = framer.finish() { lines.append(last) }
            for line in lines {
                number += 1
                do {
                    if try perform(line, number) { return worst ?? .done }
                } catch let failure as CommandFailure {
                    command.printer.failure(failure)
                    worst = worst ?? failure.exit
                }
            }
            if got <= 0 { return worst ?? .done }
        }
    }

    /// Whether the line asked to end.
    private func perform(_ line: LineFramer.Line, _ number: Int) throws -> Bool {
        guard case .bytes(let bytes) = line else {
            throw CommandFailure.usage(
                "line \(number) is longer than \(CommandLineParser.maximumArgumentBytes) bytes",
                hint: "journal add FILE")
        }
        guard var text = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure.usage("line \(number) is not UTF-8", hint: "nothing of it was run")
        }
        if text.hasSuffix("\r") { text.removeLast() }
        switch try ReplLine.read(text) {
        case .nothing: return false
        case .quit: return true
        case .text(let text):
            if command.printer.isJSON {
                try command.printer.result(["schema": "starling/help/1", "text": .string(text)])
            } else {
                try StandardStream.print(text: text)
            }
        case .requests(let requests, let invocation):
            for request in requests { try exchange(request, invocation) }
        case .watch:
            throw CommandFailure.usage("watch needs a terminal", hint: "ask again and again: peers")
        }
        return false
    }

    private func exchange(_ request: JSONValue, _ invocation: Invocation) throws {
        let connection = try command.finder.pick(name)
        guard connection.send(request) else { throw RequestCommand.lost(name) }
        let printer = invocation.flag("json") ? Self.json(command.printer) : command.printer
        let patience = Patience(invocation)
        while true {
            switch connection.next(milliseconds: patience.milliseconds) {
            case .object(let object):
                let isProgress = object["schema"]?.stringValue == "starling/progress/1"
                if !isProgress || printer.isJSON { try printer.result(object) }
            case .done: return
            case .failure(let failure): throw failure
            case .timedOut where patience.isFollowing: return
            case .timedOut: throw RequestCommand.silent(name)
            }
        }
    }

    private static func json(_ printer: Printer) -> Printer {
        var printer = printer
        printer.isJSON = true
        return printer
    }
}
