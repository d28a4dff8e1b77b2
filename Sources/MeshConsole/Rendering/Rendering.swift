import MeshBase

/// A node's JSON objects as text for people. Pure: the same object, style and width give the same lines.
///
/// Everything a node, a file or another person named goes through `SafeText`, whatever its field: an object may come
/// from a newer or a hostile node.
public struct Rendering: Sendable {
    public var style: Style
    /// Cells of the terminal; `nil` when there is none, then nothing is shortened.
    public var width: Int?

    public init(style: Style = .plain, width: Int? = nil) {
        self.style = style
        self.width = width
    }

    /// The lines for one object. An object of unknown shape is shown member by member.
    public func lines(_ object: JSONValue) -> [String] {
        guard let schema = object["schema"]?.stringValue else { return members(object) }
        switch schema {
        case "starling/status/1": return status(object)
        case "starling/peers/1": return peers(object["peers"]?.arrayValue ?? [])
        case "starling/members/1": return membership(object["members"]?.arrayValue ?? [])
        case "starling/links/1": return links(object)
        case "starling/nodes/1": return nodes(object["nodes"]?.arrayValue ?? [])
        case "starling/clock/1": return clock(object)
        case "starling/session/1": return session(object["session"] ?? .null)
        case "starling/metrics/1": return metrics(object)
        case "starling/why/1": return why(object)
        case "starling/events/1": return [event(object)]
        case "starling/inbox/1": return inbox(object)
        case "starling/send/1": return [sent(object)]
        case "starling/invite/1": return [text(object["invite"])]
        case "starling/up/1": return ready(object)
        case "starling/doctor/1": return doctor(object)
        case "starling/config/1": return config(object)
        case "starling/demo/1": return demo(object)
        case "starling/complete/1": return (object["values"]?.arrayValue ?? []).map { text($0["value"]) }
        case "starling/notice/1", "starling/version/1": return [text(object["text"])]
        default: return answers(schema, object)
        }
    }

    /// A failure: what went wrong, what was tried, what to type next.
    public func lines(_ failure: CommandFailure) -> [String] {
        var lines = [style.apply(.bad, to: "error:") + " " + safe(failure.message)]
        for attempt in failure.detail.first(where: { $0.name == "tried" })?.value.arrayValue ?? [] {
            let parts = ["what", "address", "result"].map { text(attempt[$0], absent: "") }.filter { !$0.isEmpty }
            lines.append("  tried  " + parts.joined(separator: "  "))
        }
        if !failure.hint.isEmpty {
            // A hint may hold several lines; each is escaped on its own.
            for (position, line) in failure.hint.split(separator: "\n").enumerated() {
                lines.append((position == 0 ? "hint:  " : "       ") + safe(String(line)))
            }
        }
        return lines
    }

    // MARK: Words from outside

    func safe(_ text: String) -> String { SafeText.escaped(text) }

    /// A member as safe text; numbers and truth values too.
    func text(_ value: JSONValue?, absent: String = "–") -> String {
        switch value {
        case .string(let text): text.isEmpty ? absent : safe(text)
        case .integer(let number): String(number)
        case .number(let number): number.description
        case .bool(let truth): truth ? "yes" : "no"
        case .array(let elements): elements.map { self.text($0) }.joined(separator: " ")
        case .object: safe(value?.text ?? "")
        case .null, nil: absent
        }
    }

    func names(_ value: JSONValue?) -> String {
        let all = value?.arrayValue?.map { text($0) } ?? []
        return all.isEmpty ? "–" : all.joined(separator: " ")
    }

    /// Sorted by nothing: member order is the sender's.
    func members(_ object: JSONValue, indent: String = "") -> [String] {
        guard case .object(let members) = object else { return [indent + text(object)] }
        let shown = members.filter { $0.name != "schema" }
        let left = shown.map { DisplayWidth.of(safe($0.name)) }.max() ?? 0
        return shown.map { indent + DisplayWidth.padded(safe($0.name), to: left) + "  " + text($0.value) }
    }

    /// The time of day of an ISO 8601 text.
    func time(_ value: JSONValue?) -> String {
        guard let full = value?.stringValue else { return "–" }
        let parts = full.split(separator: "T", maxSplits: 1)
        return safe(String((parts.count == 2 ? parts[1] : parts.first ?? "").prefix(8)))
    }

    /// The first digits of an id, as people type them.
    func shortID(_ value: JSONValue?, digits: Int = 4) -> String {
        safe(String((value?.stringValue ?? "–").prefix(digits)))
    }

    /// Prefixes of `ids` that tell them apart, at least four digits each.
    func shortIDs(_ ids: [String]) -> [String] {
        let longest = ids.map(\.count).max() ?? 4
        var digits = 4
        while digits < longest, Set(ids.map { $0.prefix(digits) }).count < Set(ids).count { digits += 1 }
        return ids.map { safe(String($0.prefix(digits))) }
    }
}
