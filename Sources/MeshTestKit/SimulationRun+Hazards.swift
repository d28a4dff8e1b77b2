import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol

/// What goes wrong, and how it ends.
extension SimulationRun {
    func planHazards(from start: Int64) {
        for recurring in scenario.hazards { plan(.recur(recurring), perMinute: recurring.perMinute, &random) }
        for scheduled in scenario.schedule { agenda.add(.strike(scheduled), at: start + scheduled.at.nanoseconds) }
        let takesBackups = (scenario.hazards.map(\.hazard) + scenario.schedule.map(\.hazard)).contains(.restore)
        if takesBackups { takeBackups() }
    }

    private var count: Int { cluster.nodes.count }

    private func draw(_ range: ClosedRange<TimeSpan>) -> TimeSpan {
        range.lowerBound + (range.upperBound - range.lowerBound).scaled(by: random.unit())
    }

    private func later(_ span: TimeSpan, _ undoing: Agenda.Undoing) {
        agenda.add(.undo(undoing), at: cluster.time.now + max(1, span.nanoseconds))
    }

    func strike(_ hazard: Hazard, count struck: Int?, span range: ClosedRange<TimeSpan>) {
        hostFaults += 1
        switch hazard {
        case .partition: part(struck, draw(range))
        case .swizzle: swizzle(draw(range))
        case .restartAll: restartAll(range)
        default:
            for victim in victims(struck ?? 1) { strike(hazard, victim, draw(range)) }
        }
    }

    /// Different hosts, drawn.
    private func victims(_ wanted: Int) -> [Int] {
        var all = Array(0..<count)
        var chosen: [Int] = []
        while chosen.count < wanted, !all.isEmpty { chosen.append(all.remove(at: random.below(all.count))) }
        return chosen
    }

    private func strike(_ hazard: Hazard, _ victim: Int, _ span: TimeSpan) {
        let host = cluster.nodes[victim]
        switch hazard {
        case .cut, .deaf: strikePath(hazard, victim, span)
        case .slow:
            cluster.network.slow(victim, by: .milliseconds(Int64(20 + random.below(280))))
            later(span, .hasten(victim))
        case .narrow:
            cluster.network.narrow(victim, to: 1_280)
            later(span, .widen(victim))
        case .rebind:
            cluster.network.rebind(victim, to: UInt16(50_000 + random.below(10_000)))
            later(span, .bindBack(victim))
        case .interfaces: host.life?.transport.changeInterfaces()
        case .freeze: if host.isRunning { cluster.freeze(victim, for: span) }
        case .sleep: if host.isRunning { sleep(victim, span) }
        case .crash, .crashInWrite, .restore, .leave: end(hazard, victim, span)
        case .clockJump: host.clock?.jump(by: .milliseconds(Int64(random.below(5_000))))
        case .clockRate: host.clock?.setRate(partsPerMillion: 400 * random.unit() - 200)
        case .timeOfDay: host.stepWallClock(bySeconds: Double(random.below(400_000) - 200_000))
        case .disk:
            host.storage.faults.writeFailure = 0.2
            later(span, .repair(victim))
        case .diskFull:
            host.storage.faults.isFull = true
            later(span, .repair(victim))
        case .partition, .swizzle, .restartAll: break
        }
    }

    // MARK: Paths

    private func part(_ struck: Int?, _ span: TimeSpan) {
        guard count > 1 else { return }
        let size = struck.map { min(max(1, $0), count - 1) } ?? 1 + random.below(count - 1)
        partitionNumber += 1
        cluster.network.partition([victims(size)])
        later(span, .endPartition(number: partitionNumber))
    }

    private func strikePath(_ hazard: Hazard, _ victim: Int, _ span: TimeSpan) {
        guard count > 1 else { return }
        let other = (victim + 1 + random.below(count - 1)) % count
        if hazard == .cut {
            cluster.network.cut(victim, other)
            later(span, .join(victim, other))
        } else {
            cluster.network.deafen(victim, to: other)
            later(span, .listen(victim, to: other))
        }
    }

    private func swizzle(_ span: TimeSpan) {
        for (place, host) in victims(count).enumerated() {
            later(span.scaled(by: 0.5 * Double(place) / Double(count)), .isolate(host))
        }
        for (place, host) in victims(count).enumerated() {
            later(span.scaled(by: 0.5 + 0.5 * Double(place + 1) / Double(count)), .rejoin(host))
        }
    }

    // MARK: Processes

    private func end(_ hazard: Hazard, _ victim: Int, _ span: TimeSpan) {
        guard cluster.nodes[victim].isRunning, cluster.running.count > 1, !cluster.isFrozen(victim) else { return }
        switch hazard {
        case .leave: cluster.leave(victim)
        case .crashInWrite:
            cluster.nodes[victim].storage.faults.writesUntilCrash = random.below(8)
        case .restore:
            cluster.kill(victim)
            if let backup = backups[victim] {
                noteLost()
                cluster.nodes[victim].storage.restore(backup)
            }
        default: cluster.kill(victim)
        }
        later(max(span, .seconds(1)), .start(victim))
    }

    private func restartAll(_ range: ClosedRange<TimeSpan>) {
        for host in cluster.running where !cluster.isFrozen(host.index) {
            cluster.kill(host.index)
            later(draw(range), .start(host.index))
        }
    }

    private func sleep(_ victim: Int, _ span: TimeSpan) {
        guard !cluster.isFrozen(victim) else { return }
        cluster.freeze(victim, for: span)
        agenda.add(.undo(.wake(victim, slept: span.nanoseconds)), at: cluster.time.now + span.nanoseconds - 1_000_000)
    }

    private func takeBackups() {
        for host in cluster.nodes where random.below(2) == 0 { backups[host.index] = host.storage.backup() }
    }

    /// Files that nobody who runs has in full, now that one was killed: an older disk may not have them.
    private func noteLost() {
        let safe = cluster.running.flatMap { host in
            cluster.snapshot(of: host.index)?.attachments.filter(\.isPresent).map(\.name) ?? []
        }
        lost.formUnion(Set(added.keys).subtracting(safe))
    }

    func restart(_ index: Int) {
        let host = cluster.nodes[index]
        guard !host.isRunning else { return }
        // A start whose first write fails ends at once; its disk works again.
        host.storage.faults.writeFailure = 0
        host.storage.faults.isFull = false
        do {
            try cluster.start(index, invite: invites[cluster.meshOfHost(index)])
        } catch {
            fail("\(host.name) did not start again: \(error)")
        }
    }

    // MARK: Ends

    func undo(_ undoing: Agenda.Undoing) {
        let network = cluster.network
        switch undoing {
        case .endPartition(let number): if number == partitionNumber { network.partition([]) }
        case .join(let left, let right): network.join(left, right)
        case .listen(let host, let other): network.deafen(host, to: other, false)
        case .isolate(let host): network.isolate(host)
        case .rejoin(let host): network.isolate(host, false)
        case .widen(let host): network.narrow(host, to: nil)
        case .hasten(let host): network.slow(host, by: nil)
        case .bindBack(let host): network.rebind(host, to: nil)
        case .start(let host):
            if !backups.isEmpty, random.below(3) == 0 { backups[host] = cluster.nodes[host].storage.backup() }
            if !cluster.isFrozen(host) { restart(host) }
        case .repair(let host):
            cluster.nodes[host].storage.faults.writeFailure = 0
            cluster.nodes[host].storage.faults.isFull = false
        case .wake(let host, let slept):
            if cluster.isFrozen(host) {
                cluster.nodes[host].clock?.wakeUp(after: TimeSpan(nanoseconds: max(0, slept - 2_000_000)))
            }
        }
    }
}
