import MeshBase
import MeshCrypto
import MeshWire

// What a finished handshake leads to: a link, or new keys for one.
extension LinkTable {
    /// Gives the keys to the peer's link, or makes one. Returns its slot; `nil` when the keys were not needed.
    mutating func establish(
        _ payload: HandshakePayload, generation: KeyGeneration, address: SocketAddress, isSilent: Bool,
        roundTrip: TimeSpan?, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) -> Int? {
        statistics.handshakesFinished += 1
        endDials(for: payload.node, into: &outbox)
        if let slot = slot(of: payload.node), let link = links[slot] {
            guard link.identity.incarnation != payload.incarnation else {
                return renew(
                    slot, payload, generation: generation, address: address, isSilent: isSilent, at: now, into: &outbox)
            }
            removeLink(slot, loss: .replaced, at: now, into: &outbox)
        }
        let linkIdentity = LinkIdentity(
            peer: payload.node, incarnation: payload.incarnation, secretID: generation.secretID, role: generation.role,
            address: address, membershipHead: payload.membershipHead)
        var link = SecureLink(identity: linkIdentity, configuration: configuration, random: &random, at: now)
        _ = link.install(generation, address: address, at: now)
        if let roundTrip { link.roundTrip.measure(roundTrip, acknowledgementDelay: .zero, at: now) }
        let slot = insertLink(link)
        owners[generation.localIndex] = .link(slot: slot)
        if address.isDiscardOnly { scheduleSpareProbe(at: now) }
        outbox.append(.established(linkIdentity))
        return slot
    }

    /// The same process of the peer again: new keys, a reconnection, or a handshake that crossed another.
    private mutating func renew(
        _ slot: Int, _ payload: HandshakePayload, generation: KeyGeneration, address: SocketAddress, isSilent: Bool,
        at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) -> Int? {
        let before = links[slot]?.path.address
        guard case .installed(let isCrossing) = links[slot]?.install(generation, address: address, at: now) else {
            return nil
        }
        // An initiator stays where it is until the peer speaks under the new keys, and follows it then.
        if let after = links[slot]?.path.address, after != before { outbox.append(.moved(payload.node, after)) }
        if address.isDiscardOnly { scheduleSpareProbe(at: now) }
        owners[generation.localIndex] = .link(slot: slot)
        links[slot]?.note(membershipHead: payload.membershipHead)
        let peerKeptLink = payload.flags & HandshakePayload.keepsLinkFlag != 0
        if generation.role == .responder, !peerKeptLink, !isCrossing { links[slot]?.restartQueues(random: &random) }
        let isNews = generation.role == .initiator ? !isSilent : !peerKeptLink
        if isNews, !isCrossing, let identity = links[slot]?.identity { outbox.append(.established(identity)) }
        return slot
    }

    /// Other dials that were meant for a peer that is linked now have reached their goal.
    private mutating func endDials(for peer: PeerID, into outbox: inout Outbox<LinkOutput>) {
        for dial in dials where dial.request.expectedPeer == peer && dial.purpose == .link { forgetDial(dial.number) }
    }
}
