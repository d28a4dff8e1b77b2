import MeshBase
import MeshProtocol
import MeshSystem

/// Reads attachments back from the disk and hashes every byte. What is damaged is fetched again from other holders.
enum JournalVerifyVerb: ControlVerb {
    static let name = "journal.verify"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        let attachments: [AttachmentSummary]
        if let id = call.text("id") {
            attachments = [try await node.attachment(named: id)]
        } else {
            attachments = await node.journal.attachments
        }
        let token = node.waiting.makeToken()
        node.waiting.wait(for: token, until: nil, timeout: .timedOut("", hint: "")) { result, node, now in
            switch result {
            case .success(.verified(let contents)): await answer(contents, attachments, call, on: node, at: now)
            case .success: call.reply.fail(NodeError("failed", "nothing was read", hint: "starling events", exit: 1))
            case .failure(let error): call.reply.fail(error)
            }
        }
        let names = Dictionary(attachments.map { ($0.content, $0.name) }) { first, _ in first }
        let reply = call.reply
        node.storage.post(verify: Array(names.keys), token: token) { content, done, total in
            reply.send(
                Documents.progress(
                    verb: name, name: names[content] ?? "", done: min(done, total), total: total, rate: 0, holders: []))
        }
    }

    private static func answer(
        _ contents: [VerifiedContent], _ attachments: [AttachmentSummary], _ call: ControlCall,
        on node: isolated Node, at now: HostTime
    ) async {
        let results = Dictionary(contents.map { ($0.id, $0) }) { first, _ in first }
        let bad = contents.filter { $0.badCount > 0 }
        // The journal looks at it again for itself, takes it back from who relied on it, and fetches what is bad.
        for content in bad { try? await node.submitToJournal(.suspect(content.id), at: now) }  // Never refused.
        let ids = ShortIDs(await node.journal.attachments.map(\.id))
        let rows = attachments.map { attachment -> JSONValue in
            let result = results[attachment.content]
            return [
                "id": .string(ids.text(attachment.id)), "name": .string(attachment.name),
                "ok": result.map { .bool($0.badCount == 0) } ?? .null,
                "damagedChunks": result.map { .integer(Int64($0.badCount)) } ?? .null,
                "chunkCount": result.map { .integer(Int64($0.chunkCount)) } ?? .null,
            ]
        }
        call.reply.send(["schema": "starling/journal.verify/1", "attachments": .array(rows)])
        guard !bad.isEmpty else { return call.reply.finish() }
        let what = bad.count == 1 ? "the bytes of one attachment are" : "the bytes of \(bad.count) attachments are"
        call.reply.fail(
            NodeError(
                "storageCorrupt", "\(what) damaged on this node's disk; they are fetched again from whoever has them",
                hint: "starling journal ls shows how far that is · check the disk", exit: 7))
    }
}
