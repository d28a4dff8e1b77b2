import MeshBase
import MeshCrypto
import MeshWire

/// Members that do not reach each other: introduced by a third so that both dial at one instant, and carried by it when
/// that leads to nothing.
extension SessionStateMachine {
    // MARK: Looking

    /// `peer` is being dialled. When that has led to nothing in half a second, others are asked.
    mutating func expectMeeting(with peer: PeerID, at now: HostTime) {
        guard meetings[peer]?.askAt == nil else { return }
        meetings.start(peer, askAt: now + configuration.introductionDelay)
    }

    mutating func runMeetings(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member else { return meetings.removeAll() }
        for peer in meetings.due(at: now) {
            guard let meeting = meetings[peer], list.contains(peer), !hasLeft(peer), !isReachedDirectly(peer, at: now)
            else {
                meetings.finish(peer)
                continue
            }
            if meeting.punchAt.isDue(at: now) { punch(peer, at: now, into: &outbox) }
            if meeting.relayAt.isDue(at: now) { askForRelay(to: peer, at: now, into: &outbox) }
            if meeting.askAt.isDue(at: now) { askForIntroduction(to: peer, at: now, into: &outbox) }
        }
    }

    /// A link that is silent, or goes through a member, is no reason to stop looking.
    func isReachedDirectly(_ peer: PeerID, at now: HostTime) -> Bool {
        links[peer]?.relay == nil && isLinkAlive(peer, at: now)
    }

    private mutating func askForIntroduction(
        to peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        let helpers = possibleHelpers(for: peer)
        // This node may have lost everybody at once: whoever comes back first is asked.
        guard !helpers.isEmpty else { return meetings.update(peer) { $0.askAt = now + Meetings.helplessPause } }
        meetings.update(peer) { meeting in
            meeting.asks += 1
            meeting.askAt = now + Meetings.pause(afterAsks: meeting.asks)
        }
        for helper in helpers {
            statistics.introductionsAsked &+= 1
            send(.introductionRequest(subject: peer), to: helper, priority: .command, isReliable: true, into: &outbox)
        }
    }

    /// Three at most: those that have said that they know `peer` first, then the nearest.
    private func possibleHelpers(for peer: PeerID) -> [PeerID] {
        let known = Set((meetings[peer]?.helpers ?? []).filter(\.isLinked).map(\.peer))
        let unknowing = Set((meetings[peer]?.helpers ?? []).filter { !$0.isLinked }.map(\.peer))
        let able = linkOrder.filter { other in
            other != peer && links[other]?.relay == nil && list.contains(other) && liveness[other]?.state == .alive
        }
        let rank = { (other: PeerID) in known.contains(other) ? 0 : unknowing.contains(other) ? 2 : 1 }
        let ordered = able.sorted { left, right in
            (rank(left), links[left]?.smoothed ?? .zero, left) < (rank(right), links[right]?.smoothed ?? .zero, right)
        }
        return Array(ordered.prefix(Self.maximumHelpersAsked))
    }

    private static let maximumHelpersAsked = 3

    // MARK: Introducing others

    /// Tells both sides to dial, so that their first datagrams leave at one instant: each opens its own translator for
    /// the other's before the other's arrives.
    mutating func handleIntroductionRequest(
        _ subject: PeerID, from asker: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard links[asker]?.introductions.take(at: now) == true else {
            statistics.introductionsRefused &+= 1
            return
        }
        guard let near = links[asker], near.relay == nil, let far = links[subject], far.relay == nil,
            list.contains(subject), isLinkAlive(subject, at: now), subject != asker
        else {
            return send(
                .introductionRefused(subject: subject), to: asker, priority: .command, isReliable: true, into: &outbox)
        }
        statistics.introductionsMade &+= 1
        let (toNear, toFar) = (near.smoothed / 2, far.smoothed / 2)
        let latest = max(toNear, toFar)
        introduce(subject, far.smoothed, to: asker, after: latest - toNear, into: &outbox)
        introduce(asker, near.smoothed, to: subject, after: latest - toFar, into: &outbox)
    }

    private func introduce(
        _ subject: PeerID, _ roundTrip: TimeSpan, to peer: PeerID, after delay: TimeSpan,
        into outbox: inout Outbox<SessionOutput>
    ) {
        let introduction = SessionMessage.Introduction(
            subject: subject, delay: delay, roundTrip: roundTrip)
        send(.introduction(introduction), to: peer, priority: .clock, isReliable: true, into: &outbox)
    }

    // MARK: Being introduced

    mutating func handleIntroduction(
        _ introduction: SessionMessage.Introduction, from helper: PeerID, at now: HostTime
    ) {
        let subject = introduction.subject
        guard subject != localPeer, subject != helper, list.contains(subject), !hasLeft(subject),
            !isReachedDirectly(subject, at: now), links[helper]?.relay == nil
        else { return }
        note(
            Meetings.Helper(peer: helper, isLinked: true, roundTrip: introduction.roundTrip, answeredAt: now),
            for: subject)
        if let last = meetings[subject]?.lastPunchAt, now - last < Meetings.leastInterval {
            // Too early to dial again, but not to be carried by one that was not known before.
            return expectRelay(to: subject, at: now + relayTurn(subject), unless: isLinkAlive(subject, at: now))
        }
        guard meetings[subject]?.punchAt == nil else { return }
        meetings.update(subject) { meeting in
            meeting.punchAt = now + introduction.delay
            meeting.introducer = helper
            if meeting.askAt == nil { meeting.askAt = now + Meetings.leastInterval }
        }
    }

    mutating func handleIntroductionRefused(_ subject: PeerID, from helper: PeerID, at now: HostTime) {
        guard meetings[subject] != nil else { return }
        note(Meetings.Helper(peer: helper, isLinked: false, roundTrip: .zero, answeredAt: now), for: subject)
    }

    private mutating func note(_ helper: Meetings.Helper, for subject: PeerID) {
        meetings.update(subject) { $0.note(helper) }
    }

    /// Every address of `peer` at once, from the one socket; the link table repeats it twice in the first second.
    private mutating func punch(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        meetings.update(peer) { meeting in
            meeting.punchAt = nil
            meeting.lastPunchAt = now
            meeting.punches += 1
        }
        expectRelay(to: peer, at: now + configuration.punchPatience + relayTurn(peer), unless: false)
        guard let secret = dialSecret(for: peer), let entry = list[peer] else { return }
        let addresses = Paths.candidates(for: entry, local: localAddresses)
        guard !addresses.isEmpty else { return }
        statistics.punches &+= 1
        var request = DialRequest(addresses: addresses, secretID: secret.id, expectedPeer: peer)
        request.isPunch = true
        outbox.append(.dial(request))
    }

    // MARK: Through a member

    /// The side of the lesser PeerID goes first, so that seldom both ask.
    private func relayTurn(_ peer: PeerID) -> TimeSpan { localPeer < peer ? .zero : configuration.punchPatience / 2 }

    private mutating func expectRelay(to peer: PeerID, at time: HostTime, unless isLinked: Bool) {
        guard !isLinked else { return }
        meetings.update(peer) { $0.relayAt = $0.relayAt.map { min($0, time) } ?? time }
    }

    /// Punching has led to nothing: the two best members that are linked with both are asked to carry.
    private mutating func askForRelay(to peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        meetings.update(peer) { $0.relayAt = nil }
        guard !isLinkAlive(peer, at: now), let secret = dialSecret(for: peer) else { return }
        let relays = relays(to: peer)
        guard !relays.isEmpty else { return }
        statistics.relayDials &+= 1
        var request = DialRequest(addresses: [], secretID: secret.id, expectedPeer: peer)
        request.relays = relays
        outbox.append(.dial(request))
    }

    /// Two at most, by the sum of both round trips.
    func relays(to peer: PeerID) -> [PeerID] {
        let able = (meetings[peer]?.helpers ?? []).filter { helper in
            helper.isLinked && links[helper.peer].map { $0.relay == nil } == true
                && liveness[helper.peer]?.state == .alive
        }
        let cost = { (helper: Meetings.Helper) in helper.roundTrip + (links[helper.peer]?.smoothed ?? .zero) }
        return able.sorted { (cost($0), $0.peer) < (cost($1), $1.peer) }.prefix(2).map(\.peer)
    }

    /// `relay` carries nothing to `peer` any more, and no other took its place: looked for anew, at once.
    mutating func relayRefused(_ peer: PeerID, by relay: PeerID, at now: HostTime) {
        guard phase == .member, list.contains(peer), !hasLeft(peer) else { return }
        meetings.update(peer) { $0.forget(helper: relay) }
        meetings.start(peer, askAt: now)
        guard links[peer] == nil || links[peer]?.relay == relay else { return }
        if !relays(to: peer).isEmpty { meetings.update(peer) { $0.relayAt = now } }
    }

    // MARK: For people

    /// How `peer` is reached, and what is being done about it.
    public func path(to peer: PeerID) -> PathReport {
        let meeting = meetings[peer]
        let kind: PathReport.Kind
        if let link = links[peer] {
            kind = link.relay.map { .relayed(by: $0) } ?? link.introducer.map { .introduced(by: $0) } ?? .direct
        } else {
            kind = .none
        }
        return PathReport(
            kind: kind, ownMapping: reflected.mapping(local: localAddresses),
            theirMapping: list[peer]?.presence?.mapping ?? .unknown, relays: relays(to: peer),
            introducers: (meeting?.helpers ?? []).filter(\.isLinked).map(\.peer),
            strangers: (meeting?.helpers ?? []).filter { !$0.isLinked }.map(\.peer), punches: meeting?.punches ?? 0,
            lastPunchAt: meeting?.lastPunchAt, nextAttemptAt: meeting?.nextDeadline)
    }
}

/// How a member is reached, and what was done to reach it better.
public struct PathReport: Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        /// No link of this node's own.
        case none
        case direct
        /// Directly, after both dialled at the word of this member.
        case introduced(by: PeerID)
        /// Sealed, through this member.
        case relayed(by: PeerID)
    }

    public var kind: Kind
    public var ownMapping: AddressMapping
    public var theirMapping: AddressMapping
    /// Members that could carry, the best first.
    public var relays: [PeerID]
    /// Members that said they are linked to it, and that they are not.
    public var introducers: [PeerID]
    public var strangers: [PeerID]
    /// Times that both dialled at once, since they last had a direct link.
    public var punches: Int
    public var lastPunchAt: HostTime?
    public var nextAttemptAt: HostTime?
}
