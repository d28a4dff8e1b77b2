import MeshBase
import MeshProtocol
import MeshSystem

/// A verb of the control channel. It runs on the node's executor and answers through the call's reply, now or later.
protocol ControlVerb: Sendable {
    static var name: String { get }
    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError)
}

/// Every verb the node answers.
enum ControlVerbs {
    static let all: [any (ControlVerb & SendableMetatype).Type] = [
        StatusVerb.self, PeersVerb.self, MembersVerb.self, LinksVerb.self, ClockVerb.self, SessionVerb.self,
        MetricsVerb.self, WhyVerb.self, EventsVerb.self, SendVerb.self, InboxVerb.self, InviteVerb.self,
        InviteListVerb.self, InviteRevokeVerb.self, JournalAddVerb.self, JournalListVerb.self, JournalGetVerb.self,
        JournalWaitVerb.self, JournalRemoveVerb.self, JournalVerifyVerb.self, LeaveVerb.self, DownVerb.self,
        RemoveVerb.self, EndVerb.self,
        CompleteVerb.self, LogVerb.self,
    ]

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async {
        node.logger.log(.debug, .control, "request", ["verb": call.verb])
        guard let verb = all.first(where: { $0.name == call.verb }) else {
            let error = NodeError(
                "unknownVerb", "this node does not know the verb \(call.verb.debugDescription)",
                hint: "starling help", exit: 2)
            return call.reply.fail(error)
        }
        do throws(NodeError) {
            try await verb.perform(call, on: node, at: now)
        } catch {
            call.reply.fail(error)
        }
    }
}

extension Node {
    /// A command of a person to the gossip, its outputs routed; refusals become the answer.
    func submitToGossip(_ command: GossipCommand, at now: HostTime) async throws(NodeError) {
        do throws(CommandError) {
            for output in try await messenger.submit(.gossip(command), at: now) { route(output, at: now) }
        } catch {
            throw NodeError(error)
        }
    }

    func submitToSession(_ command: SessionCommand, at now: HostTime) async throws(NodeError) {
        do throws(CommandError) {
            for output in try await session.submit(command, at: now) { await route(output, at: now) }
        } catch {
            throw NodeError(error)
        }
    }

    func submitToJournal(_ command: JournalCommand, at now: HostTime) async throws(NodeError) {
        do throws(CommandError) {
            for output in try await journal.submit(command, at: now) { await route(output, at: now) }
        } catch {
            throw NodeError(error)
        }
    }

    /// The one other member of that name, or whose id begins with it. Of one name, those who are here come before
    /// those who have left; `includingLeft` finds these as well.
    func member(named text: String, includingLeft: Bool = false) throws(NodeError) -> Member {
        let others = members.filter { !$0.isLocal && (includingLeft || $0.state != .left) }
        let named = others.filter { $0.name == text }
        let here = named.filter { $0.state != .left }
        let candidates = here.isEmpty ? named : here
        let matches =
            candidates.isEmpty
            ? others.filter { text.count >= 4 && $0.peer.description.hasPrefix(text.lowercased()) } : candidates
        let known = others.map { "\(SafeText.escaped($0.name)) (\($0.peer.shortDescription))" }.joined(separator: ", ")
        switch matches.count {
        case 1: return matches[0]
        case 0:
            throw .notFound(
                "no member is called \(SafeText.escaped(text, limit: 64))",
                hint: known.isEmpty ? "nobody else is here yet: starling invite" : "members: \(known)")
        default:
            throw NodeError(
                "ambiguous", "several members are called \(SafeText.escaped(text, limit: 64))",
                hint: "use the id: \(known)", exit: 6)
        }
    }

    /// The one attachment with that id prefix or name. Where several have one content, the newest of them will do for
    /// whoever wants the content; `strict` is for what happens to one of them alone.
    func attachment(named text: String, strict: Bool = false) async throws(NodeError) -> AttachmentSummary {
        let matches = await journal.attachment(matching: text)
        let isOneContent = Set(matches.map(\.content)).count == 1
        switch matches.count {
        case 1: return matches[0]
        case 2... where isOneContent && !strict: return matches[matches.count - 1]
        case 0:
            throw .notFound(
                "no attachment is called \(SafeText.escaped(text, limit: 64))", hint: "starling journal ls")
        default:
            let ids = ShortIDs(await journal.attachments.map(\.id))
            let list = matches.suffix(8).map { match in
                "\(ids.text(match.id)) (\(SafeText.escaped(match.name, limit: 40)), "
                    + "from \(SafeText.escaped(name(of: match.addedBy), limit: 40)))"
            }
            throw NodeError(
                "ambiguous", "\(matches.count) attachments match \(SafeText.escaped(text, limit: 64))",
                hint: "use one of the ids: \(list.joined(separator: ", "))", exit: 6)
        }
    }

    func timeout(_ call: ControlCall, standard: Double = 30) -> TimeSpan {
        TimeSpan.seconds(max(0, call.number("timeoutSeconds") ?? standard))
    }
}
