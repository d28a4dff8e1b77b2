import MeshBase
import MeshCrypto
import MeshWire

/// Links as they come and go, and whom to dial.
extension SessionStateMachine {
    mutating func linkEstablished(
        _ link: LinkIdentity, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        let peer = link.peer
        guard peer != localPeer, [.joining, .member].contains(phase) else { return outbox.append(.closeLink(peer)) }
        if links[peer] == nil { linkOrder.insert(peer, at: linkOrder.partitionPoint { $0 < peer }) }
        let isNewLife = links[peer]?.identity.incarnation != link.incarnation
        let introducer = isNewLife || link.relay != nil ? nil : links[peer]?.introducer
        links[peer] = Link(
            identity: link, address: link.address, establishedAt: now, relay: link.relay, introducer: introducer)
        dials.stop(peer)
        notePath(of: peer, at: now)
        reflected.linkEstablished(peer)
        if phase == .joining {
            if joining?.isWelcomed == false, linkOrder.count == 1 { sendHello(at: now, into: &outbox) }
            return
        }
        if link.relay == nil { list.note(contact: link.address, of: peer) }
        noteLinkedSecret(peer)
        // Soon: whoever is killed right after it met its first peer must not return without knowing where that is.
        schedulePersist(at: now + configuration.keepAliveInterval)
        if isNewLife, list.contains(peer) { outbox.append(.membersChanged) }
        noteHeard(peer, at: now, into: &outbox)
        // Under the epoch secret the peer is a member, even if its ADMIT record has not come this far yet.
        if list.contains(peer) || handshakeEpochs.contains(where: { $0.id == link.secretID }) {
            introduce(to: peer, at: now, into: &outbox)
        }
    }

    /// What a member tells another first: its own record, what it knows of the others, and that it is alive.
    mutating func introduce(to peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard let own = list[localPeer]?.presence else { return }
        send(.presences([own]), to: peer, priority: .command, isReliable: true, into: &outbox)
        reflect(peer, into: &outbox)
        sendSummary(to: peer, at: now, into: &outbox)
        sendKeepAlive(to: peer, asking: unheardMembers(at: now), at: now, into: &outbox)
    }

    mutating func linkLost(
        _ peer: PeerID, _ loss: LinkLoss, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard links.removeValue(forKey: peer) != nil else { return }
        linkOrder.removeAll { $0 == peer }
        observerLost(peer, at: now)
        if phase == .leaving { return handleFarewellSeen(from: peer, at: now, into: &outbox) }
        guard phase == .member, list.contains(peer) else { return }
        probeTasks.removeAll { $0.subject == peer && $0.requester == nil }
        outbox.append(.membersChanged)
        if !hasLeft(peer) {
            lookFor(peer, at: now + random.jittered(configuration.leastProbeTime), from: now)
            meetings.restart(peer, askAt: now + configuration.introductionDelay)
        }
        switch loss {
        // A new handshake took its place: no gap.
        case .replaced, .closedHere: break
        case .closedByPeer, .timedOut, .protocolViolation:
            beginSuspicion(peer, because: .toldGone, reason: loss.rawValue, at: now, into: &outbox)
        }
    }

    mutating func linkMoved(
        _ peer: PeerID, to address: SocketAddress, relay: PeerID?, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard links[peer] != nil else { return }
        links[peer]?.address = address
        links[peer]?.relay = relay
        notePath(of: peer, at: now)
        if relay == nil { list.note(contact: address, of: peer) }
        // It may not know: a translator before it has forgotten the old mapping.
        if list.contains(peer) { reflect(peer, into: &outbox) }
        schedulePersist(at: now + configuration.redialInterval)
        outbox.append(.membersChanged)
    }

    /// A path through a member is one until there is a better; a direct one ends the search.
    private mutating func notePath(of peer: PeerID, at now: HostTime) {
        guard let link = links[peer], phase == .member else { return }
        if link.relay != nil { return meetings.start(peer, askAt: now + Meetings.leastInterval) }
        if let last = meetings[peer]?.lastPunchAt, now - last < Meetings.leastInterval * 2 {
            links[peer]?.introducer = meetings[peer]?.introducer
        }
        meetings.finish(peer)
    }

    // MARK: Dialling

    /// Starts dialling somebody who is lost, and calls out for it soon.
    mutating func lookFor(_ peer: PeerID, at time: HostTime, from now: HostTime) {
        dials.start(peer, at: time, lostSince: now)
        discovery.hasten(to: now + configuration.urgentBeaconInterval)
    }

    mutating func dialMissing(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member else { return dials.removeAll() }
        for peer in dials.takeDue(at: now, configuration: configuration, random: &random) {
            guard let entry = list[peer], !hasLeft(peer), !isReachedDirectly(peer, at: now) else {
                dials.stop(peer)
                continue
            }
            let addresses = Paths.candidates(for: entry, local: localAddresses)
            guard !addresses.isEmpty, let secret = dialSecret(for: peer) else { continue }
            statistics.dials &+= 1
            outbox.append(.dial(DialRequest(addresses: addresses, secretID: secret.id, expectedPeer: peer)))
            expectMeeting(with: peer, at: now)
            // What goes through a member goes on; the meetings try for better.
            if isLinkAlive(peer, at: now) { dials.stop(peer) }
        }
    }

    /// A link that is silent is no reason not to dial: the member may have moved.
    func isLinkAlive(_ peer: PeerID, at now: HostTime) -> Bool {
        guard links[peer] != nil, let life = liveness[peer], life.state == .alive else { return false }
        return now - life.watchMark < directTime(peer)
    }

    mutating func dialFailed(_ request: DialRequest, _ failure: DialFailure) {
        guard phase == .joining else { return }
        if case .versionMismatch = failure { joining?.isVersionMismatch = true }
        for address in request.addresses where joining?.tried.contains(where: { $0.address == address }) == false {
            joining?.note(address, .noAnswer)
        }
    }

    // MARK: This node's own addresses

    mutating func localAddressesChanged(
        _ addresses: [SocketAddress], at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard addresses != localAddresses else { return }
        let before = advertisedAddresses
        let isFirst = localAddresses.isEmpty
        reflected.forget(localAddresses.map { $0.with(scope: 0) }.filter { !addresses.contains($0) })
        localAddresses = addresses
        guard phase == .member || phase == .joining else { return }
        if !isFirst { emit(.interfacesChanged, into: &outbox) }
        if configuration.isDiscoveryEnabled { discovery.startBurst(at: now) }
        guard phase == .member else { return }
        if advertisedAddresses != before { renewOwnPresence(at: now, into: &outbox) }
        dials.bringForward(to: now)
        meetings.bringForward(to: now)
    }

    /// Nobody listens where this node just sent to: ask at once instead of waiting for silence.
    mutating func unreachable(
        _ address: SocketAddress, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        if phase == .joining { joining?.note(address, .portUnreachable) }
        guard phase == .member else { return }
        for peer in linkOrder {
            guard let link = links[peer]?.address, link.port == address.port, link.hasSameHost(as: address) else {
                continue
            }
            beginSuspicion(peer, because: .toldGone, reason: "portUnreachable", at: now, into: &outbox)
        }
    }
}
