import Glibc
import MeshBase
import MeshConsole

/// The REPL on a terminal: one thread that waits for keys, for the answer under way, and for what happens meanwhile.
final class ReplTerminal {
    private let name: String
    private let command: CommandRun
    private let terminal: TerminalDevice
    private let historyFile: HistoryFile
    private var editor: LineEditor
    /// Events and messages that arrive by themselves.
    private var streams: [ControlConnection] = []
    private var answer: Answer?
    private var isGone = false
    private var exitCode: ExitCode?

    /// A command under way: what is left to send, and what waits for an answer.
    private struct Answer {
        var waiting: [JSONValue]
        var connection: ControlConnection
        var isJSON: Bool
        var hasProgress = false
    }

    init(name: String, command: CommandRun, terminal: TerminalDevice) {
        self.name = name
        self.command = command
        self.terminal = terminal
        historyFile = HistoryFile(paths: command.paths)
        let size = TerminalDevice.size(of: 1)
        editor = LineEditor(
            prompt: "\(SafeText.escaped(name))> ", width: size?.width ?? 0, height: size?.height ?? 0,
            history: historyFile.load())
    }

    func loop() -> ExitCode {
        subscribe()
        greet()
        perform(editor.activate())
        while exitCode == nil { wait() }
        TerminalDevice.write(editor.deactivate())
        historyFile.save(editor.history)
        return exitCode ?? .done
    }

    private func greet() {
        let status = command.finder.connection(to: name)?.answer(to: ["verb": "status"], milliseconds: 1_000)
        let node = status?["node"]
        let pid = node?["pid"]?.integerValue.map { "pid \($0), " } ?? ""
        let uptime = node?["uptimeSeconds"]?.numberValue.map { "up \(Quantity.duration(seconds: $0))" } ?? "running"
        show(["\(SafeText.escaped(name)) (\(pid)\(uptime)). help · Tab completes · Ctrl-D leaves, the node stays."])
    }

    // MARK: Waiting

    private func wait() {
        var wanted = [pollfd(fd: 0, events: Int16(POLLIN), revents: 0)]
        if let answer { wanted.append(pollfd(fd: answer.connection.descriptor, events: Int16(POLLIN), revents: 0)) }
        for stream in streams { wanted.append(pollfd(fd: stream.descriptor, events: Int16(POLLIN), revents: 0)) }
        // A resize interrupts the wait; one that came just before it is seen half a second later.
        unsafe poll(&wanted, nfds_t(wanted.count), 500)
        if let size = TerminalDevice.size(of: 1) {
            TerminalDevice.write(editor.resize(width: size.width, height: size.height))
        }
        let ready = Set(wanted.filter { $0.revents != 0 }.map(\.fd))
        for stream in streams where ready.contains(stream.descriptor) { receive(from: stream) }
        if let answer, ready.contains(answer.connection.descriptor) { receiveAnswer() }
        if ready.contains(0) { readKeys() }
    }

    private func readKeys() {
        guard var bytes = terminal.read() else {
            // The terminal hung up.
            exitCode = .done
            return
        }
        if answer != nil, bytes.contains(0x03) {
            bytes = Array(bytes.drop { $0 != 0x03 }.dropFirst())
            show(["^C"])
            finishAnswer()
        }
        perform(editor.receive(bytes))
    }

    private func perform(_ effects: [LineEditor.Effect]) {
        for effect in effects {
            guard exitCode == nil else { return }
            switch effect {
            case .output(let text): TerminalDevice.write(text)
            case .submit(let line): submit(line)
            case .interrupt: perform(editor.activate())
            case .endOfInput: exitCode = .done
            case .complete:
                complete()
                perform(editor.receive([]))
            }
        }
    }

    // MARK: Commands

    private func submit(_ line: String) {
        if isGone, !reconnect() { return perform(editor.activate()) }
        do throws(CommandFailure) {
            switch try ReplLine.read(line) {
            case .nothing: break
            case .quit:
                exitCode = .done
                return
            case .text(let text): show(text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
            case .requests(let requests, let invocation):
                try begin(requests, invocation)
                return
            case .watch(let requests):
                if !LiveView(name: name, command: command, terminal: terminal, requests: requests).run() { lose() }
            }
        } catch {
            show(command.printer.rendering.lines(error))
        }
        perform(editor.activate())
    }

    private func begin(_ requests: [JSONValue], _ invocation: Invocation) throws(CommandFailure) {
        guard let first = requests.first else { return perform(editor.activate()) }
        guard let connection = command.finder.connection(to: name), connection.send(first) else {
            lose()
            return perform(editor.activate())
        }
        answer = Answer(
            waiting: Array(requests.dropFirst()), connection: connection, isJSON: invocation.flag("json"))
    }

    private func receiveAnswer() {
        guard let connection = answer?.connection else { return }
        for event in connection.available() {
            switch event {
            case .object(let object): showAnswer(object)
            case .done: return continueAnswer()
            case .failure(let failure):
                if failure.code == "nodeGone" { lose() } else { show(command.printer.rendering.lines(failure)) }
                return continueAnswer()
            case .timedOut: break
            }
        }
    }

    private func showAnswer(_ object: JSONValue) {
        let isProgress = object["schema"]?.stringValue == "starling/progress/1"
        if answer?.isJSON == true { return show([object.text]) }
        guard isProgress else { return show(rendering.lines(object) + rendering.remarks(object)) }
        TerminalDevice.write("\r\u{1b}[K" + rendering.progress(object))
        answer?.hasProgress = true
    }

    /// The next request of the same command, or the prompt.
    private func continueAnswer() {
        guard let next = answer?.waiting.first, !isGone, let connection = command.finder.connection(to: name),
            connection.send(next)
        else { return finishAnswer() }
        answer?.waiting.removeFirst()
        answer?.connection = connection
    }

    private func finishAnswer() {
        if answer?.hasProgress == true { TerminalDevice.write("\r\u{1b}[K") }
        answer = nil
        perform(editor.activate())
    }

    // MARK: What arrives by itself

    private func subscribe() {
        streams = [ControlRequest.incomingEvents, ControlRequest.incomingMessages].compactMap { request in
            guard let connection = command.finder.connection(to: name), connection.send(request) else { return nil }
            return connection
        }
    }

    private func receive(from stream: ControlConnection) {
        for event in stream.available() {
            switch event {
            // The message itself is shown; that it came need not be said as well.
            case .object(let object) where object["kind"]?.stringValue == "messageReceived": continue
            case .object(let object): show(rendering.lines(object))
            case .failure(let failure):
                streams.removeAll { $0 === stream }
                if failure.code == "nodeGone" { lose() }
            case .done, .timedOut: continue
            }
        }
    }

    /// The node is gone: say so once, and how to go on.
    private func lose() {
        guard !isGone else { return }
        isGone = true
        streams = []
        editor.prompt = "\(SafeText.escaped(name)) (gone)> "
        show(["\(SafeText.escaped(name)) has ended. Enter tries again, Ctrl-D leaves."])
    }

    private func reconnect() -> Bool {
        guard command.finder.connection(to: name) != nil else {
            show(["\(SafeText.escaped(name)) does not run. Enter tries again, Ctrl-D leaves."])
            return false
        }
        isGone = false
        editor.prompt = "\(SafeText.escaped(name))> "
        subscribe()
        greet()
        return true
    }

    // MARK: Screen

    private var rendering: Rendering {
        var rendering = command.printer.rendering
        rendering.width = TerminalDevice.size(of: 1)?.width ?? 80
        return rendering
    }

    private func show(_ lines: [String]) {
        if answer?.hasProgress == true {
            TerminalDevice.write("\r\u{1b}[K")
            answer?.hasProgress = false
        }
        TerminalDevice.write(editor.print(above: lines))
    }

    // MARK: Completion

    private func complete() {
        let typed = editor.textBeforeCursor
        let split = LineTokenizer.split(typed)
        let completion = Completion.find(words: split.words, endsInWord: split.endsInWord)
        let count = split.endsInWord ? typed.count - split.lastWordStart : 0
        var words = completion.words
        var suffix = " "
        switch completion.source {
        case .files, .directories:
            words += fileNames(completion.prefix, onlyDirectories: completion.source == .directories)
            if words.count == 1, words[0].hasSuffix("/") { suffix = "" }
        case .nodes: words += command.finder.running().map(\.nodeName).filter { $0.hasPrefix(completion.prefix) }
        case .some(let source): words += liveNames(source, completion.prefix)
        case nil: break
        }
        TerminalDevice.write(editor.complete(last: count, with: words.map(LineTokenizer.quoted), suffix: suffix))
    }

    private func liveNames(_ source: Completion.Source, _ prefix: String) -> [String] {
        let answer = command.finder.connection(to: name)?
            .answer(to: ["verb": "complete", "kind": .string(source.rawValue)], milliseconds: 300)
        let values = answer?["values"]?.arrayValue?.compactMap { $0["value"]?.stringValue } ?? []
        // A name that cannot be shown as it is cannot be typed either.
        return values.filter { $0.hasPrefix(prefix) && SafeText.escaped($0) == $0 }
    }

    private func fileNames(_ prefix: String, onlyDirectories: Bool) -> [String] {
        let surroundings = ControlRequest.Surroundings(
            currentDirectory: ProcessEnvironment.currentDirectory(), homeDirectory: ProcessEnvironment.variable("HOME"))
        let slash = prefix.lastIndex(of: "/")
        let folder = slash.map { String(prefix[...$0]) } ?? ""
        let start = slash.map { String(prefix[prefix.index(after: $0)...]) } ?? prefix
        let path = folder == "/" ? "/" : surroundings.absolute(folder.isEmpty ? "." : String(folder.dropLast()))
        return ProcessEnvironment.names(in: path).compactMap { name in
            guard name.hasPrefix(start), !name.hasPrefix(".") || start.hasPrefix("."), SafeText.escaped(name) == name
            else {
                return nil
            }
            let isDirectory = ProcessEnvironment.isDirectory(path + "/" + name)
            return onlyDirectories && !isDirectory ? nil : folder + name + (isDirectory ? "/" : "")
        }
    }
}
