import MeshBase
import MeshCrypto
import MeshWire

/// Messages to members without a link here, and others' messages passed on.
extension Gossip {
    /// Seals and signs `message` for `recipient` and hands it to whoever may be nearer. False when there is nobody, or
    /// when it is not known which process life of the recipient is the present one.
    mutating func sendThroughOthers(
        _ message: GossipMessage, to recipient: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) -> Bool {
        // No secret that only members know, for a moment after a removal: tried again.
        guard let mesh = log.mesh, let secret = sealing.current,
            let life = links[recipient]?.incarnation ?? memberLives[recipient]
        else { return false }
        let carriers = carriers(towards: recipient, besides: [])
        guard !carriers.isEmpty else { return false }
        let counter = nextRelayCounter
        nextRelayCounter += 1
        // Sealing fails only for nonces and keys of a wrong size, which these are not.
        guard
            let relayed = try? RelaySeal.seal(
                message.encoded, to: ChainKey(author: recipient, incarnation: life), counter: counter,
                hops: configuration.relayHopLimit, mesh: mesh,
                secret: secret, nonce: random.bytes(Envelope.nonceByteCount), identity: identity)
        else { return false }
        for peer in carriers {
            send(.relayed(relayed), to: peer, priority: .message, isReliable: true, into: &outbox)
        }
        return true
    }

    /// The recipient itself, else two peers that are linked to it, else every member linked here.
    private func carriers(towards recipient: PeerID, besides excluded: Set<PeerID>) -> [PeerID] {
        if links[recipient] != nil { return [recipient] }
        let candidates = sortedLinks.filter { !excluded.contains($0) && isMember($0) }
        let near = candidates.filter { links[$0]?.isLinked(to: recipient) ?? false }
        return near.isEmpty ? candidates : Array(near.prefix(2))
    }

    mutating func receiveRelayed(
        _ message: RelayedMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard let mesh = log.mesh, let link = links[peer] else { return }
        guard message.author != identity.peerID, !relayHistory.contains(message) else {
            counters.relaysDuplicate += 1
            return
        }
        guard link.ignoredUntil <= now, links[peer]?.relayAllowance.take(at: now) == true else {
            counters.relaysOverCap += 1
            return
        }
        guard isMember(message.author), message.hopsLeft <= configuration.relayHopLimit else {
            counters.relaysRefused += 1
            return
        }
        // Checked at every hop and before it counts as seen: otherwise a forged copy could keep the true one out.
        counters.signaturesVerified += 1
        guard message.isSignatureValid(mesh: mesh) else {
            counters.relaysRefused += 1
            links[peer]?.punish(at: now)
            return
        }
        relayHistory.insert(message, at: now)
        if message.recipient == identity.peerID {
            openRelayed(message, mesh: mesh, at: now, into: &outbox)
        } else {
            passOn(message, from: peer, into: &outbox)
        }
    }

    private mutating func passOn(
        _ message: RelayedMessage, from peer: PeerID, into outbox: inout Outbox<GossipOutput>
    ) {
        guard message.hopsLeft > 1 else {
            counters.relaysRefused += 1
            return
        }
        var next = message
        next.hopsLeft -= 1
        for carrier in carriers(towards: message.recipient, besides: [peer, message.author]) {
            counters.relaysForwarded += 1
            send(.relayed(next), to: carrier, priority: .message, isReliable: true, into: &outbox)
        }
    }

    private mutating func openRelayed(
        _ message: RelayedMessage, mesh: MeshID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        // An earlier life of this node may have had it, and this one cannot know: the table of what was seen died with it.
        guard message.recipientIncarnation == identity.incarnation else {
            counters.relaysRefused += 1
            return
        }
        guard let secret = log.secrets[message.epoch],
            let inner = message.open(mesh: mesh, secret: secret),
            let content = try? GossipMessage(decoding: inner)
        else {
            counters.relaysRefused += 1
            return
        }
        switch content {
        case .direct(let direct):
            let life = ChainKey(author: message.author, incarnation: message.incarnation)
            take(direct, from: life, at: now, into: &outbox)
        case .acknowledgement(let acknowledgement):
            receiveAcknowledgement(acknowledgement, from: message.author, overLink: false, at: now, into: &outbox)
        case .promise(let promise):
            let life = ChainKey(author: message.author, incarnation: message.incarnation)
            receivePromise(promise, from: life, at: now, into: &outbox)
        default:
            // Records and summaries never travel in a signature of somebody else's making (AB-70).
            counters.relaysRefused += 1
        }
    }
}
