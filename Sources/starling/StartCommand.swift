import Glibc
import MeshBase
import MeshConsole
import MeshNode
import MeshSystem

/// `up`, `join` and their background half: a node in this process, or in one that outlives it.
struct StartCommand {
    let command: CommandRun

    private var invocation: Invocation { command.invocation }

    func up() throws -> ExitCode { try start(try options()) }

    func join() throws -> ExitCode {
        let argument = invocation.argument(0) ?? "-"
        var options = try options()
        options.ticketText = argument == "-" ? try ticketFromInput() : argument
        if argument != "-" { ProcessEnvironment.wipeArgument(equalTo: argument) }
        options.atAddresses = try invocation.texts("at").flatMap(AddressLookUp.numeric)
        return try start(options)
    }

    private func start(_ options: NodeOptions) throws -> ExitCode {
        if let refusal = NodeProgram.refusal(of: options), let failure = CommandFailure(json: refusal.json) {
            if options.ephemeral { TemporaryDirectory.remove(options.stateDirectory) }
            throw failure
        }
        guard invocation.flag("background") else {
            return NodeForeground(options: options, printer: command.printer).run()
        }
        let node = try BackgroundNode.spawn(options)
        let ready = try node.waitUntilReady(seconds: options.timeoutSeconds + 10)
        try command.printer.result(ready)
        return .done
    }

    /// The other end of `BackgroundNode.spawn`.
    func serve() throws -> ExitCode {
        guard let bytes = ProcessEnvironment.standardInput(limit: 1 << 20),
            let value = try? JSONValue.parse(bytes),  // Anything else than what spawn wrote is refused below.
            let options = NodeOptions(encoded: value)
        else {
            throw CommandFailure.usage("serve is what --background runs", hint: "starling up --background")
        }
        return BackgroundNode.serve(options)
    }

    // MARK: Options

    private func options() throws -> NodeOptions {
        let settings = try command.settings()
        let name = settings["name"] ?? ProcessEnvironment.machineName()
        let isEphemeral = invocation.flag("ephemeral")
        let directory =
            isEphemeral ? try TemporaryDirectory.makeForNode(name) : try command.paths.stateDirectory(of: name)
        var options = NodeOptions(
            name: name, stateDirectory: directory, controlSocketPath: try command.paths.controlSocket(for: name))
        options.meshLabel = invocation.text("mesh")
        options.policyText = invocation.text("policy")
        if let port = invocation.integer("port").flatMap({ UInt16(exactly: $0) }) {
            options.port = port
            options.isPortFixed = true
        }
        options.bindAddresses = invocation.texts("bind")
        options.discovery = !invocation.flag("no-discovery")
        options.ephemeral = isEphemeral
        options.maxAttachmentBytes = invocation.integer("max-attachment")
        options.setHostClock(invocation.options["host-clock"])
        options.logLevels = settings.logLevels
        options.timeoutSeconds = invocation.number("timeout") ?? ControlRequest.defaultTimeoutSeconds
        options.json = command.printer.isJSON
        try prepare(options)
        return options
    }

    /// Directories for the socket; the state directory is the node's to make.
    private func prepare(_ options: NodeOptions) throws {
        guard let slash = options.controlSocketPath.lastIndex(of: "/") else { return }
        let directory = String(options.controlSocketPath[..<slash])
        let number = ProcessEnvironment.makeDirectories(directory)
        guard number == 0 else {
            throw CommandFailure(
                code: "storageUnreadable",
                message: "\(SafeText.escaped(directory)) cannot be made: \(ProcessEnvironment.reason(number))",
                hint: "STARLING_STATE=/a/directory/of/yours starling up", exit: .storage)
        }
    }

    private func ticketFromInput() throws -> String {
        if ProcessEnvironment.isTerminal(0) {
            guard !invocation.flag("no-input") else {
                throw CommandFailure.usage(
                    "the invite is awaited on standard input", hint: "starling join - < invite.txt")
            }
            command.printer.talk("paste the invite, then Enter:")
        }
        let bytes =
            ProcessEnvironment.isTerminal(0)
            ? Array((readLine() ?? "").utf8) : ProcessEnvironment.standardInput(limit: 65_536) ?? []
        guard let text = String(validating: bytes, as: UTF8.self), text.contains("starling:") else {
            throw CommandFailure(
                code: "usage", message: "standard input holds no invite",
                hint: "on the other machine: starling invite", exit: .usage)
        }
        return text.filter { !$0.isWhitespace }
    }
}

/// Names in `--at`, looked up once, before the node starts: the node itself never asks a name server.
enum AddressLookUp {
    static func numeric(_ text: String) throws -> [String] {
        if SocketAddress(text) != nil { return [text] }
        guard let colon = text.lastIndex(of: ":") else { return [text] }
        let host = String(text[..<colon])
        let port = text[text.index(after: colon)...]
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_DGRAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let result = unsafe getaddrinfo(host, nil, &hints, &list)
        guard result == 0 else {
            throw CommandFailure(
                code: "unreachable",
                message: "--at: \(SafeText.escaped(host, limit: 80)) has no address that is known here",
                hint: "give the number: --at 192.0.2.14:\(port)", exit: .unreachable)
        }
        defer { unsafe freeaddrinfo(list) }
        var output: [String] = []
        var next = unsafe list
        while let entry = unsafe next, output.count < 16 {
            var bytes = [CChar](repeating: 0, count: 256)
            let named = unsafe getnameinfo(
                entry.pointee.ai_addr, entry.pointee.ai_addrlen, &bytes, socklen_t(bytes.count), nil, 0, NI_NUMERICHOST)
            let numeric = String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            if named == 0 { output.append(numeric.contains(":") ? "[\(numeric)]:\(port)" : "\(numeric):\(port)") }
            unsafe next = entry.pointee.ai_next
        }
        return output
    }
}

/// Directories that go when the node goes.
enum TemporaryDirectory {
    static func make(_ prefix: String) throws -> String {
        var template = Array("\(base)/\(prefix)-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else {
            throw CommandFailure(
                code: "storageUnreadable",
                message: "no directory can be made in \(base): \(ProcessEnvironment.reason(errno))",
                hint: "TMPDIR=/a/directory/of/yours starling …", exit: .storage)
        }
        return String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    private static let nodePrefix = "starling-eph-"

    /// For a node that leaves nothing. Those of earlier ones that were killed, and could not remove theirs, go now.
    static func makeForNode(_ name: String) throws -> String {
        for entry in ProcessEnvironment.names(in: base) where entry.hasPrefix(nodePrefix) {
            let path = "\(base)/\(entry)"
            // One that is just being made has no store yet.
            if ProcessEnvironment.isOwnDirectory(path), DiskStorage.exists(at: path), !DiskStorage.isInUse(at: path) {
                remove(path)
            }
        }
        return try make(nodePrefix + name)
    }

    private static var base: String {
        ProcessEnvironment.variable("TMPDIR").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
    }

    /// Removes what `make` made, without following links. Anything else than such a directory is left alone.
    static func remove(_ path: String) {
        guard path.contains("/starling-"), !path.hasSuffix("/") else { return }
        removeTree(path, depth: 0)
    }

    private static func removeTree(_ path: String, depth: Int) {
        guard depth < 32 else { return }
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return }
        guard information.st_mode & S_IFMT == S_IFDIR else {
            unsafe unlink(path)
            return
        }
        for name in ProcessEnvironment.names(in: path) { removeTree(path + "/" + name, depth: depth + 1) }
        unsafe rmdir(path)
    }
}
