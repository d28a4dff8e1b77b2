import MeshBase
import MeshSystem

/// Shows, and first changes when asked to, what the node writes to its log.
enum LogVerb: ControlVerb {
    static let name = "log"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        if case .object(let members)? = call.request["levels"] {
            let text = members.map { "\($0.name)=\($0.value.stringValue ?? "")" }.joined(separator: ",")
            if let problem = node.logger.configure(text) { throw .usage(problem, hint: "starling help log") }
        }
        let levels = LogArea.allCases.map { area in
            JSONValue.Member(area.rawValue, .string("\(node.logger.level(of: area))"))
        }
        call.reply.answer(["schema": "starling/log/1", "levels": .object(levels)])
    }
}
