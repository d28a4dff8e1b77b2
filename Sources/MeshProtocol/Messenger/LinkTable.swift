import MeshBase
import MeshCrypto
import MeshWire

/// Bytes ↔ messages between this node and the peers it is directly linked with.
///
/// Owns every handshake, link and queue. Pure: time, bytes and randomness come in as parameters, datagrams go out through
/// the outbox. The order of calls within one turn: `receive` for each datagram, `send` and `dial` as the machines above
/// decide, `handleDeadline` when `nextDeadline` has come, `flush` once, the system call, `didTransmit`.
public struct LinkTable: Sendable {
    public private(set) var statistics = LinkTableStatistics()

    public init(identity: NodeIdentity, configuration: LinkConfiguration, random: RandomStream) {}

    /// The mesh named in every handshake. Without it nothing is sent and nothing accepted.
    public mutating func setMesh(_ mesh: MeshID) {}

    /// The secrets that may open handshakes, epoch secret first, at most 17. Links that exist are kept.
    public mutating func setSecrets(_ secrets: [GroupSecret]) {}

    /// The digest of the records held here, told in every handshake.
    public mutating func setMembershipHead(_ head: Bytes16) {}

    /// Takes one datagram; DATA is opened in place. Never throws and never traps: what is wrong is dropped and counted.
    /// - Parameters:
    ///   - receivedAt: the kernel's receive time on the host clock.
    ///   - now: the time of this turn.
    public mutating func receive(
        _ datagram: inout MutableSpan<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {}

    /// Tries to link with whoever answers at one of the addresses. A request equal to one that is running, or for a peer
    /// that is linked and was heard within the last two seconds, is ignored.
    public mutating func dial(_ request: DialRequest, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {}

    /// Queues a message; `flush` sends it.
    public mutating func send(
        _ message: OutgoingMessage, to peer: PeerID, at now: HostTime
    ) throws(CommandError) {}

    /// Sends what is queued above bulk, then CLOSE, and forgets the link; says `lost(.closedHere)`.
    public mutating func close(
        _ peer: PeerID, reason: CloseReason = .leaving, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {}

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {}

    public var nextDeadline: HostTime? { nil }

    /// Assembles datagrams from the queues as pacing and congestion allow; called once at the end of a turn.
    public mutating func flush(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {}

    /// When the datagrams of the last flush really left: host time right before the system call.
    public mutating func didTransmit(at actual: HostTime) {}

    /// Peers from which something authentic arrived since the last call, sorted.
    public mutating func takeHeard() -> [PeerID] { [] }

    public func statistics(of peer: PeerID) -> LinkStatistics? { nil }

    /// Bytes queued for `peer`, or sent and not yet acknowledged; zero when not linked.
    public func sendQueueBytes(to peer: PeerID) -> Int { 0 }

    /// Sorted.
    public var linkedPeers: [PeerID] { [] }
}

/// Why a link is closed: the code of the CLOSE frame.
public enum CloseReason: UInt8, Sendable, Hashable, CaseIterable {
    /// The node leaves the mesh or stops.
    case leaving = 0
    /// The peer broke the protocol.
    case protocolViolation = 1
    /// The peer may not be here: not admitted, removed, or the mesh has ended.
    case notPermitted = 2
    /// Too many links.
    case limitReached = 3
}
