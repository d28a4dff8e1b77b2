import MeshBase
import MeshCrypto
import MeshWire

/// Who is alive: keep-alives, suspicion, confirmation.
///
/// After SWIM (Das, Gupta, Motivala 2002) and Lifeguard. Deviations: the neighbours that watch a member are fixed and
/// hear it every 250 ms, so a death is known within about a second in any size of mesh; and a death is never spread,
/// only the suspicion, which makes each node look for itself (AB-74).
extension SessionStateMachine {
    // MARK: Evidence

    /// Something authentic of `peer` arrived: it is alive, whatever was thought.
    mutating func noteHeard(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard links[peer] != nil, phase == .member else { return }
        if !probeTasks.isEmpty { answerProbes(about: peer, at: now, into: &outbox) }
        guard let life = liveness[peer], !hasLeft(peer) else { return }
        liveness[peer]?.lastHeard = now
        liveness[peer]?.watchMark = now
        if life.state != .alive {
            becomeAlive(peer, reason: "heard", at: now, into: &outbox)
        }
    }

    private mutating func becomeAlive(
        _ peer: PeerID, reason: String, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let life = liveness[peer] else { return }
        let isUnmet = life.metBy != nil
        liveness[peer]?.state = .alive
        liveness[peer]?.since = now
        liveness[peer]?.suspicion = nil
        liveness[peer]?.metBy = nil
        if life.state == .suspect, let suspicion = life.suspicion {
            statistics.refutations &+= 1
            if suspicion.ground == .silence { health.noteFalseSuspicion(at: now) }
        }
        if life.state == .dead, !isUnmet {
            statistics.returns &+= 1
            emit(.memberReturned, peer, [.init("reason", .text(reason))], into: &outbox)
        } else {
            emit(.memberAlive, peer, [.init("reason", .text(reason))], into: &outbox)
        }
        membershipChanged(at: now)
        scheduleMonitor(at: now + configuration.keepAliveInterval)
        outbox.append(.membersChanged)
    }

    // MARK: Keep-alives

    mutating func tick(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member else {
            timers.tick = nil
            return
        }
        timers.tick = grid.next(after: now)
        tickCount &+= 1
        let slowTicks = Int(
            clamping: (configuration.slowKeepAliveInterval / configuration.keepAliveInterval.nanoseconds).nanoseconds)
        let isSlowTick = tickCount % max(slowTicks, 1) == 0
        let unheard = unheardMembers(at: now)
        for peer in linkOrder {
            guard let link = links[peer] else { continue }
            if shouldClose(link, peer, at: now) {
                outbox.append(.closeLink(peer))
            } else if list.contains(peer), link.closesAt == nil {
                let isFast = watched.contains(peer) || link.isWatchedByPeer
                if isSlowTick || isFast { sendKeepAlive(to: peer, asking: unheard, at: now, into: &outbox) }
            }
        }
    }

    /// The link of somebody who has left, or of a newcomer that never became a member.
    private func shouldClose(_ link: Link, _ peer: PeerID, at now: HostTime) -> Bool {
        if let closesAt = link.closesAt, hasLeft(peer) || !list.contains(peer) { return closesAt <= now }
        return !list.contains(peer) && now - link.establishedAt > configuration.joinTimeout * 2
    }

    mutating func sendKeepAlive(
        to peer: PeerID, asking unheard: [PeerID], at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        statistics.keepAlivesSent &+= 1
        let keepAlive = KeepAlive(
            digest: list.digest(), isWatching: watched.contains(peer), health: UInt8(clamping: health.multiplier),
            asked: unheard.filter { $0 != peer }, reports: reports(for: peer, at: now))
        send(.keepAlive(keepAlive), to: peer, priority: .clock, into: &outbox)
    }

    /// Members that this node does not hear itself. The dead are asked about once a second only.
    func unheardMembers(at now: HostTime) -> [PeerID] {
        var output: [PeerID] = []
        for peer in list.order where peer != localPeer {
            guard let life = liveness[peer], life.state != .left, !hasLeft(peer) else { continue }
            if life.state == .dead, tickCount % 4 != 0 { continue }
            if links[peer] != nil, now - life.watchMark < directTime(peer) { continue }
            output.append(peer)
            if output.count == SessionMessage.Limits.keepAliveEntries { break }
        }
        return output
    }

    /// Answers what `peer` asked: how long ago each was last heard, not counting what `peer` itself said.
    private func reports(for peer: PeerID, at now: HostTime) -> [KeepAlive.Report] {
        guard let asked = links[peer]?.peerAsked else { return [] }
        return asked.compactMap { subject in
            guard let life = liveness[subject], !hasLeft(subject) else { return nil }
            var latest = life.lastHeard ?? .distantPast
            if let reportedAt = life.reportedAt, life.reporter != peer { latest = max(latest, reportedAt) }
            let age = now - latest
            guard age < Self.oldestReport, age >= .zero else { return nil }
            return KeepAlive.Report(subject: subject, ageMilliseconds: UInt32(clamping: age.nanoseconds / 1_000_000))
        }
    }

    private static let oldestReport = TimeSpan.seconds(10 as Int64)

    mutating func handleKeepAlive(
        _ keepAlive: KeepAlive, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        links[peer]?.isWatchedByPeer = keepAlive.isWatching
        links[peer]?.peerAsked = keepAlive.asked
        compare(digest: keepAlive.digest, of: peer, at: now, into: &outbox)
        for report in keepAlive.reports { note(report, from: peer, at: now, into: &outbox) }
    }

    private mutating func note(
        _ report: KeepAlive.Report, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        let subject = report.subject
        guard subject != localPeer, subject != peer, let life = liveness[subject], !hasLeft(subject) else { return }
        // Every hop makes a report older by its round trip: never younger than the truth.
        let hop = max(links[peer]?.smoothed ?? .zero, .milliseconds(1))
        let age = TimeSpan.milliseconds(Int64(report.ageMilliseconds)) + hop
        let heardAt = now - age
        if heardAt > life.reportedAt ?? .distantPast {
            liveness[subject]?.reportedAt = heardAt
            liveness[subject]?.reporter = peer
        }
        let isNews = heardAt > lastDoubt(of: subject, life)
        let isFresh = age < Detection.reportTime(configuration: configuration, health: 1)
        guard life.state != .alive, isNews, isFresh else { return }
        becomeAlive(subject, reason: "reported", at: now, into: &outbox)
    }

    /// Only what was heard after the verdict revises it, and only what was heard after a question was opened about a
    /// linked member answers it: that a neighbour caught one keep-alive more says nothing of now.
    private func lastDoubt(of subject: PeerID, _ life: Liveness) -> HostTime {
        if life.state == .dead, life.metBy == nil { return life.since }
        guard links[subject] != nil, let suspicion = life.suspicion else { return life.watchMark }
        return max(life.watchMark, suspicion.startedAt)
    }

    // MARK: Suspicion

    func directTime(_ peer: PeerID) -> TimeSpan {
        let link = links[peer]
        let isFast = watched.contains(peer)
        return Detection.suspicionTime(
            interval: isFast ? configuration.keepAliveInterval : configuration.slowKeepAliveInterval,
            configuration: configuration, smoothed: link?.smoothed ?? .zero, variance: link?.variance ?? .zero,
            health: health.multiplier)
    }

    /// When silence becomes suspicion, if nothing comes before.
    private func suspectAt(_ peer: PeerID, _ life: Liveness) -> HostTime {
        let reportTime = Detection.reportTime(configuration: configuration, health: health.multiplier)
        let byReport = (life.reportedAt ?? .distantPast) + reportTime
        let byLink = life.watchMark + (links[peer] == nil ? reportTime : directTime(peer))
        return max(byLink, byReport)
    }

    mutating func scheduleMonitor(at time: HostTime) {
        timers.monitor = min(timers.monitor ?? time, time)
    }

    /// Looks at everybody and says when to look again.
    mutating func checkMembers(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        timers.monitor = nil
        guard phase == .member else { return }
        checkProbes(at: now, into: &outbox)
        for peer in list.order where peer != localPeer {
            guard let life = liveness[peer], life.state != .left, !hasLeft(peer) else { continue }
            if life.suspicion != nil {
                checkSuspicion(of: peer, at: now, into: &outbox)
            } else if life.state == .suspect, let metBy = life.metBy {
                if metBy <= now { notMet(peer, at: now, into: &outbox) } else { scheduleMonitor(at: metBy) }
            } else if life.state == .alive {
                let due = suspectAt(peer, life)
                if due <= now {
                    beginSuspicion(peer, because: .silence, reason: "silent", at: now, into: &outbox)
                } else {
                    scheduleMonitor(at: due)
                }
            }
        }
    }

    /// Not heard of since this node started: counts as dead, and nobody is told of a death.
    private mutating func notMet(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        liveness[peer]?.state = .dead
        liveness[peer]?.since = now
        membershipChanged(at: now)
        outbox.append(.memberLost(peer))
        outbox.append(.membersChanged)
    }

    /// Opens the question: tells the suspect first, then asks up to three neighbours with a fresh nonce.
    mutating func beginSuspicion(
        _ peer: PeerID, because ground: Suspicion.Ground, reason: String, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard phase == .member, let life = liveness[peer], life.state != .left, life.state != .dead, !hasLeft(peer),
            life.metBy == nil
        else { return }
        let probeTime = Detection.probeTime(
            configuration: configuration, smoothed: links[peer]?.smoothed ?? .zero, health: health.multiplier)
        if life.suspicion != nil { return hasten(peer, because: ground, to: now + probeTime) }
        let helpers = chooseHelpers(about: peer)
        let patience = ground == .toldGone ? probeTime : doubtTime
        let suspicion = Suspicion(
            nonce: random.uint64(), startedAt: now, ground: ground,
            helpers: Dictionary(uniqueKeysWithValues: helpers.map { ($0, .waiting) }), deadline: now + patience,
            earliestDeath: now + patience, nextProbeAt: now + configuration.leastProbeTime)
        liveness[peer]?.suspicion = suspicion
        liveness[peer]?.state = .suspect
        liveness[peer]?.since = now
        statistics.suspicions &+= 1
        if links[peer]?.relay != nil { outbox.append(.changeRelay(peer)) }
        probe(peer, nonce: suspicion.nonce, into: &outbox)
        for helper in helpers {
            send(.probeRequest(subject: peer, nonce: suspicion.nonce), to: helper, priority: .clock, into: &outbox)
        }
        if list.count > configuration.fullWatchLimit { warnOthers(about: peer, except: helpers, into: &outbox) }
        emit(.memberSuspect, peer, [.init("reason", .text(reason))], into: &outbox)
        outbox.append(.membersChanged)
        scheduleMonitor(at: min(suspicion.nextProbeAt, suspicion.deadline))
    }

    /// From silence to death without a word that the member is gone.
    private var doubtTime: TimeSpan { configuration.leastDoubt * Int64(health.multiplier) }

    private mutating func hasten(_ peer: PeerID, because ground: Suspicion.Ground, to deadline: HostTime) {
        guard ground == .toldGone, let suspicion = liveness[peer]?.suspicion, suspicion.ground != .toldGone else {
            return
        }
        liveness[peer]?.suspicion?.ground = .toldGone
        liveness[peer]?.suspicion?.deadline = min(suspicion.deadline, deadline)
        liveness[peer]?.suspicion?.earliestDeath = min(suspicion.earliestDeath, deadline)
        scheduleMonitor(at: deadline)
    }

    private mutating func chooseHelpers(about peer: PeerID) -> [PeerID] {
        var able = linkOrder.filter { other in
            other != peer && liveness[other]?.state == .alive && list.contains(other)
        }
        var chosen: [PeerID] = []
        while chosen.count < configuration.confirmers, !able.isEmpty {
            chosen.append(able.remove(at: random.below(able.count)))
        }
        return chosen
    }

    private mutating func probe(_ peer: PeerID, nonce: UInt64, into outbox: inout Outbox<SessionOutput>) {
        guard links[peer] != nil else { return }
        statistics.probesSent &+= 1
        send(.probe(nonce: nonce), to: peer, priority: .clock, into: &outbox)
    }

    /// In a large mesh most members do not watch `peer`: they are told to look themselves.
    private func warnOthers(
        about peer: PeerID, except helpers: [PeerID], into outbox: inout Outbox<SessionOutput>
    ) {
        for other in linkOrder where other != peer && list.contains(other) && !helpers.contains(other) {
            send(.suspicion(subject: peer), to: other, priority: .clock, into: &outbox)
        }
    }

    private mutating func checkSuspicion(
        of peer: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard var suspicion = liveness[peer]?.suspicion else { return }
        let isConfirmed = suspicion.isConfirmed && suspicion.earliestDeath <= now
        if isConfirmed { return declareDead(peer, reason: "confirmed", at: now, into: &outbox) }
        if suspicion.deadline <= now {
            // Neighbours that could say something and did not get one more period: their answers may be lost.
            guard !suspicion.unanswered.isEmpty, !suspicion.isExtended else {
                return declareDead(peer, reason: "silent", at: now, into: &outbox)
            }
            suspicion.isExtended = true
            suspicion.deadline = now + configuration.confirmationTime * Int64(health.multiplier)
        }
        if suspicion.nextProbeAt <= now {
            suspicion.nextProbeAt = now + configuration.leastProbeTime
            probe(peer, nonce: suspicion.nonce, into: &outbox)
            for helper in suspicion.unanswered {
                send(.probeRequest(subject: peer, nonce: suspicion.nonce), to: helper, priority: .clock, into: &outbox)
            }
        }
        liveness[peer]?.suspicion = suspicion
        scheduleMonitor(at: min(suspicion.deadline, suspicion.nextProbeAt))
        if suspicion.isConfirmed { scheduleMonitor(at: suspicion.earliestDeath) }
    }

    private mutating func declareDead(
        _ peer: PeerID, reason: String, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let suspicion = liveness[peer]?.suspicion else { return }
        liveness[peer]?.state = .dead
        liveness[peer]?.since = now
        liveness[peer]?.suspicion = nil
        statistics.deaths &+= 1
        membershipChanged(at: now)
        let confirmers = suspicion.helpers.filter { $0.value == .silent }.count
        emit(
            .memberDead, peer,
            [.init("reason", .text(reason)), .init("confirmedBy", .integer(Int64(confirmers)))], into: &outbox)
        outbox.append(.memberLost(peer))
        outbox.append(.membersChanged)
        // The link is kept: a member that was only frozen comes back on it. It is dialled too, in case it moved.
        lookFor(peer, at: now, from: now)
    }

    // MARK: Probes for others

    mutating func handleProbeRequest(
        _ subject: PeerID, nonce: UInt64, from requester: PeerID, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard links[subject] != nil, liveness[subject] != nil, !hasLeft(subject) else {
            let outcome: SessionMessage.ProbeOutcome = subject == localPeer ? .heard : .notLinked
            return send(
                .probeResult(subject: subject, nonce: nonce, outcome: outcome), to: requester, priority: .clock,
                into: &outbox)
        }
        // A repeated request is answered once, when the probe is.
        guard !probeTasks.contains(where: { $0.requester == requester && $0.requestNonce == nonce }) else { return }
        addProbe(of: subject, for: requester, requestNonce: nonce, at: now, into: &outbox)
    }

    /// Somebody is suspected elsewhere. This node looks for itself, once at a time.
    mutating func handleWarning(about subject: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard links[subject] != nil, let life = liveness[subject], life.state == .alive, !hasLeft(subject),
            now - life.watchMark > configuration.keepAliveInterval,
            !probeTasks.contains(where: { $0.subject == subject && $0.requester == nil })
        else { return }
        addProbe(of: subject, for: nil, requestNonce: 0, at: now, into: &outbox)
    }

    private mutating func addProbe(
        of subject: PeerID, for requester: PeerID?, requestNonce: UInt64, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        let isOverCap = probeTasks.count { $0.requester == requester } >= Self.maximumProbesPerPeer
        guard probeTasks.count < Self.maximumProbes, !isOverCap else {
            statistics.probeRequestsDropped &+= 1
            return
        }
        let probeTime = Detection.probeTime(
            configuration: configuration, smoothed: links[subject]?.smoothed ?? .zero, health: health.multiplier)
        let task = ProbeTask(
            requester: requester, subject: subject, requestNonce: requestNonce, nonce: random.uint64(),
            deadline: now + probeTime, repeatAt: now + probeTime / 2)
        probeTasks.append(task)
        probe(subject, nonce: task.nonce, into: &outbox)
        scheduleMonitor(at: now + probeTime / 2)
    }

    private static let maximumProbes = 64
    private static let maximumProbesPerPeer = 16

    private mutating func answerProbes(
        about subject: PeerID, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        for task in probeTasks where task.subject == subject { answer(task, .heard, into: &outbox) }
        probeTasks.removeAll { $0.subject == subject }
    }

    private func answer(
        _ task: ProbeTask, _ outcome: SessionMessage.ProbeOutcome, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let requester = task.requester, links[requester] != nil else { return }
        send(
            .probeResult(subject: task.subject, nonce: task.requestNonce, outcome: outcome), to: requester,
            priority: .clock, into: &outbox)
    }

    private mutating func checkProbes(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        let overdue = probeTasks.filter { $0.deadline <= now }
        probeTasks.removeAll { $0.deadline <= now }
        for task in overdue {
            answer(task, .silent, into: &outbox)
            // The probe was this node's own look: silence is evidence enough to suspect, not to bury.
            let silence = now - (liveness[task.subject]?.watchMark ?? now)
            if silence > configuration.keepAliveInterval * 2 {
                beginSuspicion(
                    task.subject, because: .unansweredProbe, reason: "probeUnanswered", at: now, into: &outbox)
            }
        }
        for index in probeTasks.indices {
            if let repeatAt = probeTasks[index].repeatAt, repeatAt <= now {
                probeTasks[index].repeatAt = nil
                probe(probeTasks[index].subject, nonce: probeTasks[index].nonce, into: &outbox)
            }
            scheduleMonitor(at: probeTasks[index].repeatAt ?? probeTasks[index].deadline)
        }
    }

    mutating func handleProbeResult(
        _ subject: PeerID, nonce: UInt64, outcome: SessionMessage.ProbeOutcome, from helper: PeerID, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard let suspicion = liveness[subject]?.suspicion, suspicion.nonce == nonce,
            suspicion.helpers[helper] == .waiting
        else { return }
        switch outcome {
        case .heard:
            // It lives; only this node's own path to it is broken. Look for another one.
            liveness[subject]?.reportedAt = now
            liveness[subject]?.reporter = helper
            becomeAlive(subject, reason: "confirmed by a neighbour", at: now, into: &outbox)
            lookFor(subject, at: now, from: now)
        case .silent: liveness[subject]?.suspicion?.helpers[helper] = .silent
        case .notLinked: liveness[subject]?.suspicion?.helpers[helper] = .notLinked
        }
        checkSuspicion(of: subject, at: now, into: &outbox)
    }

    // MARK: This node's own health

    /// A late deadline means that this node was asleep, not the others: their silence is forgiven.
    mutating func noteLateness(_ lateness: TimeSpan, at now: HostTime) {
        health.noteDeadline(lateness: lateness, interval: configuration.keepAliveInterval, at: now)
        guard lateness > configuration.keepAliveInterval else { return }
        statistics.lateDeadlines &+= 1
        for peer in list.order {
            guard var life = liveness[peer] else { continue }
            life.watchMark = min(life.watchMark + lateness, max(now, life.watchMark))
            life.reportedAt = life.reportedAt.map { min($0 + lateness, max(now, $0)) }
            life.metBy = life.metBy.map { $0 + lateness }
            life.suspicion?.deadline = now + configuration.leastDoubt
            life.suspicion?.earliestDeath = now + configuration.leastDoubt
            liveness[peer] = life
        }
        for index in probeTasks.indices { probeTasks[index].deadline = now + configuration.leastProbeTime }
        if lateness > configuration.redialInterval { dials.bringForward(to: now) }
    }

    /// Who watches whom follows from who is here.
    mutating func membershipChanged(at now: HostTime) {
        let present = list.order.filter { peer in
            peer == localPeer || (liveness[peer]?.state != .left && liveness[peer]?.state != .dead)
        }
        let before = watched
        watched = Detection.watched(by: localPeer, members: present, configuration: configuration)
        // A member watched from now on has kept the slow pace so far: its silence counts from here.
        for peer in list.order where watched.contains(peer) && !before.contains(peer) && links[peer] != nil {
            if let mark = liveness[peer]?.watchMark { liveness[peer]?.watchMark = max(mark, now) }
        }
    }
}
