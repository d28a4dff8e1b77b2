import MeshBase
import MeshWire

/// Messages that are sent once, and whose receivers want them soon or not at all.
extension Gossip {
    /// What has a deadline is dropped in this node's queues when that is past (the link counts it), and by a receiver
    /// that knows the mesh clock well enough to tell. Without a mesh clock of our own nothing is said of it on the wire.
    mutating func sendUnreliable(
        _ payload: [UInt8], to recipients: [PeerID], deadline: TimeSpan?, token: CommandToken, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        if let deadline {
            guard deadline > .zero, deadline <= configuration.maximumDeadline else { throw .invalid(field: "deadline") }
        }
        let lamport = nextLamport()
        for peer in recipients {
            let message = DirectMessage(
                isReliable: false, sequence: nextUnreliableSequence, base: nextUnreliableSequence, lamport: lamport,
                payload: payload, deadline: deadline.flatMap { told($0, at: now) })
            nextUnreliableSequence += 1
            counters.messagesSent += 1
            if links[peer] != nil {
                let expiry = deadline.map { now + $0 }
                outbox.append(
                    .sendUnreliable(GossipMessage.direct(message).encoded, to: peer, expiresAt: expiry))
            } else if !sendThroughOthers(.direct(message), to: peer, at: now, into: &outbox) {
                counters.unreliableDroppedNoRoute += 1
            }
        }
        outbox.append(.messageSettled(token, .sent))
    }

    /// The deadline in mesh time, later by as much as this node may be wrong.
    private func told(_ deadline: TimeSpan, at now: HostTime) -> DirectMessage.Deadline? {
        guard let clock = meshClock, clock.error(at: now) <= configuration.deadlineClockError else { return nil }
        return DirectMessage.Deadline(
            epoch: clock.epoch, time: clock.meshTime(at: now + deadline).advanced(by: clock.error(at: now)))
    }

    mutating func takeUnreliable(
        _ message: DirectMessage, isNew: Bool, from key: ChainKey, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        guard isNew else {
            counters.messagesDuplicate += 1
            return
        }
        guard !isLate(message.deadline, at: now) else {
            counters.unreliableDroppedLate += 1
            return
        }
        deliver(IncomingStream.Received(message), from: key, mode: .unreliable, at: now, into: &outbox)
    }

    /// Only what is late whatever the clock's error is dropped.
    private func isLate(_ deadline: DirectMessage.Deadline?, at now: HostTime) -> Bool {
        guard let deadline, let clock = meshClock, clock.epoch == deadline.epoch else { return false }
        let error = clock.error(at: now)
        guard error <= configuration.deadlineClockError else { return false }
        return clock.meshTime(at: now).since(deadline.time) > error
    }
}
