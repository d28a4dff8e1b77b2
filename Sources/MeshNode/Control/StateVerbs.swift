import MeshBase
import MeshProtocol
import MeshSystem

// The verbs that read what this node knows, now.

enum StatusVerb: ControlVerb {
    static let name = "status"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(Documents.status(await node.snapshot(), processID: Process.identifier))
    }
}

enum PeersVerb: ControlVerb {
    static let name = "peers"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(Documents.peers(await node.snapshot()))
    }
}

enum MembersVerb: ControlVerb {
    static let name = "members"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(Documents.members(await node.snapshot()))
    }
}

enum LinksVerb: ControlVerb {
    static let name = "links"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(Documents.links(await node.snapshot()))
    }
}

enum ClockVerb: ControlVerb {
    static let name = "clock"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(Documents.clock(await node.snapshot()))
    }
}

enum SessionVerb: ControlVerb {
    static let name = "session"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(["schema": "starling/session/1", "session": Documents.session(await node.snapshot())])
    }
}

enum CompleteVerb: ControlVerb {
    static let name = "complete"
    static let maximumValues = 256

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        let snapshot = await node.snapshot()
        let values: [(String, String)]
        switch call.text("kind") {
        case "peers": values = snapshot.peers.map { ($0.member.name, $0.member.state.rawValue) }
        case "attachments":
            let ids = ShortIDs(snapshot.attachments.map(\.id))
            values = snapshot.attachments.map { (ids.text($0.id), $0.name) }
        case "invites": values = snapshot.invites.map { ($0.id.description, "") }
        default:
            throw .usage("kind is peers, attachments or invites", hint: "{\"verb\":\"complete\",\"kind\":\"peers\"}")
        }
        let rows = values.prefix(maximumValues).map { value -> JSONValue in
            ["value": .string(value.0), "description": .string(value.1)]
        }
        call.reply.answer(["schema": "starling/complete/1", "values": .array(rows)])
    }
}

enum EventsVerb: ControlVerb {
    static let name = "events"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        let since = call.number("sinceSeconds").map { now - TimeSpan.seconds(max(0, $0)) } ?? .distantPast
        for event in node.events.events(since: since) { call.reply.send(Documents.event(event)) }
        guard call.flag("follow") else { return call.reply.finish() }
        try follow(&node.followers.events, call.reply)
    }
}

/// Adds a follower, within the limit.
func follow(_ followers: inout [ControlReply], _ reply: ControlReply) throws(NodeError) {
    followers.removeAll { !$0.isOpen }
    guard followers.count < Followers.maximumFollowers else {
        throw NodeError(CommandError.queueFull(limit: Followers.maximumFollowers))
    }
    followers.append(reply)
}

enum LeaveVerb: ControlVerb {
    static let name = "leave"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(["schema": "starling/leave/1", "name": .string(node.configuration.name)])
        node.leave(stops: false, at: now)
    }
}

enum DownVerb: ControlVerb {
    static let name = "down"
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(["schema": "starling/down/1", "name": .string(node.configuration.name)])
        node.leave(stops: true, at: now)
    }
}
