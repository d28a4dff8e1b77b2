import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// Every tunable of a node. Each machine's own stand in its configuration, with unit, default and reason.
public struct NodeConfiguration: Sendable {
    /// What the others see.
    public var name: String
    public var links = LinkConfiguration()
    public var gossip = GossipConfiguration()
    public var session = SessionConfiguration()
    public var journal = JournalConfiguration()
    public var coordinator = CoordinatorConfiguration()

    /// Datagrams handled before the turn looks at anything else. Bounds how late a deadline can be served.
    public var maximumDatagramsPerTurn = 64
    /// How long a leaving node waits for its farewell to be acknowledged.
    public var leaveTimeout = TimeSpan.milliseconds(700)

    public init(name: String) { self.name = name }
}

/// How a node's life begins.
public enum NodeStart: Sendable {
    /// A new mesh with this node as its first member.
    case found(label: String, policies: MeshPolicies = .standard)
    /// Back into the mesh that the store knows.
    case resume(SessionState)
    /// Into somebody's mesh.
    case join(Ticket, extraAddresses: [SocketAddress])
}
