import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

/// Which attachments exist, and which chunks to ask for or to serve.
///
/// Its only effect is posting requests to the storage thread; their completions come back through the `Inbox` as
/// inputs, so the machine never waits for a disk.
public actor Journal {
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }
    private nonisolated let executor: any NodeExecutor
    private let storage: StorageDesk
    private var machine: JournalStateMachine
    private var outbox = Outbox<JournalOutput>()
    private(set) var statistics = ActorStatistics(malformedMessages: 0)

    enum Input: Sendable {
        case message([UInt8], from: PeerID)
        case command(JournalCommand)
    }

    init(machine: JournalStateMachine, storage: StorageDesk, executor: any NodeExecutor) {
        self.machine = machine
        self.storage = storage
        self.executor = executor
    }

    /// Handles inputs in order, then whatever is due; posts storage requests.
    func perform(_ inputs: [Input], at now: HostTime) -> [JournalOutput] {
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
        return takeOutputs()
    }

    /// One command of a person, whose refusal is answered.
    func submit(_ command: JournalCommand, at now: HostTime) throws(CommandError) -> [JournalOutput] {
        defer { nextDeadline = machine.askNextDeadline() }
        try machine.submit(command, at: now, into: &outbox)
        return takeOutputs()
    }

    /// As of the last input: asking the machine would copy it.
    private(set) var nextDeadline: HostTime?
    var current: JournalStateMachine { machine }
    var attachments: [AttachmentSummary] { machine.attachments }
    func attachment(matching text: String) -> [AttachmentSummary] { machine.attachment(matching: text) }

    private func receive(_ bytes: [UInt8], from peer: PeerID, at now: HostTime) {
        do {
            machine.receive(try JournalMessage(decoding: bytes), from: peer, at: now, into: &outbox)
        } catch {
            statistics.malformedMessages? += 1
        }
    }

    private func takeOutputs() -> [JournalOutput] {
        var outputs: [JournalOutput] = []
        outbox.drain { output in
            if case .storage(let request) = output {
                storage.post(request)
            } else {
                outputs.append(output)
            }
        }
        return outputs
    }
}
