import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import MeshWire
import Testing

/// Commands that meet a limit are answered, and leave nothing behind.
@Suite(.serialized) struct CommandTests {
    private func mesh(seed: UInt64, _ configure: @escaping (inout NodeConfiguration) -> Void = { _ in }) throws
        -> Cluster
    {
        let cluster = Cluster(seed: seed, count: 2)
        cluster.configure = configure
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        try cluster.start(1, invite: try cluster.invite(from: 0))
        cluster.run(for: .seconds(3))
        return cluster
    }

    @Test func `a long batch of large messages waits for room instead of failing`() throws {
        let cluster = try mesh(seed: 61)

        let sent = try cluster.answer(
            to: ["verb": "send", "text": "", "sizeBytes": 262_144, "repeat": 40, "timeoutSeconds": 100], of: 0,
            within: .seconds(100))

        #expect(sent.isFinished)
        #expect(sent.errorCode == nil)
        #expect(cluster.nodes[1].receivedByLife.last?.count == 40)
    }

    @Test func `a batch finds room in a queue that another one fills`() throws {
        let cluster = try mesh(seed: 62) { $0.gossip.maximumQueuedBytes = 1 << 20 }
        let request: JSONValue = [
            "verb": "send", "text": "", "sizeBytes": 200_000, "repeat": 20, "timeoutSeconds": 100,
        ]

        let first = try cluster.request(request, of: 0)
        let second = try cluster.request(request, of: 0)
        cluster.run(atMost: .seconds(100)) { _ in first.isFinished && second.isFinished }

        #expect(first.errorCode == nil && second.errorCode == nil)
        #expect(first.isFinished && second.isFinished)
        #expect(cluster.nodes[1].receivedByLife.last?.count == 40)
    }

    @Test func `an attachment and an invite whose record cannot be made are refused, not awaited`() throws {
        let cluster = try mesh(seed: 63) { $0.gossip.maximumRecordsPerAuthor = 3 }
        cluster.nodes[0].storage.putFile([1, 2, 3], at: "/files/small.bin")
        var refused = try cluster.request(["verb": "invite", "expiresSeconds": 600], of: 0)
        for _ in 0..<4 {
            refused = try cluster.request(["verb": "invite", "expiresSeconds": 600], of: 0)
            cluster.run(for: .seconds(1))
        }
        #expect(refused.errorCode == "limitExceeded")

        let added = try cluster.answer(to: ["verb": "journal.add", "path": "/files/small.bin"], of: 0)
        #expect(added.isFinished)
        #expect(added.errorCode == "limitExceeded")
        #expect(cluster.snapshot(of: 0)?.attachments.isEmpty == true)
    }

    @Test func `a file over a receiver's limit is named as too large and not fetched`() throws {
        let cluster = try mesh(seed: 64) { configuration in
            if configuration.name == "node1" { configuration.journal.maximumFetchBytes = 100_000 }
        }
        cluster.nodes[0].storage.putFile([UInt8](repeating: 7, count: 100_001), at: "/files/large.bin")
        cluster.nodes[0].storage.putFile([UInt8](repeating: 7, count: 100_000), at: "/files/fits.bin")
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/large.bin"], of: 0)
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/fits.bin"], of: 0)
        cluster.run(for: .seconds(10))

        let list = try cluster.answer(to: ["verb": "journal.ls"], of: 1).objects.first?["attachments"]?.arrayValue ?? []
        let large = try #require(list.first { $0["name"] == "large.bin" })
        #expect(large["present"] == false)
        #expect(large["state"]?.stringValue?.hasPrefix("too large") == true)
        #expect(list.first { $0["name"] == "fits.bin" }?["present"] == true)
        #expect(JournalConfiguration().maximumFetchBytes == JournalConfiguration().maximumAttachmentBytes)
    }
}
