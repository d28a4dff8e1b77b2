import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

/// The order of what happened and the clock that everybody shares. Performs no effects: it reads `now` as a parameter.
public actor Coordinator {
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }
    private nonisolated let executor: any NodeExecutor
    private var machine: CoordinatorStateMachine
    private var outbox = Outbox<CoordinatorOutput>()
    private(set) var statistics = ActorStatistics(malformedMessages: 0)

    enum Input: Sendable {
        case message([UInt8], from: PeerID)
        case command(CoordinatorCommand)
    }

    init(machine: CoordinatorStateMachine, executor: any NodeExecutor) {
        self.machine = machine
        self.executor = executor
    }

    /// Handles inputs in order, then whatever is due.
    func perform(_ inputs: [Input], at now: HostTime) -> [CoordinatorOutput] {
        guard !inputs.isEmpty || nextDeadline.isDue(at: now) else { return [] }
        for input in inputs {
            switch input {
            case .message(let bytes, let peer): receive(bytes, from: peer, at: now)
            case .command(let command):
                do { try machine.submit(command, at: now, into: &outbox) } catch { statistics.refusedCommands += 1 }
            }
        }
        nextDeadline = machine.askNextDeadline()
        if nextDeadline.isDue(at: now) {
            machine.handleDeadline(at: now, into: &outbox)
            nextDeadline = machine.askNextDeadline()
        }
        defer { outbox.removeAll() }
        return outbox.items
    }

    /// As of the last input: asking the machine would copy it.
    private(set) var nextDeadline: HostTime?
    var current: CoordinatorStateMachine { machine }
    func reading(at now: HostTime) -> MeshClockReading? { machine.reading(at: now) }

    private func receive(_ bytes: [UInt8], from peer: PeerID, at now: HostTime) {
        do {
            machine.receive(try ClockMessage(decoding: bytes), from: peer, at: now, into: &outbox)
        } catch {
            statistics.malformedMessages? += 1
        }
    }
}
