import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// What one seed of one scenario came to.
public struct SimulationReport: Hashable, Sendable {
    public var scenario: String
    public var seed: UInt64
    public var nodeCount: Int
    public var simulated: TimeSpan
    /// From the last fault until every invariant held; `nil` when that never came.
    public var convergence: TimeSpan?
    /// Datagrams lost, repeated, damaged …, and processes, disks and paths that failed.
    public var faults: UInt64
    public var messagesSent: Int
    public var messagesReceived: Int
    public var attachments: Int
    /// Events that invariants were checked against.
    public var checks: UInt64
    /// Members declared dead whose process was there.
    public var falseDeaths: Int
    /// The longest time until an end was noticed by all.
    public var slowestNotice: TimeSpan?
    /// Digest of every datagram with its time: equal for equal seeds.
    public var trace: Bytes32
    /// In words; empty when all is well.
    public var violations: [String]
}

/// Plays one scenario with one seed: a mesh forms, things are sent and added while the network and the hosts misbehave,
/// then all faults end and the mesh must come to one state.
public final class SimulationRun {
    let scenario: Scenario
    let seed: UInt64
    let cluster: Cluster
    /// Draws what the hazards do; the traffic has a generator of its own, so that one changes nothing of the other.
    var random: RandomStream
    var trafficRandom: RandomStream
    var hostiles: [HostilePeer] = []
    var strangers: [Stranger] = []
    var invites: [String] = []
    /// What is to be done when, in order of time.
    var agenda = Agenda()
    var hostFaults: UInt64 = 0
    /// Grows with each partition, so that the end of an earlier one does not end a later one.
    var partitionNumber = 0
    var backups: [Int: SimulatedStorage] = [:]

    var sentCount = 0
    var added: [String: Bytes32] = [:]
    /// Files of which an older disk took the only whole copy away: only that they are the same everywhere is asked.
    var lost: Set<String> = []
    /// Additions that were acknowledged, by mesh.
    var acknowledged: [String: Int] = [:]
    var waiting: [WaitingCommand] = []
    private var violations: [String] = []
    private var lookCount = 0
    private var convergence: TimeSpan?

    /// Members must be in within this, whatever the network does.
    static let joinLimit = TimeSpan.seconds(60)
    /// A command's answer may come so much later than its time-out says.
    static let answerMargin = TimeSpan.seconds(5)

    /// Runs it. Cost: a fraction of a second to some seconds of real time.
    public static func run(_ scenario: Scenario, seed: UInt64) -> SimulationReport {
        let run = SimulationRun(scenario, seed)
        run.play()
        return run.report
    }

    private init(_ scenario: Scenario, _ seed: UInt64) {
        self.scenario = scenario
        self.seed = seed
        random = RandomStream(testSeed: seed &+ 0x7363_656e_6172_696f)
        trafficRandom = RandomStream(testSeed: seed &+ 0x7472_6166_6669_6300)
        let counts = scenario.nodeCounts
        cluster = Cluster(seed: seed, count: counts.lowerBound + random.below(counts.count))
        let meshCount = scenario.meshCount
        cluster.meshOfHost = { $0 % meshCount }
    }

    private func play() {
        cluster.network.setConditions(scenario.conditions)
        if form() {
            misbehave()
            heal()
            converge()
        }
        for host in cluster.running { cluster.kill(host.index) }
        for peer in hostiles { peer.close() }
    }

    func fail(_ text: String) { violations.append(text) }

    // MARK: Forming

    private func form() -> Bool {
        do {
            try foundMeshes()
            for index in scenario.meshCount..<max(cluster.nodes.count, scenario.meshCount) {
                cluster.run(for: .milliseconds(Int64(random.below(500))))
                try cluster.start(index, invite: invites[cluster.meshOfHost(index)])
            }
            try addHostiles()
        } catch {
            fail("a start failed: \(error)")
            return false
        }
        let isWhole = cluster.run(atMost: Self.joinLimit, every: .milliseconds(200)) { [self] cluster in
            cluster.running.count == cluster.nodes.count
                && cluster.nodes.allSatisfy { memberCount(of: $0.index) >= expectedCount(inMeshOf: $0.index) }
        }
        if !isWhole {
            let counts = cluster.nodes.map { "\(memberCount(of: $0.index))" }
            fail("not everybody joined in \(Self.joinLimit.seconds) s: members \(counts.joined(separator: " "))")
        }
        return isWhole
    }

    private func foundMeshes() throws {
        for index in 0..<scenario.meshCount {
            try cluster.start(index)
            cluster.run(for: .milliseconds(200))
            guard let text = try cluster.invite(from: index) else { throw CommandFailed(text: "no invite was made") }
            invites.append(text)
        }
    }

    private struct CommandFailed: Error { var text: String }

    private func addHostiles() throws {
        guard let invite = invites.first else { return }
        let ticket = try Ticket(text: invite)
        for (place, kind) in scenario.hostiles.enumerated() {
            let host = cluster.nodes.count + place
            let seed = seed &* 31 &+ UInt64(place)
            guard kind.isMember else {
                let stranger = Stranger(network: cluster.network, time: cluster.time, host: host, seed: seed)
                cluster.monitor.watchStranger(stranger.address)
                strangers.append(stranger)
                cluster.add(stranger)
                continue
            }
            let peer = HostilePeer(
                kind, network: cluster.network, time: cluster.time, host: host, seed: seed, invite: ticket)
            cluster.monitor.register(host: host, mesh: 0, peer: peer.identity.peerID, isHonest: false)
            hostiles.append(peer)
            cluster.add(peer)
        }
    }

    private func memberCount(of index: Int) -> Int { cluster.members(of: index).count }

    private func expectedCount(inMeshOf index: Int) -> Int {
        let mesh = cluster.meshOfHost(index)
        return cluster.nodes.count { cluster.meshOfHost($0.index) == mesh } + (mesh == 0 ? hostiles.count : 0)
    }

    // MARK: The storm

    private func misbehave() {
        let start = cluster.time.now
        let end = start + scenario.stormSpan.nanoseconds
        planTraffic(from: start)
        planHazards(from: start)
        while let next = agenda.next, next < end {
            cluster.run(for: TimeSpan(nanoseconds: next - cluster.time.now))
            guard let item = agenda.takeFirst() else { break }
            perform(item)
            watchCommands()
        }
        cluster.run(for: TimeSpan(nanoseconds: end - cluster.time.now))
        watchCommands()
    }

    private func perform(_ item: Agenda.Item) {
        switch item {
        case .say:
            say()
            plan(.say, perMinute: scenario.traffic.messagesPerMinute, &trafficRandom)
        case .add:
            add()
            plan(.add, perMinute: scenario.traffic.filesPerMinute, &trafficRandom)
        case .recur(let recurring):
            strike(recurring.hazard, count: nil, span: recurring.span)
            plan(item, perMinute: recurring.perMinute, &random)
        case .strike(let scheduled): strike(scheduled.hazard, count: scheduled.count, span: scheduled.span)
        case .undo(let undoing): undo(undoing)
        case .look: look()
        }
    }

    /// Puts the next of its kind on the agenda, after a time drawn from an exponential distribution.
    func plan(_ item: Agenda.Item, perMinute: Double, _ random: inout RandomStream) {
        guard perMinute > 0 else { return }
        let span = -60 / perMinute * Self.logarithm(1 - random.unit())
        agenda.add(item, at: cluster.time.now + max(1_000_000, TimeSpan.seconds(span).nanoseconds))
    }

    /// A look at the whole that costs more than an event: what must hold at every instant.
    private func look() {
        agenda.add(.look, at: cluster.time.now + 2_000_000_000)
        lookCount += 1
        let view = clusterView(hashes: lookCount % 5 == 0)
        violations += Invariants.violations(.always, in: view)
        if let limit = scenario.limits.notice { violations += cluster.monitor.overdueNotices(limit: limit) }
    }

    // MARK: Converging

    private func heal() {
        for case .undo(let undoing) in agenda.takeAll() { undo(undoing) }
        cluster.network.heal()
        cluster.network.setConditions(.lan)
        for host in cluster.nodes {
            host.storage.faults.writeFailure = 0
            host.storage.faults.isFull = false
            host.storage.faults.writesUntilCrash = nil
            if !cluster.isFrozen(host.index), !host.isRunning { restart(host.index) }
        }
        for peer in hostiles { peer.isQuiet = true }
        for stranger in strangers { stranger.isQuiet = true }
    }

    private func converge() {
        let healedAt = cluster.time.now
        let isConverged = cluster.run(atMost: scenario.limits.convergence, every: .milliseconds(250)) {
            [self] cluster in
            watchCommands()
            for host in cluster.nodes where !host.isRunning && !cluster.isFrozen(host.index) { restart(host.index) }
            return cluster.running.count == cluster.nodes.count
                && Invariants.violations(.eventually, in: clusterView(hashes: false)).isEmpty
                && Invariants.violations(.eventually, in: clusterView()).isEmpty
        }
        if isConverged {
            convergence = TimeSpan(nanoseconds: cluster.time.now - healedAt)
        } else if cluster.running.count < cluster.nodes.count {
            fail("\(cluster.running.count) nodes run")
        }
        awaitAnswers()
        let view = clusterView()
        violations += Invariants.violations(.always, in: view)
        violations += Invariants.violations(.eventually, in: view)
        checkAcknowledged(in: view)
        checkLimits()
    }

    /// Every command's own time-out passes.
    private func awaitAnswers() {
        guard let last = waiting.map(\.due).max() else { return }
        cluster.run(atMost: TimeSpan(nanoseconds: last - cluster.time.now + 1_000_000), every: .milliseconds(500)) {
            [self] _ in
            watchCommands()
            return waiting.isEmpty
        }
    }

    private func clusterView(hashes: Bool = true) -> ClusterView {
        var view = ClusterView(cluster, added: added, hashes: hashes)
        view.lost = lost
        return view
    }

    private func checkLimits() {
        if let limit = scenario.limits.falseDeaths, cluster.monitor.falseDeaths.count > limit {
            violations += cluster.monitor.falseDeaths.map { "false death: \($0)" }
        }
        guard let limit = scenario.limits.notice else { return }
        violations += cluster.monitor.overdueNotices(limit: limit)
        if let slowest = cluster.monitor.slowestNotice, slowest > limit {
            fail("an end was noticed by all after \(slowest.seconds) s, the limit is \(limit.seconds) s")
        }
    }

    private var report: SimulationReport {
        SimulationReport(
            scenario: scenario.name, seed: seed, nodeCount: cluster.nodes.count + hostiles.count,
            simulated: cluster.elapsed, convergence: convergence,
            faults: cluster.network.statistics.faults + hostFaults
                + cluster.nodes.reduce(0) { $0 + $1.storage.faultCount },
            messagesSent: sentCount,
            messagesReceived: cluster.nodes.flatMap(\.receivedByLife).reduce(0) { $0 + $1.count },
            attachments: added.count, checks: cluster.monitor.checkCount,
            falseDeaths: cluster.monitor.falseDeaths.count, slowestNotice: cluster.monitor.slowestNotice,
            trace: cluster.network.trace, violations: cluster.monitor.violations + violations)
    }
}
