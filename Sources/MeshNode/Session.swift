import MeshBase
import MeshProtocol
import MeshSystem

/// Who is here, who is suspect, and which paths reach them. Performs no effects of its own.
public actor Session {
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }
    private nonisolated let executor: any NodeExecutor
    private var machine: SessionStateMachine
    private var outbox = Outbox<SessionOutput>()
    private(set) var statistics = ActorStatistics()

    enum Input: Sendable {
        case message([UInt8], from: PeerID)
        case command(SessionCommand)
    }

    init(machine: SessionStateMachine, executor: any NodeExecutor) {
        self.machine = machine
        self.executor = executor
    }

    /// Handles inputs in order, then whatever is due.
    func perform(_ inputs: [Input], at now: HostTime) -> [SessionOutput] {
        guard !inputs.isEmpty || nextDeadline.isDue(at: now) else { return [] }
        for input in inputs {
            switch input {
            case .message(let bytes, let peer): machine.receive(bytes, from: peer, at: now, into: &outbox)
            case .command(let command):
                // Told facts are never refused; commands of people go through `submit`.
                do { try machine.submit(command, at: now, into: &outbox) } catch { statistics.refusedCommands += 1 }
            }
        }
        nextDeadline = machine.askNextDeadline()
        if nextDeadline.isDue(at: now) {
            machine.handleDeadline(at: now, into: &outbox)
            nextDeadline = machine.askNextDeadline()
        }
        return takeOutputs()
    }

    /// One command of a person, whose refusal is answered.
    func submit(_ command: SessionCommand, at now: HostTime) throws(CommandError) -> [SessionOutput] {
        defer { nextDeadline = machine.askNextDeadline() }
        try machine.submit(command, at: now, into: &outbox)
        return takeOutputs()
    }

    /// As of the last input: asking the machine would copy it.
    private(set) var nextDeadline: HostTime?
    var members: [Member] { machine.members }
    var current: SessionStateMachine { machine }

    private func takeOutputs() -> [SessionOutput] {
        defer { outbox.removeAll() }
        return outbox.items
    }
}
