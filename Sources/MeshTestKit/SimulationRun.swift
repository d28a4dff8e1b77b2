import MeshBase
import MeshCrypto
import MeshNode

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
    /// Digest of every datagram with its time: equal for equal seeds.
    public var trace: Bytes32
    /// In words; empty when all is well.
    public var violations: [String]
}

/// Plays one scenario with one seed: a mesh forms, things are sent and added while the network and the hosts misbehave,
/// then all faults end and the mesh must come to one state.
public struct SimulationRun {
    private let scenario: Scenario
    private let seed: UInt64
    private let cluster: Cluster
    private var random: RandomStream
    private var sent: Set<ReceivedText> = []
    private var added: [String: Bytes32] = [:]
    private var hostFaults: UInt64 = 0
    private var violations: [String] = []
    private var invite = ""
    private var restarts: [(index: Int, at: Int64)] = []

    /// A mesh must converge this soon after the last fault.
    public static let convergenceLimit = TimeSpan.seconds(90)
    /// Members must be in within this, whatever the network does.
    private static let joinLimit = TimeSpan.seconds(60)

    /// Runs it. Cost: a fraction of a second to some seconds of real time.
    public static func run(_ scenario: Scenario, seed: UInt64) -> SimulationReport {
        var run = SimulationRun(scenario, seed)
        run.play()
        return run.report
    }

    private var convergence: TimeSpan?

    private init(_ scenario: Scenario, _ seed: UInt64) {
        self.scenario = scenario
        self.seed = seed
        random = RandomStream(testSeed: seed &+ 0x7363_656e_6172_696f)
        let counts = scenario.nodeCounts
        cluster = Cluster(seed: seed, count: counts.lowerBound + random.below(counts.count))
    }

    private mutating func play() {
        cluster.network.setConditions(scenario.conditions)
        guard form() else { return }
        misbehave()
        heal()
        converge()
        for host in cluster.running { cluster.kill(host.index) }
    }

    private mutating func fail(_ text: String) { violations.append(text) }

    // MARK: Forming

    private mutating func form() -> Bool {
        do {
            try cluster.start(0)
            cluster.run(for: .milliseconds(200))
            guard let text = try cluster.invite(from: 0) else {
                fail("the founder made no invite")
                return false
            }
            invite = text
            for index in 1..<cluster.nodes.count {
                cluster.run(for: .milliseconds(Int64(random.below(500))))
                try cluster.start(index, invite: text)
            }
        } catch {
            fail("a start failed: \(error)")
            return false
        }
        let isWhole = cluster.run(atMost: Self.joinLimit) { cluster in
            guard cluster.running.count == cluster.nodes.count else { return false }
            return cluster.nodes.allSatisfy {
                (cluster.snapshot(of: $0.index)?.members.count ?? 0) == cluster.nodes.count
            }
        }
        if !isWhole {
            let counts = cluster.nodes.map { "\(cluster.snapshot(of: $0.index)?.members.count ?? -1)" }
            fail("not everybody joined in \(Self.joinLimit.seconds) s: members \(counts.joined(separator: " "))")
        }
        return isWhole
    }

    // MARK: The storm

    private mutating func misbehave() {
        let end = cluster.time.now + scenario.stormSpan.nanoseconds
        while cluster.time.now < end {
            cluster.run(for: .milliseconds(Int64(100 + random.below(900))))
            restartDue()
            switch random.below(10) {
            case 0..<5: say()
            case 5..<7: add()
            default: if !scenario.hazards.isEmpty { meet(scenario.hazards[random.below(scenario.hazards.count)]) }
            }
        }
    }

    private func anyRunning(_ random: inout RandomStream) -> SimulatedNode? {
        let running = cluster.running
        return running.isEmpty ? nil : running[random.below(running.count)]
    }

    private mutating func say() {
        guard let host = anyRunning(&random) else { return }
        let padding = String(repeating: ".", count: random.below(10) == 0 ? random.below(20_000) : random.below(200))
        let text = "\(host.name) says \(sent.count) \(padding)"
        do {
            _ = try cluster.request(["verb": "send", "text": .string(text), "timeoutSeconds": 60], of: host.index)
            if let said = ReceivedText(["from": .string(host.name), "text": .string(text)]) { sent.insert(said) }
        } catch {
            // A mailbox that is full refuses, and says so; nothing was sent.
        }
    }

    private mutating func add() {
        guard let host = anyRunning(&random) else { return }
        let name = "file\(added.count)-\(host.name).bin"
        let bytes = random.bytes(random.below(4) == 0 ? random.below(150_000) : random.below(4_000))
        let path = "/files/\(name)"
        host.storage.putFile(bytes, at: path)
        added[name] = Digest.hash32(bytes)
        do {
            _ = try cluster.request(["verb": "journal.add", "path": .string(path)], of: host.index)
        } catch {
            // As above.
        }
    }

    private mutating func meet(_ hazard: Scenario.Hazard) {
        hostFaults += 1
        let count = cluster.nodes.count
        switch hazard {
        case .partition:
            let size = 1 + random.below(count - 1)
            let first = random.below(count)
            cluster.network.partition([(0..<size).map { (first + $0) % count }])
            cluster.run(for: .milliseconds(Int64(500 + random.below(5_000))))
            cluster.network.partition([])
        case .cut:
            let left = random.below(count)
            cluster.network.cut(left, (left + 1 + random.below(count - 1)) % count)
            if random.below(2) == 0 { cluster.network.heal() }
        case .crash:
            let running = cluster.running
            guard running.count > 1 else { return }
            let victim = running[random.below(running.count)].index
            cluster.kill(victim)
            restarts.append((victim, cluster.time.now + Int64(500 + random.below(6_000)) * 1_000_000))
        case .freeze:
            guard let host = anyRunning(&random) else { return }
            cluster.freeze(host.index, for: .milliseconds(Int64(100 + random.below(5_000))))
        case .diskFailure:
            guard let host = anyRunning(&random) else { return }
            host.storage.faults.writeFailure = 0.2
        }
    }

    private mutating func restartDue(force: Bool = false) {
        let due = restarts.filter { force || $0.at <= cluster.time.now }
        restarts.removeAll { force || $0.at <= cluster.time.now }
        for restart in due {
            // A start whose first write fails ends at once; its disk works again.
            cluster.nodes[restart.index].storage.faults.writeFailure = 0
            do {
                try cluster.start(restart.index, invite: invite)
            } catch {
                fail("node\(restart.index) did not start again: \(error)")
            }
        }
    }

    // MARK: Converging

    private mutating func heal() {
        cluster.network.heal()
        cluster.network.setConditions(.lan)
        for host in cluster.nodes { host.storage.faults.writeFailure = 0 }
        restartDue(force: true)
    }

    private mutating func converge() {
        let healedAt = cluster.time.now
        let (sent, added) = (sent, added)
        let isConverged = cluster.run(atMost: Self.convergenceLimit) { cluster in
            cluster.running.count == cluster.nodes.count
                && Invariants.violations(.eventually, in: ClusterView(cluster, sent: sent, added: added)).isEmpty
        }
        let view = ClusterView(cluster, sent: sent, added: added)
        violations += Invariants.violations(.always, in: view)
        if isConverged {
            convergence = TimeSpan(nanoseconds: cluster.time.now - healedAt)
        } else {
            if cluster.running.count < cluster.nodes.count { fail("\(cluster.running.count) nodes run") }
            violations += Invariants.violations(.eventually, in: view)
        }
    }

    private var report: SimulationReport {
        SimulationReport(
            scenario: scenario.name, seed: seed, nodeCount: cluster.nodes.count, simulated: cluster.elapsed,
            convergence: convergence,
            faults: cluster.network.statistics.faults + hostFaults
                + cluster.nodes.reduce(0) { $0 + $1.storage.faultCount },
            messagesSent: sent.count,
            messagesReceived: cluster.nodes.flatMap(\.receivedByLife).reduce(0) { $0 + $1.count },
            attachments: added.count, trace: cluster.network.trace, violations: violations)
    }
}
