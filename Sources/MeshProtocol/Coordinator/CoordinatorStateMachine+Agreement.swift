import MeshBase
import MeshCrypto
import MeshWire

/// The clock's life: founding, joining, keeping step, meeting another mesh, waking up.
extension CoordinatorStateMachine {
    // MARK: Beginning

    mutating func found(at now: HostTime) {
        epoch = ClockEpoch(birth: 2, id: random.uint64())
        line = MeshClock(host: now, mesh: MeshTime(nanoseconds: 0))
        phase = .steady
        nextTick = now + configuration.activeInterval
    }

    mutating func startJoining(at now: HostTime) {
        epoch = .none
        line = MeshClock(host: now, mesh: MeshTime(nanoseconds: 0))
        phase = .joining(since: now, adopted: nil)
        agreement = Agreement()
        nextTick = now + configuration.activeInterval
    }

    /// All that was measured is void, and the clock may have stopped for hours: find the place again, on the same
    /// number line.
    mutating func wakeUp(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        for index in neighbours.indices {
            neighbours[index].filter = ClockFilter()
            neighbours[index].report = nil
            neighbours[index].linkedAt = now
        }
        pendingMerge = nil
        outbox.append(.event(ProtocolEvent(.suspended)))
        guard phase == .steady, otherMemberCount > 0 || !neighbours.isEmpty else { return }
        phase = .joining(since: now, adopted: nil)
        agreement = Agreement()
        nextTick = now
    }

    // MARK: Messages

    mutating func receive(
        _ report: ClockReport, from index: Int, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) {
        // The decoder holds the same limits; a message made in this process passes through here alone.
        guard isBounded(report.mesh.nanoseconds),
            report.ratePartsPerTrillion.magnitude <= UInt32(ClockReport.maximumRatePartsPerTrillion)
        else {
            statistics.messagesRefused &+= 1
            return
        }
        if let older = neighbours[index].report, older.host > report.host,
            now.since(neighbours[index].reportedAt) < configuration.idleInterval
        {
            // Overtaken on the way by a newer one; its question still wants an answer.
        } else {
            neighbours[index].report = report
            neighbours[index].reportedAt = now
        }
        if report.wantedAnswers > 0 { answer(report, to: index, at: now, into: &outbox) }
    }

    private func isBounded(_ nanoseconds: Int64) -> Bool {
        nanoseconds.magnitude <= UInt64(ClockMessage.maximumMeshNanoseconds)
    }

    private mutating func answer(
        _ question: ClockReport, to index: Int, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) {
        if now.since(neighbours[index].answersRefilledAt) >= configuration.freshLinkAge {
            neighbours[index].answers = configuration.answerAllowance
            neighbours[index].answersRefilledAt = now
        }
        guard neighbours[index].answers > 0, phase != .waiting else {
            statistics.answersRefused &+= 1
            return
        }
        neighbours[index].answers -= 1
        report(
            to: index, answers: min(question.wantedAnswers, ClockReport.maximumAnswers) - 1, at: now, into: &outbox)
    }

    mutating func receive(_ merge: ClockMerge, from index: Int, at now: HostTime) {
        let ahead = merge.switchAt.since(line.meshTime(at: now))
        let limit = TimeSpan.seconds(5)
        guard phase == .steady, isBounded(merge.shift.nanoseconds), isBounded(merge.switchAt.nanoseconds),
            merge.losing == epoch, merge.winning > epoch, ahead <= limit,
            ahead >= TimeSpan.zero - limit,
            neighbours[index].settledEpoch(at: now, silenceLimit: configuration.silenceLimit) != nil
        else {
            statistics.messagesRefused &+= 1
            return
        }
        adopt(merge)
    }

    /// Of several announcements the one to the greatest epoch counts, then the earliest: all losers end up with one.
    private mutating func adopt(_ merge: ClockMerge) {
        guard let pending = pendingMerge else {
            pendingMerge = merge
            return
        }
        if merge.winning > pending.winning || (merge.winning == pending.winning && merge.switchAt < pending.switchAt) {
            pendingMerge = merge
        }
    }

    // MARK: The tick

    mutating func tick(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        for index in neighbours.indices {
            neighbours[index].filter.update(at: now)
            neighbours[index].newSamples = 0
        }
        let next = followingTick(after: now)
        let interval = next - now
        nextTick = next
        lookForGreaterEpoch(at: now, into: &outbox)
        let votes = votes(at: now)
        if let consensus = ClockConsensus(votes) {
            compare(votes, consensus, at: now)
            switch phase {
            case .waiting: break
            case .joining(let since, let adopted):
                join(votes, consensus, since: since, adopted: adopted, at: now, into: &outbox)
            case .steady: keepStep(votes, consensus, within: interval, at: now, into: &outbox)
            }
        } else {
            agreement.isFresh = false
            agreement.isMoving = false
            endLoneliness(at: now, into: &outbox)
        }
        for index in neighbours.indices { report(to: index, answers: 0, at: now, into: &outbox) }
    }

    /// Never in step with anything periodic on the path (a radio that sleeps shows its edge only to odd moments), nor
    /// with the other nodes. What is not urgent goes with the keep-alives.
    private mutating func followingTick(after now: HostTime) -> HostTime {
        guard !isActive(at: now) else { return now + random.jittered(configuration.activeInterval) }
        return grid.next(after: now + random.jittered(configuration.idleInterval) - TickGrid.standardInterval / 2)
    }

    /// Whether ten corrections a second are needed: something is new, or not yet where it belongs.
    private func isActive(at now: HostTime) -> Bool {
        guard phase == .steady, pendingMerge == nil else { return true }
        if agreement.isMoving { return true }
        return neighbours.contains { now.since($0.linkedAt) < configuration.freshLinkAge }
    }

    /// The words of neighbours in step on our number line.
    private func votes(at now: HostTime) -> [ClockVote] {
        let mine = line.meshTime(at: now)
        return neighbours.compactMap { neighbour in
            guard neighbour.settledEpoch(at: now, silenceLimit: configuration.silenceLimit) == epoch,
                let report = neighbour.report, let estimate = neighbour.filter.estimate,
                estimate.sampleCount >= configuration.joinSamples,
                let theirs = neighbour.meshTime(at: now, silenceLimit: configuration.silenceLimit)
            else { return nil }
            let stated = max(Double(report.uncertaintyNanoseconds), ClockConsensus.uncertaintyFloor)
            let theirRate = (1 + estimate.rate) * (1 + Double(report.ratePartsPerTrillion) * 1e-12) - 1
            return ClockVote(
                error: Double(theirs.since(mine).nanoseconds),
                scatter: estimate.scatter,
                uncertainty: (estimate.scatter * estimate.scatter + stated * stated).squareRoot(),
                rate: theirRate - line.rate, rateUncertainty: estimate.rateError,
                bound: Double(estimate.bound.nanoseconds), sampleCount: estimate.sampleCount,
                isSenior: neighbour.peer > identity.peerID)
        }
    }

    private mutating func compare(_ votes: [ClockVote], _ consensus: ClockConsensus, at now: HostTime) {
        agreement.at = now
        agreement.isFresh = true
        agreement.worst = votes.map { abs($0.error) + $0.bound + 2 * $0.uncertainty }.max() ?? 0
        // Only what this node measured itself and where it stands: neighbours' own figures would come back to them.
        let precision = votes.reduce(0) { $0 + 1 / ($1.scatter * $1.scatter) }
        agreement.uncertainty = (1 / precision + consensus.error * consensus.error).squareRoot()
        agreement.isMoving = abs(consensus.error) > max(20_000, 2 * consensus.uncertainty)
    }

    // MARK: Joining

    /// A joining clock steps to what those in step say, until it is in step itself.
    private mutating func join(
        _ votes: [ClockVote], _ consensus: ClockConsensus, since: HostTime, adopted: HostTime?, at now: HostTime,
        into outbox: inout Outbox<CoordinatorOutput>
    ) {
        // The middle of the neighbours, without this node's own vote: it has no say yet.
        var errors = votes.map(\.error)
        let centre = middle(of: &errors)
        let width = max(ClockConsensus.clipFloor, 4 * consensus.uncertainty)
        let near = votes.filter { abs($0.error - centre) <= width + 4 * $0.uncertainty }
        let weights = near.map { 1 / ($0.uncertainty * $0.uncertainty) }
        let total = weights.reduce(0, +)
        let error = total > 0 ? zip(near, weights).reduce(0) { $0 + $1.0.error * $1.1 } / total : centre
        let shift = TimeSpan(nanoseconds: clampedNanoseconds(error.rounded()))
        line.step(at: now, by: shift, rate: line.rate + consensus.rate)
        let adoptedAt = adopted ?? now
        phase = .joining(since: since, adopted: adoptedAt)
        agreement.worst = votes.map { $0.bound + 2 * $0.uncertainty + abs($0.error - error) }.max() ?? 0
        let isNear = votes.contains { $0.bound < configuration.joinScatter && $0.sampleCount >= 8 }
        let age = now.since(adoptedAt)
        let isSharp = consensus.uncertainty < configuration.joinScatter && (isNear || age >= configuration.joinTime)
        if isSharp || age >= configuration.joinTimeLimit { becomeSteady(at: now, into: &outbox) }
    }

    private mutating func becomeSteady(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        phase = .steady
        steadySince = now
        let error = TimeSpan(nanoseconds: clampedNanoseconds(agreement.worst))
        outbox.append(
            .event(
                ProtocolEvent(
                    .clockSteady,
                    detail: [
                        .init("epoch", .text(epoch.description)),
                        .init("errorNanoseconds", .integer(error.nanoseconds)),
                    ])))
    }

    /// Nobody in step on this line is heard. A member that returned to an empty mesh, or whole meshes that woke together,
    /// go on by themselves after a while; the greatest id first, so that the others find somebody to follow. One that
    /// had only begun to follow a line whose members are gone follows whoever is here, be that line the lesser: it has
    /// no say, so nobody else would move.
    private mutating func endLoneliness(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        guard case .joining(let since, let adopted) = phase else { return }
        let silence = configuration.silenceLimit
        let heard = neighbours.compactMap { $0.settledEpoch(at: now, silenceLimit: silence) }
        let hasSenior = neighbours.contains { $0.peer > identity.peerID && now.since($0.reportedAt) <= silence }
        let patience = hasSenior ? configuration.lonelyTime * 2 : configuration.lonelyTime
        guard !heard.contains(epoch), now.since(adopted ?? since) >= patience else { return }
        guard heard.isEmpty else {
            if epoch != .none { startJoining(at: now) }
            return
        }
        if epoch == .none { epoch = ClockEpoch(birth: 1, id: random.uint64()) }
        becomeSteady(at: now, into: &outbox)
    }

    // MARK: Keeping step

    private mutating func keepStep(
        _ votes: [ClockVote], _ consensus: ClockConsensus, within interval: TimeSpan, at now: HostTime,
        into outbox: inout Outbox<CoordinatorOutput>
    ) {
        if mustStep(votes, consensus) {
            guard allowance.take(at: now) else {
                statistics.stepsRefused &+= 1
                return
            }
            statistics.steps &+= 1
            let shift = TimeSpan(nanoseconds: clampedNanoseconds(votes.count == 1 ? consensus.error : consensus.median))
            line.step(at: now, by: shift, rate: line.rate)
            phase = .joining(since: now, adopted: now)
            outbox.append(
                .event(
                    ProtocolEvent(.clockStepped, detail: [.init("shiftNanoseconds", .integer(shift.nanoseconds))])))
            return
        }
        statistics.corrections &+= 1
        // A newcomer gives way faster than it moves others: its rate is the least known of all.
        let isNew = steadySince.map { now.since($0) < configuration.settlingTime } ?? false
        let tenths = interval.seconds / 0.1 * (isNew ? configuration.settlingFactor : 1)
        let error = consensus.error * gain(configuration.errorGain, tenths)
        let rateStep = consensus.rate * gain(configuration.rateGain, tenths)
        let leak = line.rate * min(1, configuration.rateLeak * interval.seconds)
        line.steer(at: now, by: error, within: interval, rate: line.rate + rateStep - leak)
    }

    /// The share that `tenths` repetitions of a share remove.
    private func gain(_ share: Double, _ tenths: Double) -> Double {
        var left = 1.0
        for _ in 0..<max(1, min(100, Int(tenths.rounded()))) { left *= 1 - share }
        return 1 - left
    }

    /// The middle of all votes, this node's own among them, is further off than any path could explain. Of two that
    /// disagree alone the one with the lesser id gives way; otherwise they would change places.
    private func mustStep(_ votes: [ClockVote], _ consensus: ClockConsensus) -> Bool {
        let threshold = Double(configuration.stepThreshold.nanoseconds)
        if votes.count == 1, let vote = votes.first {
            return vote.isSenior && abs(vote.error) > threshold + vote.bound + 4 * vote.uncertainty
        }
        let excluding = votes.count { abs($0.error) > threshold + $0.bound + 4 * $0.uncertainty }
        return abs(consensus.median) > threshold && excluding * 2 > votes.count
    }

    // MARK: Meeting another mesh

    /// The greater epoch wins. A node that is joining, or alone on its line, simply follows; a mesh announces the
    /// instant at which all of it switches.
    private mutating func lookForGreaterEpoch(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        let silence = configuration.silenceLimit
        var best: (epoch: ClockEpoch, index: Int)?
        for index in neighbours.indices {
            guard let other = neighbours[index].settledEpoch(at: now, silenceLimit: silence), other > epoch,
                let estimate = neighbours[index].filter.estimate, estimate.sampleCount >= configuration.joinSamples
            else { continue }
            if other > (best?.epoch ?? epoch) { best = (other, index) }
        }
        guard let best, pendingMerge == nil,
            let theirs = neighbours[best.index].meshTime(at: now, silenceLimit: silence)
        else { return }
        let shift = theirs.since(line.meshTime(at: now))
        if phase != .steady {
            follow(best.epoch, by: shift, at: now)
        } else if !neighbours.contains(where: { $0.settledEpoch(at: now, silenceLimit: silence) == epoch }) {
            guard allowMerge(at: now, into: &outbox) else { return }
            follow(best.epoch, by: shift, at: now)
            announceMerged(shift, into: &outbox)
        } else if isFitToMerge(best.index, at: now) {
            announce(best.epoch, shift: shift, at: now, into: &outbox)
        }
    }

    private mutating func follow(_ other: ClockEpoch, by shift: TimeSpan, at now: HostTime) {
        epoch = other
        line.step(at: now, by: shift, rate: 0)
        phase = .joining(since: now, adopted: nil)
        pendingMerge = nil
    }

    /// All of the mesh will move by what this link says, so it waits until the link says it well.
    private func isFitToMerge(_ index: Int, at now: HostTime) -> Bool {
        guard let estimate = neighbours[index].filter.estimate else { return false }
        return estimate.sampleCount >= 8
            && (estimate.scatter < 5 * configuration.joinScatter
                || now.since(neighbours[index].linkedAt) >= configuration.joinTime)
    }

    private mutating func announce(
        _ winning: ClockEpoch, shift: TimeSpan, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) {
        let merge = ClockMerge(
            losing: epoch, winning: winning,
            switchAt: line.meshTime(at: now).advanced(by: configuration.mergeNotice), shift: shift)
        pendingMerge = merge
        for neighbour in neighbours
        where neighbour.settledEpoch(at: now, silenceLimit: configuration.silenceLimit) == epoch {
            statistics.messagesSent &+= 1
            outbox.append(.send(.merge(merge), to: neighbour.peer, priority: .clock, isReliable: true))
        }
    }

    mutating func switchLine(to merge: ClockMerge, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) {
        guard merge.losing == epoch, allowMerge(at: now, into: &outbox) else { return }
        let rate = line.rate
        epoch = merge.winning
        line.step(at: now, by: merge.shift, rate: rate)
        phase = .joining(since: now, adopted: nil)
        nextTick = now
        announceMerged(merge.shift, into: &outbox)
    }

    private mutating func allowMerge(at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>) -> Bool {
        guard allowance.take(at: now) else {
            statistics.stepsRefused &+= 1
            return false
        }
        statistics.merges &+= 1
        return true
    }

    private func announceMerged(_ shift: TimeSpan, into outbox: inout Outbox<CoordinatorOutput>) {
        outbox.append(
            .event(
                ProtocolEvent(
                    .clockMerged,
                    detail: [
                        .init("epoch", .text(epoch.description)),
                        .init("shiftNanoseconds", .integer(shift.nanoseconds)),
                    ])))
    }

    // MARK: Reporting

    /// Tells one neighbour where this clock stands, and decides when it is told again.
    mutating func report(
        to index: Int, answers: UInt8, at now: HostTime, into outbox: inout Outbox<CoordinatorOutput>
    ) {
        let limit = Double(ClockReport.maximumRatePartsPerTrillion)
        let report = ClockReport(
            epoch: epoch, isJoining: phase != .steady, wantedAnswers: answers, host: now,
            mesh: boundedMesh(line.settledTime(at: now)),
            ratePartsPerTrillion: Int32(max(-limit, min(limit, (line.rate * 1e12).rounded()))),
            uncertaintyNanoseconds: UInt32(max(0, min(Double(UInt32.max), agreement.uncertainty.rounded()))))
        neighbours[index].nextReport = nextReport(of: neighbours[index], at: now)
        statistics.messagesSent &+= 1
        outbox.append(.send(.report(report), to: neighbours[index].peer, priority: .clock, isReliable: false))
    }

    private func boundedMesh(_ mesh: MeshTime) -> MeshTime {
        let limit = ClockMessage.maximumMeshNanoseconds
        return MeshTime(nanoseconds: max(-limit, min(limit, mesh.nanoseconds)))
    }

    /// The tick reports to all; in between, only links whose delays scatter, or that are not measured yet.
    private mutating func nextReport(of neighbour: ClockNeighbour, at now: HostTime) -> HostTime {
        let scatter = neighbour.filter.estimate?.scatter ?? .infinity
        if now.since(neighbour.linkedAt) < configuration.freshLinkAge, scatter > configuration.probeScatter {
            return now + random.jittered(configuration.probeInterval)
        }
        if scatter > configuration.noisyScatter { return now + random.jittered(configuration.activeInterval) }
        return .distantFuture
    }
}
