import MeshBase
import MeshWire

/// The order between senders of reliable messages: an answer comes out behind its question, at every member that gets
/// both.
///
/// A sender names what it has delivered since it last wrote to this recipient and what the recipient gets too: one life
/// and one Lamport time for each author, few bytes and none where nothing was heard. The recipient holds the message
/// back until it has those, or knows that they are not for it, or their author is gone, or some seconds are over.
extension Gossip {
    /// What was delivered lately of one author's process life, by who else gets it.
    struct Heard: Sendable {
        var byEverybody: UInt64 = 0
        var bySome: [PeerTag: UInt64] = [:]
        var at: HostTime

        mutating func note(_ received: IncomingStream.Received, at now: HostTime) {
            at = now
            let lamport = received.lastLamport
            switch received.audience {
            case .unnamed: break
            case .everybody: byEverybody = max(byEverybody, lamport)
            case .several(let tags): for tag in tags { bySome[tag] = max(bySome[tag] ?? 0, lamport) }
            }
        }
    }

    // MARK: Sending

    /// What must come out before a message that is sent to `recipient` now, and was not named to it before.
    mutating func causes(for recipient: PeerID, at now: HostTime) -> [DirectMessage.Cause] {
        guard !heardLately.isEmpty else { return [] }
        let horizon = now - configuration.causalHorizon
        let tag = PeerTag(recipient)
        var found: [(at: HostTime, cause: DirectMessage.Cause)] = []
        for (life, heard) in heardLately where life.author != recipient && heard.at >= horizon {
            let lamport = max(heard.byEverybody, heard.bySome[tag] ?? 0)
            let name = LifeTag(life)
            guard lamport > outgoing[recipient]?.namedCauses[name] ?? 0, isPresent(life) else { continue }
            found.append((heard.at, DirectMessage.Cause(life: name, lamport: lamport)))
        }
        guard !found.isEmpty else { return [] }
        found.sort { ($1.at, $0.cause.life) < ($0.at, $1.cause.life) }
        var causes: [DirectMessage.Cause] = []
        for (_, cause) in found.prefix(DirectMessage.maximumCauses)
        where !causes.contains(where: { $0.life == cause.life }) {
            causes.append(cause)
            outgoing[recipient, default: OutgoingStream()].namedCauses[cause.life] = cause.lamport
        }
        return causes.sorted { $0.life < $1.life }
    }

    private func isPresent(_ life: ChainKey) -> Bool {
        members.contains(life.author) && presentLife(of: life.author) == life.incarnation
    }

    // MARK: Receiving

    /// Notes a delivery for what is sent later.
    mutating func noteHeard(_ received: IncomingStream.Received, from life: ChainKey, at now: HostTime) {
        if received.audience == .unnamed { return }
        heardLately[life, default: Heard(at: now)].note(received, at: now)
        guard heardLately.count > 2 * members.count + 16 else { return }
        let horizon = now - configuration.causalHorizon
        heardLately = heardLately.filter { $0.value.at >= horizon && isPresent($0.key) }
    }

    /// Delivers in order what the stream holds back, as far as its causes have come out. True when anything did.
    private mutating func release(_ key: ChainKey, at now: HostTime, into outbox: inout Outbox<GossipOutput>) -> Bool {
        var didDeliver = false
        while let first = incoming[key]?.blocked.first {
            let isOver = now - first.since >= configuration.causalPatience
            let isTooMuch = incoming[key]?.isBlockedBeyond(configuration) ?? false
            guard isOver || isTooMuch || first.received.causes.allSatisfy({ isSettled($0) }) else { break }
            if isOver || isTooMuch { counters.causesGivenUp += 1 }
            incoming[key]?.removeFirstBlocked()
            deliver(first.received, from: key, mode: .reliable, at: now, into: &outbox)
            didDeliver = true
        }
        if incoming[key]?.blocked.isEmpty ?? true { blockedStreams.remove(key) }
        return didDeliver
    }

    /// Delivers everything whose causes have come out. What is delivered may free what waits for it.
    mutating func releaseBlocked(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        var didDeliver = !blockedStreams.isEmpty
        while didDeliver {
            didDeliver = false
            for key in blockedStreams.sorted() where release(key, at: now, into: &outbox) { didDeliver = true }
        }
    }

    /// Messages that are in order now: out with them, or held back behind what must come first.
    mutating func receiveInOrder(
        _ messages: [IncomingStream.Received], from key: ChainKey, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        for received in messages {
            let isFree = incoming[key]?.blocked.isEmpty ?? true
            if isFree, received.causes.allSatisfy({ isSettled($0) }) {
                deliver(received, from: key, mode: .reliable, at: now, into: &outbox)
            } else {
                if isFree { counters.messagesHeldBack += 1 }
                incoming[key]?.block(received, at: now)
                blockedStreams.insert(key)
            }
        }
        releaseBlocked(at: now, into: &outbox)
    }

    /// Whether nothing of that life up to that time can still come out here: it did, its author says that it has
    /// nothing, or is gone.
    private func isSettled(_ cause: DirectMessage.Cause) -> Bool {
        guard let key = life(named: cause.life) else { return false }
        guard isPresent(key) else { return true }
        return incoming[key]?.isPast(cause.lamport) ?? false
    }

    /// A life that is known here. Two with one name are possible, and then one of them is waited for in vain for some
    /// seconds at most.
    private func life(named tag: LifeTag) -> ChainKey? {
        for (peer, link) in links {
            let key = ChainKey(author: peer, incarnation: link.incarnation)
            if LifeTag(key) == tag { return key }
        }
        for (peer, incarnation) in memberLives {
            let key = ChainKey(author: peer, incarnation: incarnation)
            if LifeTag(key) == tag { return key }
        }
        return incoming.keys.first { LifeTag($0) == tag }
    }

    // MARK: Deadlines

    var causalDeadline: HostTime? {
        var earliest: HostTime?
        for key in blockedStreams {
            guard let first = incoming[key]?.blocked.first else { continue }
            let due = min(
                first.since + configuration.causalPatience, askCausesAt ?? first.since + configuration.causalAskDelay)
            earliest = min(earliest ?? due, due)
        }
        return earliest
    }

    /// Whoever is waited for is asked whether anything comes: it may never have meant to write to this node.
    mutating func handleCausalDeadline(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        releaseBlocked(at: now, into: &outbox)
        let firsts = blockedStreams.sorted().compactMap { incoming[$0]?.blocked.first }
        guard let oldest = firsts.map(\.since).min() else {
            askCausesAt = nil
            return
        }
        let due = askCausesAt ?? oldest + configuration.causalAskDelay
        askCausesAt = due
        guard due <= now else { return }
        askCausesAt = now + configuration.promiseAskInterval
        let awaited = firsts.flatMap { $0.received.causes.filter { !isSettled($0) } }.compactMap {
            life(named: $0.life)?.author
        }
        for peer in Set(awaited).sorted() {
            counters.promisesAsked += 1
            sayPromise(to: peer, asks: true, at: now, into: &outbox)
        }
    }
}
