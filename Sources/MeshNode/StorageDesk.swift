import MeshBase
import MeshProtocol
import MeshSystem

/// A file that a person asked to add.
struct ImportJob: Sendable {
    var token: CommandToken
    var path: String
    var name: String
    var note: String
}

/// An attachment that a person asked to have as a file.
struct ExportJob: Sendable {
    var token: CommandToken
    var content: ContentID
    var name: String
    var directory: String
    var overwrites: Bool
}

/// Where the node hands blocking storage work to the storage threads; every piece answers through the inbox.
///
/// Nothing short waits behind something long: settings, records and chunks have a queue of their own. Requests about one
/// content still run in the order in which they were posted.
final class StorageDesk: Sendable {
    private let storage: any NodeStorage
    private let queues: StorageQueues
    private let inbox: Inbox
    /// The journal's key, known once there is a mesh.
    private let key = Lock<Bytes32>(.zero)
    /// By content: long requests, and those posted behind them, that are not done.
    private let underWay = Lock<[ContentID: Int]>([:])

    init(storage: any NodeStorage, queues: StorageQueues, inbox: Inbox) {
        self.storage = storage
        self.queues = queues
        self.inbox = inbox
    }

    func setKey(_ value: Bytes32) { key.withLock { $0 = value } }

    /// A request of the journal's machine.
    ///
    /// Long ones pass through the prompt queue, behind what was posted for their content before, into the other one; and
    /// what comes for the same content meanwhile goes the same way. Reading a chunk never waits for that: it changes
    /// nothing.
    func post(_ request: StorageRequest) {
        guard isDeferred(request) else { return queues.prompt.run { self.perform(request) } }
        queues.prompt.run {
            self.queues.contents.run {
                self.perform(request)
                self.underWay.withLock { counts in
                    let rest = (counts[request.content] ?? 1) - 1
                    counts[request.content] = rest == 0 ? nil : rest
                }
            }
        }
    }

    private func isDeferred(_ request: StorageRequest) -> Bool {
        underWay.withLock { counts in
            switch request {
            case .read: return false
            case .verify, .finish: break
            case .begin, .reopen, .write, .remove: if counts[request.content] == nil { return false }
            }
            counts[request.content, default: 0] += 1
            return true
        }
    }

    private func perform(_ request: StorageRequest) {
        let treeKey = key.withLock { $0 }
        inbox.report(.completion(Self.perform(request, on: storage, key: treeKey)))
    }

    /// Signed records; whoever asked for one is answered when it is durable. Others may hear of it earlier: a crash
    /// before loses nothing that this node vouched for, since a new start has a new incarnation.
    func post(records: [StoredRecord]) {
        queues.prompt.run { [storage, inbox] in
            let ids = records.map(\.id)
            do throws(StorageError) {
                try storage.addRecords(records)
                inbox.report(.recordsStored(ids))
            } catch {
                inbox.report(.recordsFailed(ids, error))
            }
        }
    }

    func post(setting name: String, value: [UInt8], number: UInt64) {
        queues.prompt.run { [storage, inbox] in
            do throws(StorageError) {
                try storage.setSetting(name, value)
                inbox.report(.settingStored(number))
            } catch {
                inbox.report(.settingFailed(number, error))
            }
        }
    }

    /// A setting that nothing waits for and that a start can do without.
    func post(convenience name: String, value: [UInt8]) {
        queues.prompt.run { [storage] in
            // A store that fails says so with the next record that matters.
            try? storage.setSetting(name, value)
        }
    }

    func post(_ job: ImportJob, byteLimit: UInt64, progress: @escaping @Sendable (UInt64, UInt64) -> Void) {
        queues.files.run { [storage, inbox, key] in
            let treeKey = key.withLock { $0 }
            do throws(StorageError) {
                let content = try storage.importFile(
                    path: job.path, key: treeKey, byteLimit: byteLimit, progress: progress)
                inbox.report(.imported(job, .success(content)))
            } catch {
                inbox.report(.imported(job, .failure(error)))
            }
        }
    }

    func post(_ job: ExportJob) {
        queues.files.run { [storage, inbox, key] in
            let treeKey = key.withLock { $0 }
            do throws(StorageError) {
                let result = try storage.exportContent(
                    id: job.content, toDirectory: job.directory, name: job.name, key: treeKey,
                    overwrite: job.overwrites)
                inbox.report(.exported(job, .success(result)))
            } catch {
                inbox.report(.exported(job, .failure(error)))
            }
        }
    }

    /// Reads contents back and hashes them. `progress` is told bytes done and bytes in all of a content, and ends the
    /// work by returning false; then nothing is answered.
    func post(
        verify ids: [ContentID], token: CommandToken,
        progress: @escaping @Sendable (ContentID, UInt64, UInt64) -> Bool
    ) {
        queues.contents.run { [self] in
            do throws(StorageError) {
                let wanted = Set(ids)
                let contents = try storage.contents().filter { wanted.contains($0.id) && $0.isComplete }
                goOn(ContentVerification(contents, key: key.withLock { $0 }), token, progress)
            } catch {
                inbox.report(.verified(token, .failure(error)))
            }
        }
    }

    /// A piece at a time, so that whoever waits for the disk waits no longer than for one.
    private func goOn(
        _ verification: ContentVerification, _ token: CommandToken,
        _ progress: @escaping @Sendable (ContentID, UInt64, UInt64) -> Bool
    ) {
        var verification = verification
        guard let content = verification.current else {
            return inbox.report(.verified(token, .success(verification.results)))
        }
        verification.readPiece(from: storage)
        let rest = verification
        guard progress(content.id, rest.bytesDone, content.byteCount) else { return }
        queues.contents.run { [self] in goOn(rest, token, progress) }
    }

    /// Runs `body` after everything posted so far; long work under way ends early and without effect.
    func drain(_ body: @escaping @Sendable () -> Void) {
        storage.interrupt()
        queues.files.run { [queues] in
            queues.prompt.run { queues.contents.run { queues.prompt.run(body) } }
        }
    }

    private static func perform(_ request: StorageRequest, on storage: any NodeStorage, key: Bytes32)
        -> StorageCompletion
    {
        do throws(StorageError) {
            switch request {
            case .begin(let id, let byteCount, let leaves):
                try storage.beginContent(id: id, byteCount: byteCount, leaves: leaves)
                return .began(id)
            case .write(let id, let chunk, let bytes):
                try storage.writeChunk(id: id, index: chunk, bytes: bytes)
                return .wrote(id, chunk: chunk)
            case .read(let id, let chunk, let peer):
                return .read(id, chunk: chunk, for: peer, bytes: try storage.readChunk(id: id, index: chunk))
            case .finish(let id):
                try storage.finishContent(id: id)
                return .finished(id)
            case .remove(let id):
                try storage.removeContent(id: id)
                return .removed(id)
            case .verify(let id):
                return .verified(id, good: try storage.verifyPartial(id: id, key: key))
            case .reopen(let id):
                try storage.reopenContent(id: id)
                return .began(id)
            }
        } catch {
            return .failed(request, StorageFailure(error))
        }
    }
}

extension StorageFailure {
    /// What the journal's machine needs to know of a storage error; the full error goes to the event log.
    init(_ error: StorageError) {
        switch error {
        case .noSpace(_, let needed, let available): self = .noSpace(needed: needed ?? 0, available: available ?? 0)
        case .readOnly, .permissionDenied: self = .readOnly
        case .corrupt, .invalidChunk: self = .corrupt
        case .unknownContent, .incompleteContent, .notFound: self = .unreadable
        default: self = .other
        }
    }
}
