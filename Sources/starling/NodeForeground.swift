import Glibc
import MeshBase
import MeshConsole
import MeshNode

/// A node in this process, until it ends, is told to, or a signal comes.
struct NodeForeground {
    let options: NodeOptions
    let printer: Printer
    /// In the background the invite stays out of the log; whoever waits for readiness gets it.
    var isDaemon = false
    /// Told the first object that is ready or an error; for the process that waits for it.
    var tellReadiness: @Sendable (JSONValue) -> Void = { _ in }

    /// Objects waiting to be printed; when a reader is too slow the oldest go, the node never waits.
    private static let maximumWaiting = 4_096

    /// Never returns before the node has ended; politely within a second of the first signal, at once on a second.
    func run() -> ExitCode {
        let signals = SignalWait([SIGINT, SIGTERM, SIGHUP])
        let (objects, queue) = AsyncStream.makeStream(
            of: JSONValue.self, bufferingPolicy: .bufferingNewest(Self.maximumWaiting))
        let end = NodeEnd()
        let node = Task {
            let code = await NodeProgram.run(options) { _ = queue.yield($0) }
            queue.finish()
            end.set(node: code)
        }
        Task { [self] in
            await show(objects)
            end.set(isPrinted: true)
        }
        let signal = wait(signals, for: end, cancelling: node)
        // A start that failed at once leaves nothing: only an empty directory can be removed so.
        if end.code != 0 { unsafe rmdir(options.stateDirectory) }
        if options.ephemeral { TemporaryDirectory.remove(options.stateDirectory) }
        if signal == SIGINT { return .interrupted }
        return ExitCode(rawValue: end.code ?? 0) ?? .failed
    }

    /// The signal that ended the wait, if one did.
    private func wait(_ signals: SignalWait, for end: NodeEnd, cancelling node: Task<Void, Never>) -> Int32? {
        var first: Int32?
        var deadline = Int64.max
        while !end.isWhole, ProcessEnvironment.monotonicNanoseconds() < deadline {
            // An idle node's main thread sleeps; whoever changes `end` wakes it.
            let patience = deadline == Int64.max && end.code == nil ? 3_600_000 : 20
            guard let signal = signals.next(milliseconds: patience) else {
                // The node is done and only the printing is not: a reader that stands still is not waited for.
                if end.code != nil { deadline = min(deadline, ProcessEnvironment.monotonicNanoseconds() + 500_000_000) }
                continue
            }
            if first != nil { _exit(ExitCode.interrupted.rawValue) }
            first = signal
            node.cancel()
            deadline = ProcessEnvironment.monotonicNanoseconds() + 1_500_000_000
        }
        return first
    }

    private func show(_ objects: AsyncStream<JSONValue>) async {
        var isOpen = true
        var isAwaited = true
        for await object in objects {
            let failure = CommandFailure(json: object)
            if isAwaited, failure != nil || object["schema"]?.stringValue == "starling/up/1" {
                tellReadiness(object)
                isAwaited = false
            }
            if isDaemon, object["invite"] != nil { continue }
            if let failure {
                printer.failure(failure)
            } else if isOpen {
                // The reader of a daemon may come and go (CLI-02): the node lives on.
                do throws(StandardStream.End) { try printer.result(object) } catch { isOpen = false }
            }
        }
    }
}

/// How far the end of a node has come, told by its tasks, asked by the thread that waits.
private final class NodeEnd: Sendable {
    private let state = NodeEndLock()

    func set(node code: Int32) {
        state.change { $0.code = code }
        SignalWait.wake()
    }

    func set(isPrinted: Bool) {
        state.change { $0.isPrinted = isPrinted }
        SignalWait.wake()
    }
    var code: Int32? { state.read.code }
    var isWhole: Bool { state.read.code != nil && state.read.isPrinted }
}
