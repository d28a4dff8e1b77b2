import MeshBase

/// What the members were called when they were last here, kept over a restart: a node that returns meets the others
/// before they have said their names again. For people to read; nothing is decided by it.
struct KnownNames: Sendable, Hashable {
    /// As many as there can be members.
    static let maximumCount = 1024

    private(set) var names: [PeerID: String] = [:]

    init() {}

    /// Reads what `encoded` wrote; nothing of it when it is damaged.
    init(decoding bytes: [UInt8]) {
        guard case .object(let members)? = try? JSONValue.parse(bytes, byteLimit: 1 << 20) else { return }
        for member in members.prefix(Self.maximumCount) {
            guard let id = Hexadecimal.decode(member.name), let value = Bytes32(id), let name = member.value.stringValue
            else { continue }
            names[PeerID(value)] = name
        }
    }

    var encoded: [UInt8] {
        let members = names.map { JSONValue.Member($0.key.description, .string($0.value)) }
        return Array(JSONValue.object(members.sorted { $0.name < $1.name }).text.utf8)
    }

    subscript(peer: PeerID) -> String? { names[peer] }

    /// True when `name` is news.
    mutating func learn(_ name: String, of peer: PeerID) -> Bool {
        guard !name.isEmpty, names[peer] != name, names[peer] != nil || names.count < Self.maximumCount else {
            return false
        }
        names[peer] = name
        return true
    }
}
