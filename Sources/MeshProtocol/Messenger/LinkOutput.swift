import MeshBase
import MeshWire

/// What the links want done or known, in order.
public enum LinkOutput: Sendable {
    /// Send this datagram at the end of the turn.
    case transmit(OutgoingDatagram)
    /// A handshake finished. Takes the place of an older link of the same peer: without a `lost` when the incarnation is
    /// the same, after `lost(.replaced)` when it differs. A change of keys alone is not said.
    case established(LinkIdentity)
    /// A link is gone, with everything still queued for it.
    case lost(PeerID, LinkLoss)
    /// A whole message of a linked peer, proven to be that peer's.
    case message(Channel, [UInt8], from: PeerID)
    /// The peer's link has these messages whole: their `receipt`s, in no order.
    case received([UInt64], by: PeerID)
    /// A message of channel `relay`, with the kernel's stamp of the datagram it came in.
    case relayMessage([UInt8], from: PeerID, receivedAt: HostTime)
    /// The first member cannot be reached through the second (any more).
    case relayRefused(PeerID, by: PeerID)
    /// One exchange of datagrams, timed.
    case clockSample(PeerID, ClockSample)
    /// A linked peer answers from another address now, and has proven it.
    case moved(PeerID, SocketAddress)
    /// No address of one dial led to a link. Said once per accepted `DialRequest` that fails.
    case dialFailed(DialRequest, DialFailure)
    case event(ProtocolEvent)
}

/// Why a dial ended without a link. When addresses failed differently, the most telling reason is given.
public enum DialFailure: Hashable, Sendable {
    /// Nothing authentic came back within the time limit.
    case noAnswer
    /// The other side speaks these versions only; the next tries are held back.
    case versionMismatch(theirMinimum: UInt8, theirMaximum: UInt8)
    /// Somebody else answered, or this node itself.
    case wrongPeer
    /// An answer did not prove the secret or its identity.
    case authenticationFailed
    /// This node does not hold the secret of the request.
    case unknownSecret
    /// Too many dials at once.
    case tooMany
}
