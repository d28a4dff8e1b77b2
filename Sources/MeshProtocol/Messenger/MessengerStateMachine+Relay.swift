import MeshBase
import MeshWire

extension MessengerStateMachine {
    /// One message of channel `relay`. Members carry for members: whoever is linked under an invite alone is neither
    /// carried for nor believed.
    mutating func receiveRelay(_ payload: [UInt8], from peer: PeerID, receivedAt: HostTime, at now: HostTime) {
        guard gossip.isMember(peer) else {
            statistics.relayStrangers += 1
            return
        }
        let message: RelayMessage
        do throws(WireError) {
            message = try RelayMessage(decoding: payload.span)
        } catch {
            statistics.malformedRelays += 1
            return
        }
        switch message {
        case .carry(let datagram, let recipient):
            guard gossip.isMember(recipient) else {
                statistics.relayStrangers += 1
                return
            }
            links.passOn(datagram, from: peer, to: recipient, at: now)
        case .carried(let datagram, let sender):
            guard gossip.isMember(sender) else {
                statistics.relayStrangers += 1
                return
            }
            links.receiveCarried(
                datagram, of: sender, from: peer, receivedAt: receivedAt, at: now, into: &linkOutbox)
        case .notCarried(let recipient, _):
            links.relayRefused(to: recipient, by: peer, at: now, into: &linkOutbox)
        }
    }
}
