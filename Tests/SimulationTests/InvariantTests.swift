import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import MeshWire
import Testing

/// Each invariant sees the fault that it is there for; a check that cannot fail proves nothing.
@Suite(.serialized) struct InvariantTests {
    private func view(of count: Int) throws -> ClusterView {
        let cluster = Cluster(seed: 31, count: count)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try cluster.invite(from: 0)
        for index in 1..<count { try cluster.start(index, invite: invite) }
        cluster.run(for: .seconds(4))
        cluster.nodes[0].storage.putFile([1, 2, 3], at: "/files/a.bin")
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/a.bin"], of: 0)
        cluster.run(for: .seconds(4))
        #expect(cluster.monitor.violations == [])
        return ClusterView(cluster)
    }

    @Test func `every kind of damage to the whole is seen`() throws {
        let healthy = try view(of: 3)
        #expect(Invariants.violations(.eventually, in: healthy) == [])
        func violations(of invariant: Invariant, _ damage: (inout ClusterView) -> Void) -> [String] {
            var view = healthy
            damage(&view)
            return invariant.check(view)
        }

        #expect(!violations(of: Invariants.noSpinning) { $0.spinCount = 1 }.isEmpty)
        #expect(!violations(of: Invariants.attachmentsAreGenuine) { $0.added["a.bin"] = .zero }.isEmpty)
        #expect(!violations(of: Invariants.equalSetsEqualState) { $0.nodes[1].snapshot.attachments = [] }.isEmpty)
        #expect(!violations(of: Invariants.equalMembers) { $0.nodes[0].snapshot.members.removeLast() }.isEmpty)
        #expect(!violations(of: Invariants.equalRecords) { $0.nodes[1].snapshot.recordsHead = .zero }.isEmpty)
        #expect(!violations(of: Invariants.equalAttachments) { $0.nodes[2].attachmentHashes = [:] }.isEmpty)
        #expect(!violations(of: Invariants.equalAttachments) { $0.nodes[2].snapshot.attachments = [] }.isEmpty)
        #expect(
            !violations(of: Invariants.clocksAgree) { view in
                view.nodes[0].meshTime = view.nodes[0].meshTime.advanced(by: .seconds(1))
            }.isEmpty)
    }
}

/// The monitor of single events, told things that must not happen.
struct InvariantMonitorTests {
    private let time = SimulatedTime()
    private let monitor: InvariantMonitor
    private let peers = (0..<4).map { PeerID(Bytes32([UInt8](repeating: UInt8($0 + 1), count: 32)) ?? .zero) }

    /// Three honest hosts, the last of another mesh, and a hostile one, all up.
    init() {
        monitor = InvariantMonitor(time: time)
        for host in 0..<4 {
            monitor.register(host: host, mesh: host == 2 ? 1 : 0, peer: peers[host], isHonest: host != 3)
            monitor.started(host, life: 1)
        }
        monitor.willSend("one", from: 0, number: 1, isReliable: true)
        monitor.willSend("two", from: 0, number: 2, isReliable: true)
    }

    private func message(_ text: String, from host: Int) -> NodeObservation {
        .message(UserMessage(from: peers[host], mode: .reliable, lamport: 1, payload: Array(text.utf8)))
    }

    private func record(_ number: UInt8, by host: Int, sequence: UInt64 = 1) -> NodeObservation {
        .recordAccepted(
            AcceptedRecord(
                id: RecordID(Bytes32([UInt8](repeating: number, count: 32)) ?? .zero), kind: RecordKind(rawValue: 99),
                author: peers[host], incarnation: Incarnation(7), sequence: sequence, lamport: 1, body: []))
    }

    private func event(_ kind: ProtocolEvent.Kind, about host: Int) -> NodeObservation {
        .event(ProtocolEvent(kind, subject: peers[host]))
    }

    private func expect(_ invariant: EventInvariant?, _ location: SourceLocation = #_sourceLocation) {
        let names = Set(monitor.violations.map { String($0.prefix { $0 != ":" }) })
        #expect(names == (invariant.map { [$0.rawValue] } ?? []), sourceLocation: location)
    }

    @Test func `what may happen is no violation`() {
        for host in [1, 3] {
            monitor.observe(message("one", from: 0), by: host)
            monitor.observe(message("two", from: 0), by: host)
        }
        monitor.observe(message("anything", from: 3), by: 0)
        monitor.observe(record(1, by: 0), by: 0)
        monitor.observe(record(2, by: 0, sequence: 2), by: 0)
        monitor.observe(record(1, by: 0), by: 1)
        monitor.observe(record(3, by: 3), by: 1)
        monitor.observe(event(.memberAlive, about: 1), by: 0)
        monitor.answered("one", recipients: ["node1"])
        expect(nil)
        #expect(monitor.checkCount > 8)
    }

    @Test func `a message twice, out of order, altered or of another mesh is seen`() {
        monitor.observe(message("two", from: 0), by: 1)
        monitor.observe(message("one", from: 0), by: 1)
        expect(.inOrder)
    }

    @Test func `a repeated message is seen`() {
        monitor.observe(message("one", from: 0), by: 1)
        monitor.observe(message("one", from: 0), by: 1)
        expect(.atMostOnce)
    }

    @Test func `an altered or foreign message is seen`() {
        monitor.observe(message("0ne", from: 0), by: 1)
        monitor.observe(message("one", from: 1), by: 0)
        expect(.genuineMessages)
    }

    @Test func `a record that its author never wrote is seen`() {
        monitor.observe(record(1, by: 0), by: 1)
        expect(.genuineRecords)
    }

    @Test func `a record twice and a gap in a chain are seen`() {
        monitor.observe(record(1, by: 0), by: 0)
        monitor.observe(record(3, by: 0, sequence: 3), by: 0)
        expect(.causalRecords)
    }

    @Test func `an honest fork, and one said of an honest member, are seen`() {
        monitor.observe(record(1, by: 0), by: 0)
        monitor.started(0, life: 2)
        monitor.observe(record(2, by: 0), by: 0)
        expect(.honestChains)
        monitor.observe(event(.recordFork, about: 3), by: 0)
        let before = monitor.violationCount
        monitor.observe(event(.recordFork, about: 1), by: 0)
        #expect(monitor.violationCount == before + 1)
    }

    @Test func `strangers and the dead as members are seen`() {
        monitor.ended(1, isNoticed: true)
        time.advance(to: time.now + 4_000_000_000)
        monitor.observe(event(.memberAlive, about: 1), by: 0)
        expect(nil)
        time.advance(to: time.now + 4_000_000_000)
        monitor.observe(event(.memberReturned, about: 1), by: 0)
        expect(.noGhosts)
    }

    @Test func `whatever crosses from one mesh to another is seen`() {
        monitor.observe(event(.memberAdmitted, about: 2), by: 0)
        monitor.observe(record(1, by: 2), by: 2)
        monitor.observe(record(1, by: 2), by: 1)
        monitor.observe(message("anything", from: 3), by: 2)
        expect(.apart)
        #expect(monitor.violationCount == 3)
    }

    @Test func `a recipient that is named and did not receive is seen`() {
        monitor.answered("one", recipients: ["node1"])
        expect(.delivered)
    }

    @Test func `readable text and answers to strangers that are too large are seen`() {
        let (left, right) = (SimulatedNetwork.address(ofHost: 0, port: 1), SimulatedNetwork.address(ofHost: 8, port: 1))
        monitor.watchStranger(right)
        monitor.observe([1, 2, 3], from: right, to: left)
        monitor.observe([1, 2, 3], from: left, to: right)
        expect(nil)
        monitor.observe([1], from: left, to: right)
        expect(.noAmplification)
        let before = monitor.violationCount
        monitor.observe([0] + Array(InvariantMonitor.marker.utf8) + [0], from: left, to: left)
        #expect(monitor.violationCount == before + 1)
    }

    @Test func `a death is false while its process is there, and else timed until all know`() {
        monitor.observe(event(.memberDead, about: 1), by: 0)
        #expect(monitor.falseDeaths.count == 1)
        monitor.ended(1, isNoticed: true)
        time.advance(to: time.now + 900_000_000)
        monitor.observe(event(.memberDead, about: 1), by: 0)

        #expect(monitor.falseDeaths.count == 1)
        #expect(monitor.slowestNotice == .milliseconds(900))
    }
}
