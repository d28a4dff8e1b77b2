import MeshBase
import MeshProtocol

// The verbs that say who is in the mesh, for everybody and for good.

enum RemoveVerb: ControlVerb {
    static let name = "remove"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let text = call.text("name") else { throw .usage("whom?", hint: "starling remove NAME") }
        try node.requireMesh()
        let member = try node.member(named: text, includingLeft: true)
        let name = SafeText.escaped(member.name, limit: 64)
        let refusal = NodeError(
            "notPermitted", "only the creator of the mesh and whoever admitted \(name) may remove it",
            hint: "starling members shows who admitted it", exit: 5)
        try await node.record({ .remove(member.peer, token: $0) }, call, refusal, at: now) {
            ["schema": "starling/remove/1", "name": .string(member.name), "id": .string(member.peer.description)]
        }
    }
}

enum EndVerb: ControlVerb {
    static let name = "end"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        try node.requireMesh()
        let label = await node.session.current.label
        let refusal = NodeError(
            "notPermitted", "only the creator of the mesh may end it", hint: "to go yourself: starling leave", exit: 5)
        try await node.record({ .end(token: $0) }, call, refusal, at: now) {
            ["schema": "starling/end/1", "mesh": .string(label)]
        }
    }
}

extension Node {
    /// Has the gossip write a record, and answers when it is durable here.
    fileprivate func record(
        _ command: (CommandToken) -> GossipCommand, _ call: ControlCall, _ refusal: NodeError, at now: HostTime,
        answer: @escaping @Sendable () -> JSONValue
    ) async throws(NodeError) {
        let token = waiting.makeToken()
        let late = NodeError.timedOut("the record is not durable yet", hint: "starling events")
        waiting.wait(for: token, until: now + timeout(call), timeout: late, needsMesh: false) { result, _, _ in
            switch result {
            case .success: call.reply.answer(answer())
            case .failure(let error): call.reply.fail(error)
            }
        }
        do throws(NodeError) {
            try await submitToGossip(command(token), at: now)
            waiting.settle(token, .recorded)
        } catch {
            waiting.fail(token, error.code == refusal.code ? refusal : error)
        }
    }
}
