import MeshBase
import MeshProtocol

/// Every counter of every machine, by name. Names are the properties' own, so a counter added to a machine shows up
/// here without a second list to keep.
enum MetricsVerb: ControlVerb {
    static let name = "metrics"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        let snapshot = await node.snapshot()
        let gauges: JSONValue = [
            "uptimeSeconds": .number(Documents.rounded(snapshot.uptime.seconds, 3)),
            "members": .integer(Int64(snapshot.presentMembers.count)),
            "membersLeft": .integer(Int64(snapshot.members.count - snapshot.presentMembers.count)),
            "links": .integer(Int64(snapshot.peers.count { $0.link != nil })),
            "records": .integer(Int64(snapshot.recordCount)),
            "attachments": .integer(Int64(snapshot.attachments.count)),
            "clockErrorMicroseconds": .number(Documents.rounded(snapshot.clock.error.microseconds, 1)),
        ]
        call.reply.answer(["schema": "starling/metrics/1", "counters": counters(snapshot), "gauges": gauges])
    }

    static func counters(_ snapshot: NodeSnapshot) -> JSONValue {
        var counters: [JSONValue.Member] = []
        collect("transport", snapshot.transport, into: &counters)
        collect("links", snapshot.linkTable, into: &counters)
        collect("gossip", snapshot.gossip, into: &counters)
        collect("messenger", snapshot.messenger, into: &counters)
        collect("session", snapshot.session, into: &counters)
        collect("journal", snapshot.journal, into: &counters)
        collect("coordinator", snapshot.coordinator, into: &counters)
        for actor in snapshot.actors { collect(actor.name, actor.statistics, into: &counters) }
        return .object(counters)
    }

    private static func collect(_ area: String, _ statistics: Any, into counters: inout [JSONValue.Member]) {
        for child in Mirror(reflecting: statistics).children {
            guard let label = child.label else { continue }
            switch child.value {
            case let value as UInt64: counters.append(.init("\(area).\(label)", Documents.count(value)))
            case let value as Int: counters.append(.init("\(area).\(label)", .integer(Int64(value))))
            default: break
            }
        }
    }
}
