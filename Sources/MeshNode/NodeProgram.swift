import Glibc
import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// A node as a program: from its options to its exit code.
public enum NodeProgram {
    /// Runs a node until it is told to stop (`down` on the control socket) or its task is cancelled.
    ///
    /// `output` receives one `starling/up/1` object when the node is ready, then `starling/events/1` objects; or one
    /// `starling/error/1` object. Any thread; a slow reader never holds the node. Returns the exit code.
    public static func run(
        _ options: NodeOptions, output: @escaping @Sendable (JSONValue) -> Void
    ) async -> Int32 {
        ProcessSetup.ignoreBrokenPipes()
        do throws(NodeError) {
            return try await NodeProcess(options, output).run()
        } catch {
            output(error.json)
            return error.exit
        }
    }

    /// Why a start with these options would be refused before it makes or touches anything, as far as the options alone
    /// tell: a damaged invite, an impossible address.
    public static func refusal(of options: NodeOptions) -> NodeError? {
        do throws(NodeError) {
            _ = try NodeProcess(options) { _ in }.readOptions()
            return nil
        } catch {
            return error
        }
    }
}

/// Facts of this process.
enum Process {
    static var identifier: Int32 { getpid() }

    /// Seconds since 1970; for display only, never for a decision.
    static func wallSeconds() -> Double {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// One life of a node in this process: what is opened in order and closed in the reverse one.
private struct NodeProcess {
    let options: NodeOptions
    let output: @Sendable (JSONValue) -> Void

    init(_ options: NodeOptions, _ output: @escaping @Sendable (JSONValue) -> Void) {
        self.options = options
        self.output = output
    }

    /// What the options' texts say.
    struct Reading {
        let logger: Logger
        let ticket: Ticket?
        let addresses: [SocketAddress]
        let policies: MeshPolicies
    }

    /// Refuses what can be refused before anything is made or started.
    func readOptions() throws(NodeError) -> Reading {
        Reading(
            logger: try makeLogger(), ticket: try parsedTicket(), addresses: try parsedAddresses(options.atAddresses),
            policies: try MeshPolicies(text: options.policyText ?? ""))
    }

    func run() async throws(NodeError) -> Int32 {
        let reading = try readOptions()
        let isNew = !DiskStorage.exists(at: options.stateDirectory)
        let storage: DiskStorage
        do throws(NodeError) {
            storage = try openStorage()
        } catch {
            // Not what another process holds: removing takes the lock.
            if isNew { DiskStorage.remove(at: options.stateDirectory) }
            throw error
        }
        let result = await live(reading, with: storage)
        // A first start that led into no mesh leaves nothing, so that the next one does not take it for a node.
        let isForNothing = isNew && !hasMesh(storage)
        storage.close()
        if isForNothing { DiskStorage.remove(at: options.stateDirectory) }
        return try result.get()
    }

    /// Whatever cannot be read may be a mesh.
    private func hasMesh(_ storage: DiskStorage) -> Bool {
        do { return try storage.setting(NodeBoot.sessionSetting) != nil } catch { return true }
    }

    private func live(_ reading: Reading, with storage: DiskStorage) async -> Result<Int32, NodeError> {
        do throws(NodeError) {
            let logger = reading.logger
            let boot = try NodeBoot.load(storage: storage, entropy: SystemEntropy())
            let start = try chooseStart(reading, boot)
            let system = try openSystem()
            let queues = try opened { () throws(SystemError) in try StorageThread.queues() }
            let node = Node(
                configuration: configuration,
                environment: Environment(
                    clock: system.clock, entropy: SystemEntropy(), transport: system.socket, storage: storage,
                    executor: system.loop),
                queues: queues, boot: boot, wallClock: Process.wallSeconds, logger: logger)
            let control = try opened { () throws(SystemError) in
                let server = try ControlServer(path: options.controlSocketPath, inbox: node.inbox)
                try server.start()
                return server
            }
            logger.log(
                .info, .node, "started", ["name": options.name, "port": String(system.socket.localPort)])
            let result = await live(node, start, boot, on: system.loop)
            logger.log(.info, .node, "ended")
            control.stop()
            await withCheckedContinuation { continuation in node.storage.drain { continuation.resume() } }
            system.loop.stop()
            return result
        } catch {
            return .failure(error)
        }
    }

    private var configuration: NodeConfiguration {
        var configuration = NodeConfiguration(name: options.name)
        configuration.session.isDiscoveryEnabled = options.discovery
        configuration.session.joinTimeout = TimeSpan.seconds(options.timeoutSeconds)
        if let limit = options.maxAttachmentBytes {
            configuration.journal.maximumAttachmentBytes = UInt64(max(0, limit))
            configuration.journal.maximumFetchBytes = UInt64(max(0, limit))
        }
        return configuration
    }

    /// Errors to standard error, and what was asked for: what people should see comes as events.
    private func makeLogger() throws(NodeError) -> Logger {
        let logger = Logger(level: .error)
        let levels = options.logLevels.sorted { ($0.key == "all" ? 0 : 1, $0.key) < ($1.key == "all" ? 0 : 1, $1.key) }
        let text = levels.map { "\($0.key)=\($0.value)" }.joined(separator: ",")
        if let problem = logger.configure(text) { throw .usage(problem, hint: "starling help log") }
        return logger
    }

    /// The node's turns on its loop, and beside them the announcements on `output`.
    private func live(
        _ node: Node, _ start: NodeStart, _ boot: NodeBoot, on loop: EventLoop
    ) async -> Result<Int32, NodeError> {
        node.announceEvents(to: output)
        node.announceReadiness(founded: isFounding(start)) { [output] in output($0) }
        return await withTaskGroup(of: Void.self) { group in
            group.addTask(executorPreference: loop) { await node.run(start, boot: boot) }
            await group.waitForAll()
            return await node.result
        }
    }

    private func isFounding(_ start: NodeStart) -> Bool {
        if case .found = start { true } else { false }
    }

    private func parsedTicket() throws(NodeError) -> Ticket? {
        guard let text = options.ticketText else { return nil }
        do throws(TicketError) {
            return try Ticket(text: text)
        } catch {
            throw NodeError(error)
        }
    }

    private func parsedAddresses(_ texts: [String]) throws(NodeError) -> [SocketAddress] {
        var addresses: [SocketAddress] = []
        for text in texts {
            guard let address = SocketAddress(text, defaultPort: TransportOptions.defaultPort), address.isDialable
            else {
                throw .usage(
                    "\(SafeText.escaped(text, limit: 80)) is not an address",
                    hint: "write it as 192.0.2.14:47800 or [2001:db8::1]:47800")
            }
            addresses.append(address)
        }
        return addresses
    }

    private func openStorage() throws(NodeError) -> DiskStorage {
        do throws(StorageError) {
            return try DiskStorage(path: options.stateDirectory)
        } catch {
            throw NodeError(error)
        }
    }

    /// A directory belongs to one mesh: a ticket of another is refused before anything changes.
    private func chooseStart(
        _ reading: Reading, _ boot: NodeBoot
    ) throws(NodeError) -> NodeStart {
        guard let ticket = reading.ticket else {
            return boot.state.map { .resume($0) }
                ?? .found(label: options.meshLabel ?? options.name, policies: reading.policies)
        }
        guard let state = boot.state else { return .join(ticket, extraAddresses: reading.addresses) }
        guard state.mesh == ticket.meshID else {
            throw NodeError(
                "otherMesh", "\(options.name) belongs to the mesh \"\(SafeText.escaped(state.label))\" already",
                hint: "give this start another name: starling join - --name OTHER", exit: 5)
        }
        return .resume(state)
    }

    private func openSystem() throws(NodeError) -> (clock: MonotonicClock, loop: EventLoop, socket: DatagramSocket) {
        guard
            let clock = MonotonicClock(
                offsetNanoseconds: options.hostClockOffsetNanoseconds,
                ratePartsPerMillion: options.hostClockPartsPerMillion)
        else { throw .usage("the host clock's rate is out of range", hint: "--host-clock OFFSET_NANOSECONDS,PPM") }
        let transport = TransportOptions(
            port: options.port, isPortExplicit: options.isPortFixed, bindAddresses: try bindAddresses(),
            discovery: options.discovery)
        return try opened { () throws(SystemError) in
            let loop = try EventLoop(clock: clock)
            let socket = try DatagramSocket(options: transport, clock: clock, loop: loop)
            try loop.start()
            return (clock, loop, socket)
        }
    }

    /// Numeric addresses, or interface names for all addresses of that interface.
    private func bindAddresses() throws(NodeError) -> [SocketAddress] {
        var addresses: [SocketAddress] = []
        for text in options.bindAddresses {
            if let address = SocketAddress(text) {
                addresses.append(address)
                continue
            }
            let interfaces = try opened { () throws(SystemError) in try NetworkInterfaces.current() }
            guard let interface = interfaces.all.first(where: { $0.name == text }), !interface.addresses.isEmpty else {
                throw .usage(
                    "\(SafeText.escaped(text, limit: 80)) is neither an address nor an interface of this machine",
                    hint: "interfaces: \(interfaces.all.map(\.name).joined(separator: " "))")
            }
            addresses += interface.addresses
        }
        return addresses
    }

    private func opened<Value>(_ body: () throws(SystemError) -> Value) throws(NodeError) -> Value {
        do throws(SystemError) { return try body() } catch { throw NodeError(error) }
    }
}

extension NodeError {
    init(_ error: TicketError) {
        switch error {
        case .unsupportedVersion(let version):
            self.init(
                "versionMismatch", "this invite has version \(version), this starling reads an older one",
                hint: "update starling here", exit: 5)
        default:
            self.init(
                "invalidInvite", "this is not a whole starling invite",
                hint: "copy all of it, from starling: to the end",
                exit: 2)
        }
    }
}
