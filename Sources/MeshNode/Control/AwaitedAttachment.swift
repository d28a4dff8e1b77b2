import MeshBase
import MeshProtocol

/// Waiting for an attachment: first until somebody tells of it, then until it is complete here (or on k holders), with
/// progress meanwhile. One deadline covers both.
enum AwaitedAttachment {
    typealias Found = @Sendable (AttachmentSummary, isolated Node, HostTime) async -> Void
    typealias Complete = @Sendable (isolated Node, HostTime) async -> Void

    /// How often an unknown name is looked up again, and how often progress is told.
    private static let interval = TimeSpan.milliseconds(200)

    static func find(
        _ name: String, _ call: ControlCall, on node: isolated Node, at now: HostTime, _ found: @escaping Found
    ) async throws(NodeError) {
        try await find(name, until: now + node.timeout(call), call, on: node, at: now, found)
    }

    private static func find(
        _ name: String, until deadline: HostTime, _ call: ControlCall, on node: isolated Node, at now: HostTime,
        _ found: @escaping Found
    ) async throws(NodeError) {
        do throws(NodeError) {
            await found(try await node.attachment(named: name), node, now)
        } catch {
            if error.code == "notFound" { try node.requireMesh() }
            guard error.code == "notFound", now < deadline, call.reply.isOpen else { throw error }
            later(node, at: now, until: deadline) { node, now in
                do throws(NodeError) {
                    try await find(name, until: deadline, call, on: node, at: now, found)
                } catch {
                    call.reply.fail(error)
                }
            }
        }
    }

    static func complete(
        _ attachment: AttachmentSummary, replicas: Int, verb: String, _ call: ControlCall, on node: isolated Node,
        at now: HostTime, _ completion: @escaping Complete
    ) async {
        // What is here is given without the mesh; what is not here cannot come.
        if node.hasLeft, replicas > 1 || !attachment.isPresent { return call.reply.fail(node.leftError) }
        let token = node.waiting.makeToken()
        let deadline = now + node.timeout(call)
        node.waiting.wait(for: token, until: deadline, timeout: notComplete(attachment)) { result, node, now in
            switch result {
            case .success(.waited(.reached)): await completion(node, now)
            case .success(.waited(.removed)):
                call.reply.fail(.notFound("the attachment was removed meanwhile", hint: "starling journal ls"))
            case .success(.waited(.failed(let failure))): call.reply.fail(failed(failure))
            case .failure(let error):
                try? await node.submitToJournal(.cancelWait(token), at: now)  // The wait is over either way.
                call.reply.fail(await explained(error, attachment, replicas, on: node))
            case .success: call.reply.fail(notComplete(attachment))
            }
        }
        do throws(NodeError) {
            try await node.submitToJournal(.wait(attachment.id, replicas: replicas, token: token), at: now)
        } catch {
            node.waiting.fail(token, error)
        }
        tellProgress(of: attachment, token, verb: verb, until: deadline, call, on: node, at: now)
    }

    /// A progress object every interval while the wait lasts.
    private static func tellProgress(
        of attachment: AttachmentSummary, _ token: CommandToken, verb: String, until deadline: HostTime,
        _ call: ControlCall, on node: isolated Node, at now: HostTime
    ) {
        later(node, at: now, until: deadline) { node, now in
            guard call.reply.isOpen, node.waiting.isWaiting(token) else { return }
            if let current = await node.journal.attachments.first(where: { $0.id == attachment.id }) {
                let done = UInt64(Double(current.byteCount) * current.fraction)
                call.reply.send(
                    Documents.progress(
                        verb: verb, name: current.name, done: done, total: current.byteCount,
                        rate: current.bytesPerSecond, holders: current.holders.map(node.name(of:))))
            }
            tellProgress(of: attachment, token, verb: verb, until: deadline, call, on: node, at: now)
        }
    }

    private static func later(
        _ node: isolated Node, at now: HostTime, until deadline: HostTime, _ body: @escaping Complete
    ) {
        let token = node.waiting.makeToken()
        let due = min(now + interval, deadline)
        node.waiting.wait(for: token, until: due, timeout: .timedOut("", hint: "")) { _, node, now in
            await body(node, now)
        }
    }

    private static func notComplete(_ attachment: AttachmentSummary) -> NodeError {
        .timedOut(
            "\(SafeText.escaped(attachment.name, limit: 80)) is not complete yet",
            hint: "it goes on in the background: starling journal ls --follow · --timeout SECONDS waits longer")
    }

    /// Says why a wait ran out, where the journal knows.
    private static func explained(
        _ error: NodeError, _ attachment: AttachmentSummary, _ replicas: Int, on node: isolated Node
    ) async -> NodeError {
        guard error.code == "timedOut",
            let current = await node.journal.attachments.first(where: { $0.id == attachment.id })
        else { return error }
        if current.state == .complete, current.holders.count < replicas {
            let names = current.holders.map { SafeText.escaped(node.name(of: $0), limit: 40) }.joined(separator: " ")
            return .timedOut(
                "\(SafeText.escaped(current.name, limit: 80)) is held by \(current.holders.count) of \(replicas): "
                    + names,
                hint: "the others get it when they are here: starling peers · --timeout SECONDS waits longer")
        }
        guard current.state == .waitingForHolder else { return error }
        let percent = Int(current.fraction * 100)
        return .timedOut(
            "\(SafeText.escaped(current.name, limit: 80)) is incomplete (\(percent) %), waiting for a holder",
            hint: "it completes when \(SafeText.escaped(node.name(of: current.addedBy))) or another holder returns")
    }

    private static func failed(_ failure: AttachmentFailure) -> NodeError {
        switch failure {
        case .noSpace(let needed, let available):
            NodeError(
                "storageFull", "no space here: \(needed) bytes are needed, \(available) are free",
                hint: "free some space; the transfer goes on by itself", exit: 7)
        case .tooLarge(let byteCount, let limit):
            NodeError(
                "limitExceeded", "\(byteCount) bytes are over this node's limit of \(limit)",
                hint: "start the node with --max-attachment BYTES", exit: 1)
        case .sizeMismatch, .tooManyContents:
            NodeError("failed", Documents.stateText(.failed(failure)), hint: "starling journal ls", exit: 1)
        case .storage:
            NodeError("storageUnreadable", "the store cannot write", hint: "starling doctor", exit: 7)
        }
    }
}
