import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

/// Holders that count as dead while their link is kept.
@Suite struct JournalSilenceTests {
    private func fraction(_ world: JournalWorld, _ node: Int) -> Double { world.attachments(node).first?.fraction ?? 0 }

    /// Two nodes, the second with a third of the first's file when the first stops.
    private func interrupted(_ file: TestFile) -> JournalWorld {
        var world = JournalWorld(nodeCount: 2)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { fraction($0, 1) > 0.3 })
        world.nodes[0].tamper = { _ in nil }
        world.run(for: .milliseconds(100))
        return world
    }

    @Test func `what was asked of a holder that counts as dead is asked of the others at once`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 60, seed: 1)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.connect(0, 2)
        world.connect(1, 2)
        world.run(for: .seconds(10), until: { fraction($0, 2) > 0.2 })
        world.nodes[0].tamper = { _ in nil }
        let start = world.now

        world.submit(.holderSilent(world.nodes[0].identity), to: 2)
        #expect(world.attachments(2).first?.holders == [world.nodes[1].identity])
        world.run(for: .seconds(10), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2))
        // Less than the least time after which a silent peer's chunks are asked of others otherwise.
        #expect(world.now - start < .seconds(1))
        #expect(world.nodes[2].machine.statistics.stalls == 0)
    }

    @Test func `without its only holder a file waits at once, is asked of nobody, and says so`() {
        var world = interrupted(TestFile(chunkCount: 60, seed: 2))
        world.submit(.holderSilent(world.nodes[0].identity), to: 1)

        #expect(world.attachments(1).first?.state == .waitingForHolder)
        #expect(world.attachments(1).first?.holders == [])
        var asked = 0
        world.nodes[1].tamper = { message in
            switch message {
            case .request, .wantManifest, .wantPage, .ask: asked += 1
            default: break
            }
            return message
        }
        world.run(for: .seconds(25))
        #expect(asked == 0)
        #expect(world.count(.attachmentWaiting, 1) == 1)
        #expect(world.attachments(1).first?.state == .waitingForHolder)
    }

    /// Whatever rest it was given by then for not answering.
    @Test(arguments: [500, 1_200, 2_000, 3_000, 5_000, 9_000])
    func `a holder that is heard again counts with all it ever said, and goes on at once`(milliseconds: Int64) {
        let file = TestFile(chunkCount: 60, seed: 3)
        var world = interrupted(file)
        world.run(for: .milliseconds(milliseconds))
        world.submit(.holderSilent(world.nodes[0].identity), to: 1)
        world.run(for: .milliseconds(100))
        // Nothing is announced a second time.
        world.nodes[0].tamper = { message in if case .have = message { nil } else { message } }
        let written = world.nodes[1].store.writeCount

        world.submit(.holderHeard(world.nodes[0].identity), to: 1)
        #expect(world.attachments(1).first?.state == .fetching)
        #expect(world.attachments(1).first?.holders == [world.nodes[0].identity])
        let start = world.now
        world.run(for: .seconds(20), until: { $0.shows(file, 1) })

        #expect(world.has(file, 1))
        #expect(world.now - start < .seconds(1), "it does not rest for what it missed")
        #expect(world.nodes[1].store.writeCount - written < 45, "nothing is fetched twice")
    }

    @Test func `what a silent holder announces is kept for when it is heard`() {
        let file = TestFile(chunkCount: 20, seed: 4)
        let later = TestFile(chunkCount: 20, seed: 5, name: "later")
        var world = JournalWorld(nodeCount: 2)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.submit(.holderSilent(world.nodes[0].identity), to: 1)

        world.add(later, at: 0)
        world.run(for: .seconds(1))
        #expect(world.attachments(1).last?.state == .waitingForHolder)
        #expect(world.attachments(1).map(\.holders) == [[world.nodes[1].identity], []])
        world.nodes[0].tamper = { message in if case .have = message { nil } else { message } }
        world.submit(.holderHeard(world.nodes[0].identity), to: 1)
        world.run(for: .seconds(5), until: { $0.shows(later, 1) })

        #expect(world.has(later, 1))
    }

    @Test
    func `a link made anew with the same process forgets nothing that the peer said, and tells it everything again`() {
        let file = TestFile(chunkCount: 60, seed: 7)
        var world = interrupted(file)
        world.run(for: .seconds(4))
        // Only this side was told: the other still has the link and says nothing a second time.
        world.nodes[0].tamper = { message in if case .have = message { nil } else { message } }
        var told = 0
        world.nodes[1].tamper = { message in
            if case .have = message { told += 1 }
            return message
        }

        world.submit(.linkUp(world.nodes[0].identity), to: 1)
        #expect(told > 0)
        #expect(world.attachments(1).first?.holders == [world.nodes[0].identity])
        let start = world.now
        world.run(for: .seconds(20), until: { $0.shows(file, 1) })

        #expect(world.has(file, 1))
        #expect(world.now - start < .seconds(1))
    }

    @Test func `a wait for two holders does not count one that counts as dead`() {
        let file = TestFile(chunkCount: 10, seed: 6)
        var world = JournalWorld(nodeCount: 2)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.submit(.holderSilent(world.nodes[0].identity), to: 1)
        let attachment = world.attachments(1)[0].id

        world.submit(.wait(attachment, replicas: 2, token: CommandToken(99)), to: 1)
        world.run(for: .seconds(5))
        #expect(world.nodes[1].settled[CommandToken(99)] == nil)
        world.submit(.holderHeard(world.nodes[0].identity), to: 1)

        #expect(world.nodes[1].settled[CommandToken(99)] == .reached(holders: 2))
    }

    /// Seeds of random silences, returns and cuts among five nodes.
    @Test(arguments: 1...8)
    func `silences, returns and cuts at random end with everybody having everything`(seed: UInt64) {
        var world = JournalWorld(nodeCount: 5, seed: seed)
        var random = RandomStream(testSeed: seed)
        let files = (0..<3).map { TestFile(chunkCount: 40, seed: UInt8(10 * $0 + 1), name: "file\($0)") }
        world.connectAll()
        for (index, file) in files.enumerated() { world.add(file, at: index) }
        for _ in 0..<40 {
            let (one, other) = (random.below(5), random.below(5))
            guard one != other else { continue }
            switch random.below(4) {
            case 0, 1: world.submit(.holderSilent(world.nodes[other].identity), to: one)
            case 2: world.submit(.holderHeard(world.nodes[other].identity), to: one)
            default:
                world.disconnect(one, other)
                world.run(for: .milliseconds(Int64(random.below(40))))
                world.connect(one, other)
            }
            world.run(for: .milliseconds(Int64(random.below(60))))
        }
        for one in 0..<5 {
            for other in 0..<5 where one != other {
                world.connect(one, other)
                world.submit(.holderHeard(world.nodes[other].identity), to: one)
            }
        }
        world.run(
            for: .seconds(60),
            until: { world in
                files.allSatisfy { file in (0..<5).allSatisfy { world.shows(file, $0) } }
            })

        for file in files { for node in 0..<5 { #expect(world.has(file, node), "\(file.name) at \(node)") } }
    }
}
