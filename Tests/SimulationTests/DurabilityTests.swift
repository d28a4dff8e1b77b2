import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import Testing

/// What a node does while its disk is busy, full or not what it was.
@Suite(.serialized) struct DurabilityTests {
    private static let bytes = (0..<400_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }

    /// A founder and others that join it one by one.
    private func mesh(_ count: Int, seed: UInt64) throws -> Cluster {
        let cluster = try Cluster.joining(count, seed: seed)
        try #require(cluster.run(atMost: .seconds(10)) { cluster in isWhole(cluster) })
        return cluster
    }

    private func isWhole(_ cluster: Cluster) -> Bool {
        cluster.running.allSatisfy { aliveCount(cluster, at: $0.index) == cluster.running.count }
    }

    private func aliveCount(_ cluster: Cluster, at index: Int) -> Int {
        cluster.snapshot(of: index)?.members.count { $0.state == .alive } ?? 0
    }

    @Test func `a long import neither silences the node nor holds back others' chunks`() throws {
        let cluster = Cluster(seed: 41, count: 3)
        cluster.network.cut(1, 2)
        cluster.fileCopySpan = .seconds(60)
        try cluster.start(0)
        cluster.fileCopySpan = nil
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        try cluster.start(1, invite: invite)
        try #require(cluster.run(atMost: .seconds(10)) { isWhole($0) })
        cluster.nodes[1].storage.putFile(Self.bytes, at: "/files/small.bin")
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/small.bin"], of: 1)
        try #require(cluster.run(atMost: .seconds(10)) { $0.snapshot(of: 0)?.attachments.first?.isPresent == true })

        cluster.nodes[0].storage.putFile(Array(Self.bytes.reversed()), at: "/files/long.bin")
        let adding = try cluster.request(["verb": "journal.add", "path": "/files/long.bin"], of: 0)
        cluster.run(for: .milliseconds(500))
        try cluster.start(2, invite: invite)
        let isThere = cluster.run(atMost: .seconds(10)) { $0.snapshot(of: 2)?.attachments.first?.isPresent == true }
        #expect(isThere, "the newcomer gets in and fetches through the one that imports")
        for _ in 0..<20 {
            cluster.run(for: .seconds(1))
            #expect(aliveCount(cluster, at: 1) == 3 && aliveCount(cluster, at: 2) == 3)
        }
        #expect(!adding.isFinished)
        #expect(cluster.run(atMost: .seconds(60)) { _ in adding.isFinished })
        #expect(adding.errorCode == nil)
    }

    @Test func `a start whose state cannot be kept ends with exit 7 and is heard by nobody`() throws {
        let cluster = Cluster(seed: 42, count: 1)
        try cluster.start(0)
        cluster.nodes[0].storage.faults.writeFailure = 1
        cluster.run(for: .seconds(1))

        let end = try #require(cluster.nodes[0].end)
        guard case .failure(let error) = end else {
            Issue.record("the node ended as if all was well")
            return
        }
        #expect(error.exit == 7)
        #expect(!error.hint.isEmpty)
        #expect(cluster.network.statistics.sentDatagrams == 0 && cluster.network.statistics.beacons == 0)
    }

    @Test func `a disk that fails later is told in the status, tried again, and stops nobody`() throws {
        let cluster = try mesh(3, seed: 43)
        cluster.leave(2)
        cluster.run(for: .seconds(3))
        cluster.nodes[0].storage.faults.writeFailure = 1
        try cluster.start(2)
        cluster.run(for: .seconds(10))

        #expect(cluster.nodes[0].isRunning)
        #expect(isWhole(cluster))
        let failing = try cluster.answer(to: ["verb": "status"], of: 0)
        #expect(failing.objects.first?["storage"]?["code"]?.stringValue == "storageUnreadable")

        cluster.nodes[0].storage.faults.writeFailure = 0
        cluster.run(for: .seconds(5))
        let healed = try cluster.answer(to: ["verb": "status"], of: 0)
        #expect(healed.objects.first?["storage"] == .null)
    }

    /// Which of the two lives has the greater incarnation depends on the seed.
    @Test(arguments: [44, 46, 47, 48, 49, 50] as [UInt64])
    func `a node returns with its state restored from a backup`(seed: UInt64) throws {
        let cluster = try mesh(2, seed: seed)
        cluster.leave(1)
        cluster.run(for: .seconds(3))
        let backup = cluster.nodes[1].storage.backup()
        try cluster.start(1)
        cluster.run(for: .seconds(3))
        cluster.leave(1)
        cluster.run(for: .seconds(3))

        cluster.nodes[1].storage.restore(backup)
        try cluster.start(1)
        cluster.run(for: .seconds(20))

        #expect(cluster.nodes[1].isRunning, "\(String(describing: cluster.nodes[1].end))")
        #expect(isWhole(cluster))
    }

    @Test func `MEM-02 of two processes with one identity exactly one goes on`() throws {
        let cluster = Cluster(seed: 45, count: 3)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        try cluster.start(1, invite: try cluster.invite(from: 0))
        try #require(cluster.run(atMost: .seconds(10)) { isWhole($0) })
        cluster.nodes[2].storage.restore(cluster.nodes[1].storage)
        try cluster.start(2)
        cluster.run(for: .seconds(60))

        let running = [1, 2].filter { cluster.nodes[$0].isRunning }
        #expect(running.count == 1)
        let ended = try #require([1, 2].first { !running.contains($0) })
        guard case .failure(let error)? = cluster.nodes[ended].end else {
            Issue.record("the other says nothing")
            return
        }
        #expect(error.code == "identityConflict" && error.exit == 7)
        #expect(aliveCount(cluster, at: 0) == 2)
    }
}
