import MeshBase
import MeshProtocol
import MeshSystem

/// The bounded mailbox through which other threads reach the node: control clients and the storage thread.
///
/// Requests beyond the limit are refused with `queueFull`, so back-pressure reaches whoever asks. Storage completions
/// are never refused: there are only as many as the machines have requests under way.
final class Inbox: Sendable {
    enum Item: Sendable {
        case call(ControlCall)
        case completion(StorageCompletion)
        /// Records are durable; in the order in which they were posted.
        case recordsStored([RecordID])
        case recordsFailed([RecordID], StorageError)
        /// With the number it was posted under.
        case settingStored(UInt64)
        case settingFailed(UInt64, StorageError)
        case imported(ImportJob, Result<ImportedContent, StorageError>)
        case exported(ExportJob, Result<ExportResult, StorageError>)
        case verified(CommandToken, Result<[VerifiedContent], StorageError>)
        /// Something waits in it.
        case outlet(MessageOutlet)
        case reader(MessageReader)
        case stop
    }

    private struct State {
        var items: [Item] = []
        var callCount = 0
    }

    private let state = Lock<State>(State())
    private let executor: any NodeExecutor
    static let maximumCalls = 256

    init(executor: any NodeExecutor) { self.executor = executor }

    /// Any thread.
    func append(_ item: Item) throws(CommandError) {
        let isAccepted = state.withLock { state -> Bool in
            if case .call = item {
                guard state.callCount < Self.maximumCalls else { return false }
                state.callCount += 1
            }
            state.items.append(item)
            return true
        }
        guard isAccepted else { throw .queueFull(limit: Self.maximumCalls) }
        executor.wake()
    }

    /// Any thread; for items that are never refused.
    func report(_ item: Item) {
        state.withLock { $0.items.append(item) }
        executor.wake()
    }

    func takeAll() -> [Item] {
        state.withLock { state in
            guard !state.items.isEmpty else { return [] }
            defer {
                state.items = []
                state.callCount = 0
            }
            return state.items
        }
    }
}
