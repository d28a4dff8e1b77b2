import Glibc
import MeshBase
import MeshConsole
import MeshNode
import MeshSystem

/// `demo`: several nodes of this machine in one new mesh on loopback, and `demo stop`.
struct DemoCommand {
    let command: CommandRun

    private static let names = [
        "ana", "ben", "cyd", "dee", "eve", "fay", "gus", "hal", "ida", "jan", "kim", "leo", "mia", "ned", "ola", "pia",
    ]

    // MARK: Start

    func start() throws -> ExitCode {
        let record = try DemoRecord.path(command.paths)
        if let running = DemoRecord.read(record),
            running.nodes.contains(where: { command.finder.connection(to: $0.name) != nil })
        {
            let nodes = JSONValue.array(running.nodes.map(\.json))
            try command.printer.result(
                [
                    "schema": "starling/demo/1", "nodes": nodes,
                    "linkCount": .integer(Self.linkCount(running.nodes, command.finder)),
                    "alreadyRunning": true,
                ])
            return .done
        }
        let count = Int(command.invocation.integer("nodes") ?? 3)
        let names = Self.names.filter { command.finder.connection(to: $0) == nil }.prefix(count)
        guard names.count == count else {
            throw CommandFailure(
                code: "failed", message: "only \(names.count) of the names for demo nodes are free",
                hint: "starling down --all", exit: .failed)
        }
        let base = try TemporaryDirectory.make("starling-demo")
        do {
            return try found(Array(names), base, record)
        } catch {
            DemoRecord.remove(record)
            TemporaryDirectory.remove(base)
            throw error
        }
    }

    private func found(_ names: [String], _ base: String, _ record: String) throws -> ExitCode {
        let start = ProcessEnvironment.monotonicNanoseconds()
        var demo = DemoRecord(base: base, nodes: [])
        do {
            var first = try options(names[0], base)
            first.meshLabel = "demo"
            let ready = try begin(first, &demo, record).waitUntilReady(seconds: 15)
            demo.nodes[0].complete(with: ready)
            guard let invite = ready["invite"]?.stringValue ?? self.invite(of: names[0]) else {
                throw CommandFailure(code: "failed", message: "\(names[0]) gave no invite", exit: .failed)
            }
            let others = try names.dropFirst().map { name in
                var options = try options(name, base)
                options.ticketText = invite
                return try begin(options, &demo, record)
            }
            for (position, node) in others.enumerated() {
                demo.nodes[position + 1].complete(with: try node.waitUntilReady(seconds: 15))
            }
        } catch {
            for node in demo.nodes { kill(node.pid, SIGTERM) }
            throw error
        }
        let links = awaitLinks(demo.nodes)
        try demo.write(record)
        let seconds = Double(ProcessEnvironment.monotonicNanoseconds() - start) / 1e9
        try command.printer.result([
            "schema": "starling/demo/1", "nodes": .array(demo.nodes.map(\.json)), "linkCount": .integer(links),
            "seconds": .number(seconds), "alreadyRunning": false,
        ])
        return .done
    }

    private func begin(_ options: NodeOptions, _ demo: inout DemoRecord, _ record: String) throws -> BackgroundNode {
        let node = try BackgroundNode.spawn(options)
        demo.nodes.append(DemoRecord.Node(name: options.name, pid: node.pid))
        // Written before it is ready: what was started can be stopped, whatever happens next.
        try demo.write(record)
        return node
    }

    private func options(_ name: String, _ base: String) throws -> NodeOptions {
        var options = NodeOptions(
            name: name, stateDirectory: "\(base)/\(name)", controlSocketPath: try command.paths.controlSocket(for: name)
        )
        if let slash = options.controlSocketPath.lastIndex(of: "/") {
            _ = ProcessEnvironment.makeDirectories(String(options.controlSocketPath[..<slash]))
        }
        options.bindAddresses = ["127.0.0.1"]
        options.discovery = false
        options.setHostClock(command.invocation.options["host-clock"])
        options.logLevels = try command.settings().logLevels
        options.timeoutSeconds = 10
        return options
    }

    private func invite(of name: String) -> String? {
        command.finder.connection(to: name)?.answer(to: ["verb": "invite"], milliseconds: 2_000)?["invite"]?.stringValue
    }

    /// Waits until everybody is linked with everybody, at most three seconds, and counts the links.
    private func awaitLinks(_ nodes: [DemoRecord.Node]) -> Int64 {
        let wanted = Int64(nodes.count * (nodes.count - 1) / 2)
        let deadline = ProcessEnvironment.monotonicNanoseconds() + 3_000_000_000
        while true {
            let count = Self.linkCount(nodes, command.finder)
            if count >= wanted || ProcessEnvironment.monotonicNanoseconds() > deadline { return count }
            usleep(20_000)
        }
    }

    /// Each link has two ends.
    private static func linkCount(_ nodes: [DemoRecord.Node], _ finder: NodeFinder) -> Int64 {
        let ends = nodes.reduce(0) { sum, node in
            let answer = finder.connection(to: node.name)?.answer(to: ["verb": "links"], milliseconds: 500)
            return sum + (answer?["links"]?.arrayValue?.count ?? 0)
        }
        return Int64(ends / 2)
    }

    // MARK: Stop

    func stop() throws -> ExitCode {
        let record = try DemoRecord.path(command.paths)
        guard let demo = DemoRecord.read(record) else {
            command.printer.talk("no demo is running")
            if command.printer.isJSON {
                try command.printer.result(["schema": "starling/demo/1", "nodes": [], "stopped": true])
            }
            return .done
        }
        // All are asked before any is waited for; whatever a node answers, its process is ended at last.
        let connections = demo.nodes.compactMap { node in command.finder.connection(to: node.name) }
        for connection in connections { _ = try? DownCommand.ask(connection) }
        for (node, connection) in zip(demo.nodes, connections) { try? DownCommand.awaitEnd(of: node.pid, connection) }
        for node in demo.nodes { Self.end(node.pid) }
        DemoRecord.remove(record)
        TemporaryDirectory.remove(demo.base)
        removeEmptyDirectories(demo)
        try command.printer.result([
            "schema": "starling/demo/1", "nodes": .array(demo.nodes.map(\.json)), "stopped": true,
        ])
        return .done
    }

    /// Ends a process that is still one of ours: asked first, forced after two seconds.
    private static func end(_ pid: Int32) {
        guard isStarling(pid) else { return }
        kill(pid, SIGTERM)
        for _ in 0..<200 where isStarling(pid) { usleep(10_000) }
        if isStarling(pid) { kill(pid, SIGKILL) }
    }

    /// Process numbers are used again: only a process that is a background node of ours is ended.
    private static func isStarling(_ pid: Int32) -> Bool {
        guard pid > 1, let line = ProcessEnvironment.file("/proc/\(pid)/cmdline", limit: 65_536) else { return false }
        return Array(line.split(separator: 0).prefix(2)) == [ArraySlice("starling".utf8), ArraySlice("serve".utf8)]
    }

    /// Without a runtime directory the sockets were in directories of their own below the state root.
    private func removeEmptyDirectories(_ demo: DemoRecord) {
        guard command.paths.runtimeRoot == nil, let root = command.paths.stateRoot else { return }
        for node in demo.nodes where ValueKind.isNodeName(node.name) { unsafe rmdir("\(root)/\(node.name)") }
    }
}

/// What `demo` started, so that `demo stop` finds it.
struct DemoRecord {
    struct Node {
        var name: String
        var pid: Int32
        var port: Int64 = 0
        var fingerprint = ""

        mutating func complete(with ready: JSONValue) {
            port = ready["port"]?.integerValue ?? 0
            fingerprint = ready["fingerprint"]?.stringValue ?? ""
        }

        var json: JSONValue {
            [
                "name": .string(name), "pid": .integer(Int64(pid)), "port": .integer(port),
                "fingerprint": .string(fingerprint),
            ]
        }
    }

    /// The directory above the nodes' states.
    var base: String
    var nodes: [Node]

    /// Beside the sockets; its directory is made if it is not there.
    static func path(_ paths: NodePaths) throws -> String {
        guard let root = paths.runtimeRoot ?? paths.stateRoot else { return try paths.stateDirectory(of: "demo") }
        let number = ProcessEnvironment.makeDirectories(root)
        guard number == 0 else {
            throw CommandFailure(
                code: "storageUnreadable",
                message: "\(SafeText.escaped(root)) cannot be made: \(ProcessEnvironment.reason(number))",
                hint: "STARLING_STATE=/a/directory/of/yours starling demo", exit: .storage)
        }
        return root + "/demo.json"
    }

    /// `nil` when there is none, or it is damaged.
    static func read(_ path: String) -> DemoRecord? {
        guard let bytes = ProcessEnvironment.file(path, limit: 65_536),
            let value = try? JSONValue.parse(bytes),  // A damaged record is none.
            let base = value["base"]?.stringValue
        else { return nil }
        let nodes = (value["nodes"]?.arrayValue ?? []).compactMap { node -> Node? in
            guard let name = node["name"]?.stringValue,
                let pid = node["pid"]?.integerValue.flatMap({ Int32(exactly: $0) })
            else { return nil }
            return Node(
                name: name, pid: pid, port: node["port"]?.integerValue ?? 0,
                fingerprint: node["fingerprint"]?.stringValue ?? "")
        }
        return DemoRecord(base: base, nodes: nodes)
    }

    func write(_ path: String) throws {
        let value: JSONValue = ["base": .string(base), "nodes": .array(nodes.map(\.json))]
        let number = ProcessEnvironment.replaceFile(path, with: Array(value.text.utf8))
        guard number == 0 else {
            throw CommandFailure(
                code: number == ENOSPC ? "storageFull" : "storageUnreadable",
                message: "\(SafeText.escaped(path)) cannot be written: \(ProcessEnvironment.reason(number))",
                hint: "free some space, or set STARLING_STATE", exit: .storage)
        }
    }

    static func remove(_ path: String) { unsafe unlink(path) }
}
