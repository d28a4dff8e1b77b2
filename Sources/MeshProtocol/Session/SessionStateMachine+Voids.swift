import MeshBase
import MeshCrypto
import MeshWire

/// What a fork takes back, and what it does not.
///
/// A record counts or it does not, whichever came first, it or the proof that its author forked: invites and revocations
/// of a void record are undone. An admission stands, for the newcomer did nothing wrong. But a void record spreads to
/// nobody, so members that learnt of the fork first might never hear of the newcomer: one of those that have admits it
/// again.
extension SessionStateMachine {
    mutating func recordVoided(_ id: RecordID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        if inviteTable.void(id) { invitesChanged(at: now, into: &outbox) }
        guard let peer = list.order.first(where: { list[$0]?.admission?.record == id }) else { return }
        list.update(peer) { $0.isAdmissionVoid = true }
        planReadmission(of: peer, at: now)
    }

    /// An ADMIT that was void when it came, known because a record that counts stands on it.
    mutating func voidAdmission(
        _ record: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard record.kind == .admit, let body = try? AdmitBody(decoding: record.body), !list.contains(body.subject)
        else { return }
        admitAccepted(record, at: now, into: &outbox)
        guard list[body.subject]?.admission?.record == record.id else { return }
        list.update(body.subject) { $0.isAdmissionVoid = true }
        planReadmission(of: body.subject, at: now)
    }

    private mutating func planReadmission(of peer: PeerID, at now: HostTime) {
        guard peer != localPeer else { return }
        // A round later than the first could act, since the members learn of a fork one after the other.
        readmissions.plan(peer, at: now + configuration.turnInterval * Int64(turn(after: nil) + 1))
    }

    mutating func readmit(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        for peer in readmissions.takeDue(at: now) {
            guard phase == .member, let entry = list[peer], entry.isAdmissionVoid, let secret = epochSecrets.first
            else { continue }
            let body = AdmitBody(subject: peer, secretID: secret.id, name: entry.name)
            outbox.append(.publish(.admit, body: body.encoded, token: nil))
        }
    }
}

/// Members whose only admission is void, and when this node admits them again. Bounded by the members.
struct Readmissions: Sendable {
    private var due: [PeerID: HostTime] = [:]

    mutating func plan(_ peer: PeerID, at time: HostTime) { due[peer] = min(due[peer] ?? time, time) }

    mutating func cancel(_ peer: PeerID) { due[peer] = nil }

    mutating func takeDue(at now: HostTime) -> [PeerID] {
        let peers = due.filter { $0.value <= now }.keys.sorted()
        for peer in peers { due[peer] = nil }
        return peers
    }

    var nextDeadline: HostTime? { due.values.min() }
}
