import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
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
        _ = try cluster.request(["verb": "send", "text": "hello"], of: 0)
        cluster.nodes[0].storage.putFile([1, 2, 3], at: "/files/a.bin")
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/a.bin"], of: 0)
        cluster.run(for: .seconds(4))
        return ClusterView(cluster)
    }

    @Test func `a healthy mesh satisfies all but what the view was told wrongly`() throws {
        let view = try view(of: 3)

        #expect(Invariants.violations(.eventually, in: view) == [])
        #expect(Invariants.noDuplicate.check(view) == [])
        // The view was not told that anything was sent.
        #expect(Invariants.noForgery.check(view).count == 2)
    }

    @Test func `every kind of damage is seen`() throws {
        let healthy = try view(of: 3)
        func violations(of invariant: Invariant, _ damage: (inout ClusterView) -> Void) -> [String] {
            var view = healthy
            damage(&view)
            return invariant.check(view)
        }

        #expect(
            !violations(of: Invariants.noDuplicate) { view in
                view.received = view.received.map { $0 + $0 }
            }.isEmpty)
        #expect(!violations(of: Invariants.noSpinning) { $0.spinCount = 1 }.isEmpty)
        #expect(!violations(of: Invariants.attachmentsAreGenuine) { $0.added["a.bin"] = .zero }.isEmpty)
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
