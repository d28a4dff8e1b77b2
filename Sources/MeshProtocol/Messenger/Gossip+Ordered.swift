import MeshBase
import MeshCrypto
import MeshWire

/// Messages that every member delivers in one order.
///
/// An author signs its message and sends it to all; whoever hears of it promises at once that nothing of its own will
/// come before it. A message is delivered when every member not declared dead has been heard past its Lamport time, so
/// after one round trip where all are near. What comes when its place was passed, after a split above all, is delivered
/// late and marked.
extension Gossip {
    // MARK: Sending

    mutating func sendOrdered(
        _ payload: [UInt8], token: CommandToken, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard let mesh = log.mesh, isMember(identity.peerID), let secret = try sealingSecret(at: now, into: &outbox)
        else { throw .noMesh }
        let limit = ordered.limits
        if let own = ordered.lives[ownLife] {
            guard own.waitingCount < limit.maximumWaiting else { throw .queueFull(limit: limit.maximumWaiting) }
            guard own.waitingBytes + payload.count + WireLimits.tagBytes <= limit.maximumWaitingBytes else {
                throw .queueFull(limit: limit.maximumWaitingBytes, of: .bytes)
            }
        }
        let lamport = nextLamport()
        // Sealing fails only for nonces and keys of a wrong size, which these are not.
        guard
            let message = try? OrderedSeal.seal(
                payload, sequence: nextOrderedSequence, lamport: lamport, mesh: mesh, secret: secret,
                nonce: random.bytes(Envelope.nonceByteCount), identity: identity)
        else { throw .invalid(field: "payload") }
        orderedTokens[nextOrderedSequence] = token
        nextOrderedSequence += 1
        counters.messagesSent += 1
        _ = ordered.insert(message, at: now)
        for peer in sortedLinks where isMember(peer) {
            send(.ordered(message), to: peer, priority: .message, isReliable: true, into: &outbox)
        }
        // A later own message is as good as a promise, where it arrives directly.
        if members.allSatisfy({ links[$0] != nil }) { promised = max(promised, lamport) }
        deliverOrdered(at: now, into: &outbox)
    }

    var ownLife: ChainKey { ChainKey(author: identity.peerID, incarnation: identity.incarnation) }

    // MARK: Receiving

    mutating func receiveOrdered(
        _ message: OrderedMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard let mesh = log.mesh, message.author != identity.peerID else { return }
        guard let link = links[peer], link.ignoredUntil <= now, links[peer]?.orderedAllowance.take(at: now) == true
        else {
            counters.orderedOverCap += 1
            return
        }
        // A copy is told by its number before its signature costs anything; a different one is looked at.
        if ordered.message(message.life, message.sequence) == message {
            counters.messagesDuplicate += 1
            return
        }
        let clock = max(messageClock, log.greatestLamport)
        let isInReach = message.lamport <= clock || message.lamport - clock <= claims.available(at: now)
        guard isMember(message.author), isInReach else {
            counters.orderedRefused += 1
            return
        }
        counters.signaturesVerified += 1
        guard message.isSignatureValid(mesh: mesh) else {
            counters.orderedRefused += 1
            links[peer]?.punish(at: now)
            return
        }
        switch ordered.insert(message, at: now) {
        case .new: acceptOrdered(message, from: peer, at: now, into: &outbox)
        case .duplicate: counters.messagesDuplicate += 1
        case .overCap: counters.orderedOverCap += 1
        case .forked, .unruly:
            counters.orderedRefused += 1
            outbox.append(
                .event(
                    ProtocolEvent(
                        .messageDropped, subject: message.author, detail: [.init("reason", .text("order broken"))])))
        }
    }

    private mutating func acceptOrdered(
        _ message: OrderedMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        hear(message.lamport, at: now)
        for other in sortedLinks where other != peer && other != message.author && isMember(other) {
            // Who is linked to the author has it from there.
            guard links[other]?.isLinked(to: message.author) != true else { continue }
            send(.ordered(message), to: other, priority: .message, isReliable: true, into: &outbox)
        }
        if message.lamport > promised, promiseAt == nil { promiseAt = now + configuration.promiseDelay }
        orderedSummaryAt = orderedSummaryAt ?? now + configuration.orderedSummaryInterval
        orderedActiveAt = now
        deliverOrdered(at: now, into: &outbox)
    }

    mutating func receivePromise(
        _ promise: OrderPromise, from key: ChainKey, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        makeRoom(for: key, at: now, into: &outbox)
        incoming[key, default: IncomingStream(at: now)].note(
            promisedFrom: promise.nextDirect, lamport: promise.lamport)
        releaseBlocked(at: now, into: &outbox)
        ordered.promise(key, next: promise.nextOrdered, lamport: promise.lamport, at: now)
        if ordered.lives[key]?.gapSince != nil {
            orderedActiveAt = now
            orderedSummaryAt = orderedSummaryAt ?? now + configuration.orderedGapGrace
        }
        if promise.asks { sayPromise(to: key.author, asks: false, at: now, into: &outbox) }
        deliverOrdered(at: now, into: &outbox)
    }

    // MARK: The order

    /// Delivers what has its place.
    mutating func deliverOrdered(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        while let first = ordered.waiting.first, isPlaced(first, at: now), let taken = ordered.takeFirst() {
            deliverOrdered(taken, at: now, into: &outbox)
        }
    }

    /// Whether nothing before it can come any more from anybody who is here; or it has waited long enough.
    private func isPlaced(_ waiting: OrderedLog.Waiting, at now: HostTime) -> Bool {
        if now - waiting.since >= configuration.orderedPatience { return true }
        // Its place was passed: it waits for its own author's earlier ones only.
        if ordered.isLate(waiting.position) {
            let author = waiting.position.life.author
            return !members.contains(author) || isHeard(author, past: waiting.position.lamport)
        }
        return members.allSatisfy { isHeard($0, past: waiting.position.lamport) }
    }

    private func isHeard(_ peer: PeerID, past lamport: UInt64) -> Bool {
        guard let life = presentLife(of: peer) else { return false }
        return ordered.heardPast(ChainKey(author: peer, incarnation: life)) >= lamport
    }

    func presentLife(of peer: PeerID) -> Incarnation? { links[peer]?.incarnation ?? memberLives[peer] }

    private mutating func deliverOrdered(
        _ waiting: OrderedLog.Waiting, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let message = waiting.message
        let isLate = ordered.lastDelivered != waiting.position
        if isLate { counters.orderedLate += 1 }
        if now - waiting.since >= configuration.orderedPatience { counters.orderedImpatient += 1 }
        if message.life == ownLife, let token = orderedTokens.removeValue(forKey: message.sequence) {
            outbox.append(.messageSettled(token, .delivered))
        }
        guard let mesh = log.mesh, let secret = log.secrets[message.epoch],
            let payload = message.open(mesh: mesh, secret: secret),
            payload.count <= WireLimits.maximumMessageBytes
        else {
            counters.orderedRefused += 1
            return
        }
        counters.messagesReceived += 1
        outbox.append(
            .userMessage(
                UserMessage(
                    from: message.author, mode: .ordered, lamport: message.lamport, payload: payload, isLate: isLate)))
    }

    // MARK: Promises

    private func promise(to peer: PeerID, asks: Bool) -> OrderPromise {
        OrderPromise(
            asks: asks, lamport: max(messageClock, log.greatestLamport), nextOrdered: nextOrderedSequence,
            nextDirect: outgoing[peer]?.nextSequence ?? 1)
    }

    mutating func sayPromise(
        to peer: PeerID, asks: Bool, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let message = GossipMessage.promise(promise(to: peer, asks: asks))
        if links[peer] != nil {
            send(message, to: peer, priority: .command, isReliable: true, into: &outbox)
        } else {
            _ = sendThroughOthers(message, to: peer, at: now, into: &outbox)
        }
    }

    /// To everybody, once for all that was heard in the last moment.
    private mutating func sayPromises(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        promised = max(messageClock, log.greatestLamport)
        for peer in members.sorted() { sayPromise(to: peer, asks: false, at: now, into: &outbox) }
    }

    /// Whoever holds up the first message is asked where it stands: its promise may have been lost with a link.
    private mutating func askWhoIsSilent(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let first = ordered.waiting.first else { return }
        for peer in members.sorted() where !isHeard(peer, past: first.position.lamport) {
            counters.promisesAsked += 1
            sayPromise(to: peer, asks: true, at: now, into: &outbox)
        }
    }

    // MARK: Repair

    /// On a new link: what this node has had, and where it stands.
    mutating func greetWithOrder(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        sayPromise(to: peer, asks: false, at: now, into: &outbox)
        let summary = ordered.summary(asksForAll: false)
        send(.orderedSummary(summary), to: peer, priority: .command, isReliable: true, into: &outbox)
    }

    mutating func receiveOrderedSummary(
        _ summary: OrderedSummary, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let announced = links[peer]?.announced ?? []
        let missing = ordered.missing(in: summary) { author in
            guard author != peer else { return false }
            // Who can bring it itself does.
            return summary.asksForAll || author == identity.peerID || !members.contains(author)
                || !announced.contains(author)
        }
        // What was said on the new link may have come before this peer knew of our admission: said again, once.
        if links[peer]?.hasAnsweredOrder == false, ordered.lacks(summary) {
            links[peer]?.hasAnsweredOrder = true
            let own = ordered.summary(asksForAll: false)
            send(.orderedSummary(own), to: peer, priority: .command, isReliable: true, into: &outbox)
        }
        links[peer]?.orderedBacklog = missing
        sendBacklog(to: peer, at: now, into: &outbox)
    }

    /// A part of what a peer lacks; the rest a moment later, so that no queue is filled with it.
    private mutating func sendBacklog(to peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let backlog = links[peer]?.orderedBacklog, !backlog.isEmpty else { return }
        var byteCount = 0
        var count = 0
        for position in backlog {
            guard count < 128, byteCount < 256 << 10 else { break }
            count += 1
            guard let message = ordered.message(position.life, position.sequence) else { continue }
            byteCount += message.sealed.count
            counters.orderedRepaired += 1
            send(.ordered(message), to: peer, priority: .message, isReliable: true, into: &outbox)
        }
        links[peer]?.orderedBacklog.removeFirst(count)
        links[peer]?.orderedBacklogAt = count < backlog.count ? now + configuration.orderedBacklogPause : nil
    }

    private mutating func saySummaries(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        let hasGaps = ordered.lives.values.contains {
            $0.gapSince.map { now - $0 >= configuration.orderedGapGrace } ?? false
        }
        let summary = ordered.summary(asksForAll: hasGaps)
        for peer in sortedLinks where isMember(peer) {
            send(.orderedSummary(summary), to: peer, priority: .command, isReliable: true, into: &outbox)
        }
        let isActive = hasGaps || orderedActiveAt.map { now - $0 < configuration.orderedActivity } ?? false
        orderedSummaryAt = isActive ? now + configuration.orderedSummaryInterval : nil
    }

    /// A member is gone: others may have messages of it that never came here.
    mutating func scheduleRepair(at now: HostTime) {
        guard !ordered.lives.isEmpty else { return }
        orderedActiveAt = now
        orderedSummaryAt = min(orderedSummaryAt ?? .distantFuture, now + configuration.orderedGapGrace)
    }

    // MARK: Deadlines

    var orderedDeadline: HostTime? {
        var earliest: HostTime?
        func consider(_ time: HostTime?) {
            if let time { earliest = min(earliest ?? time, time) }
        }
        consider(promiseAt)
        consider(orderedSummaryAt)
        if let first = ordered.waiting.first {
            consider(askAt ?? first.since + configuration.promiseAskDelay)
            consider(first.since + configuration.orderedPatience)
        }
        for life in ordered.lives.values { consider(life.gapSince.map { $0 + configuration.orderedGapPatience }) }
        for link in links.values { consider(link.orderedBacklogAt) }
        return earliest
    }

    mutating func handleOrderedDeadlines(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        if promiseAt.isDue(at: now) {
            promiseAt = nil
            sayPromises(at: now, into: &outbox)
        }
        for peer in sortedLinks where links[peer]?.orderedBacklogAt.isDue(at: now) ?? false {
            sendBacklog(to: peer, at: now, into: &outbox)
        }
        counters.orderedGivenUp += ordered.giveUpGaps(openSince: now - configuration.orderedGapPatience, at: now)
        deliverOrdered(at: now, into: &outbox)
        if orderedSummaryAt.isDue(at: now) { saySummaries(at: now, into: &outbox) }
        guard let first = ordered.waiting.first else {
            askAt = nil
            return
        }
        let due = askAt ?? first.since + configuration.promiseAskDelay
        if due <= now {
            askWhoIsSilent(at: now, into: &outbox)
            askAt = now + configuration.promiseAskInterval
        } else {
            askAt = due
        }
    }
}
