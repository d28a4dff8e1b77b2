import MeshBase

/// Who may do what to the membership; fixed with the mesh, so that nobody can change it later.
public struct MeshPolicies: Hashable, Sendable {
    public enum Right: UInt8, Hashable, Sendable, CaseIterable {
        /// The member that founded the mesh.
        case creator = 1
        /// The creator, and for a removal whoever admitted the member.
        case creatorAndAdmitter = 2
        case anyMember = 3
    }

    /// Who may make invites. The others may still admit with the creator's.
    public var invite: Right
    /// Who may remove a member. Nobody removes the creator or itself.
    public var remove: Right
    /// Who may end the mesh.
    public var end: Right

    /// Every member may invite and end; the creator and whoever admitted a member may remove it.
    public static let standard = MeshPolicies(invite: .anyMember, remove: .creatorAndAdmitter, end: .anyMember)

    public init(invite: Right, remove: Right, end: Right) {
        self.invite = invite
        self.remove = remove
        self.end = end
    }
}

/// Body of GENESIS: `version u8 | nonce 32 | journal key 32 | label text`, and in version 2 behind them
/// `invite u8 | remove u8 | end u8`. Version 1 says the standard policies.
public struct GenesisBody: WireMessage {
    /// Random, so that two meshes founded with one label differ.
    public var nonce: Bytes32
    /// Key of the attachments' hash trees: strangers cannot test for a known file. Never changes.
    public var journalKey: Bytes32
    /// Shown to people; at most `WireLimits.maximumNameBytes` bytes. Never a secret and never an identity.
    public var label: String
    public var policies: MeshPolicies

    public init(nonce: Bytes32, journalKey: Bytes32, label: String, policies: MeshPolicies = .standard) {
        self.nonce = nonce
        self.journalKey = journalKey
        self.label = label
        self.policies = policies
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(policies == .standard ? 1 : 2))
        writer.write(nonce)
        writer.write(journalKey)
        writer.write(text: label)
        guard policies != .standard else { return }
        for right in [policies.invite, policies.remove, policies.end] { writer.write(right.rawValue) }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        let version = try bytes.readUInt8(&position)
        guard version == 1 || version == 2 else { throw .unsupportedVersion }
        nonce = try bytes.readBytes32(&position)
        journalKey = try bytes.readBytes32(&position)
        label = try bytes.readText(&position, maximum: WireLimits.maximumNameBytes)
        policies = .standard
        if version == 2 {
            policies.invite = try Self.readRight(bytes, &position)
            policies.remove = try Self.readRight(bytes, &position)
            policies.end = try Self.readRight(bytes, &position)
            // One byte form: the standard ones are said by version 1.
            guard policies != .standard else { throw .invalidValue }
        }
        try bytes.expectEnd(position)
    }

    private static func readRight(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> MeshPolicies.Right {
        guard let right = MeshPolicies.Right(rawValue: try bytes.readUInt8(&position)) else { throw .invalidValue }
        return right
    }
}
