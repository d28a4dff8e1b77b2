import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem

/// What a command of a person came to.
enum Settlement: Sendable {
    case message(MessageOutcome)
    case invite(Ticket)
    case revoked(SecretID)
    case added(AttachmentSummary)
    case removed
    /// A record of the membership was written.
    case recorded
    case waited(WaitOutcome)
    case exported(ExportResult)
    case verified([VerifiedContent])
}

/// Commands under way: who waits for which token, until when, and how the answer is told.
///
/// A record that was published is answered for only when it is durable here, so that nobody is told of something a
/// power cut could still take back.
struct WaitingAnswers: Sendable {
    /// Runs on the node after whatever settled it, so it may begin the next command.
    typealias Completion = @Sendable (Result<Settlement, NodeError>, isolated Node, HostTime) async -> Void

    private struct Entry: Sendable {
        var deadline: HostTime?
        var timeout: NodeError
        var needsMesh: Bool
        var completion: Completion
    }

    private var entries: [CommandToken: Entry] = [:]
    /// Records made for a token, and what is to be said once they are durable.
    private var unstored: [RecordID: CommandToken] = [:]
    private var held: [CommandToken: Settlement] = [:]
    private var nextToken: UInt64 = 1
    private var finished: [(completion: Completion, result: Result<Settlement, NodeError>)] = []

    mutating func makeToken() -> CommandToken {
        defer { nextToken &+= 1 }
        return CommandToken(nextToken)
    }

    /// `completion` is run exactly once, on the node's executor. What does not need the mesh goes on after `leave`.
    mutating func wait(
        for token: CommandToken, until deadline: HostTime?, timeout: NodeError, needsMesh: Bool = true,
        _ completion: @escaping Completion
    ) {
        entries[token] = Entry(deadline: deadline, timeout: timeout, needsMesh: needsMesh, completion: completion)
        if let deadline { nextDeadline = min(nextDeadline ?? deadline, deadline) }
    }

    /// Completions whose commands are settled, in the order in which they were; the caller runs each once.
    mutating func takeFinished() -> [(completion: Completion, result: Result<Settlement, NodeError>)] {
        guard !finished.isEmpty else { return [] }
        defer { finished = [] }
        return finished
    }

    func isWaiting(_ token: CommandToken) -> Bool { entries[token] != nil }

    mutating func published(_ token: CommandToken, record: RecordID) { unstored[record] = token }

    mutating func settle(_ token: CommandToken, _ settlement: Settlement) {
        if unstored.values.contains(token) {
            held[token] = settlement
        } else {
            finish(token, .success(settlement))
        }
    }

    mutating func fail(_ token: CommandToken, _ error: NodeError) { finish(token, .failure(error)) }

    /// Nobody waits any more; the completion is not run.
    mutating func cancel(_ token: CommandToken) { entries[token] = nil }

    mutating func recordsStored(_ ids: [RecordID]) {
        for id in ids {
            guard let token = unstored.removeValue(forKey: id) else { continue }
            if let settlement = held.removeValue(forKey: token) { finish(token, .success(settlement)) }
        }
    }

    mutating func recordsFailed(_ ids: [RecordID], _ error: NodeError) {
        for id in ids {
            guard let token = unstored.removeValue(forKey: id) else { continue }
            held[token] = nil
            finish(token, .failure(error))
        }
    }

    /// Never later than the first deadline; earlier where that command was answered, until it is looked at again.
    private(set) var nextDeadline: HostTime?

    mutating func expire(at now: HostTime) {
        guard nextDeadline.isDue(at: now) else { return }
        let due = entries.filter { ($0.value.deadline ?? .distantFuture) <= now }.keys.sorted { $0.value < $1.value }
        for token in due {
            if let entry = entries[token] { finish(token, .failure(entry.timeout)) }
        }
        nextDeadline = entries.values.lazy.compactMap(\.deadline).min()
    }

    mutating func failAll() {
        let error = NodeError("stopped", "the node is stopping", hint: "start it again: starling up", exit: 3)
        for token in entries.keys.sorted(by: { $0.value < $1.value }) { finish(token, .failure(error)) }
    }

    /// The node has left its mesh.
    mutating func failAllOfTheMesh(_ error: NodeError) {
        let tokens = entries.filter { $0.value.needsMesh }.keys.sorted { $0.value < $1.value }
        for token in tokens { finish(token, .failure(error)) }
    }

    private mutating func finish(_ token: CommandToken, _ result: Result<Settlement, NodeError>) {
        guard let entry = entries.removeValue(forKey: token) else { return }
        finished.append((entry.completion, result))
    }
}
