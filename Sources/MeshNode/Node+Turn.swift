import MeshBase
import MeshProtocol
import MeshSystem

/// The turn: the one loop that routes between the actors.
///
/// Receive a bounded batch → hand each group to its actor → collect outputs until all are quiet → transmit once →
/// wait for the least deadline. Actor methods are synchronous; the only suspensions are the hops between actors on one
/// executor, and the wait at the end.
extension Node {
    func runTurns() async {
        while lifecycle != .stopped {
            let now = environment.clock.now()
            noteSleep(at: now)
            let isMoreWaiting = await receive(at: now)
            await takeInbox(at: now)
            await settle(at: now)
            await offerQueueSpace(at: now)
            await transmit(at: now)
            await announceIfReady(at: now)
            await expireLeaving(at: now)
            if lifecycle == .stopped { return }
            await environment.executor.waitForWork(until: isMoreWaiting ? now : await nextDeadline())
        }
    }

    /// The machine slept: its clock stood still, so whatever was measured against others' says nothing now. Before
    /// anything that arrived since is looked at.
    private func noteSleep(at now: HostTime) {
        let slept = environment.clock.suspendedSpan()
        let span = slept - sleptBefore
        guard span >= Self.leastSleep else { return }
        sleptBefore = slept
        work.coordinator.append(.command(.suspended(now)))
        work.session.append(.command(.suspended(span)))
    }

    /// Less is how far apart two clocks are read on a busy machine.
    private static let leastSleep = TimeSpan.milliseconds(50)

    /// Datagrams, beacons and what the kernel says of the network. True when more datagrams wait.
    private func receive(at now: HostTime) async -> Bool {
        let batch = await messenger.receiveBatch(limit: configuration.maximumDatagramsPerTurn, at: now)
        for output in batch.outputs { route(output, at: now) }
        routeHeard(await messenger.takeHeard())
        if now >= roundTripsDue {
            roundTripsDue = now + .milliseconds(500)
            for command in await messenger.roundTrips() { work.session.append(.command(command)) }
            work.messenger.append(.gossip(.meshClock(await coordinator.reading(at: now))))
        }
        _ = environment.transport.receiveBeacons(limit: 16) { bytes, source in
            work.session.append(.command(.beaconReceived(bytes, from: source)))
        }
        for address in environment.transport.takeUnreachable() {
            dials.unreachable(address, at: now)
            work.session.append(.command(.unreachable(address)))
        }
        if environment.transport.takeInterfaceChange() {
            work.session.append(.command(.localAddressesChanged(environment.transport.localAddresses())))
            note(ProtocolEvent(.interfacesChanged), at: now)
        }
        return batch.isMoreWaiting
    }

    /// Hands every actor its inputs, and what is due, until nobody has anything left for another.
    func settle(at now: HostTime) async {
        repeat {
            for output in await session.perform(take(&work.session), at: now) { await route(output, at: now) }
            for output in await journal.perform(take(&work.journal), at: now) { await route(output, at: now) }
            for output in await coordinator.perform(take(&work.coordinator), at: now) { route(output, at: now) }
            for output in await messenger.perform(take(&work.messenger), at: now) { route(output, at: now) }
            await answerFinished(at: now)
        } while work.isPending
        if !work.records.isEmpty { storage.post(records: take(&work.records)) }
    }

    /// Tells whoever waited for a command that it is settled; an answer may begin the next command.
    func answerFinished(at now: HostTime) async {
        for answer in waiting.takeFinished() { await answer.completion(answer.result, self, now) }
    }

    /// Transmits what the turn queued, unless something that must be durable first is still on its way to the disk.
    private func transmit(at now: HostTime) async {
        guard durability.isOpen else { return }
        for beacon in work.takeBeacons() { environment.transport.sendBeacon(beacon) }
        for output in await messenger.transmit(at: environment.clock.now()) { route(output, at: now) }
        if work.isPending { await settle(at: now) }
    }

    /// The journal serves only as much as the links take, so a transfer never fills a queue that a command needs.
    private func offerQueueSpace(at now: HostTime) async {
        for (peer, space) in await messenger.takeQueueSpaces() {
            work.journal.append(.command(.sendQueueSpace(peer, bytes: space)))
        }
        if work.isPending { await settle(at: now) }
    }

    private func nextDeadline() async -> HostTime {
        var deadlines = [
            // While nothing may leave, what the links want to send has no deadline: the turn would spin on it. The
            // disk's answer wakes it.
            await session.nextDeadline, durability.isOpen ? await messenger.nextDeadline : nil,
            await journal.nextDeadline, await coordinator.nextDeadline, durability.retryAt,
        ].compactMap(\.self)
        if let due = waiting.nextDeadline { deadlines.append(due) }
        if let due = readyPatience, announcements.withLock({ $0.ready != nil }) { deadlines.append(due) }
        if case .leaving(let deadline, _) = lifecycle { deadlines.append(deadline) }
        return work.isPending ? .distantPast : deadlines.min() ?? .distantFuture
    }

    private func take<Element>(_ items: inout [Element]) -> [Element] {
        guard !items.isEmpty else { return [] }
        defer { items = [] }
        return items
    }
}
