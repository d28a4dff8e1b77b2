import MeshBase
import MeshProtocol

/// How a member is reached, or why it is not: what was tried and what came back.
enum WhyVerb: ControlVerb {
    static let name = "why"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let text = call.text("name") else { throw .usage("why whom?", hint: "starling why NAME") }
        let member = try node.member(named: text, includingLeft: true)
        let snapshot = await node.snapshot()
        let peer = snapshot.peers.first { $0.member.peer == member.peer }
        let steps = node.events.events.filter { $0.event.subject == member.peer }.suffix(16).map { noted -> JSONValue in
            [
                "secondsAgo": .number(Documents.rounded((now - noted.hostTime).seconds, 1)),
                "what": .string(noted.event.kind.rawValue), "address": detail("address", of: noted),
                "result": detail("reason", of: noted),
            ]
        }
        call.reply.answer([
            "schema": "starling/why/1", "name": .string(member.name), "id": .string(member.peer.description),
            "state": .string(Documents.stateText(member, hasLeft: snapshot.hasLeft)),
            "summary": .string(summary(member, peer, PathWords(snapshot: snapshot, now: now))),
            "steps": .array(Array(steps)),
            "path": peer.map { PathWords(snapshot: snapshot, now: now).document($0.path) } ?? .null,
            "tried": .array(node.dials.attempts(of: member.peer).map { attempt($0, in: snapshot, at: now) }),
        ])
    }

    private static func attempt(
        _ attempt: DialLog.Attempt, in snapshot: NodeSnapshot, at now: HostTime
    ) -> JSONValue {
        let way =
            switch attempt.way {
            case .address(let address): address.description
            case .relay(let peer): "through \(SafeText.escaped(snapshot.name(of: peer)))"
            }
        return [
            "secondsAgo": .number(Documents.rounded((now - attempt.time).seconds, 1)),
            "address": .string(way), "result": .string(attempt.outcome.rawValue),
        ]
    }

    private static func summary(
        _ member: Member, _ peer: NodeSnapshot.Peer?, _ words: PathWords
    ) -> String {
        let name = SafeText.escaped(member.name)
        if words.snapshot.hasLeft { return "this node has left the mesh and hears nobody of it" }
        if let sentence = peer.flatMap(words.sentence) { return "\(name) \(sentence)" }
        let search = peer.flatMap { words.search($0.path) }.map { "; \($0)" } ?? ""
        switch member.state {
        case .alive where peer?.isRelayed == true:
            return "\(name) has no direct link; other members hear it and pass everything on\(search)"
        case .alive: return "\(name) has no link now and was heard a moment ago; it is being dialled"
        case .suspect: return "\(name) has not been heard for a while; others are being asked"
        case .dead:
            let addresses = member.addresses.map(\.description).joined(separator: ", ")
            return "\(name) does not answer; these addresses are tried again and again: \(addresses)\(search)"
        case .left:
            return
                "\(name) left \(Int((words.now - member.since).seconds)) s ago; it comes back when it is started again"
        }
    }

    private static func detail(_ name: String, of noted: NodeEvent) -> JSONValue {
        switch noted.event.detail.first(where: { $0.name == name })?.value {
        case .text(let text): .string(text)
        case .integer(let value): .integer(value)
        case .number(let value): .number(value)
        case nil: .null
        }
    }
}
