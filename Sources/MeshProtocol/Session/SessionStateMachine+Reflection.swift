import MeshBase
import MeshWire

/// Each member tells each linked one the address it sees; what others see of this node goes into its presence.
extension SessionStateMachine {
    /// Every address at which others may reach this node: its own first, then what members see.
    var advertisedAddresses: [SocketAddress] {
        Paths.advertised(localAddresses, reflected: reflected.addresses(besides: localAddresses))
    }

    var ownCapabilities: UInt32 {
        configuration.capabilities.with(reflected.mapping(local: localAddresses))
    }

    /// Tells `peer` where its datagrams come from.
    func reflect(_ peer: PeerID, into outbox: inout Outbox<SessionOutput>) {
        guard let link = links[peer], link.relay == nil else { return }
        let address = link.address
        send(.yourAddress(address.with(scope: 0)), to: peer, priority: .repair, isReliable: true, into: &outbox)
    }

    /// A newcomer learns it before it knows who is a member; a member believes members only.
    mutating func handleReflection(_ address: SocketAddress, from peer: PeerID, at now: HostTime) {
        guard phase == .joining || phase == .member && list.contains(peer) else {
            statistics.unexpectedMessages &+= 1
            return
        }
        guard reflected.note(address, from: peer, at: now) else { return }
        scheduleReflection(at: now)
    }

    /// A first address of this kind is told at once, since somebody may wait for it; a flood of them once a second.
    private mutating func scheduleReflection(at now: HostTime) {
        timers.reflection = min(
            timers.reflection ?? .distantFuture, max(now, reflectionToldAt + Self.reflectionInterval))
    }

    private static let reflectionInterval = TimeSpan.seconds(1 as Int64)

    /// Says what changed about the outer addresses, if anything did.
    mutating func renewReflection(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        timers.reflection = nil
        _ = reflected.expire(at: now)
        if let next = reflected.nextDeadline { timers.reflection = next }
        guard phase == .member, let own = list[localPeer]?.presence else {
            // Told when there is somebody to tell.
            if phase == .joining { timers.reflection = now + configuration.keepAliveInterval }
            return
        }
        let mapping = reflected.mapping(local: localAddresses)
        // That there is no translator is told with the next change: it is no reason for one.
        let isMappingNews = mapping != own.mapping && (mapping == .shared || mapping == .perDestination)
        guard own.addresses != advertisedAddresses || isMappingNews else { return }
        reflectionToldAt = now
        renewOwnPresence(at: now, into: &outbox)
    }

    mutating func observerLost(_ peer: PeerID, at now: HostTime) {
        reflected.linkLost(peer, at: now)
        if let next = reflected.nextDeadline {
            timers.reflection = min(timers.reflection ?? .distantFuture, next)
        }
    }
}
