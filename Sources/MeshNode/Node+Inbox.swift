import MeshBase
import MeshProtocol
import MeshSystem

/// What comes in from other threads: control requests and what the storage thread has done.
extension Node {
    func takeInbox(at now: HostTime) async {
        for item in inbox.takeAll() { await handle(item, at: now) }
        waiting.expire(at: now)
        if journalChanged {
            journalChanged = false
            await Followers.publishJournal(on: self)
        }
    }

    private func handle(_ item: Inbox.Item, at now: HostTime) async {
        switch item {
        case .call(let call): await ControlVerbs.perform(call, on: self, at: now)
        case .completion(let completion): work.journal.append(.command(.completion(completion)))
        case .recordsStored(let ids): waiting.recordsStored(ids)
        case .recordsFailed(let ids, let error):
            waiting.recordsFailed(ids, NodeError(error))
            noteStorageFailure(error, at: now)
        case .settingStored: pendingSettings -= 1
        case .settingFailed(let error):
            pendingSettings -= 1
            noteStorageFailure(error, at: now)
        case .imported(let job, .success(let content)): await adopt(content, of: job, at: now)
        case .imported(let job, .failure(let error)): waiting.fail(job.token, NodeError(error))
        case .exported(let job, .success(let result)): waiting.settle(job.token, .exported(result))
        case .exported(let job, .failure(let error)): waiting.fail(job.token, NodeError(error))
        case .verified(let token, .success(let contents)): waiting.settle(token, .verified(contents))
        case .verified(let token, .failure(let error)): waiting.fail(token, NodeError(error))
        case .stop: leave(stops: true, at: now)
        }
    }

    /// A local file is durable here: now the mesh may hear of it.
    private func adopt(_ content: ImportedContent, of job: ImportJob, at now: HostTime) async {
        let command = JournalCommand.imported(
            content.id, byteCount: content.byteCount, leaves: content.leaves, name: job.name, note: job.note,
            token: job.token)
        do {
            for output in try await journal.submit(command, at: now) { await route(output, at: now) }
        } catch {
            waiting.fail(job.token, NodeError(error))
        }
    }

    private func noteStorageFailure(_ error: StorageError, at now: HostTime) {
        note(
            ProtocolEvent(.storageFailed, detail: [.init("error", .text(NodeError(error).message))]), at: now)
    }

    /// Says farewell to the mesh. When everybody heard it, or the time for that is over, the node stops or stays up
    /// without a mesh.
    func leave(stops: Bool, at now: HostTime) {
        switch lifecycle {
        case .stopped: return
        case .leaving(let deadline, let alreadyStops):
            lifecycle = .leaving(deadline: deadline, stops: stops || alreadyStops)
        case .away: if stops { lifecycle = .stopped }
        case .starting, .running:
            guard isInMesh else {
                lifecycle = stops ? .stopped : .away
                return
            }
            lifecycle = .leaving(deadline: now + configuration.leaveTimeout, stops: stops)
            work.session.append(.command(.leave))
        }
    }

    /// The farewell is said.
    func finishLeaving() {
        guard case .leaving(_, let stops) = lifecycle else { return }
        lifecycle = stops ? .stopped : .away
        isInMesh = false
        for member in members where member.isLinked { work.messenger.append(.closeLink(member.peer)) }
    }

    func expireLeaving(at now: HostTime) {
        if case .leaving(let deadline, _) = lifecycle, deadline <= now { finishLeaving() }
    }
}
