import MeshBase
import MeshProtocol
import MeshSystem

// The verbs that read what this node knows, now.

/// A verb whose whole answer is one document made of a snapshot.
protocol SnapshotVerb: ControlVerb {
    static func document(_ snapshot: NodeSnapshot) -> JSONValue
}

extension SnapshotVerb {
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        call.reply.answer(document(await node.snapshot()))
    }
}

enum StatusVerb: SnapshotVerb {
    static let name = "status"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        Documents.status(snapshot, processID: Process.identifier)
    }
}

enum PeersVerb: SnapshotVerb {
    static let name = "peers"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        Documents.peers(snapshot)
    }
}

enum MembersVerb: SnapshotVerb {
    static let name = "members"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        Documents.members(snapshot)
    }
}

enum LinksVerb: SnapshotVerb {
    static let name = "links"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        Documents.links(snapshot)
    }
}

enum ClockVerb: SnapshotVerb {
    static let name = "clock"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        Documents.clock(snapshot)
    }
}

enum SessionVerb: SnapshotVerb {
    static let name = "session"
    static func document(_ snapshot: NodeSnapshot) -> JSONValue {
        ["schema": "starling/session/1", "session": Documents.session(snapshot)]
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
            var seen: Set<String> = []
            let names = snapshot.attachments.filter { seen.insert($0.name).inserted }
            values =
                names.map { ($0.name, ids.text($0.id)) } + snapshot.attachments.map { (ids.text($0.id), $0.name) }
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
        for event in node.events.events(since: since) { call.reply.send { Documents.event(event) } }
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
