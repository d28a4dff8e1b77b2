import MeshBase
import MeshCrypto
import MeshWire

/// Who this process is: the lasting key of the node in its mesh, and the incarnation of this start.
public struct NodeIdentity: Sendable {
    public let signing: SigningKeyPair
    public let incarnation: Incarnation

    public var peerID: PeerID { signing.peerID }

    public init(signing: SigningKeyPair, incarnation: Incarnation) {
        self.signing = signing
        self.incarnation = incarnation
    }
}

/// A peer on the other end of a finished handshake. Everything here is proven by it.
public struct LinkIdentity: Hashable, Sendable {
    public enum Role: UInt8, Hashable, Sendable {
        case initiator = 0
        case responder = 1
    }

    public var peer: PeerID
    public var incarnation: Incarnation
    /// The join or epoch secret under which the handshake ran.
    public var secretID: SecretID
    /// This node's part in the handshake.
    public var role: Role
    /// Where the peer's datagrams come from.
    public var address: SocketAddress
    /// The peer's digest of the records it holds.
    public var membershipHead: Bytes16
    /// The member through which the link goes; then `address` means something inside this node only.
    public var relay: PeerID?

    public init(
        peer: PeerID, incarnation: Incarnation, secretID: SecretID, role: Role, address: SocketAddress,
        membershipHead: Bytes16
    ) {
        self.peer = peer
        self.incarnation = incarnation
        self.secretID = secretID
        self.role = role
        self.address = address
        self.membershipHead = membershipHead
    }
}

/// Why a link is gone.
public enum LinkLoss: String, Hashable, Sendable {
    /// The peer said so.
    case closedByPeer
    /// This node said so.
    case closedHere
    /// Nothing was heard for the idle limit.
    case timedOut
    /// A newer handshake of the same peer took its place; no gap for the machines above.
    case replaced
    /// The peer broke the protocol.
    case protocolViolation
}

/// Addresses to try, all at once, staggered; the first finished handshake wins.
public struct DialRequest: Hashable, Sendable {
    public var addresses: [SocketAddress]
    public var secretID: SecretID
    /// Who must answer; `nil` when a ticket does not name anybody.
    public var expectedPeer: PeerID?
    /// Members that are to carry the datagrams to `expectedPeer`, tried beside the addresses.
    public var relays: [PeerID] = []
    /// The other side dials at the same instant: all addresses at once, and again after 250 and 750 ms.
    public var isPunch = false

    public init(addresses: [SocketAddress], secretID: SecretID, expectedPeer: PeerID? = nil) {
        self.addresses = addresses
        self.secretID = secretID
        self.expectedPeer = expectedPeer
    }
}

/// A message for one linked peer.
public struct OutgoingMessage: Hashable, Sendable {
    public var channel: Channel
    public var payload: [UInt8]
    public var priority: Priority
    /// Retransmitted until acknowledged while the link lives. Otherwise sent at most once.
    public var isReliable: Bool
    /// An unreliable message still queued then is dropped and counted.
    public var expiresAt: HostTime?
    /// The sender's own number for a reliable message whose acknowledgement it wants to hear of.
    public var receipt: UInt64?

    public init(
        channel: Channel, payload: [UInt8], priority: Priority, isReliable: Bool, expiresAt: HostTime? = nil,
        receipt: UInt64? = nil
    ) {
        self.expiresAt = expiresAt
        self.receipt = receipt
        self.channel = channel
        self.payload = payload
        self.priority = priority
        self.isReliable = isReliable
    }
}

/// A datagram to transmit, in order, at the end of the turn.
public struct OutgoingDatagram: Hashable, Sendable {
    public var bytes: [UInt8]
    public var destination: SocketAddress

    public init(bytes: [UInt8], destination: SocketAddress) {
        self.bytes = bytes
        self.destination = destination
    }
}

/// A signed record that was checked, is new, and whose causes are all known. Handed out once, in causal order.
public struct AcceptedRecord: Hashable, Sendable {
    public var id: RecordID
    public var kind: RecordKind
    public var author: PeerID
    public var incarnation: Incarnation
    public var sequence: UInt64
    public var lamport: UInt64
    /// The opened body.
    public var body: [UInt8]
    /// The epoch secret that seals it.
    public var epoch: SecretID

    public init(
        id: RecordID, kind: RecordKind, author: PeerID, incarnation: Incarnation, sequence: UInt64, lamport: UInt64,
        body: [UInt8], epoch: SecretID = SecretID(.zero)
    ) {
        self.id = id
        self.kind = kind
        self.author = author
        self.incarnation = incarnation
        self.sequence = sequence
        self.lamport = lamport
        self.body = body
        self.epoch = epoch
    }
}

/// Four instants of one exchange with a peer, for the clock: sent here, received there, sent there, received here.
/// The first and last on this node's host clock, the middle two on the peer's.
public struct ClockSample: Hashable, Sendable {
    public var sentHere: HostTime
    public var receivedThere: HostTime
    public var sentThere: HostTime
    public var receivedHere: HostTime

    public init(sentHere: HostTime, receivedThere: HostTime, sentThere: HostTime, receivedHere: HostTime) {
        self.sentHere = sentHere
        self.receivedThere = receivedThere
        self.sentThere = sentThere
        self.receivedHere = receivedHere
    }
}
