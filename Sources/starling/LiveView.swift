import Glibc
import MeshBase
import MeshConsole

/// What reading verbs say, drawn over itself every second until a key is pressed: `top`, and `watch` in the REPL.
struct LiveView {
    let name: String
    let command: CommandRun
    let terminal: TerminalDevice
    /// Shown below each other, an empty line between.
    let requests: [JSONValue]

    /// The other page of the terminal and back: what stood there before is not touched.
    private static let enter = "\u{1b}[?1049h\u{1b}[?25l"
    private static let leave = "\u{1b}[?25h\u{1b}[?1049l"

    /// False when the node has gone meanwhile.
    func run() -> Bool {
        TerminalDevice.write(Self.enter)
        defer { TerminalDevice.write(Self.leave) }
        while true {
            guard let lines = lines() else { return false }
            draw(lines)
            if isKeyPressed(within: 1_000) { return true }
        }
    }

    private func lines() -> [String]? {
        var rendering = command.printer.rendering
        rendering.width = TerminalDevice.size(of: 1)?.width ?? 80
        var lines: [String] = []
        for request in requests {
            guard let connection = command.finder.connection(to: name), connection.send(request) else { return nil }
            if !lines.isEmpty { lines.append("") }
            read: while true {
                switch connection.next(milliseconds: 2_000) {
                case .object(let object): lines += rendering.lines(object)
                case .failure(let failure):
                    if failure.code == "nodeGone" { return nil }
                    lines += rendering.lines(failure)
                    break read
                case .timedOut:
                    lines.append("\(SafeText.escaped(name)) does not answer")
                    break read
                case .done: break read
                }
            }
        }
        return lines
    }

    /// The last lines that fit: what is longer grows at its end.
    private func draw(_ lines: [String]) {
        let height = max(TerminalDevice.size(of: 1)?.height ?? 24, 3)
        let head = "\(SafeText.escaped(name)) · any key ends this"
        let shown = [head, ""] + lines.suffix(height - 3)
        // Each line is cleared as it is written, the rest of the page at the end: nothing flickers.
        TerminalDevice.write("\u{1b}[H" + shown.map { $0 + "\u{1b}[K" }.joined(separator: "\r\n") + "\u{1b}[J")
    }

    private func isKeyPressed(within milliseconds: Int32) -> Bool {
        var wanted = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        // A resize interrupts the wait and is drawn at once.
        guard unsafe poll(&wanted, 1, milliseconds) > 0 else { return false }
        _ = terminal.read()
        return true
    }
}

/// `top`: the live view of a node, from the shell.
struct TopCommand {
    let command: CommandRun

    func run() throws -> ExitCode {
        let asked = try command.invocation.argument(0) ?? command.settings()["node"]
        let name = try command.finder.pick(asked).nodeName
        guard !command.printer.isJSON, let terminal = TerminalDevice() else {
            throw CommandFailure.usage("top needs a terminal", hint: "starling status -n \(name) --json")
        }
        defer { terminal.restore() }
        let view = LiveView(
            name: name, command: command, terminal: terminal, requests: [["verb": "status"], ["verb": "journal.ls"]])
        guard view.run() else {
            throw RequestCommand.lost(name)
        }
        return .done
    }
}
