import Glibc
import MeshBase
import MeshConsole
import MeshSystem

/// The command: from the arguments of the process to its exit code.
enum StarlingCommand {
    static func main() -> Never {
        keepStandardDescriptors()
        ProcessSetup.ignoreBrokenPipes()
        signal(SIGINT) { _ in _exit(ExitCode.interrupted.rawValue) }
        let invocation: Invocation
        if ProcessEnvironment.arguments().isEmpty {
            StandardStream.talk(text: (try? HelpText().text(for: [])) ?? "")
            exit(ExitCode.usage.rawValue)
        }
        do throws(CommandFailure) {
            invocation = try CommandLineParser().parse(ProcessEnvironment.arguments())
        } catch {
            fail(error, JSONRequested.byArguments)
        }
        let printer = Printer(
            isJSON: invocation.flag("json"), isQuiet: invocation.flag("quiet"), noColor: invocation.flag("no-color"))
        exit(run(invocation, printer).rawValue)
    }

    /// A standard descriptor that the starter closed would be the next file or socket that is opened here: the REPL then
    /// waited for input from its own connection to the node (CLI-03).
    private static func keepStandardDescriptors() {
        for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) < 0 {
            // The lowest free number is the missing one.
            _ = unsafe open("/dev/null", O_RDWR)
        }
    }

    /// Carries out one invocation and tells how it ended.
    private static func run(_ invocation: Invocation, _ printer: Printer) -> ExitCode {
        do {
            return try CommandRun(invocation: invocation, printer: printer).run()
        } catch let failure as CommandFailure {
            printer.failure(failure)
            return failure.exit
        } catch let end as StandardStream.End {
            return self.end(end, printer)
        } catch {
            // Nothing else is thrown on the way here; a name of ours is at least something to report.
            printer.failure(
                CommandFailure(
                    code: "failed", message: "something went wrong that has no words yet: \(type(of: error))",
                    hint: "starling report", exit: .failed))
            return .failed
        }
    }

    /// A reader that went away is no failure (CLI-02); a full disk is one.
    private static func end(_ end: StandardStream.End, _ printer: Printer) -> ExitCode {
        guard case .failed(let number) = end else { return .done }
        let reason = ProcessEnvironment.reason(number)
        printer.failure(
            CommandFailure(
                code: "outputFailed", message: "standard output cannot be written: \(reason)",
                hint: number == ENOSPC ? "free some space where the output goes" : "", exit: .storage))
        return .storage
    }

    private static func fail(_ failure: CommandFailure, _ isJSON: Bool) -> Never {
        Printer(isJSON: isJSON, isQuiet: false, noColor: false).failure(failure)
        exit(failure.exit.rawValue)
    }

    /// Whether a command line that could not be understood asked for JSON.
    private enum JSONRequested {
        static var byArguments: Bool { ProcessEnvironment.arguments().contains(Array("--json".utf8)) }
    }
}

/// One invocation with everything around it.
struct CommandRun {
    let invocation: Invocation
    let printer: Printer
    let paths = ProcessEnvironment.paths()

    var finder: NodeFinder { NodeFinder(paths: paths) }

    func settings() throws -> Settings {
        let settings = readSettings()
        try settings.requireUsable()
        return settings
    }

    /// As `settings`, with what is wrong told beside them: `config` answers whatever stands in the file.
    private func readSettings() -> Settings {
        let file = paths.configFile.flatMap { ProcessEnvironment.file($0, limit: Settings.maximumFileBytes) }
        return Settings.reading(
            invocation: invocation, environment: ProcessEnvironment.variable, file: file, paths: paths,
            machineName: ProcessEnvironment.machineName())
    }

    func run() throws -> ExitCode {
        switch invocation.verb {
        case "help": try help()
        case "version": try version()
        case "man": try StandardStream.print(text: ManualPage.text())
        case "completions":
            try StandardStream.print(text: CompletionScripts.text(shell: invocation.argument(0) ?? "") ?? "")
        case "config": try printer.result(readSettings().json(withOrigin: invocation.flag("origin")))
        case "nodes": try printer.result(NodeListing.object(finder))
        case "complete" where invocation.argument(0) == "nodes": try completeNodes()
        case "up": return try StartCommand(command: self).up()
        case "join": return try StartCommand(command: self).join()
        case "serve": return try StartCommand(command: self).serve()
        case "demo": return try DemoCommand(command: self).start()
        case "demo stop": return try DemoCommand(command: self).stop()
        case "down": return try DownCommand(command: self).run()
        case "doctor": return try DoctorCommand(command: self).run()
        case "report": return try ReportCommand(command: self).run()
        case "top": return try TopCommand(command: self).run()
        case "repl": return try ReplCommand(command: self).run()
        default: return try RequestCommand(command: self).run()
        }
        return .done
    }

    private func help() throws {
        let text = try HelpText().text(for: invocation.argumentTexts)
        if printer.isJSON {
            try printer.result(["schema": "starling/help/1", "text": .string(text)])
        } else {
            try StandardStream.print(text: text)
        }
    }

    private func version() throws {
        try printer.result([
            "schema": "starling/version/1", "version": .string(CommandTable.version),
            "text": .string("starling \(CommandTable.version)"),
        ])
    }

    private func completeNodes() throws {
        let values = finder.running().map { JSONValue.object([.init("value", .string($0.nodeName))]) }
        try printer.result(["schema": "starling/complete/1", "values": .array(values)])
    }
}

/// What `nodes` shows, from each node's own status.
enum NodeListing {
    static func object(_ finder: NodeFinder) -> JSONValue {
        ["schema": "starling/nodes/1", "nodes": .array(finder.running().map(row))]
    }

    private static func row(_ connection: ControlConnection) -> JSONValue {
        // A node that does not answer (stopped, busy) is still a running node.
        let status = connection.answer(to: ["verb": "status"], milliseconds: 800) ?? .null
        let node = status["node"] ?? .null
        let mesh = status["mesh"] ?? .null
        return [
            "name": .string(connection.nodeName), "pid": node["pid"] ?? .null, "port": node["port"] ?? .null,
            "meshLabel": mesh["label"] ?? .null, "memberCount": mesh["memberCount"] ?? .null,
        ]
    }
}

extension ControlConnection {
    /// The first object of an answer; `nil` after a failure or when none came in time.
    func answer(to request: JSONValue, milliseconds: Int32) -> JSONValue? {
        guard send(request), case .object(let object) = next(milliseconds: milliseconds) else { return nil }
        return object
    }
}
