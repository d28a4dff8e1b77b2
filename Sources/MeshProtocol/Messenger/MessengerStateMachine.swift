import MeshBase
import MeshCrypto
import MeshWire

/// What the messenger wants done.
public enum MessengerOutput: Sendable {
    case transmit(OutgoingDatagram)
    case linkEstablished(LinkIdentity)
    case linkLost(PeerID, LinkLoss)
    case linkMoved(PeerID, SocketAddress, relay: PeerID?)
    /// The first member cannot be reached through the second.
    case relayRefused(PeerID, by: PeerID)
    case dialFailed(DialRequest, DialFailure)
    /// A message of another machine's channel.
    case message(Channel, [UInt8], from: PeerID)
    case clockSample(PeerID, ClockSample)
    case recordAccepted(AcceptedRecord)
    /// To be made durable; a record that was published here counts as published when that is done.
    case persistRecord(id: RecordID, bytes: [UInt8])
    case published(CommandToken, RecordID)
    /// A record cannot be made; whoever wanted it must hear of it.
    case publishRefused(RecordKind, body: [UInt8], CommandError)
    /// A record that a fork proved void: the machines above undo what they did (the author is named in an event).
    case recordVoided(RecordID)
    /// A record that counts no longer, or not any more, because of a removal.
    case recordMuted(RecordID, RecordKind)
    case membership(Membership)
    /// All of this mesh, the one that seals first, and those that nobody who was removed can know.
    case epochSecrets([GroupSecret], safe: [GroupSecret])
    case voidAdmission(AcceptedRecord)
    case userMessage(UserMessage)
    case userMessages(UserMessageBatch)
    case messageSettled(CommandToken, MessageOutcome)
    case event(ProtocolEvent)
}

public enum MessengerCommand: Sendable {
    case setMesh(MeshID)
    /// Secrets that may open handshakes (epoch secrets first), and those among them that seal records.
    case setSecrets([GroupSecret], epochs: [GroupSecret])
    case dial(DialRequest)
    case closeLink(PeerID)
    /// The link's way through a member is silent: another is taken, if one is known.
    case changeRelay(PeerID)
    /// A message of another machine for a linked peer; dropped and counted when there is no link or no room.
    case send(OutgoingMessage, to: PeerID)
    case gossip(GossipCommand)
}

/// Links, what spreads over them, and nothing else: the composite of `LinkTable` (two peers) and `Gossip` (the mesh).
///
/// It only forwards. Bytes go to the link table; messages of the gossip channel go to the gossip, those of the other
/// channels out to their machines; what the gossip sends goes back into the link table.
public struct MessengerStateMachine: Sendable {
    public internal(set) var links: LinkTable
    public private(set) var gossip: Gossip
    public internal(set) var statistics = Statistics()

    var linkOutbox = Outbox<LinkOutput>()
    private var gossipOutbox = Outbox<GossipOutput>()

    public struct Statistics: Hashable, Sendable {
        /// Messages of the machines above that were dropped because the peer has no link.
        public var droppedWithoutLink: UInt64 = 0
        /// Messages dropped because the link's queue was full.
        public var droppedQueueFull: UInt64 = 0
        /// Requests to carry of peers that are no members, or for such.
        public var relayStrangers: UInt64 = 0
        public var malformedRelays: UInt64 = 0
        /// Unreliable messages of applications dropped because the link's queue was full.
        public var unreliableDroppedQueueFull: UInt64 = 0
    }

    public init(
        identity: NodeIdentity, links: LinkConfiguration, gossip: GossipConfiguration, random: RandomStream
    ) {
        var random = random
        self.links = LinkTable(identity: identity, configuration: links, random: random.split())
        self.gossip = Gossip(identity: identity, configuration: gossip, random: random.split())
    }

    /// One datagram, opened in place. `receivedAt` is the socket's stamp, `now` the turn's.
    public mutating func receive(
        _ datagram: inout MutableSpan<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<MessengerOutput>
    ) {
        links.receive(&datagram, from: source, receivedAt: receivedAt, at: now, into: &linkOutbox)
        route(at: now, into: &outbox)
    }

    public mutating func submit(
        _ command: MessengerCommand, at now: HostTime, into outbox: inout Outbox<MessengerOutput>
    ) throws(CommandError) {
        switch command {
        case .setMesh(let mesh):
            links.setMesh(mesh)
            gossip.setMesh(mesh)
        case .setSecrets(let secrets, let epochs):
            links.setSecrets(secrets)
            gossip.setEpochSecrets(epochs)
        case .dial(let request):
            links.dial(request, at: now, into: &linkOutbox)
        case .closeLink(let peer):
            links.close(peer, at: now, into: &linkOutbox)
        case .changeRelay(let peer):
            links.changeRelay(of: peer, at: now, into: &linkOutbox)
        case .send(let message, let peer):
            send(message, to: peer, at: now)
        case .gossip(let command):
            try gossip.submit(command, at: now, into: &gossipOutbox)
        }
        route(at: now, into: &outbox)
    }

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<MessengerOutput>) {
        if let deadline = links.nextDeadline, deadline <= now { links.handleDeadline(at: now, into: &linkOutbox) }
        if let deadline = gossip.nextDeadline, deadline <= now { gossip.handleDeadline(at: now, into: &gossipOutbox) }
        route(at: now, into: &outbox)
    }

    public var nextDeadline: HostTime? {
        switch (links.nextDeadline, gossip.nextDeadline) {
        case (let first?, let second?): min(first, second)
        case (let first, let second): first ?? second
        }
    }

    /// `nextDeadline`, asked in place. Changes nothing: it is mutating because a getter is given a copy of the whole.
    public mutating func askNextDeadline() -> HostTime? { nextDeadline }

    /// Assembles what is queued into datagrams; once, at the end of a turn.
    public mutating func flush(at now: HostTime, into outbox: inout Outbox<MessengerOutput>) {
        links.flush(at: now, into: &linkOutbox)
        route(at: now, into: &outbox)
    }

    public mutating func didTransmit(at actual: HostTime) { links.didTransmit(at: actual) }

    public mutating func takeHeard() -> [PeerID] { links.takeHeard() }

    /// Links whose queue of attachments grew or shrank since the last call, and the bytes it holds.
    public mutating func takeAttachmentQueueBytes() -> [(peer: PeerID, byteCount: Int)] {
        links.takeAttachmentQueueBytes()
    }

    /// Records from the store, checked again in full; returned in causal order, for the machines above.
    public mutating func restore(_ records: [[UInt8]]) -> RestoredRecords {
        let restored = gossip.restore(records)
        links.setMembershipHead(gossip.head)
        tellLinks(restored.membership)
        return restored
    }

    // MARK: - Forwarding

    /// Drains both parts until neither has anything left for the other. The arrays are swapped, not copied, and go
    /// back with their capacity.
    private mutating func route(at now: HostTime, into outbox: inout Outbox<MessengerOutput>) {
        while !linkOutbox.isEmpty || !gossipOutbox.isEmpty {
            var fromLinks = Outbox<LinkOutput>()
            swap(&fromLinks, &linkOutbox)
            for output in fromLinks.items { route(output, at: now, into: &outbox) }
            var fromGossip = Outbox<GossipOutput>()
            swap(&fromGossip, &gossipOutbox)
            for output in fromGossip.items { route(output, at: now, into: &outbox) }
            if linkOutbox.isEmpty {
                fromLinks.removeAll()
                swap(&fromLinks, &linkOutbox)
            }
            if gossipOutbox.isEmpty {
                fromGossip.removeAll()
                swap(&fromGossip, &gossipOutbox)
            }
        }
    }

    private mutating func route(_ output: LinkOutput, at now: HostTime, into outbox: inout Outbox<MessengerOutput>) {
        switch output {
        case .transmit(let datagram): outbox.append(.transmit(datagram))
        case .established(var identity):
            identity.relay = links.relay(of: identity.address)
            outbox.append(.linkEstablished(identity))
            gossip.linkUp(identity.peer, identity.incarnation, at: now, into: &gossipOutbox)
        case .lost(let peer, let loss):
            outbox.append(.linkLost(peer, loss))
            gossip.linkDown(peer, at: now, into: &gossipOutbox)
        case .received(let numbers, let peer): gossip.received(numbers, by: peer, at: now, into: &gossipOutbox)
        case .message(.gossip, let payload, let peer):
            gossip.receive(payload, from: peer, at: now, into: &gossipOutbox)
        case .relayMessage(let payload, let peer, let receivedAt):
            receiveRelay(payload, from: peer, receivedAt: receivedAt, at: now)
        case .relayRefused(let peer, let relay): outbox.append(.relayRefused(peer, by: relay))
        case .message(let channel, let payload, let peer):
            outbox.append(.message(channel, payload, from: peer))
        case .clockSample(let peer, let sample): outbox.append(.clockSample(peer, sample))
        case .moved(let peer, let address):
            outbox.append(.linkMoved(peer, address, relay: links.relay(of: address)))
        case .dialFailed(let request, let failure): outbox.append(.dialFailed(request, failure))
        case .event(let event): outbox.append(.event(event))
        }
    }

    private mutating func route(_ output: GossipOutput, at now: HostTime, into outbox: inout Outbox<MessengerOutput>) {
        switch output {
        case .send(let payload, let peer, let priority, let isReliable):
            let message = OutgoingMessage(
                channel: .gossip, payload: payload, priority: priority, isReliable: isReliable)
            send(message, to: peer, at: now)
        case .sendDirect(let payload, let peer, let number):
            let message = OutgoingMessage(
                channel: .gossip, payload: payload, priority: .message, isReliable: true, receipt: number)
            send(message, to: peer, at: now)
        case .sendUnreliable(let payload, let peer, let expiresAt):
            let message = OutgoingMessage(
                channel: .gossip, payload: payload, priority: .message, isReliable: false, expiresAt: expiresAt)
            send(message, to: peer, at: now, ifFull: \.unreliableDroppedQueueFull)
        case .recordAccepted(let record):
            links.setMembershipHead(gossip.head)
            admitToLinks(record)
            outbox.append(.recordAccepted(record))
        case .recordMuted(let id, let kind): outbox.append(.recordMuted(id, kind))
        case .membership(let membership):
            tellLinks(membership)
            outbox.append(.membership(membership))
        case .epochSecrets(let all, let safe): outbox.append(.epochSecrets(all, safe: safe))
        case .recordVoided(let id):
            links.setMembershipHead(gossip.head)
            outbox.append(.recordVoided(id))
        case .voidAdmission(let record): outbox.append(.voidAdmission(record))
        case .persist(let id, let bytes): outbox.append(.persistRecord(id: id, bytes: bytes))
        case .published(let token, let id): outbox.append(.published(token, id))
        case .publishRefused(let kind, let body, let error): outbox.append(.publishRefused(kind, body: body, error))
        case .userMessage(let message): outbox.append(.userMessage(message))
        case .userMessages(let batch): outbox.append(.userMessages(batch))
        case .messageSettled(let token, let outcome): outbox.append(.messageSettled(token, outcome))
        case .event(let event): outbox.append(.event(event))
        }
    }

    private mutating func admitToLinks(_ record: AcceptedRecord) {
        switch record.kind {
        case .genesis: links.admit(record.author)
        case .admit:
            // The gossip has decoded this body before it accepted the record.
            if let body = try? AdmitBody(decoding: record.body) { links.admit(body.subject) }
        default: break
        }
    }

    private mutating func tellLinks(_ membership: Membership) {
        links.setMembers(Set(membership.members), removed: Set(membership.removals.keys))
    }

    /// `counter`: what a full queue is counted as.
    private mutating func send(
        _ message: OutgoingMessage, to peer: PeerID, at now: HostTime,
        ifFull counter: WritableKeyPath<Statistics, UInt64> = \.droppedQueueFull
    ) {
        do { try links.send(message, to: peer, at: now) } catch {
            statistics[keyPath: error == .notConnected ? \.droppedWithoutLink : counter] += 1
        }
    }
}
