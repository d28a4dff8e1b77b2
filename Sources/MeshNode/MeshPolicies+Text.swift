import MeshBase
import MeshWire

extension MeshPolicies {
    /// Reads `invite=creator,remove=members,end=creator`; what is not named stays as it is by default.
    init(text: String) throws(NodeError) {
        self = .standard
        for part in text.split(separator: ",") {
            let sides = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard sides.count == 2, let right = Self.rights[sides[1]] else { throw Self.unreadable(String(part)) }
            switch sides[0] {
            case "invite" where right != .creatorAndAdmitter: invite = right
            case "remove": remove = right
            case "end" where right != .creatorAndAdmitter: end = right
            default: throw Self.unreadable(String(part))
            }
        }
    }

    private static let rights: [String: Right] = [
        "creator": .creator, "admitter": .creatorAndAdmitter, "members": .anyMember,
    ]

    private static func unreadable(_ part: String) -> NodeError {
        .usage(
            "\(SafeText.escaped(part, limit: 64)) is no policy",
            hint: "invite=creator|members, remove=creator|admitter|members, end=creator|members; several with commas")
    }
}
