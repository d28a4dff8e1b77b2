import MeshBase
import MeshCrypto
import MeshWire

public struct SessionStateMachine: Sendable {
    public init(identity: NodeIdentity, name: String, configuration: SessionConfiguration, random: RandomStream) {}
    /// One message of channel `.session` from a linked peer.
    public mutating func receive(
        _ payload: [UInt8], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {}
    public mutating func submit(
        _ command: SessionCommand, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) throws(CommandError) {}
    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {}
    public var nextDeadline: HostTime? { nil }
    /// Sorted by name, then id; this node included.
    public var members: [Member] { [] }
    public var invites: [InviteSummary] { [] }
    public var meshID: MeshID? { nil }
    public var label: String { "" }
    public var epochSecrets: [GroupSecret] { [] }
    public func isAdmitted(_ peer: PeerID) -> Bool { false }
    public func ticket(for invite: SecretID) -> Ticket? { nil }
    public var statistics: SessionStatistics { SessionStatistics() }
    public var localHealthMultiplier: Int { 1 }
}
