import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

/// Everything that can go wrong between an add and a durable file.
@Suite struct JournalFaultTests {
    private func fraction(_ world: JournalWorld, _ node: Int) -> Double { world.attachments(node).first?.fraction ?? 0 }

    @Test func `ATT-01 an empty file is there at once, alone, among others and twice`() {
        var world = JournalWorld(nodeCount: 3)
        let empty = TestFile(chunkCount: 0, seed: 0, name: "empty")
        let other = TestFile(chunkCount: 3, seed: 1, name: "other")
        world.connect(0, 1)

        world.add(empty, at: 0)
        world.add(other, at: 0)
        world.add(empty, at: 0)
        world.run(for: .seconds(5), until: { $0.shows(empty, 1) && $0.shows(other, 1) })

        #expect(world.now < .zero + .seconds(1))
        #expect(world.attachments(1).map(\.name) == ["empty", "other", "empty"])
        #expect(world.attachments(1).allSatisfy { $0.fraction == 1 && $0.isDurable })
        // Its name says that it is empty: even a member without any link has it.
        #expect(world.shows(empty, 2))
    }

    @Test func `an adder that dies half-way leaves an honest wait that ends when it returns`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 60, seed: 2)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { fraction($0, 1) > 0.4 })

        world.kill(0)
        world.run(for: .seconds(30))

        for node in 1..<3 {
            #expect(world.attachments(node).first?.state == .waitingForHolder)
            #expect(world.attachments(node).first?.holders == [])
            #expect(world.count(.attachmentWaiting, node) == 1)
            // What one of the two has, both have.
            #expect(fraction(world, node) == fraction(world, 1))
        }

        world.restart(0)
        world.connectAll()
        world.run(for: .seconds(10), until: { $0.shows(file, 1) && $0.shows(file, 2) })
        #expect(world.has(file, 1) && world.has(file, 2))
        #expect((1..<3).allSatisfy { world.nodes[$0].store.writeCount == 60 })
    }

    @Test func `a late joiner gets everything from the others when the adder is dead`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 30, seed: 3)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) && $0.shows(file, 2) })
        world.kill(0)

        let late = world.addNode()
        world.connect(1, late)
        world.connect(2, late)
        world.run(for: .seconds(10), until: { $0.shows(file, late) })

        #expect(world.has(file, late) == true)
        // Both holders carried a part of it.
        #expect(world.nodes[1].chunksSent > 0 && world.nodes[2].chunksSent > 0)
    }

    @Test(arguments: [0.1, 0.5, 0.97])
    func `ATT-12 a receiver killed in the middle goes on from another member and fetches nothing twice`(_ part: Double)
    {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 100, seed: 4)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.connect(0, 2)
        world.run(for: .seconds(10), until: { fraction($0, 2) >= part })

        world.kill(2)
        world.kill(0)
        let written = world.nodes[2].store.writeCount
        world.restart(2)
        world.connect(1, 2)
        world.run(for: .seconds(10), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2) == true)
        #expect(written >= Int(part * 100) && written < 100)
        #expect(world.nodes[2].store.writeCount == 100)
    }

    @Test func `a member that sends bad chunks costs itself, not the file`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 50, seed: 5)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.nodes[1].tamper = { message in
            guard case .chunk(let content, let index, var bytes) = message else { return message }
            bytes[bytes.count / 2] ^= 1
            return .chunk(content, index: index, bytes: bytes)
        }

        world.connect(0, 2)
        world.connect(1, 2)
        world.run(for: .seconds(10), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2) == true)
        // Three strikes end it; what was on its way by then is still refused, chunk by chunk.
        let rejected = world.nodes[2].machine.statistics.rejectedChunks
        #expect(rejected >= 3 && rejected <= 3 + 8)
        #expect(world.count(.chunkRejected, 2) == rejected)
    }

    @Test func `when the only holder is bad it is asked again after a minute`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 20, seed: 6)
        world.connectAll()
        world.nodes[0].tamper = { message in
            guard case .chunk(let content, let index, _) = message else { return message }
            return .chunk(content, index: index, bytes: [1, 2, 3])
        }
        world.add(file, at: 0)
        world.run(for: .seconds(20))

        #expect(world.attachments(1).first?.state == .waitingForHolder)
        let rejected = world.nodes[1].machine.statistics.rejectedChunks
        world.nodes[0].tamper = nil
        world.run(for: .seconds(60), until: { $0.shows(file, 1) })

        #expect(rejected <= 3 + 8)
        #expect(world.has(file, 1) == true)
        #expect(world.now > .zero + .seconds(59))
    }

    @Test func `a member that claims everything and sends nothing delays the file by one timeout`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 60, seed: 7)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.nodes[1].tamper = { message in if case .have = message { message } else { nil } }
        let start = world.now

        world.connect(0, 2)
        world.connect(1, 2)
        world.run(for: .seconds(60), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2) == true)
        // Three seconds for a manifest that never comes, or duplicates of the chunks it sits on near the end.
        #expect(world.now - start < .seconds(10))
    }

    @Test func `a slow holder does not hold up a fast one`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 160, seed: 8)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        world.nodes[1].uplink = 50_000
        let start = world.now

        world.connect(0, 2)
        world.connect(1, 2)
        world.run(for: .seconds(60), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2) == true)
        // The fast one alone needs 0.84 s; the slow one needs 1.3 s for a single chunk.
        #expect(world.now - start < .seconds(3))
    }

    @Test func `a slow receiver does not hold up the fast ones`() {
        var world = JournalWorld(nodeCount: 4)
        let file = TestFile(chunkCount: 120, seed: 9)
        world.connectAll()
        world.nodes[3].uplink = 20_000
        world.add(file, at: 0)
        world.run(for: .seconds(60), until: { $0.shows(file, 1) && $0.shows(file, 2) })

        #expect(world.has(file, 1) && world.has(file, 2))
        #expect(world.now < .zero + .seconds(4))
    }

    @Test func `ATT-11 progress is below one until the file is durable`() {
        var world = JournalWorld(nodeCount: 2)
        world.storageDelay = .milliseconds(20)
        let file = TestFile(chunkCount: 20, seed: 10)
        world.connectAll()
        world.add(file, at: 0)

        var sawAllWritten = false
        while !world.shows(file, 1), world.now < .zero + .seconds(20) {
            world.run(for: .milliseconds(1))
            let summary = world.attachments(1).first
            if world.nodes[1].store.writeCount == 20, summary?.isPresent == false { sawAllWritten = true }
            #expect((summary?.fraction == 1) == (summary?.isDurable ?? false))
        }
        #expect(sawAllWritten)
        #expect(world.has(file, 1) == true)
    }

    @Test func `ATT-11 killed during the final step, a receiver finishes without fetching`() {
        var world = JournalWorld(nodeCount: 2)
        world.storageDelay = .milliseconds(20)
        let file = TestFile(chunkCount: 20, seed: 11)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.nodes[1].store.writeCount == 20 })

        world.kill(1)
        world.nodes[1].store.contents[file.id]?.isComplete = false
        world.restart(1)
        world.run(for: .seconds(5), until: { $0.shows(file, 1) })

        #expect(world.has(file, 1) == true)
        #expect(world.nodes[1].store.writeCount == 20)
    }

    @Test
    func `ATT-06 ATT-08 a full disk is named with its numbers, and the file goes on by itself when there is room`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 50, seed: 12)
        world.nodes[1].store.capacity = 20 * 65_536
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(35))

        #expect(world.attachments(1).first?.state == .failed(.noSpace(needed: 65_536, available: 0)))
        #expect(world.count(.attachmentFailed, 1) == 1)
        #expect(world.attachments(0).first?.holders == [world.nodes[0].identity])
        #expect(world.nodes[1].store.finishCount == 0)
        let sent = world.nodes[0].chunksSent
        #expect(sent <= 20 + 64, "the flow stops while there is no room")

        world.nodes[1].store.capacity = nil
        world.run(for: .seconds(15), until: { $0.shows(file, 1) })
        #expect(world.has(file, 1) == true)
        #expect(world.count(.storageRecovered, 1) == 1)
        // From where it was: what was in the store was not fetched again.
        #expect(world.nodes[0].chunksSent - sent <= 30)
    }

    @Test func `ATT-06 a disk that is full at the start is tried every ten seconds`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 5, seed: 13)
        world.nodes[1].store.failure = .noSpace(needed: 327_680, available: 7)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(35))

        #expect(world.attachments(1).first?.state == .failed(.noSpace(needed: 327_680, available: 7)))
        #expect(world.nodes[1].machine.statistics.storageFailures == 4)
        #expect(world.nodes[0].chunksSent == 0)

        world.nodes[1].store.failure = nil
        world.run(for: .seconds(11), until: { $0.shows(file, 1) })
        #expect(world.has(file, 1) == true)
    }

    @Test func `ATT-07 a receiver that dies of a full disk leaves the adder serving others`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 60, seed: 14)
        world.nodes[1].store.capacity = 10 * 65_536
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.count(.attachmentFailed, 1) == 1 })

        world.kill(1)
        world.run(for: .seconds(10), until: { $0.shows(file, 2) })

        #expect(world.has(file, 2) == true)
    }

    @Test func `ATT-10 of 300 files on links that keep breaking exactly the verified ones count as held`() {
        var world = JournalWorld(nodeCount: 3)
        world.connectAll()
        let files = (0..<300).map { TestFile(chunkCount: $0 % 3, seed: UInt8($0 & 0xff), lastChunkBytes: 100 + $0) }
        for file in files { world.add(file, at: 0) }

        for _ in 0..<60 {
            world.run(for: .milliseconds(20))
            let (left, right) = (world.random.below(3), world.random.below(3))
            if left != right {
                world.disconnect(left, right)
                world.connect(left, right)
            }
        }
        world.run(for: .seconds(20))

        let identities = world.nodes.map(\.identity).sorted()
        #expect(world.attachments(0).count == 300)
        for node in 0..<3 {
            #expect(files.allSatisfy { world.has($0, node) })
            #expect(world.attachments(node).allSatisfy { $0.holders == identities })
        }
    }

    @Test(arguments: 0..<3)
    func `ATT-13 removing a file in the middle stops it everywhere, and adding it again works`(_ remover: Int) {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 80, seed: 15)
        world.connectAll()
        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { fraction($0, 1) > 0.5 })
        guard let id = world.attachments(0).first?.id else {
            Issue.record("nothing was added")
            return
        }

        let token = world.remove(id, at: remover)
        world.run(for: .seconds(2))

        #expect(world.nodes[remover].removed.contains(token))
        for node in 0..<3 {
            #expect(world.attachments(node).isEmpty)
            #expect(world.nodes[node].store.contents.isEmpty)
        }

        world.add(file, at: 2)
        world.run(for: .seconds(10), until: { $0.shows(file, 0) && $0.shows(file, 1) })
        #expect((0..<3).allSatisfy { world.has(file, $0) })
    }

    @Test func `ATT-14 fifty removals at random moments each stop the flow within a second`() {
        var world = JournalWorld(nodeCount: 2)
        world.nodes[0].uplink = 2_000_000
        world.connectAll()
        let file = TestFile(chunkCount: 60, seed: 16)
        for round in 0..<50 {
            world.add(file, at: round % 2)
            world.run(for: .milliseconds(Int64(5 + world.random.below(1_500))))
            guard let id = world.attachments(0).first?.id else { continue }
            world.remove(id, at: world.random.below(2))
            world.run(for: .seconds(1))
            let sent = world.nodes.map(\.chunksSent)
            world.run(for: .seconds(1))
            #expect(world.nodes.map(\.chunksSent) == sent, "round \(round)")
            #expect(world.nodes.allSatisfy { $0.store.contents.isEmpty }, "round \(round)")
        }

        world.add(file, at: 0)
        world.run(for: .seconds(10), until: { $0.shows(file, 1) })
        #expect(world.has(file, 1) == true)
        #expect(world.nodes.allSatisfy { $0.machine.statistics.floodMutes == 0 })
    }

    @Test func `ATT-20 the same content twice is two attachments and one content`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 10, seed: 17)
        world.connectAll()
        let first = world.add(file, at: 0)
        world.run(for: .seconds(5), until: { $0.shows(file, 1) })
        world.add(file, at: 1)
        world.run(for: .seconds(1))

        #expect(world.attachments(0).count == 2)
        #expect(world.nodes[0].chunksSent + world.nodes[1].chunksSent == 10)
        guard let id = world.nodes[0].added[first]?.id else {
            Issue.record("the add was not answered")
            return
        }

        world.remove(id, at: 1)
        world.run(for: .seconds(1))
        #expect(world.attachments(1).count == 1)
        #expect(world.has(file, 0) && world.has(file, 1), "the other attachment still refers to it")

        world.remove(world.attachments(0)[0].id, at: 0)
        world.run(for: .seconds(1))
        #expect(world.nodes.allSatisfy { $0.store.contents.isEmpty })
    }

    @Test(arguments: [0, 7, 19])
    func `AB-79 a flipped bit in a store is found when read, never spread, and healed from another holder`(
        _ chunk: UInt64
    ) {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 20, seed: 18)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(5), until: { $0.shows(file, 1) })
        world.nodes[1].store.contents[file.id]?.chunks[chunk]?[100] ^= 4

        world.connect(1, 2)
        world.run(for: .seconds(20), until: { $0.shows(file, 2) && $0.shows(file, 1) })

        #expect(world.has(file, 2) && world.has(file, 1))
        #expect(world.nodes[2].machine.statistics.rejectedChunks == 0)
        #expect(world.count(.storageFailed, 1) == 1)
        #expect(world.count(.storageRecovered, 1) == 1)
    }

    @Test func `AB-79 a content that a person found damaged is healed at once, however lately it was looked at`() {
        var world = JournalWorld(nodeCount: 2)
        let file = TestFile(chunkCount: 20, seed: 19)
        world.connect(0, 1)
        world.add(file, at: 0)
        world.run(for: .seconds(5), until: { $0.shows(file, 1) })

        for round in 1...2 {
            world.nodes[1].store.contents[file.id]?.chunks[7]?[100] ^= 4
            world.submit(.suspect(file.id), to: 1)
            world.run(for: .seconds(5), until: { $0.count(.storageRecovered, 1) == round })

            #expect(world.has(file, 1), "round \(round)")
            #expect(world.count(.storageFailed, 1) == round)
        }
        world.submit(.suspect(file.id), to: 1)
        world.run(for: .seconds(1))
        #expect(world.shows(file, 1))
        #expect(world.count(.storageFailed, 1) == 2, "nothing was damaged any more")
    }

    @Test func `AB-82 a node whose store vanished, stopped or running, fetches all of it again`() {
        var world = JournalWorld(nodeCount: 2)
        let files = (0..<3).map { TestFile(chunkCount: 4 + $0, seed: UInt8(30 + $0)) }
        world.connectAll()
        for file in files { world.add(file, at: 0) }
        world.run(for: .seconds(5), until: { world in files.allSatisfy { world.shows($0, 1) } })

        world.kill(1)
        world.nodes[1].store = TestStore()
        world.restart(1)
        world.connect(0, 1)
        world.run(for: .seconds(5), until: { world in files.allSatisfy { world.shows($0, 1) } })
        #expect(files.allSatisfy { world.has($0, 1) })

        // While it runs: found when somebody asks for it.
        world.nodes[1].store.contents[files[0].id]?.chunks = [:]
        let late = world.addNode()
        world.connect(1, late)
        world.run(
            for: .seconds(20), until: { world in files.allSatisfy { world.shows($0, late) && world.shows($0, 1) } })
        #expect(files.allSatisfy { world.has($0, 1) && world.has($0, late) })
    }

    @Test func `AB-83 names are labels: they change nothing about where a content is kept`() {
        var world = JournalWorld(nodeCount: 2)
        world.connectAll()
        let names = ["../../x", "/etc/passwd", "C:\\x", "a\0b", "CON", "", String(repeating: "é", count: 300)]
        for (index, name) in names.enumerated() {
            world.add(TestFile(chunkCount: 1, seed: UInt8(40 + index), lastChunkBytes: 10, name: name), at: 0)
        }
        world.run(for: .seconds(2))

        #expect(world.attachments(1).map(\.name) == names)
        #expect(world.attachments(1).allSatisfy { $0.isPresent })
        #expect(Set(world.nodes[1].store.contents.keys) == Set(world.attachments(1).map(\.content)))
    }

    @Test func `a wait is answered when so many members have all of it, or when it is gone`() {
        var world = JournalWorld(nodeCount: 3)
        let file = TestFile(chunkCount: 10, seed: 19)
        world.connect(0, 1)
        let added = world.add(file, at: 0)
        world.run(for: .milliseconds(1))
        guard let id = world.nodes[0].added[added]?.id else {
            Issue.record("the add was not answered")
            return
        }
        let (one, three, gone) = (world.token(), world.token(), world.token())
        world.submit(.wait(id, replicas: 1, token: one), to: 0)
        world.submit(.wait(id, replicas: 3, token: three), to: 0)
        world.submit(.wait(id, replicas: 9, token: gone), to: 1)
        world.run(for: .seconds(2))

        #expect(world.nodes[0].settled == [one: .reached(holders: 1)])
        world.connect(0, 2)
        world.run(for: .seconds(2))
        #expect(world.nodes[0].settled[three] == .reached(holders: 3))

        world.remove(id, at: 2)
        world.run(for: .seconds(1))
        #expect(world.nodes[1].settled == [gone: .removed])
    }

    @Test func `a receiver with a limit refuses what is larger and takes the rest`() {
        var configuration = JournalConfiguration()
        configuration.maximumFetchBytes = 3 * 65_536
        var world = JournalWorld(nodeCount: 1)
        world.addNode(configuration)
        world.connectAll()
        let (small, large) = (TestFile(chunkCount: 3, seed: 50), TestFile(chunkCount: 4, seed: 51))
        world.add(large, at: 0)
        world.add(small, at: 0)
        world.run(for: .seconds(2))

        #expect(world.has(small, 1) == true)
        #expect(world.attachments(1).first?.state == .failed(.tooLarge(byteCount: 262_144, limit: 196_608)))
        #expect(world.nodes[0].chunksSent == 3)
    }

    @Test func `the only copy survives a restart when its content was removed and added again`() {
        var world = JournalWorld(nodeCount: 1)
        let file = TestFile(chunkCount: 4, seed: 60)
        world.add(file, at: 0)
        world.run(for: .milliseconds(10))
        world.remove(world.attachments(0)[0].id, at: 0)
        world.run(for: .milliseconds(10))
        world.add(file, at: 0)
        world.run(for: .milliseconds(10))

        world.kill(0)
        world.restart(0)
        world.run(for: .seconds(60))

        let isHere = world.has(file, 0)
        #expect(isHere)
    }

    @Test(arguments: 0..<100)
    func `after any faults all members have the same attachments and all of them`(_ seed: Int) {
        var world = JournalWorld(nodeCount: 3 + seed % 3, seed: UInt64(seed))
        world.disorder = 0.2
        world.connectAll()
        let files = (0..<3).map { _ in
            TestFile(
                chunkCount: world.random.below(13), seed: UInt8(world.random.below(256)),
                lastChunkBytes: 1 + world.random.below(65_536))
        }
        for node in world.nodes.indices { world.nodes[node].uplink = 300_000 + Double(world.random.below(3_000_000)) }
        for _ in 0..<25 {
            disturb(&world, files)
            world.run(for: .milliseconds(Int64(world.random.below(200))))
        }

        for node in world.nodes.indices {
            world.nodes[node].tamper = nil
            world.nodes[node].store.capacity = nil
            if !world.nodes[node].isUp { world.restart(node) }
        }
        world.connectAll()
        world.run(for: .seconds(130))

        let expected = world.attachments(0).map(\.id)
        let contents = Set(world.attachments(0).map(\.content))
        for node in world.nodes.indices {
            let attachments = world.attachments(node)
            let incomplete = attachments.filter { !$0.isPresent || $0.fraction < 1 }.map(\.state)
            let damaged = files.filter { contents.contains($0.id) && !world.has($0, node) }.map(\.id)
            let holderCounts = Set(attachments.map(\.holders.count))
            #expect(attachments.map(\.id) == expected, "node \(node)")
            #expect(incomplete == [], "node \(node)")
            #expect(damaged == [], "node \(node)")
            #expect(Set(world.nodes[node].store.contents.keys) == contents, "node \(node)")
            #expect(attachments.isEmpty || holderCounts == [world.nodes.count], "node \(node)")
        }
    }

    private func disturb(_ world: inout JournalWorld, _ files: [TestFile]) {
        let node = world.random.below(world.nodes.count)
        let other = world.random.below(world.nodes.count)
        switch world.random.below(9) {
        case 0: if world.nodes[node].isUp { world.kill(node) }
        case 1, 2: if !world.nodes[node].isUp { world.restart(node) }
        case 3: world.disconnect(node, other)
        case 4, 5: world.connect(node, other)
        case 6: if world.nodes[node].isUp { world.add(files[world.random.below(3)], at: node) }
        case 7:
            let all = world.attachments(node)
            if world.nodes[node].isUp, !all.isEmpty { world.remove(all[world.random.below(all.count)].id, at: node) }
        default:
            if world.random.below(2) == 0 {
                world.nodes[node].store.capacity = world.nodes[node].store.usedBytes + 65_536
            } else {
                world.nodes[node].tamper = { message in
                    guard case .chunk(let content, let index, _) = message else { return message }
                    return .chunk(content, index: index, bytes: [9])
                }
            }
        }
    }
}
