import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem

/// A read-only copy of all state at one instant: for the control channel, for tests and for measuring.
public struct NodeSnapshot: Sendable {
    public struct Peer: Sendable {
        public var member: Member
        /// `nil` when there is no direct link.
        public var link: LinkStatistics?
        public var offset: PeerOffset?
        /// Without a link here: a linked member says that it has one.
        public var isRelayed: Bool
        /// How it is reached, and what is done to reach it better.
        public var path: PathReport
    }

    public var name: String
    public var id: PeerID
    public var uptime: TimeSpan
    public var port: UInt16
    public var meshID: MeshID?
    public var meshLabel: String
    /// This node has said farewell to the mesh and stays up without it: what it knew of the others is no longer true.
    public var hasLeft: Bool
    /// This node included.
    public var members: [Member]
    /// The others.
    public var peers: [Peer]
    public var attachments: [AttachmentSummary]
    /// Why the store does not take what it is given now; it is tried again.
    public var storageTrouble: NodeError?
    public var invites: [InviteSummary]
    public var clock: ClockSummary
    public var hostTime: HostTime
    /// Read at the same instant as `hostTime`.
    public var meshTime: MeshTime
    /// Order-independent digest of the records held.
    public var recordsHead: Bytes16
    public var recordCount: Int
    public var transport: TransportStatistics
    public var linkTable: LinkTableStatistics
    /// What this node carries for others.
    public var relaying: RelayingSummary
    public var gossip: GossipStatistics
    public var session: SessionStatistics
    public var journal: JournalStatistics
    public var coordinator: CoordinatorStatistics
    public var messenger: MessengerStateMachine.Statistics
    /// What each actor refused, by its name.
    public var actors: [(name: String, statistics: ActorStatistics)]

    /// Messages of peers that did not decode, and told facts that a machine refused, over all actors.
    public var faults: ActorStatistics {
        var total = ActorStatistics(malformedMessages: session.malformedMessages &+ UInt64(clamping: gossip.malformed))
        for actor in actors {
            total.refusedCommands &+= actor.statistics.refusedCommands
            total.malformedMessages? &+= actor.statistics.malformedMessages ?? 0
        }
        return total
    }
}

extension NodeSnapshot {
    /// Members that have not left, this node included: what `memberCount` counts everywhere.
    var presentMembers: [Member] { members.filter { $0.state != .left } }

    /// What a peer is called; the beginning of its id while it has not said a name.
    func name(of peer: PeerID) -> String {
        let known = members.first { $0.peer == peer }?.name ?? ""
        return known.isEmpty ? peer.shortDescription : known
    }
}

extension Node {
    /// Cost: proportional to the number of members and attachments; made on request only.
    public func snapshot() async -> NodeSnapshot {
        let (session, links, gossip) = (await session.current, await messenger.links, await messenger.gossip)
        let (journal, coordinator) = (await journal.current, await coordinator.current)
        let actors: [(String, ActorStatistics)] = [
            ("session", await self.session.statistics), ("messenger", await messenger.actorStatistics),
            ("journal", await self.journal.statistics), ("coordinator", await self.coordinator.statistics),
        ]
        let messengerStatistics = await messenger.statistics
        let now = environment.clock.now()
        let members = session.members.map(withKnownName)
        return NodeSnapshot(
            name: configuration.name, id: identity.peerID, uptime: now - startedAt,
            port: environment.transport.localPort, meshID: session.meshID, meshLabel: session.label, hasLeft: hasLeft,
            members: members,
            peers: members.filter { !$0.isLocal }.map { member in
                let link = links.statistics(of: member.peer)
                return NodeSnapshot.Peer(
                    member: member, link: link, offset: coordinator.offset(of: member.peer),
                    isRelayed: link == nil && gossip.isNear(member.peer), path: session.path(to: member.peer))
            },
            attachments: journal.attachments, storageTrouble: storageTrouble, invites: session.invites,
            clock: coordinator.clock, hostTime: now,
            meshTime: coordinator.meshTime(at: now), recordsHead: gossip.head, recordCount: gossip.records.count,
            transport: environment.transport.statistics(), linkTable: links.statistics,
            relaying: links.relaying(at: now), gossip: gossip.statistics,
            session: session.statistics, journal: journal.statistics, coordinator: coordinator.statistics,
            messenger: messengerStatistics, actors: actors)
    }
}
