import Glibc
import MeshBase
import MeshConsole

/// `report`: what a person would need to help, without keys, invites, texts and names; shown before it is written.
struct ReportCommand {
    let command: CommandRun

    func run() throws -> ExitCode {
        let text = try compose()
        let path = ControlRequest.Surroundings(currentDirectory: ProcessEnvironment.currentDirectory())
            .absolute(command.invocation.text("output") ?? "starling-report.txt")
        if !command.printer.isJSON { try StandardStream.print(text: text) }
        guard try isWanted(path) else {
            command.printer.talk("not written")
            return .done
        }
        let number = ProcessEnvironment.replaceFile(path, with: Array(text.utf8))
        guard number == 0 else {
            throw CommandFailure(
                code: "storageUnreadable",
                message: "\(SafeText.escaped(path)) cannot be written: \(ProcessEnvironment.reason(number))",
                hint: "starling report -o /tmp/starling-report.txt", exit: .storage)
        }
        command.printer.talk("written: \(SafeText.escaped(path))")
        if command.printer.isJSON {
            try command.printer.result([
                "schema": "starling/report/1", "path": .string(path), "bytes": .integer(Int64(text.utf8.count)),
            ])
        }
        return .done
    }

    private func isWanted(_ path: String) throws -> Bool {
        if command.invocation.flag("yes") { return true }
        guard ProcessEnvironment.isTerminal(0), ProcessEnvironment.isTerminal(2), !command.invocation.flag("no-input")
        else {
            throw CommandFailure.usage("nobody is here to say whether to write it", hint: "starling report --yes")
        }
        StandardStream.talk(text: "write this to \(SafeText.escaped(path))? [y/N] ")
        return ["y", "yes"].contains((readLine() ?? "").lowercased())
    }

    /// The node that was asked for, or all that run.
    private func nodes() throws -> [ControlConnection] {
        guard let name = command.invocation.text("node") else { return command.finder.running() }
        return [try command.finder.pick(name)]
    }

    private func compose() throws -> String {
        var redaction = Redaction()
        var lines = ["starling report, version \(CommandTable.version)", system(), ""]
        lines +=
            ["doctor:"]
            + Rendering().lines(DoctorCommand(command: command, isRedacted: true).examine())
            .map(withoutHome)
        for connection in try nodes() {
            lines += ["", "a node:"]
            for verb in ["status", "peers", "links", "clock", "metrics"] {
                lines += answers(["verb": .string(verb)], connection, &redaction)
            }
            lines += ["", "its last ten minutes:"]
            lines += answers(["verb": "events", "follow": false, "sinceSeconds": 600], connection, &redaction)
        }
        return lines.map { SafeText.escaped($0) }.joined(separator: "\n") + "\n"
    }

    /// The redacted objects of one answer, one a line.
    private func answers(
        _ request: JSONValue, _ connection: ControlConnection, _ redaction: inout Redaction
    ) -> [String] {
        guard let own = command.finder.connection(to: connection.nodeName), own.send(request) else { return ["(gone)"] }
        var lines: [String] = []
        while lines.count < 500 {
            switch own.next(milliseconds: 2_000) {
            case .object(let object): lines.append(redaction.redacted(object).text)
            case .done: return lines
            case .failure(let failure): return lines + ["(\(failure.code))"]
            case .timedOut: return lines + ["(no answer)"]
            }
        }
        return lines
    }

    private func system() -> String {
        var name = utsname()
        unsafe uname(&name)
        let text = { (bytes: [UInt8]) in String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
        let release = unsafe withUnsafeBytes(of: name.release) { unsafe Array($0) }
        let machine = unsafe withUnsafeBytes(of: name.machine) { unsafe Array($0) }
        return "Linux \(text(release)) \(text(machine))"
    }

    /// The home directory names its owner.
    private func withoutHome(_ line: String) -> String {
        guard let home = ProcessEnvironment.variable("HOME") ?? ProcessEnvironment.accountHome(), home.count > 1 else {
            return line
        }
        return line.replacing(home, with: "~")
    }
}
