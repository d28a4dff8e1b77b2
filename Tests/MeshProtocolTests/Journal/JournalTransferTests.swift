import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

@Suite struct JournalTransferTests {
    @Test func `one receiver gets a file and both say so`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 40, seed: 1, lastChunkBytes: 1_000)
        world.connectAll()

        let token = world.add(file, at: 0, note: "hello")
        let arrived = world.run(for: .seconds(10), until: { $0.shows(file, 1) })

        #expect(arrived)
        world.run(for: .milliseconds(200))
        #expect(world.nodes[0].added[token]?.name == "file")
        for node in 0..<2 {
            let summary = world.attachments(node).first
            #expect(summary?.state == .complete)
            #expect(summary?.fraction == 1)
            #expect(summary?.note == "hello")
            #expect(summary?.holders == world.nodes.map(\.identity).sorted())
        }
        #expect(world.count(.attachmentComplete, 1) == 1)
        #expect(world.nodes[1].store.finishCount == 1)
        #expect(world.nodes[0].chunksSent == 40)
    }

    @Test func `the transfer keeps the adder's uplink busy`() {
        var world = JournalWorld(nodeCount: 2)
        world.latency = .milliseconds(20)
        let file = TestFile(chunkCount: 160, seed: 2)
        world.connectAll()

        world.add(file, at: 0)
        world.run(for: .seconds(20), until: { $0.shows(file, 1) })

        // 10 MiB at 12.5 MB/s are 0.84 s; round trips of 40 ms and the window's growth cost little.
        #expect(world.has(file, 1))
        #expect(world.now < .zero + .milliseconds(1_400))
    }

    @Test func `four receivers cost the adder at most one and a half uploads`() {
        var world = JournalWorld(nodeCount: 5)
        let file = TestFile(chunkCount: 128, seed: 3)
        world.connectAll()

        world.add(file, at: 0)
        world.run(for: .seconds(30), until: { world in (1..<5).allSatisfy { world.shows(file, $0) } })

        #expect((1..<5).allSatisfy { world.has(file, $0) })
        #expect(world.nodes[0].chunksSent <= 128 * 3 / 2, "sent \(world.nodes[0].chunksSent)")
    }

    @Test func `a line of members passes a file on hop by hop`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 64, seed: 4)
        world.connect(0, 1)
        world.connect(1, 2)

        world.add(file, at: 0)
        world.run(for: .seconds(20), until: { $0.shows(file, 1) && $0.shows(file, 2) })

        #expect(world.has(file, 2))
        #expect(world.nodes[1].chunksSent == 64)
        #expect(world.now < .zero + .seconds(2))
    }
}
