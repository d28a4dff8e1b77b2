import Glibc
import MeshBase
import MeshConsole
import MeshNode

/// A node in a process of its own session, which outlives the one that started it.
///
/// Options go in on standard input (a pipe), one line of readiness comes out on descriptor 3, talk goes to the file
/// `log` in the state directory.
struct BackgroundNode {
    let pid: pid_t
    let name: String
    let logPath: String
    private let readiness: Int32

    private static let readinessDescriptor: Int32 = 3
    /// A log larger than this is begun anew at the next start.
    private static let maximumLogBytes = 8 << 20

    // MARK: Starting

    static func spawn(_ options: NodeOptions) throws -> BackgroundNode {
        let number = ProcessEnvironment.makeDirectories(options.stateDirectory)
        guard number == 0 else { throw storage(options.stateDirectory, number) }
        let logPath = options.stateDirectory + "/log"
        let log = try openLog(logPath)
        defer { close(log) }
        let (input, inputWriter) = try pipe()
        let (readiness, readinessWriter) = try pipe()
        defer {
            close(input)
            close(inputWriter)
            close(readinessWriter)
        }
        let pid: pid_t
        do {
            pid = try start(options.name, descriptors: [(input, 0), (log, 1), (log, 2), (readinessWriter, 3)])
        } catch {
            close(readiness)
            throw error
        }
        // Fits into a pipe's buffer; a child that died at once shows up as the end of `readiness`.
        _ = StandardStream.write(options.encoded.text, to: inputWriter)
        return BackgroundNode(pid: pid, name: options.name, logPath: logPath, readiness: readiness)
    }

    private static func storage(_ path: String, _ number: Int32) -> CommandFailure {
        let isFull = number == ENOSPC || number == EDQUOT
        return CommandFailure(
            code: isFull ? "storageFull" : "storageUnreadable",
            message: "\(SafeText.escaped(path)) cannot be written: \(ProcessEnvironment.reason(number))",
            hint: isFull
                ? "free some space, or use another directory: STARLING_STATE=DIR starling up"
                : "STARLING_STATE=/a/directory/of/yours starling up", exit: .storage)
    }

    private static func openLog(_ path: String) throws -> Int32 {
        var information = stat()
        let isLarge = unsafe stat(path, &information) == 0 && information.st_size > maximumLogBytes
        let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (isLarge ? O_TRUNC : 0)
        let descriptor = unsafe open(path, flags, 0o600)
        guard descriptor >= 0 else { throw storage(path, errno) }
        return descriptor
    }

    private static func pipe() throws -> (reader: Int32, writer: Int32) {
        var ends: [Int32] = [0, 0]
        guard unsafe Glibc.pipe(&ends) == 0 else {
            throw CommandFailure(
                code: "failed", message: "no pipe can be made: \(ProcessEnvironment.reason(errno))", exit: .failed)
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static func start(_ name: String, descriptors: [(from: Int32, to: Int32)]) throws -> pid_t {
        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawnattr_init(&attributes)
        defer {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }
        for (from, to) in descriptors { unsafe posix_spawn_file_actions_adddup2(&actions, from, to) }
        // A session of its own: no terminal's signal reaches it. Ours is blocked for waiting, its must not be.
        let newSession: Int16 = 0x80
        let signalMask: Int16 = 0x08
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setflags(&attributes, newSession | signalMask)
        var pid: pid_t = 0
        let number = unsafe withStrings(["starling", "serve", name]) { arguments in
            unsafe withStrings(environment()) { variables in
                unsafe posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments, variables)
            }
        }
        guard number == 0 else {
            throw CommandFailure(
                code: "failed", message: "no process can be started: \(ProcessEnvironment.reason(number))",
                exit: .failed)
        }
        return pid
    }

    /// The environment this process was given; the C library's own variable is no business of several threads.
    private static func environment() -> [String] {
        let bytes = ProcessEnvironment.file("/proc/self/environ", limit: 4 << 20) ?? []
        return bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func withStrings<Result>(
        _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let pointers = unsafe texts.map { unsafe strdup($0) }
        defer { for position in texts.indices { unsafe free(pointers[position]) } }
        return unsafe body(pointers + [nil])
    }

    // MARK: Waiting

    /// The object with which the node said that it is ready; throws the failure it told instead. Ctrl-C while waiting
    /// takes the node down with us.
    func waitUntilReady(seconds: Double) throws -> JSONValue {
        defer { close(readiness) }
        let signals = SignalWait([SIGINT, SIGTERM])
        let deadline = ProcessEnvironment.monotonicNanoseconds() + Int64(min(max(seconds, 0), 1e9) * 1e9)
        var bytes: [UInt8] = []
        while true {
            var wanted = pollfd(fd: readiness, events: Int16(POLLIN), revents: 0)
            if unsafe poll(&wanted, 1, 20) > 0 {
                var block = [UInt8](repeating: 0, count: 65_536)
                let got = unsafe read(readiness, &block, block.count)
                if got > 0 { bytes += block.prefix(got) }
                if got == 0 || bytes.contains(0x0a) || bytes.count > 1 << 20 { return try outcome(bytes) }
            }
            if signals.next(milliseconds: 0) != nil {
                kill(pid, SIGTERM)
                _exit(ExitCode.interrupted.rawValue)
            }
            guard ProcessEnvironment.monotonicNanoseconds() < deadline else {
                kill(pid, SIGTERM)
                throw CommandFailure(
                    code: "timedOut", message: "\(name) was not ready in time and was stopped",
                    hint: "what it said: \(SafeText.escaped(logPath))", exit: .unreachable)
            }
        }
    }

    private func outcome(_ bytes: [UInt8]) throws -> JSONValue {
        let line = bytes.prefix { $0 != 0x0a }
        guard !line.isEmpty, let object = try? JSONValue.parse(line) else {  // Not ours: the process died.
            var status: Int32 = 0
            unsafe waitpid(pid, &status, 0)
            throw CommandFailure(
                code: "failed", message: "\(name) ended before it was ready",
                hint: "what it said: \(SafeText.escaped(logPath))", exit: .failed)
        }
        if let failure = CommandFailure(json: object) { throw failure }
        return object
    }

    // MARK: Being it

    /// Started as /proc/self/exe, the kernel calls it "exe"; process lists and "port in use by" shall say who it is.
    private static func nameProcess() {
        let file = unsafe open("/proc/self/comm", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        _ = StandardStream.write("starling", to: file)
    }

    /// Runs the node in this process, which `spawn` started.
    static func serve(_ options: NodeOptions) -> ExitCode {
        let readiness = readinessDescriptor
        _ = fcntl(readiness, F_SETFD, FD_CLOEXEC)
        // What the shell left open would keep its pipes from ending while the node lives.
        for descriptor in ProcessEnvironment.names(in: "/proc/self/fd").compactMap({ Int32($0) })
        where descriptor > readiness { close(descriptor) }
        // Nothing is read from standard input any more (CLI-03), and no directory is kept from being unmounted.
        let null = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
        if null >= 0 { dup2(null, 0) }
        _ = unsafe chdir("/")
        nameProcess()
        var foreground = NodeForeground(
            options: options, printer: Printer(isJSON: false, isQuiet: false, noColor: true), isDaemon: true)
        foreground.tellReadiness = { object in
            _ = StandardStream.write(object.text + "\n", to: readiness)
            close(readiness)
        }
        return foreground.run()
    }
}
