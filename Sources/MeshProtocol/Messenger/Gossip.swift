import MeshBase
import MeshCrypto
import MeshWire

/// Everything that spreads beyond one link.
public struct Gossip: Sendable {
    public init(identity: NodeIdentity, configuration: GossipConfiguration, random: RandomStream) {
        fatalError("to be written")
    }
    public mutating func setMesh(_ mesh: MeshID) {}
    public mutating func setEpochSecrets(_ secrets: [GroupSecret]) {}
    public mutating func restore(_ records: [[UInt8]]) -> [AcceptedRecord] { [] }
    public mutating func receive(
        _ payload: [UInt8], from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {}
    public mutating func submit(
        _ command: GossipCommand, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {}
    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {}
    public var nextDeadline: HostTime? { nil }
    public var head: Bytes16 { .zero }
    public var meshID: MeshID? { nil }
    public var genesis: [UInt8]? { nil }
    public var records: [[UInt8]] { [] }
    public var statistics: GossipStatistics { GossipStatistics() }
}
