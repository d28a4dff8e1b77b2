import Glibc
import MeshBase
import Testing

@testable import MeshConsole

private func paths(_ environment: [String: String], home: String? = nil, isUsable: Bool = true) -> NodePaths {
    NodePaths(environment: { environment[$0] }, homeDirectory: home, isUsable: { _ in isUsable })
}

@Suite struct NodePathsTests {
    @Test func `state and sockets follow the base directory specification`() {
        let paths = paths(["HOME": "/home/ana", "XDG_RUNTIME_DIR": "/run/user/1000"])

        #expect(paths.stateRoot == "/home/ana/.local/state/starling")
        #expect(paths.runtimeRoot == "/run/user/1000/starling")
        #expect(paths.configFile == "/home/ana/.config/starling/config.json")
        #expect(paths.socketCandidates(for: "ben").first == "/run/user/1000/starling/ben.sock")
    }

    @Test func `our own variable wins, and paths that are not absolute count as not set`() {
        #expect(paths(["STARLING_STATE": "/s/", "XDG_STATE_HOME": "/x", "HOME": "/h"]).stateRoot == "/s")
        #expect(
            paths(["STARLING_STATE": "s", "XDG_STATE_HOME": "x", "HOME": "/h"]).stateRoot == "/h/.local/state/starling")
        #expect(paths(["HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/0"], isUsable: false).runtimeRoot == nil)
    }

    @Test func `CLI-10 without HOME the account's home is used`() {
        #expect(paths([:], home: "/root").stateRoot == "/root/.local/state/starling")
    }

    @Test func `CLI-10 without any home the failure lists what is missing`() {
        let failure = #expect(throws: CommandFailure.self) { try paths([:]).stateDirectory(of: "ana") }

        #expect(failure?.exit == .storage)
        for variable in ["STARLING_STATE", "XDG_STATE_HOME", "HOME"] {
            #expect(failure?.message.contains(variable) == true)
        }
        #expect(throws: CommandFailure.self) { try paths([:]).controlSocket(for: "ana") }
    }

    @Test func `CLI-07 a socket path that is too long falls back to a shorter one, or says the numbers`() throws {
        let long = "/" + String(repeating: "d", count: 150)
        let short = paths(["STARLING_STATE": "/s", "XDG_RUNTIME_DIR": long])
        #expect(try short.controlSocket(for: "ana") == "/s/ana/control.sock")

        let failure = #expect(throws: CommandFailure.self) {
            try paths(["STARLING_STATE": long]).controlSocket(for: "ana")
        }
        #expect(failure?.code == "socketPathTooLong")
        #expect(failure?.message.contains("168 bytes") == true)
        #expect(failure?.message.contains("107") == true)
        #expect(failure?.hint.isEmpty == false)
    }

    @Test func `CLI-07 a path of exactly the limit is taken`() throws {
        let root = "/" + String(repeating: "d", count: 107 - "/ana/control.sock".utf8.count - 1)

        #expect(try paths(["STARLING_STATE": root]).controlSocket(for: "ana").utf8.count == 107)
        #expect(throws: CommandFailure.self) { try paths(["STARLING_STATE": root + "d"]).controlSocket(for: "ana") }
    }
}

@Suite struct SettingsTests {
    private func settings(
        _ words: [String] = ["status"], _ environment: [String: String] = [:], file: String? = nil
    ) throws -> Settings {
        try Settings(
            invocation: try CommandLineParser().parse(words), environment: { environment[$0] },
            file: file.map { Array($0.utf8) }, paths: paths(["HOME": "/h"]), machineName: "kitchen")
    }

    private func origin(_ settings: Settings, _ name: String) -> String? {
        settings.all.first { $0.name == name }?.origin
    }

    @Test func `an option wins over the environment, that over the file, that over the default`() throws {
        let environment = ["STARLING_NODE": "ben"]
        let file = #"{"node":"cyd","name":"sofa"}"#

        let all = try settings(["status", "-n", "ana"], environment, file: file)
        #expect(all["node"] == "ana")
        #expect(origin(all, "node") == "--node")
        let without = try settings(["status"], environment, file: file)
        #expect(without["node"] == "ben")
        #expect(origin(without, "node") == "STARLING_NODE")
        let last = try settings(file: file)
        #expect(last["node"] == "cyd")
        #expect(origin(last, "node") == "/h/.config/starling/config.json")
        #expect(last["name"] == "sofa")
        #expect(try settings()["name"] == "kitchen")
    }

    @Test func `levels are read from an option and from the environment`() throws {
        #expect(try settings(["up", "--log", "messenger=debug"]).logLevels == ["messenger": "debug"])
        #expect(
            try settings(["up"], ["STARLING_LOG": "info,coordinator=trace"]).logLevels
                == ["all": "info", "coordinator": "trace"])
    }

    @Test(arguments: [
        "", "{", "[]", "1e400", #"{"node":1}"#, #"{"node":"../x"}"#, #"{"log":"links=loud"}"#,
        String(repeating: "[", count: 100_000),
    ])
    func `AB-05 a damaged configuration file is an error that names it`(file: String) {
        let failure = #expect(throws: CommandFailure.self) { try settings(file: file) }

        #expect(failure?.exit == .usage)
        #expect(failure?.message.contains("/h/.config/starling/config.json") == true)
    }

    @Test(arguments: [
        ("{\n  \"node\": \"ana\",\n  \"name\": x\n}\n", 3, "“x” cannot stand there"),
        ("{\n  \"node\": \"ana\"\n", 2, "it ends too early"), ("{\n\"name\": \"a b\"}", 2, "name: a node's name"),
        ("[]", 1, "it must be an object"),
    ])
    func `a damaged configuration file is read as far as it goes, its bad line marked`(
        file: String, line: Int, message: String
    ) throws {
        let settings = try reading(file)

        #expect(settings.problems.map(\.line) == [line])
        #expect(settings.problems.first?.message.hasPrefix(message) == true)
        #expect(settings["name"] == "kitchen")
        #expect(settings.json(withOrigin: true)["problems"]?.arrayValue?.count == 1)
        let shown = #expect(throws: CommandFailure.self) { try self.settings(file: file) }
        #expect(shown?.message.contains("line \(line): \(message)") == true)
    }

    @Test func `an unknown key is named with its line, and is no reason to refuse`() throws {
        let file = "{\n  \"node\": \"ana\",\n  \"nmae\": \"sofa\"\n}"

        #expect(try settings(file: file)["node"] == "ana")
        let problem = try #require(try settings(file: file).problems.first)
        #expect(problem.line == 3)
        #expect(problem.message == "“nmae” is not a setting; did you mean name?")
    }

    private func reading(_ file: String) throws -> Settings {
        Settings.reading(
            invocation: try CommandLineParser().parse(["config"]), environment: { _ in nil }, file: Array(file.utf8),
            paths: paths(["HOME": "/h"]), machineName: "kitchen")
    }

    @Test func `CLI-10 a bad variable is an error that names it`() {
        let failure = #expect(throws: CommandFailure.self) { try settings(["status"], ["STARLING_NODE": "a b"]) }

        #expect(failure?.message.contains("STARLING_NODE") == true)
    }
}

@Suite struct LineFramerTests {
    @Test func `lines come out whole whatever the cut`() {
        let bytes = Array("one\n\ntwo\nthree".utf8)
        for cut in 0...bytes.count {
            var framer = LineFramer(limit: 100)
            var lines = framer.receive(bytes.prefix(cut)) + framer.receive(bytes.dropFirst(cut))
            if let last = framer.finish() { lines.append(last) }

            #expect(lines == ["one", "", "two", "three"].map { .bytes(Array($0.utf8)) }, "cut \(cut)")
        }
    }

    @Test func `CLI-12 a line over the limit is reported and does not harm the next`() {
        var framer = LineFramer(limit: 3)

        #expect(
            framer.receive(Array("abc\nabcd\nx\n".utf8)) == [
                .bytes(Array("abc".utf8)), .tooLong, .bytes(Array("x".utf8)),
            ])
        _ = framer.receive(Array("toolong".utf8))
        #expect(framer.finish() == .tooLong)
        #expect(framer.finish() == nil)
    }
}

@Suite struct ControlConnectionTests {
    /// A connection whose other end the test holds.
    private func pair() -> (connection: ControlConnection, node: Int32) {
        var ends: [Int32] = [0, 0]
        unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
        return (ControlConnection(descriptor: ends[0], nodeName: "ben"), ends[1])
    }

    @Test func `an answer is its objects, then done`() {
        let (connection, node) = pair()
        defer { close(node) }

        #expect(connection.send(["verb": "peers"]))
        _ = StandardStream.write("{\"schema\":\"starling/peers/1\"}\n{\"schema\":\"starling/done/1\"}\n", to: node)

        #expect(connection.next(milliseconds: 1_000) == .object(["schema": "starling/peers/1"]))
        #expect(connection.next(milliseconds: 1_000) == .done)
        #expect(connection.next(milliseconds: 10) == .timedOut)
    }

    @Test func `a node that dies in the middle is a failure and not a hang`() {
        let (connection, node) = pair()

        _ = StandardStream.write("{\"schema\":\"x\"}\n{\"sche", to: node)
        close(node)

        #expect(connection.next(milliseconds: 1_000) == .object(["schema": "x"]))
        guard case .failure(let failure) = connection.next(milliseconds: 1_000) else {
            Issue.record("no failure")
            return
        }
        #expect(failure.code == "nodeGone")
        #expect(failure.exit == .noSuchNode)
    }

    @Test func `AB-15 a node that sends nonsense or endless nesting is a failure`() {
        let (connection, node) = pair()
        defer { close(node) }

        _ = StandardStream.write("nonsense\n" + String(repeating: "[", count: 10_000) + "\n", to: node)

        for _ in 0..<2 {
            guard case .failure(let failure) = connection.next(milliseconds: 1_000) else {
                Issue.record("no failure")
                return
            }
            #expect(failure.code == "protocol")
        }
    }

    @Test func `an error of the node arrives with its code, hint and exit`() {
        let (connection, node) = pair()
        defer { close(node) }
        let failure = CommandFailure(code: "notFound", message: "no 7c1e", hint: "journal ls", exit: .notFound)

        _ = StandardStream.write(failure.json.text + "\n", to: node)

        #expect(connection.next(milliseconds: 1_000) == .failure(failure))
    }
}

@Suite struct StandardStreamTests {
    private func pipeEnds() -> (reader: Int32, writer: Int32) {
        var ends: [Int32] = [0, 0]
        unsafe pipe(&ends)
        return (ends[0], ends[1])
    }

    @Test func `CLI-01 what was printed has left the process when the call returns`() {
        let (reader, writer) = pipeEnds()
        defer {
            close(reader)
            close(writer)
        }

        #expect(StandardStream.write("one line\n", to: writer) == 0)

        var waiting = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
        #expect(unsafe poll(&waiting, 1, 0) == 1)
        var block = [UInt8](repeating: 0, count: 100)
        let got = unsafe read(reader, &block, block.count)
        #expect(Array(block.prefix(got)) == Array("one line\n".utf8))
    }

    @Test func `CLI-02 a reader that went away ends quietly, a full disk does not`() {
        signal(SIGPIPE, SIG_IGN)
        let (reader, writer) = pipeEnds()
        close(reader)
        defer { close(writer) }
        let full = unsafe open("/dev/full", O_WRONLY)
        defer { close(full) }

        #expect(StandardStream.end(for: StandardStream.write("x", to: writer)) == .closed)
        #expect(StandardStream.end(for: StandardStream.write("x", to: full)) == .failed(errorNumber: ENOSPC))
        #expect(StandardStream.end(for: 0) == nil)
    }
}

@Suite struct RedactionTests {
    @Test func `AB-85 a report holds no names, keys, invites, texts or full addresses`() {
        var redaction = Redaction()
        let object: JSONValue = [
            "schema": "starling/status/1",
            "node": ["name": "ana", "id": "00ff", "fingerprint": "amber canoe seven", "pid": 7],
            "invite": "starling:secret", "text": "hello", "note": "for tonight", "anything new": "secret",
            "peers": [
                ["name": "ben", "state": "alive", "path": ["address": "192.0.2.14:47800", "kind": "direct"]],
                ["name": "ana", "state": "dead", "path": ["address": "[fe80::1]:47801", "kind": "direct"]],
            ],
        ]

        let text = redaction.redacted(object).text

        for secret in ["ana", "ben", "00ff", "amber", "secret", "hello", "tonight", "192.0.2", "fe80"] {
            #expect(!text.contains(secret), "\(secret)")
        }
        #expect(text.contains(#""name":"p1""#) && text.contains(#""name":"p2""#))
        #expect(text.contains("v4 network:47800") && text.contains("v6 link-local:47801"))
        #expect(text.contains(#""state":"alive""#) && text.contains(#""pid":7"#))
    }
}

@Suite struct QRTextTests {
    @Test func `two modules share a character and a quiet zone surrounds them`() {
        let modules = [[true, false, true], [true, true, false], [false, false, true]]

        let inked = QRText.lines(modules: modules, style: Style(isColoured: true))
        #expect(inked.count == 4)
        #expect(inked[1] == "\u{1b}[30;107m  █▄▀  \u{1b}[0m")
        #expect(QRText.lines(modules: modules, style: .plain)[1] == "██ ▀▄██")
    }
}

@Suite struct HistoryFileTests {
    @Test func `AB-85 history is for this user alone and comes back as it was`() throws {
        var template = Array("/tmp/starling-history-XXXXXX".utf8CString)
        let made = unsafe mkdtemp(&template)
        #expect(unsafe made != nil)
        let root = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        defer {
            unsafe unlink(root + "/state/history")
            unsafe rmdir(root + "/state")
            unsafe rmdir(root)
        }
        let file = HistoryFile(paths: NodePaths(stateRoot: root + "/state", runtimeRoot: nil, configFile: nil))

        file.save(History(lines: ["peers", "why 名前"]))

        var information = stat()
        #expect(unsafe stat(root + "/state/history", &information) == 0)
        #expect(information.st_mode & 0o777 == 0o600)
        #expect(file.load().lines == ["peers", "why 名前"])
    }

    @Test func `a missing or damaged history is an empty one`() {
        #expect(
            HistoryFile(paths: NodePaths(stateRoot: "/nonexistent", runtimeRoot: nil, configFile: nil)).load()
                == History())
        #expect(HistoryFile(paths: NodePaths(stateRoot: nil, runtimeRoot: nil, configFile: nil)).path == nil)
    }
}

@Suite struct NodeFinderTests {
    @Test func `nobody running is exit code 3 with the next thing to type`() {
        let finder = NodeFinder(paths: NodePaths(stateRoot: "/nonexistent", runtimeRoot: nil, configFile: nil))

        let none = #expect(throws: CommandFailure.self) { try finder.pick(nil) }
        #expect(none?.exit == .noSuchNode)
        #expect(none?.hint == "starling up, or to try it out: starling demo")
        let named = #expect(throws: CommandFailure.self) { try finder.pick("ben") }
        #expect(named?.exit == .noSuchNode)
        #expect(named?.hint == "starling up --name ben")
        #expect(throws: CommandFailure.self) { try finder.pick("../ben") }
    }
}
