import MeshBase
import MeshCrypto
import MeshWire

// Datagrams through a member: those of this node's own links that go that way, and those that this node carries.
//
// A path through a member is a path like any other, named by an address of its own (`RelayRoutes`). What would leave in
// a UDP datagram goes instead as an unreliable message to the member that carries it. One hop only: what is carried
// comes from a direct link and goes to a direct link.
extension LinkTable {
    // MARK: This node's own

    /// Wraps what goes to a route, and queues it for the member that carries it.
    mutating func carry(_ bytes: [UInt8], to address: SocketAddress) {
        guard let route = relays.route(address), let slot = directSlot(of: route.relay),
            bytes.count <= WireLimits.relayedDatagramBytes,
            queueRelay(.carry(bytes, to: route.peer), on: slot)
        else {
            statistics.relayUndeliverable += 1
            return
        }
        statistics.relaySent += 1
    }

    /// Hands on what links have made; what goes through members is queued for those instead.
    mutating func divert(_ made: inout Outbox<LinkOutput>, into outbox: inout Outbox<LinkOutput>) {
        made.drain { output in
            if case .transmit(let datagram) = output, datagram.destination.isDiscardOnly {
                carry(datagram.bytes, to: datagram.destination)
            } else {
                outbox.append(output)
            }
        }
    }

    /// Takes a datagram that `relay` says it has from `sender`. Both are members; nothing else is believed.
    mutating func receiveCarried(
        _ datagram: [UInt8], of sender: PeerID, from relay: PeerID, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        guard sender != identity.peerID, sender != relay, directSlot(of: relay) != nil else {
            statistics.relayRefused += 1
            return
        }
        statistics.relayReceived += 1
        let source = relays.address(of: RelayRoutes.Route(peer: sender, relay: relay))
        var bytes = datagram
        var span = bytes.mutableSpan
        accept(&span, from: source, receivedAt: receivedAt, at: now, into: &outbox)
    }

    /// Whether bytes that name `slot` may come from there: through a member, only as those of the link's own peer.
    func isPlausible(_ source: SocketAddress, for slot: Int) -> Bool {
        !source.isDiscardOnly || relays.route(source)?.peer == links.peer(slot)
    }

    /// `relay` does not carry anything to `peer`: this path is no path.
    mutating func relayRefused(
        to peer: PeerID, by relay: PeerID, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let address = relays.knownAddress(of: RelayRoutes.Route(peer: peer, relay: relay)) else { return }
        if let slot = slot(of: peer), links[slot]?.path.address == address {
            _ = changeRelay(of: peer, at: now, into: &outbox)
        }
        relays.forget(address)
        failTargets(at: address, into: &outbox)
        outbox.append(.relayRefused(peer, by: relay))
    }

    /// Takes another member that is known to carry to `peer`, if its link goes through one at all. The peer follows when
    /// it hears from there. False when there is none.
    @discardableResult
    public mutating func changeRelay(
        of peer: PeerID, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) -> Bool {
        guard let slot = slot(of: peer), let present = links[slot]?.path.address, present.isDiscardOnly else {
            return false
        }
        guard let next = spare(for: peer, besides: present) else { return false }
        links[slot]?.moveValidated(to: next, at: now)
        links[slot]?.spareProbe = nil
        statistics.relayChanges += 1
        outbox.append(.moved(peer, next))
        return true
    }

    /// Another way to `peer` through a member: the one that answered last, else the newest known.
    private func spare(for peer: PeerID, besides present: SocketAddress) -> SocketAddress? {
        let others = relays.routes(to: peer).filter { directSlot(of: $0.route.relay) != nil && $0.address != present }
        let probe = slot(of: peer).flatMap { links[$0]?.spareProbe }
        let proven = others.first { probe?.isAnswered == true && $0.address == probe?.address }
        return (proven ?? others.first)?.address
    }

    /// Asks every 10 s whether the spare way of each link through a member works, which keeps its place there.
    mutating func probeSpares(at now: HostTime) {
        nextSpareProbeAt = .distantFuture
        for peer in linkedPeers {
            guard let slot = slot(of: peer), links.isRelayed(slot), let present = links[slot]?.path.address else {
                continue
            }
            nextSpareProbeAt = now + configuration.spareProbeInterval
            guard let spare = spare(for: peer, besides: present) else { continue }
            links[slot]?.spareProbe = SecureLink.SpareProbe(address: spare, number: random.uint64())
        }
    }

    /// A link goes through a member from now on.
    mutating func scheduleSpareProbe(at now: HostTime) {
        nextSpareProbeAt = min(nextSpareProbeAt, now + configuration.spareProbeInterval)
    }

    /// Links that went through `relay`, whose own link is gone, take another member where one is known.
    mutating func relayLost(_ relay: PeerID, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        for peer in linkedPeers {
            guard let slot = slot(of: peer), links.isRelayed(slot), let address = links[slot]?.path.address,
                relays.route(address)?.relay == relay
            else { continue }
            if !changeRelay(of: peer, at: now, into: &outbox) { outbox.append(.relayRefused(peer, by: relay)) }
        }
    }

    /// The member through which an address leads; `nil` for one of the network.
    public func relay(of address: SocketAddress) -> PeerID? { relays.route(address)?.relay }

    // MARK: Others'

    /// Carries a datagram from one member to another, both linked directly, within the budget; one in, at most one out.
    mutating func passOn(
        _ datagram: [UInt8], from sender: PeerID, to recipient: PeerID, at now: HostTime
    ) {
        guard sender != recipient, recipient != identity.peerID, directSlot(of: sender) != nil else {
            statistics.relayRefused += 1
            return
        }
        guard let target = directSlot(of: recipient) else {
            statistics.relayRefused += 1
            return refuse(sender, to: recipient, .noLink, at: now)
        }
        switch budget.take(datagram.count, between: sender, and: recipient, at: now) {
        case .granted where queueRelay(.carried(datagram, from: sender), on: target):
            statistics.relayedDatagrams += 1
            statistics.relayedBytes += UInt64(datagram.count)
        case .granted, .tooFast:
            statistics.relayOverBudget += 1
        case .noRoom:
            statistics.relayOverBudget += 1
            refuse(sender, to: recipient, .noRoom, at: now)
        }
    }

    private mutating func refuse(
        _ sender: PeerID, to recipient: PeerID, _ reason: RelayMessage.Reason, at now: HostTime
    ) {
        guard budget.mayRefuse(sender, recipient, at: now), let slot = directSlot(of: sender) else { return }
        _ = queueRelay(.notCarried(to: recipient, reason), on: slot)
    }

    private mutating func queueRelay(_ message: RelayMessage, on slot: Int) -> Bool {
        guard links[slot]?.enqueueRelay(message.encoded) ?? false else { return false }
        carriers.mark(slot)
        return true
    }

    /// What this node carries for others now, and what it is willing to.
    public func relaying(at now: HostTime) -> RelayingSummary {
        RelayingSummary(
            pairCount: budget.pairCount(at: now), maximumPairs: configuration.maximumRelayedPairs,
            maximumBytesPerSecond: configuration.relayedBytesPerSecond, datagrams: statistics.relayedDatagrams,
            bytes: statistics.relayedBytes, droppedDatagrams: statistics.relayOverBudget)
    }

    // MARK: Shared

    /// The slot of a link that goes straight to its peer.
    func directSlot(of peer: PeerID) -> Int? {
        guard let slot = slot(of: peer), !links.isRelayed(slot) else { return nil }
        return slot
    }
}

/// What a node carries for others.
public struct RelayingSummary: Hashable, Sendable {
    /// Pairs of members whose datagrams passed within the last 30 s, and the most at one time.
    public var pairCount: Int
    public var maximumPairs: Int
    public var maximumBytesPerSecond: Int
    /// Since the start.
    public var datagrams: UInt64
    public var bytes: UInt64
    /// Beyond the budget.
    public var droppedDatagrams: UInt64
}
