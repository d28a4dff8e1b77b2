import MeshBase
import MeshProtocol
import MeshSystem
import MeshWire

enum JournalAddVerb: ControlVerb {
    static let name = "journal.add"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let path = call.text("path"), path.hasPrefix("/"), !path.utf8.contains(0) else {
            throw .usage("which file?", hint: "starling journal add FILE")
        }
        try node.requireMesh()
        let note = call.text("note") ?? ""
        guard note.utf8.count <= WireLimits.maximumNoteBytes else {
            throw NodeError(
                CommandError.limitExceeded(limit: WireLimits.maximumNoteBytes, actual: note.utf8.count))
        }
        let fileName = path.split(separator: "/").last.map(String.init) ?? ""
        guard !fileName.isEmpty, fileName != ".", fileName != ".." else {
            throw .usage(
                "\(SafeText.escaped(path, limit: 80)) names a directory", hint: "add the files in it one by one")
        }
        let job = ImportJob(
            token: node.waiting.makeToken(), path: path,
            name: SafeText.shortened(fileName, maximumBytes: WireLimits.maximumAttachmentNameBytes), note: note)
        let earlier = await node.journal.attachments
        node.waiting.wait(for: job.token, until: nil, timeout: .timedOut("", hint: "")) { result, node, _ in
            switch result {
            case .success(.added(let summary)): call.reply.answer(await added(summary, earlier, on: node))
            case .failure(let error): call.reply.fail(error)
            case .success: call.reply.fail(NodeError("failed", "nothing was added", hint: "starling events", exit: 1))
            }
        }
        let reply = call.reply
        let limit = node.configuration.journal.maximumAttachmentBytes
        node.storage.post(job, byteLimit: limit) { done, total in
            reply.send(
                Documents.progress(verb: name, name: job.name, done: done, total: total, rate: 0, holders: []))
        }
    }

    private static func added(
        _ summary: AttachmentSummary, _ earlier: [AttachmentSummary], on node: isolated Node
    ) async -> JSONValue {
        let ids = ShortIDs(await node.journal.attachments.map(\.id))
        let same = earlier.first { $0.content == summary.content }
        return [
            "schema": "starling/journal.add/1", "id": .string(ids.text(summary.id)), "name": .string(summary.name),
            "bytes": Documents.count(summary.byteCount), "durable": true,
            "sameContentAs": same.map { .string(ids.text($0.id)) } ?? .null,
        ]
    }
}

enum JournalListVerb: ControlVerb {
    static let name = "journal.ls"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.send(Documents.journal(await node.snapshot()))
        guard call.flag("follow") else { return call.reply.finish() }
        try follow(&node.followers.journal, call.reply)
    }
}

extension Followers {
    /// Tells those who follow the journal what it holds now.
    static func publishJournal(on node: isolated Node) async {
        guard !node.followers.journal.isEmpty else { return }
        node.followers.publish(journal: Documents.journal(await node.snapshot()))
    }
}

enum JournalGetVerb: ControlVerb {
    static let name = "journal.get"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let id = call.text("id"), let directory = call.text("directory"), directory.hasPrefix("/") else {
            throw .usage("which attachment?", hint: "starling journal get ID -o DIRECTORY")
        }
        let started = now
        let force = call.flag("force")
        try await AwaitedAttachment.find(id, call, on: node, at: now) { attachment, node, now in
            await AwaitedAttachment.complete(attachment, replicas: 1, verb: name, call, on: node, at: now) {
                node, now in
                export(attachment, to: directory, overwrites: force, since: started, call, on: node, at: now)
            }
        }
    }

    private static func export(
        _ attachment: AttachmentSummary, to directory: String, overwrites: Bool, since started: HostTime,
        _ call: ControlCall, on node: isolated Node, at now: HostTime
    ) {
        let job = ExportJob(
            token: node.waiting.makeToken(), content: attachment.content, name: attachment.name, directory: directory,
            overwrites: overwrites)
        let never = NodeError.timedOut("", hint: "")
        node.waiting.wait(for: job.token, until: nil, timeout: never, needsMesh: false) { result, node, now in
            switch result {
            case .success(.exported(let export)):
                let from = await node.journal.attachments.first { $0.id == attachment.id }?.holders ?? []
                let names = from.filter { $0 != node.identity.peerID }.map { JSONValue.string(node.name(of: $0)) }
                call.reply.answer([
                    "schema": "starling/journal.get/1", "id": .string(attachment.id.shortDescription),
                    "name": .string(attachment.name), "path": .string(export.path),
                    "bytes": Documents.count(attachment.byteCount), "verified": true,
                    "alreadyThere": .bool(export.outcome == .alreadyThere), "from": .array(names),
                    "nameChange": export.nameChange.map { .string($0.rawValue) } ?? .null,
                    "seconds": .number(Documents.rounded((now - started).seconds, 3)),
                ])
            case .failure(let error): call.reply.fail(error)
            case .success: call.reply.fail(NodeError("failed", "nothing was written", hint: "starling events", exit: 1))
            }
        }
        node.storage.post(job)
    }
}

enum JournalWaitVerb: ControlVerb {
    static let name = "journal.wait"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let id = call.text("id") else { throw .usage("which attachment?", hint: "starling journal wait ID") }
        let replicas = call.integer("replicas") ?? 1
        guard (1...1024).contains(replicas) else {
            throw .usage("--replicas is 1 to 1024", hint: "starling journal wait ID --replicas 2")
        }
        try await AwaitedAttachment.find(id, call, on: node, at: now) { attachment, node, now in
            await AwaitedAttachment.complete(attachment, replicas: replicas, verb: name, call, on: node, at: now) {
                node, _ in
                let holders = await node.journal.attachments.first { $0.id == attachment.id }?.holders ?? []
                call.reply.answer([
                    "schema": "starling/journal.wait/1", "id": .string(attachment.id.shortDescription),
                    "name": .string(attachment.name),
                    "holders": .array(holders.map { .string(node.name(of: $0)) }),
                ])
            }
        }
    }
}

enum JournalRemoveVerb: ControlVerb {
    static let name = "journal.rm"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let id = call.text("id") else { throw .usage("which attachment?", hint: "starling journal rm ID") }
        try node.requireMesh()
        let attachment = try await node.attachment(named: id, strict: true)
        let token = node.waiting.makeToken()
        let late = NodeError.timedOut("the removal is not durable yet", hint: "starling journal ls")
        node.waiting.wait(for: token, until: now + node.timeout(call), timeout: late) { result, _, _ in
            switch result {
            case .success:
                call.reply.answer([
                    "schema": "starling/journal.rm/1", "id": .string(attachment.id.shortDescription),
                    "name": .string(attachment.name),
                ])
            case .failure(let error): call.reply.fail(error)
            }
        }
        do throws(NodeError) {
            try await node.submitToJournal(.remove(attachment.id, token: token), at: now)
        } catch {
            node.waiting.fail(token, error)
        }
    }
}
