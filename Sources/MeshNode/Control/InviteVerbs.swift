import MeshBase
import MeshCrypto
import MeshProtocol

enum InviteVerb: ControlVerb {
    static let name = "invite"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        try node.requireMesh()
        let expiry = call.number("expiresSeconds")
        if let expiry, !(expiry > 0 && expiry <= 365 * 86_400) {
            throw .usage("an invite expires after 1 second to 365 days", hint: "starling invite --expires 10m")
        }
        if expiry == nil, let ticket = await standing(on: node) {
            return call.reply.answer(object(ticket, expiresInSeconds: nil))
        }
        let token = node.waiting.makeToken()
        let late = NodeError.timedOut("the invite could not be made in time", hint: "starling status")
        node.waiting.wait(for: token, until: now + node.timeout(call), timeout: late) { result, _, _ in
            switch result {
            case .success(.invite(let ticket)):
                call.reply.answer(object(ticket, expiresInSeconds: expiry))
            case .failure(let error): call.reply.fail(error)
            case .success: call.reply.fail(NodeError("failed", "no invite was made", hint: "starling events", exit: 1))
            }
        }
        do throws(NodeError) {
            try await node.submitToSession(
                .createInvite(expiresAfter: expiry.map { TimeSpan.seconds($0) }, token: token), at: now)
        } catch {
            node.waiting.fail(token, error.code == "limitExceeded" ? tooMany : error)
        }
    }

    /// This node's invite that never expires, if it has one: asking again gives the same, so that a mesh is not littered
    /// with secrets.
    private static func standing(on node: isolated Node) async -> Ticket? {
        await node.session.current.invites.first {
            $0.author == node.identity.peerID && $0.expiresAt == nil && $0.ticket != nil
        }?.ticket
    }

    private static func object(_ ticket: Ticket, expiresInSeconds: Double?) -> JSONValue {
        [
            "schema": "starling/invite/1", "invite": .string(ticket.text), "id": .string(ticket.secretID.description),
            "expiresInSeconds": expiresInSeconds.map { .integer(Int64($0)) } ?? .null,
        ]
    }

    private static let tooMany = NodeError(
        "limitExceeded", "16 invites are in force, and that is the limit",
        hint: "revoke one: starling invite ls · starling invite revoke ID", exit: 1)
}

enum InviteListVerb: ControlVerb {
    static let name = "invite.ls"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        let rows = await node.snapshot().invites.map { invite -> JSONValue in
            [
                "id": .string(invite.id.description),
                "expiresInSeconds": invite.expiresAt.map { .integer(max(0, Int64(($0 - now).seconds))) } ?? .null,
                "createdBy": .string(node.name(of: invite.author)),
            ]
        }
        call.reply.answer(["schema": "starling/invite.ls/1", "invites": .array(rows)])
    }
}

enum InviteRevokeVerb: ControlVerb {
    static let name = "invite.revoke"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let text = call.text("id")?.lowercased(), text.count >= 4 else {
            throw .usage("which invite?", hint: "starling invite revoke ID, with at least four digits of the id")
        }
        try node.requireMesh()
        let matches = await node.snapshot().invites.filter { $0.id.description.hasPrefix(text) }
        guard matches.count == 1, let invite = matches.first else {
            throw .notFound(
                matches.isEmpty ? "no invite has that id" : "several invites have ids that begin so",
                hint: "starling invite ls")
        }
        let token = node.waiting.makeToken()
        let late = NodeError.timedOut("the invite could not be revoked in time", hint: "starling status")
        node.waiting.wait(for: token, until: now + node.timeout(call), timeout: late) { result, _, _ in
            switch result {
            case .success:
                call.reply.answer(["schema": "starling/invite.revoke/1", "id": .string(invite.id.description)])
            case .failure(let error): call.reply.fail(error)
            }
        }
        do throws(NodeError) {
            try await node.submitToSession(.revokeInvite(invite.id, token: token), at: now)
        } catch {
            node.waiting.fail(token, error)
        }
    }
}
