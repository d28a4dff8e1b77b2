import Glibc
import MeshBase
import MeshConsole
import MeshSystem

/// `doctor`: what can go wrong on this machine, checked without a network and without a node, each line with its fix.
struct DoctorCommand {
    let command: CommandRun

    /// For a report that others read: counts instead of names.
    var isRedacted = false

    func run() throws -> ExitCode {
        var report = examine()
        if let peer = command.invocation.text("peer") {
            report = Self.adding(try PeerCheck(command: command).checks(of: peer), to: report)
        }
        try command.printer.result(report)
        let isBad = report["checks"]?.arrayValue?.contains { $0["result"]?.stringValue == "fail" } ?? false
        return isBad ? .failed : .done
    }

    /// `starling/doctor/1`: the checks in the order in which a start would meet them.
    func examine() -> JSONValue {
        let start = ProcessEnvironment.monotonicNanoseconds()
        let checks = [state(), socket(), space(), clock(), interfaces(), port(), multicast()]
        let seconds = Double(ProcessEnvironment.monotonicNanoseconds() - start) / 1e9
        return ["schema": "starling/doctor/1", "checks": .array(checks), "seconds": .number(seconds)]
    }

    private static func adding(_ checks: [JSONValue], to report: JSONValue) -> JSONValue {
        [
            "schema": "starling/doctor/1", "checks": .array((report["checks"]?.arrayValue ?? []) + checks),
            "seconds": report["seconds"] ?? .null,
        ]
    }

    private func ok(_ name: String, _ message: String) -> JSONValue {
        ["name": .string(name), "result": "ok", "message": .string(message)]
    }

    private func bad(_ name: String, _ result: String, _ message: String, fix: String) -> JSONValue {
        ["name": .string(name), "result": .string(result), "message": .string(message), "fix": .string(fix)]
    }

    // MARK: Storage

    private func state() -> JSONValue {
        guard let root = command.paths.stateRoot else {
            return bad("state", "fail", "HOME is not set", fix: "export STARLING_STATE=/var/lib/starling")
        }
        var number = ProcessEnvironment.makeDirectories(root)
        let probe = "\(root)/.doctor.\(getpid())"
        if number == 0 { number = ProcessEnvironment.replaceFile(probe, with: Array("probe".utf8)) }
        unsafe unlink(probe)
        guard number == 0 else {
            let elsewhere = "export STARLING_STATE=/elsewhere"
            let fix =
                switch number {
                case ENOSPC, EDQUOT: "free some space, or \(elsewhere)"
                case EROFS: "its file system is read-only: mount it writable, or \(elsewhere)"
                case EACCES, EPERM: "chmod u+rwx \(root), or \(elsewhere)"
                default: elsewhere
                }
            return bad("state", "fail", "\(root) cannot be written: \(ProcessEnvironment.reason(number))", fix: fix)
        }
        let nodes = ProcessEnvironment.names(in: root).filter { ProcessEnvironment.isDirectory("\(root)/\($0)") }
        return ok("state", "\(root): " + (nodes.isEmpty ? noState : list(nodes)))
    }

    /// A demo keeps its state elsewhere: nodes may run although none has its state here.
    private var noState: String {
        command.finder.running().isEmpty
            ? "no node yet, one will be made" : "no node keeps its state here; those that run keep theirs elsewhere"
    }

    private func list(_ nodes: [String]) -> String {
        isRedacted ? "\(nodes.count) \(nodes.count == 1 ? "node" : "nodes")" : nodes.joined(separator: ", ")
    }

    private func socket() -> JSONValue {
        let name = ProcessEnvironment.machineName()
        do throws(CommandFailure) {
            let path = try command.paths.controlSocket(for: name)
            let running = command.finder.running().map(\.nodeName)
            let nodes = running.isEmpty ? "no node is running" : "running: " + list(running)
            return ok("control", "\(path.utf8.count) of \(SocketPath.limit) bytes of path; \(nodes)")
        } catch {
            return bad("control", "fail", error.message, fix: error.hint)
        }
    }

    private func space() -> JSONValue {
        guard let root = command.paths.stateRoot else { return bad("space", "warn", "unknown", fix: "export HOME") }
        var information = statvfs()
        // The state root may not be there yet; its file system is that of the nearest directory above.
        var path = root
        while unsafe statvfs(path, &information) != 0, let slash = path.lastIndex(of: "/") {
            path = String(path[..<slash])
            if path.isEmpty {
                unsafe statvfs("/", &information)
                break
            }
        }
        let free = Double(information.f_bavail) * Double(information.f_frsize)
        let message = "\(Quantity.bytes(free)) free"
        return free < 1e9
            ? bad("space", "warn", message, fix: "free some space before sharing large files") : ok("space", message)
    }

    // MARK: Time

    private func clock() -> JSONValue {
        var resolution = timespec()
        unsafe clock_getres(CLOCK_MONOTONIC, &resolution)
        let first = ProcessEnvironment.monotonicNanoseconds()
        var previous = first
        for _ in 0..<10_000 {
            let next = ProcessEnvironment.monotonicNanoseconds()
            guard next >= previous else {
                return bad("clock", "fail", "the monotonic clock went back", fix: "update the kernel or the hypervisor")
            }
            previous = next
        }
        guard previous > first else {
            return bad("clock", "fail", "the monotonic clock stands still", fix: "update the kernel or the hypervisor")
        }
        let step = resolution.tv_sec == 0 ? "\(resolution.tv_nsec) ns" : "\(resolution.tv_sec) s"
        return ok("clock", "monotonic, \(step); the time of day is not used")
    }

    // MARK: Network

    private func interfaces() -> JSONValue {
        do throws(SystemError) {
            let interfaces = try NetworkInterfaces.current().all
            let used = interfaces.filter { $0.isUp && !$0.isLoopback && !$0.isInternal }
            let ignored = interfaces.filter { $0.isUp && $0.isInternal }.map(\.name)
            guard !used.isEmpty else {
                return bad(
                    "interfaces", "warn", "only loopback: nodes of this machine alone will meet",
                    fix: "connect a network")
            }
            let shown = used.map { interface in
                let families = Set(interface.addresses.map(\.family))
                let list = (families.contains(.ipv4) ? ["v4"] : []) + (families.contains(.ipv6) ? ["v6"] : [])
                return "\(interface.name) (\(list.joined(separator: " ")))"
            }
            let rest = ignored.isEmpty ? "" : "; \(ignored.joined(separator: ", ")) not advertised: inside this machine"
            return ok("interfaces", shown.joined(separator: ", ") + rest)
        } catch {
            return bad("interfaces", "fail", error.message, fix: error.hint ?? "ip address")
        }
    }

    private func port() -> JSONValue {
        let wanted = TransportOptions.defaultPort
        do throws(SystemError) {
            let socket = try DatagramSocket(
                options: TransportOptions(port: wanted, isPortExplicit: true, discovery: false),
                clock: MonotonicClock(),
                loop: nil)
            socket.close()
            return ok("port", "udp/\(wanted) is free")
        } catch {
            guard case .callFailed = error else {
                return ok("port", "\(error.message); a node takes the next free one")
            }
            return bad("port", "fail", error.message, fix: error.hint ?? "starling up --port 47900")
        }
    }

    /// Sends a beacon that nobody can read and listens for it.
    private func multicast() -> JSONValue {
        do throws(SystemError) {
            let socket = try DatagramSocket(options: TransportOptions(port: 0), clock: MonotonicClock(), loop: nil)
            defer { socket.close() }
            let probe = Self.probe()
            let deadline = ProcessEnvironment.monotonicNanoseconds() + 1_000_000_000
            var sources: Set<SocketAddress.Family> = []
            while sources.count < 2, ProcessEnvironment.monotonicNanoseconds() < deadline {
                socket.sendBeacon(probe)
                usleep(50_000)
                _ = socket.receiveBeacons(limit: 64) { bytes, source in
                    if bytes == probe { sources.insert(source.family) }
                }
            }
            let heard = (sources.contains(.ipv4) ? ["v4"] : []) + (sources.contains(.ipv6) ? ["v6"] : [])
            guard !heard.isEmpty else {
                return bad(
                    "multicast", "warn",
                    "our own beacon did not come back: nodes will not find each other by themselves",
                    fix: "sudo ufw allow 47799/udp, or join with --at HOST:PORT")
            }
            return ok("multicast", "heard our own beacon over \(heard.joined(separator: " and "))")
        } catch {
            return bad("multicast", "warn", error.message, fix: error.hint ?? "join with --at HOST:PORT")
        }
    }

    private static func probe() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        return (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
    }
}
