import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

/// What comes in from other threads: control requests and what the storage thread has done.
extension Node {
    func takeInbox(at now: HostTime) async {
        for item in inbox.takeAll() { await handle(item, at: now) }
        if let state = durability.takeRetry(at: now) { save(state) }
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
        case .recordsStored(let ids):
            waiting.recordsStored(ids)
            if durability.retryAt == nil { storageTrouble = nil }
        case .recordsFailed(let ids, let error):
            waiting.recordsFailed(ids, NodeError(error))
            noteStorageFailure(error, at: now)
        case .settingStored(let number):
            durability.stored(number)
            storageTrouble = nil
        case .settingFailed(let number, let error): settingFailed(number, error, at: now)
        case .imported(let job, .success(let content)): await adopt(content, of: job, at: now)
        case .imported(let job, .failure(let error)): waiting.fail(job.token, NodeError(error))
        case .exported(let job, .success(let result)): waiting.settle(job.token, .exported(result))
        case .exported(let job, .failure(let error)): waiting.fail(job.token, NodeError(error))
        case .verified(let token, .success(let contents)): waiting.settle(token, .verified(contents))
        case .verified(let token, .failure(let error)): waiting.fail(token, NodeError(error))
        case .outlet(let outlet): await advance(outlet, at: now)
        case .reader(let reader): add(reader)
        case .stop: leave(stops: true, at: now)
        }
    }

    /// A local file is durable here: now the mesh may hear of it.
    private func adopt(_ content: ImportedContent, of job: ImportJob, at now: HostTime) async {
        // Left while the file was copied: whoever asked has been told. Without a record it is swept at the next start.
        guard !hasLeft else { return }
        let command = JournalCommand.imported(
            content.id, byteCount: content.byteCount, leaves: content.leaves, name: job.name, note: job.note,
            token: job.token)
        do {
            for output in try await journal.submit(command, at: now) { await route(output, at: now) }
        } catch {
            waiting.fail(job.token, NodeError(error))
        }
    }

    /// What the session must find again after a restart.
    func save(_ state: SessionState) {
        storage.post(setting: NodeBoot.sessionSetting, value: state.encoded, number: durability.post(state))
    }

    /// A start whose first state cannot be kept ends here: nobody has heard of it. Later the node goes on, tries again
    /// and says so in `status`.
    private func settingFailed(_ number: UInt64, _ error: StorageError, at now: HostTime) {
        if !durability.hasStored {
            endReason = NodeError(error)
            lifecycle = .stopped
        }
        durability.failed(number, at: now)
        noteStorageFailure(error, at: now)
    }

    private func noteStorageFailure(_ error: StorageError, at now: HostTime) {
        storageTrouble = NodeError(error)
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
    func finishLeaving() async {
        guard case .leaving(_, let stops) = lifecycle else { return }
        lifecycle = stops ? .stopped : .away
        isInMesh = false
        for member in members where member.isLinked { work.messenger.append(.closeLink(member.peer)) }
        guard !stops else { return }
        // Without secrets the links answer nobody: whoever missed the farewell finds this node gone.
        work.messenger.append(.setSecrets([], epochs: await session.current.epochSecrets))
        waiting.failAllOfTheMesh(leftError)
    }

    func expireLeaving(at now: HostTime) async {
        if case .leaving(let deadline, _) = lifecycle, deadline <= now { await finishLeaving() }
    }

    /// Out of its mesh by its own wish, or on the way out, and not about to stop.
    var hasLeft: Bool {
        switch lifecycle {
        case .away: true
        case .leaving(_, let stops): !stops
        case .starting, .running, .stopped: false
        }
    }

    /// How a command is refused that needs the others, after `leave`; says the way back.
    var leftError: NodeError {
        let name = SafeText.escaped(configuration.name, limit: 64)
        return NodeError(
            "left", "\(name) has left the mesh",
            hint: "to return: starling down -n \(name) && starling up --name \(name)", exit: 5)
    }

    /// Throws what a command that needs the mesh is refused with outside of it.
    func requireMesh() throws(NodeError) {
        if hasLeft { throw leftError }
        if isMeshOver, let endReason { throw endReason }
        guard isInMesh else { throw NodeError(CommandError.noMesh) }
    }
}
