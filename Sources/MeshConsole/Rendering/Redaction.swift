import MeshBase

/// Takes out of an object what a bug report does not need: keys, invites, texts, file names, who is who.
///
/// Names of members become p1, p2, … in order of appearance, the same name always the same word; addresses keep only
/// their family and kind; everything that is not known to be harmless is left out.
public struct Redaction: Sendable {
    private var pseudonyms: [String: String] = [:]

    public init() {}

    /// Members whose text says nothing about anybody: states, kinds, stable words.
    private static let harmless: Set<String> = [
        "schema", "state", "kind", "result", "mode", "code", "what", "check", "version", "system", "at", "area",
    ]
    private static let people: Set<String> = [
        "name", "node", "peer", "from", "addedBy", "admittedBy", "createdBy", "holders", "setBy", "subject",
    ]

    public mutating func redacted(_ value: JSONValue, member: String = "") -> JSONValue {
        switch value {
        case .object(let members):
            return .object(members.map { .init($0.name, redacted($0.value, member: $0.name)) })
        case .array(let elements): return .array(elements.map { redacted($0, member: member) })
        case .string(let text): return .string(redacted(text, member: member))
        case .null, .bool, .integer, .number: return value
        }
    }

    private mutating func redacted(_ text: String, member: String) -> String {
        if Self.harmless.contains(member) { return text }
        if Self.people.contains(member) { return pseudonym(text) }
        if member == "address" || member == "addresses" { return Self.kind(ofAddress: text) }
        return "(left out)"
    }

    private mutating func pseudonym(_ name: String) -> String {
        if let known = pseudonyms[name] { return known }
        let word = "p\(pseudonyms.count + 1)"
        pseudonyms[name] = word
        return word
    }

    private static func kind(ofAddress text: String) -> String {
        guard let address = SocketAddress(text) else { return "(left out)" }
        let family = address.family == .ipv4 ? "v4" : "v6"
        let kind = address.isLoopback ? "loopback" : address.isLinkLocal ? "link-local" : "network"
        return "\(family) \(kind):\(address.port)"
    }
}
