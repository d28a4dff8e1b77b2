import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// Writes records by hand, the wrong ones too.
private struct Pen {
    var random: RandomStream
    let secret: GroupSecret
    let mesh: MeshID

    init(_ network: GossipNetwork) throws {
        random = RandomStream(testSeed: 99)
        secret = network.secret
        mesh = try #require(network.nodes[0].gossip.meshID)
    }

    mutating func record(
        by identity: NodeIdentity, sequence: UInt64 = 1, lamport: UInt64, previous: RecordID = RecordID(.zero),
        parents: [RecordID], kind: RecordKind = .attachmentAdded, name: String = "file", body: [UInt8]? = nil,
        mesh: MeshID? = nil, secret: GroupSecret? = nil
    ) throws -> SignedRecord {
        let content = AttachmentAddedBody(content: ContentID(.zero), byteCount: 1, name: name, note: "")
        return try SignedRecord(
            kind: kind, mesh: mesh ?? self.mesh, sequence: sequence, lamport: lamport, previous: previous,
            parents: parents.sorted(), body: body ?? content.encoded, secret: secret ?? self.secret,
            nonce: random.bytes(24), identity: identity)
    }

    /// A chain of honest records, each after the one before, the first after `start`.
    mutating func chain(by identity: NodeIdentity, count: Int, start: RecordID, lamport: UInt64) throws
        -> [SignedRecord]
    {
        var records: [SignedRecord] = []
        for number in 0..<count {
            records.append(
                try record(
                    by: identity, sequence: UInt64(number) + 1, lamport: lamport + UInt64(number) + 1,
                    previous: records.last?.id ?? RecordID(.zero), parents: records.isEmpty ? [start] : [],
                    name: "\(number)"))
        }
        return records
    }
}

private func bundle(_ records: [SignedRecord]) -> GossipMessage {
    .records(RecordBundle(hasMore: false, records: records.map(\.bytes)))
}

/// Two linked members who know each other; 1 is the receiver of most tests.
private func pair(seed: UInt64, configuration: GossipConfiguration = GossipConfiguration()) throws -> GossipNetwork {
    let network = try GossipNetwork.mesh(2, seed: seed, configuration: configuration)
    network.connect(0, 1)
    network.run(milliseconds: 2_000)
    return network
}

/// The newest record of a network at rest, and its Lamport time.
private func tip(_ network: GossipNetwork) throws -> (RecordID, UInt64) {
    let last = try #require(network.nodes[1].accepted.max { RecordOrder($0) < RecordOrder($1) })
    return (last.id, last.lamport)
}

struct `A record is accepted only when its claims hold` {
    @Test func `AB-66 its Lamport time is one more than the greatest of its causes and nothing else`() throws {
        let network = try pair(seed: 1)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let author = network.nodes[0].identity.restarted(1_000)
        let wrong: [UInt64] = [0, 1, lamport, lamport + 2, 1 << 53, 1 << 63, .max]
        for claimed in wrong {
            let identity = network.nodes[0].identity.restarted(claimed)
            let record = try pen.record(by: identity, lamport: claimed, parents: [parent])
            network.inject(bundle([record]), from: 0, to: 1)
            network.run(milliseconds: 20_000)
        }
        #expect(network.nodes[1].gossip.statistics.recordsRefused == wrong.count)
        #expect(network.nodes[1].gossip.greatestLamport == lamport)

        let backDated = try pen.record(by: author, lamport: 2, parents: [RecordID(pen.mesh.value)])
        let honest = try pen.record(
            by: author, sequence: 2, lamport: lamport + 1, previous: backDated.id, parents: [parent])
        network.inject(bundle([backDated, honest]), from: 0, to: 1)
        #expect(network.nodes[1].accepted.suffix(2).map(\.lamport) == [2, lamport + 1])
        let order = network.nodes[1].gossip.records
        #expect(order.last == honest.bytes, "what is dated back stands before what it wanted to override")
    }

    @Test func `AB-73 a record that speaks for another member is refused`() throws {
        let network = try pair(seed: 2)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let signed = try pen.record(by: network.nodes[0].identity.restarted(7), lamport: lamport + 1, parents: [parent])
        var envelope = signed.envelope
        envelope.author = network.nodes[1].id
        network.inject(.records(RecordBundle(hasMore: false, records: [envelope.encoded])), from: 0, to: 1)
        envelope.author = network.nodes[0].id
        envelope.signature = pen.random.bytes(64)
        network.run(milliseconds: 20_000)
        network.inject(.records(RecordBundle(hasMore: false, records: [envelope.encoded])), from: 0, to: 1)

        #expect(network.nodes[1].gossip.statistics.bundlesRefused == 2)
        #expect(network.nodes[1].accepted.count == 2)
    }

    @Test func `AB-54 its id does not cover the signature, so a re-encoded signature makes no second record`() throws {
        let network = try pair(seed: 3)
        try network.publish(0, "once")
        network.run(milliseconds: 50)
        let bytes = try #require(network.nodes[1].gossip.records.last)
        let original = try SignedRecord(decoding: bytes)
        // S + L: the same signature to a careless verifier.
        let order: [UInt8] =
            [0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14]
            + [UInt8](repeating: 0, count: 15) + [0x10]
        var malleated = bytes
        var carry = 0
        for offset in 0..<32 {
            let sum = Int(bytes[bytes.count - 32 + offset]) + Int(order[offset]) + carry
            malleated[bytes.count - 32 + offset] = UInt8(sum & 255)
            carry = sum >> 8
        }
        let copy = try SignedRecord(decoding: malleated)
        #expect(copy.id == original.id && !copy.isSignatureValid)

        network.inject(.records(RecordBundle(hasMore: false, records: [malleated])), from: 0, to: 1)
        #expect(network.nodes[1].gossip.records.last == bytes)
        #expect(network.nodes[1].gossip.statistics.forks == 0)
        let fresh = try pair(seed: 3)
        fresh.inject(.records(RecordBundle(hasMore: false, records: [malleated])), from: 0, to: 1)
        #expect(fresh.nodes[1].accepted.count == 2)
        #expect(fresh.nodes[1].gossip.statistics.bundlesRefused == 1)
    }

    @Test func `AB-70 a flipped kind, mesh, epoch or any other byte breaks it`() throws {
        let network = try pair(seed: 4)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let record = try pen.record(by: network.nodes[0].identity.restarted(7), lamport: lamport + 1, parents: [parent])
        for position in record.bytes.indices {
            var flipped = record.bytes
            flipped[position] ^= 1
            guard let damaged = try? SignedRecord(decoding: flipped) else { continue }
            #expect(!damaged.isSignatureValid, "byte \(position)")
        }
        let foreign = try pen.record(
            by: network.nodes[0].identity.restarted(8), lamport: lamport + 1, parents: [parent],
            mesh: MeshID(pen.random.testBytes32()))
        network.inject(bundle([foreign]), from: 0, to: 1)
        #expect(network.nodes[1].accepted.count == 2)
        #expect(network.nodes[1].gossip.statistics.recordsRefused == 1)
    }

    @Test func `a second GENESIS, a gap, a wrong previous, no causes, a broken seal and a bad body are refused`() throws
    {
        let network = try pair(seed: 5)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let identity = network.nodes[0].identity
        let other = GroupSecret(secret: SecretBytes(copying: pen.secret.secret.revealed()))
        let chain = try pen.chain(by: identity.restarted(1), count: 2, start: parent, lamport: lamport)
        var records = [
            try pen.record(by: identity.restarted(2), lamport: 1, parents: [], kind: .genesis, mesh: MeshID(.zero)),
            try pen.record(by: identity.restarted(3), sequence: 2, lamport: lamport + 1, parents: [parent]),
            try pen.record(by: identity.restarted(4), sequence: 0, lamport: lamport + 1, parents: [parent]),
            try pen.record(by: identity.restarted(5), lamport: 1, parents: []),
            try pen.record(
                by: identity.restarted(1), sequence: 4, lamport: lamport + 3, previous: chain[1].id, parents: []),
            try pen.record(
                by: identity.restarted(6), sequence: 3, lamport: lamport + 3, previous: chain[1].id, parents: []),
            try pen.record(by: identity.restarted(7), lamport: lamport + 1, parents: [parent], kind: .admit, body: [9]),
        ]
        var envelope = try pen.record(by: identity.restarted(8), lamport: lamport + 1, parents: [parent]).envelope
        envelope.sealedBody[0] ^= 1
        records.append(try SignedRecord.resigned(envelope, by: identity))
        _ = other
        network.inject(bundle(chain), from: 0, to: 1)
        for record in records {
            network.inject(bundle([record]), from: 0, to: 1)
            network.run(milliseconds: 20_000)
        }
        #expect(network.nodes[1].gossip.statistics.recordsRefused == records.count)
        #expect(network.nodes[1].accepted.count == 4)
    }

    @Test func `AB-69 a refused record gets the same verdict every time and blocks nobody`() throws {
        let network = try pair(seed: 6)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let bad = try pen.record(by: network.nodes[0].identity.restarted(1), lamport: lamport + 5, parents: [parent])
        let childOfBad = try pen.record(
            by: network.nodes[0].identity.restarted(2), lamport: lamport + 6, parents: [bad.id])
        for round in 1...3 {
            network.inject(bundle([bad]), from: 0, to: 1)
            #expect(network.nodes[1].gossip.statistics.recordsRefused == round)
            network.run(milliseconds: 20_000)
        }
        network.inject(bundle([childOfBad]), from: 0, to: 1)
        try network.publish(0, "meanwhile")
        network.run(milliseconds: 40_000)
        #expect(network.nodes[1].accepted.last?.kind == .attachmentAdded)
        #expect(network.haveConverged(), "the others go on")
        #expect(network.nodes[1].gossip.waitingRecordCount == 0, "what waits for it is dropped in time")

        network.nodes[1].disk[bad.id] = bad.bytes
        let before = network.nodes[1].gossip.records
        _ = network.restart(1)
        #expect(network.nodes[1].gossip.records == before, "and from disk it gets the same verdict")
        #expect(network.nodes[1].gossip.statistics.recordsRefused == 1)
    }

    @Test func `AB-75 one bad signature refuses its whole bundle, and others supply the rest`() throws {
        let network = try GossipNetwork.mesh(3, seed: 7)
        network.connect(0, 2)
        network.connect(1, 2)
        network.run(milliseconds: 2_000)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let records = try pen.chain(
            by: network.nodes[0].identity.restarted(1), count: 100, start: parent, lamport: lamport)
        network.connect(0, 1)
        network.run(milliseconds: 2_000)
        var damaged = records.map(\.bytes)
        damaged[57][damaged[57].count - 1] ^= 1

        network.disconnect(0, 2)
        network.disconnect(1, 2)
        network.inject(bundle(records), from: 0, to: 1)
        network.connect(0, 2)
        network.inject(.records(RecordBundle(hasMore: false, records: damaged)), from: 0, to: 2)
        #expect(network.nodes[2].accepted.count == 3, "nothing of it")
        #expect(network.nodes[2].gossip.statistics.bundlesRefused == 1)
        #expect(network.nodes[2].events.contains { $0.kind == .recordRefused && $0.subject == network.nodes[0].id })
        network.inject(bundle(records), from: 0, to: 2)
        #expect(network.nodes[2].gossip.statistics.bundlesIgnored == 1, "the sender has to wait")

        network.connect(1, 2)
        network.run(milliseconds: 500)
        #expect(network.nodes[2].accepted.count == 103)
    }
}

struct `The accepted set` {
    /// A history with concurrent records of four authors, admissions by different members, and a chain of restarts.
    private func history(_ seed: UInt64) throws -> GossipNetwork {
        let network = GossipNetwork(seed: seed)
        for _ in 0..<5 { network.addNode() }
        try network.found()
        try network.admit(1)
        try network.admit(2)
        network.connectLine()
        network.run(milliseconds: 2_000)
        try network.admit(3, by: 1)
        try network.admit(4, by: 2)
        for round in 0..<24 {
            try network.publish(network.random.below(5), "\(round)")
            if network.random.below(3) == 0 { network.run(milliseconds: Int64(network.random.below(30))) }
        }
        network.run(milliseconds: 8_000)
        return network
    }

    /// Five histories, sixty orders each.
    @Test(arguments: 0..<5)
    func `AB-67 is the same whatever the order of arrival`(seed: Int) throws {
        let network = try history(UInt64(seed) + 900)
        #expect(network.haveConverged())
        let records = network.nodes[0].gossip.records
        #expect(records.count == 29)
        let mesh = try #require(network.nodes[0].gossip.meshID)
        let genesis = try #require(network.nodes[0].gossip.genesis)
        let expected = network.nodes[0].gossip.head

        for _ in 0..<60 {
            var gossip = Gossip(
                identity: network.nodes[0].identity.restarted(5), configuration: GossipConfiguration(),
                random: network.random.split())
            gossip.setMesh(mesh)
            gossip.setEpochSecrets([network.secret])
            var outbox = Outbox<GossipOutput>()
            let peer = network.nodes[1].id
            try gossip.submit(.adopt(genesis: genesis), at: network.now, into: &outbox)
            gossip.linkUp(peer, Incarnation(1), at: network.now, into: &outbox)
            for bytes in network.random.shuffle(records + records.prefix(5)) {
                let message = GossipMessage.records(RecordBundle(hasMore: false, records: [bytes]))
                gossip.receive(message.encoded, from: peer, at: network.now, into: &outbox)
            }
            #expect(gossip.records == records, "total order")
            #expect(gossip.head == expected)
            var known: Set<RecordID> = []
            for case .recordAccepted(let record) in outbox.items {
                let bytes = try #require(records.first { (try? SignedRecord(decoding: $0))?.id == record.id })
                #expect(try SignedRecord(decoding: bytes).causes.allSatisfy { known.contains($0) }, "causal order")
                #expect(known.insert(record.id).inserted, "once")
            }
        }
    }

    @Test func `is the same after a restart from disk, and damage there is left out`() throws {
        let network = try history(950)
        let before = network.nodes[2].gossip.records
        let restored = network.restart(2)
        #expect(network.nodes[2].gossip.records == before)
        #expect(restored.count == before.count)
        #expect(zip(restored, restored.dropFirst()).allSatisfy { RecordOrder($0) < RecordOrder($1) })

        let ids = network.nodes[2].disk.keys.sorted()
        network.nodes[2].disk[ids[3]]?[200] ^= 1
        network.nodes[2].disk[ids[5]] = [1, 2, 3]
        _ = network.restart(2)
        #expect(network.nodes[2].gossip.records.count < before.count)
        network.connect(2, 1)
        network.run(milliseconds: 1_000)
        #expect(network.nodes[2].gossip.records == before, "the mesh still has them")
    }

    @Test func `AB-71 two processes on one store write two chains and no fork`() throws {
        let network = try GossipNetwork.mesh(2, seed: 8)
        network.connect(0, 1)
        try network.publish(0, "before the backup")
        network.run(milliseconds: 500)
        let backup = network.nodes[0].disk
        try network.publish(0, "after the backup")
        network.run(milliseconds: 500)

        network.nodes[0].disk = backup
        _ = network.restart(0)
        try network.publish(0, "from the restored one")
        network.connect(0, 1)
        network.run(milliseconds: 2_000)

        #expect(network.haveConverged())
        #expect(network.nodes[1].gossip.records.count == 5)
        #expect(network.nodes.allSatisfy { $0.gossip.statistics.forks == 0 })
    }
}

struct `A fork` {
    /// Member 1 signs two branches from number 2; returns both.
    private func branches(_ network: GossipNetwork) throws -> (
        first: SignedRecord, left: [SignedRecord], right: [SignedRecord]
    ) {
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let identity = network.nodes[1].identity.restarted(66)
        let first = try pen.record(by: identity, lamport: lamport + 1, parents: [parent], name: "common")
        func branch(_ name: String) throws -> [SignedRecord] {
            var records = [first]
            for number in 2...4 as ClosedRange<UInt64> {
                records.append(
                    try pen.record(
                        by: identity, sequence: number, lamport: lamport + number,
                        previous: records[records.count - 1].id,
                        parents: [], name: "\(name) \(number)"))
            }
            return Array(records.dropFirst())
        }
        return (first, try branch("left"), try branch("right"))
    }

    @Test func `is proven to all, voids what follows, and leaves everybody with equal sets`() throws {
        let network = try GossipNetwork.mesh(4, seed: 9)
        network.connectFully()
        network.run(milliseconds: 2_000)
        let (first, left, right) = try branches(network)
        for member in [0, 2, 3] { network.disconnect(1, member) }
        network.disconnect(2, 0)
        network.disconnect(2, 3)
        network.connect(1, 2)
        network.run(milliseconds: 100)
        network.inject(bundle([first] + left), from: 1, to: 2)
        network.disconnect(1, 2)
        network.connect(1, 0)
        network.run(milliseconds: 100)
        network.inject(bundle([first] + right.prefix(2)), from: 1, to: 0)
        network.run(milliseconds: 300)
        #expect(network.nodes[2].accepted.count == 8 && network.nodes[3].accepted.count == 7)
        // An honest record that stands on a branch.
        try network.publish(3, "honest")
        network.run(milliseconds: 100)

        network.connect(2, 0)
        network.connect(2, 3)
        network.run(milliseconds: 5_000)

        let honest = [0, 2, 3]
        #expect(network.haveConverged(honest))
        #expect(
            network.nodes[0].gossip.records.count == 6, "GENESIS, three admissions, the common record, the honest one")
        #expect(Set(network.nodes[2].voided) == Set(left.map(\.id)))
        #expect(Set(network.nodes[0].voided) == Set(right.prefix(2).map(\.id)))
        for member in honest { #expect(network.nodes[member].events.contains { $0.kind == .recordFork }) }

        network.inject(bundle([right[2]]), from: 1, to: 0)
        #expect(network.nodes[0].gossip.records.count == 6, "later envelopes are void")
        for member in honest {
            let before = network.nodes[member].gossip.head
            let restored = network.restart(member)
            #expect(network.nodes[member].gossip.head == before, "and a restart sees it the same way")
            #expect(restored.count == 6)
        }
    }

    @Test(arguments: 0..<40)
    func `AB-69 ends the same in any order of arrival`(seed: Int) throws {
        let network = try pair(seed: 10)
        let (first, left, right) = try branches(network)
        let records = network.nodes[0].gossip.records + ([first] + left + right).map(\.bytes)
        var random = RandomStream(testSeed: UInt64(seed))
        for bytes in random.shuffle(records) {
            network.inject(.records(RecordBundle(hasMore: false, records: [bytes])), from: 0, to: 1)
        }
        network.run(milliseconds: 2_000)
        network.inject(bundle([first]), from: 0, to: 1)
        #expect(network.nodes[1].gossip.records.count == 3, "seed \(seed)")
        #expect(network.nodes[1].gossip.records.last == first.bytes)
        #expect(network.haveConverged(), "the proof alone brings the other member to the same digest")
    }

    @Test func `needs two genuine signatures of one admitted author`() throws {
        let network = try pair(seed: 11)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let (_, left, right) = try branches(network)
        var forged = right[0].bytes
        forged[forged.count - 1] ^= 1
        let stranger = NodeIdentity(signing: RandomStream.testKey(555), incarnation: Incarnation(1))
        let proofs: [GossipMessage] = [
            .fork(left[0].bytes, left[0].bytes), .fork(left[0].bytes, forged), .fork(left[0].bytes, right[1].bytes),
            .fork([], left[0].bytes),
            .fork(
                try pen.record(by: stranger, lamport: lamport + 1, parents: [parent], name: "a").bytes,
                try pen.record(by: stranger, lamport: lamport + 1, parents: [parent], name: "b").bytes),
        ]
        for proof in proofs {
            network.inject(proof, from: 0, to: 1)
            network.run(milliseconds: 20_000)
        }
        #expect(network.nodes[1].gossip.statistics.forks == 0)
        network.inject(.fork(left[0].bytes, right[0].bytes), from: 0, to: 1)
        #expect(network.nodes[1].gossip.statistics.forks == 1)
    }

    @Test func `of the founder's first record leaves the mesh standing`() throws {
        let network = try pair(seed: 12)
        var pen = try Pen(network)
        let rival = try pen.record(
            by: network.nodes[0].identity, lamport: 2, parents: [RecordID(pen.mesh.value)], name: "rival of GENESIS")
        network.inject(bundle([rival]), from: 0, to: 1)
        #expect(network.nodes[1].gossip.genesis != nil)
        #expect(network.nodes[1].gossip.records.count == 1)
        #expect(network.nodes[1].gossip.isMember(network.nodes[1].id), "a right to write does not lapse")
        try network.publish(1, "still here")
        #expect(network.nodes[1].gossip.records.count == 2)
    }
}

struct `Hostile histories are bounded` {
    @Test func `AB-68 ten thousand concurrent heads cost linear work and sixteen parents`() throws {
        var configuration = GossipConfiguration()
        configuration.maximumChainsPerAuthor = 10_000
        let network = try pair(seed: 13, configuration: configuration)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let before = network.nodes[1].gossip.statistics.signaturesVerified
        var records: [SignedRecord] = []
        for life in 0..<9_000 as Range<UInt64> {
            records.append(
                try pen.record(by: network.nodes[0].identity.restarted(life), lamport: lamport + 1, parents: [parent]))
        }
        for start in stride(from: 0, to: records.count, by: 500) {
            network.inject(bundle(Array(records[start..<(start + 500)])), from: 0, to: 1)
        }
        #expect(network.nodes[1].gossip.statistics.signaturesVerified - before == 9_000)
        #expect(network.nodes[1].accepted.count == 9_002)
        try network.publish(1, "after them all")
        let last = try SignedRecord(decoding: try #require(network.nodes[1].gossip.records.last))
        #expect(last.envelope.parents.count == WireLimits.maximumParents && last.envelope.lamport == lamport + 2)
    }

    @Test func `AB-68 and AB-36 one author has a capped number of chains and records`() throws {
        var configuration = GossipConfiguration()
        configuration.maximumChainsPerAuthor = 20
        configuration.maximumRecordsPerAuthor = 60
        let network = try pair(seed: 14, configuration: configuration)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        for life in 0..<50 as Range<UInt64> {
            let record = try pen.record(
                by: network.nodes[0].identity.restarted(life), lamport: lamport + 1, parents: [parent])
            network.inject(bundle([record]), from: 0, to: 1)
        }
        #expect(network.nodes[1].accepted.count == 2 + 19, "the founder's own chain is one of the twenty")
        #expect(network.nodes[1].gossip.statistics.recordsOverCap == 31)
        #expect(network.nodes[1].events.filter { $0.kind == .limitReached }.count == 5, "1, 2, 4, 8, 16")

        let deep = try pen.chain(
            by: network.nodes[1].identity.restarted(9), count: 100, start: parent, lamport: lamport)
        network.inject(bundle(deep), from: 0, to: 1)
        #expect(network.nodes[1].accepted.count == 21 + 60)
        #expect(network.nodes[1].gossip.statistics.recordsOverCap == 31 + 40)
        try network.publish(0, "others are not held up")
        network.run(milliseconds: 100)
    }

    @Test func `AB-35 signed records of strangers are kept for a while, few, and never spread`() throws {
        let network = try pair(seed: 15)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        for number in 0..<2_000 as Range<UInt64> {
            let stranger = NodeIdentity(signing: RandomStream.testKey(number + 10_000), incarnation: Incarnation(1))
            network.inject(
                bundle([try pen.record(by: stranger, lamport: lamport + 1, parents: [parent])]), from: 0, to: 1)
        }
        #expect(network.nodes[1].gossip.waitingRecordCount == 512, "half of the room for one sender")
        #expect(network.nodes[1].gossip.statistics.pendingDropped == 2_000 - 512)
        #expect(network.nodes[1].accepted.count == 2)

        try network.publish(0, "a member's")
        network.run(milliseconds: 40_000)
        #expect(network.nodes[1].accepted.count == 3)
        #expect(network.nodes[1].gossip.waitingRecordCount == 0)
        #expect(network.nodes[1].gossip.statistics.pendingDropped == 2_000)
        #expect(network.haveConverged())
    }

    @Test func `AB-34 records without their causes wait in a bounded room`() throws {
        let network = try pair(seed: 16)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let chain = try pen.chain(
            by: network.nodes[0].identity.restarted(1), count: 400, start: parent, lamport: lamport)
        for record in chain.dropFirst().reversed() { network.inject(bundle([record]), from: 0, to: 1) }
        #expect(network.nodes[1].gossip.waitingRecordCount == 256)
        #expect(network.nodes[1].gossip.statistics.pendingDropped == 399 - 256)
        #expect(network.nodes[1].accepted.count == 2)
        network.inject(bundle(chain), from: 0, to: 1)
        #expect(network.nodes[1].accepted.count == 402)
        #expect(network.nodes[1].gossip.waitingRecordCount == 0)
    }

    @Test func `missing causes are pulled`() throws {
        let network = try pair(seed: 17)
        var pen = try Pen(network)
        let (parent, lamport) = try tip(network)
        let chain = try pen.chain(by: network.nodes[0].identity.restarted(1), count: 3, start: parent, lamport: lamport)
        network.inject(bundle(chain), from: 1, to: 0)
        network.disconnect(0, 1)
        network.connect(0, 1)
        network.inject(bundle([chain[2]]), from: 0, to: 1)
        #expect(network.nodes[1].accepted.count == 2)
        network.run(milliseconds: 300)
        #expect(network.nodes[1].accepted.count == 5)
    }

    @Test func `AB-36 made-up chains in a summary leave nothing behind`() throws {
        let network = try pair(seed: 18)
        for page in 0..<20 {
            var keys: [ChainSummary] = []
            for number in 0..<1_000 as Range<UInt64> {
                let author = PeerID(Digest.hash32([UInt8(page), UInt8(number & 255), UInt8(number >> 8)]))
                let key = ChainKey(author: author, incarnation: Incarnation(number))
                keys.append(ChainSummary(key: key, contiguous: .max, isForked: number % 2 == 0))
            }
            keys.sort { $0.key < $1.key }
            let summary = RecordSummary(asksForRecords: false, lower: nil, reachesEnd: true, chains: keys)
            network.inject(.summary(summary), from: 0, to: 1)
        }
        #expect(network.nodes[1].gossip.links[network.nodes[0].id]?.held.count ?? .max <= 2)
        #expect(network.nodes[1].gossip.log.chains.count == 1)
        let summaries = network.nodes[1].gossip.statistics.summariesSent
        network.run(milliseconds: 30_000)
        #expect(network.nodes[1].gossip.statistics.summariesSent - summaries < 40, "nor an endless exchange")
        try network.publish(0, "still in touch")
        network.run(milliseconds: 100)
        #expect(network.haveConverged())
    }

    @Test func `any bytes from a peer are counted and never end the process`() throws {
        let network = try pair(seed: 19)
        var random = RandomStream(testSeed: 5)
        let samples = network.nodes[0].gossip.records.map {
            GossipMessage.records(RecordBundle(hasMore: false, records: [$0])).encoded
        }
        for number in 0..<3_000 {
            var bytes = number % 2 == 0 ? random.bytes(random.below(200)) : samples[number % samples.count]
            if !bytes.isEmpty { bytes[random.below(bytes.count)] ^= UInt8(1 << random.below(8)) }
            network.inject(bytes, from: 0, to: 1)
            if number % 100 == 0 { network.run(milliseconds: 11_000) }
        }
        network.run(milliseconds: 60_000)
        #expect(network.haveConverged())
        #expect(network.nodes[1].accepted.count == 2)
        let before = network.nodes[1].gossip.statistics.unexpected
        network.inject([4], from: 1, to: 1)
        #expect(network.nodes[1].gossip.statistics.unexpected == before + 1, "nobody without a link")
    }
}

struct `Writing` {
    @Test func `needs a mesh, a body within the limit and a body of its kind`() throws {
        let network = GossipNetwork(seed: 30)
        network.addNode()
        #expect(throws: CommandError.noMesh) { try network.publish(0, "too early") }
        #expect(throws: CommandError.noMesh) { try network.say(0, [1]) }
        #expect(throws: CommandError.noMesh) { try network.submit(0, .adopt(genesis: [])) }
        try network.found()
        #expect(network.nodes[0].published[0] == network.nodes[0].gossip.meshID.map { RecordID($0.value) })
        #expect(throws: CommandError.notPermitted) { try network.found() }

        let limit = WireLimits.maximumRecordBodyBytes - 16
        #expect(throws: CommandError.limitExceeded(limit: limit, actual: limit + 1)) {
            let body = [UInt8](repeating: 0, count: limit + 1)
            try network.submit(0, .publish(.attachmentAdded, body: body, token: nil))
        }
        #expect(throws: CommandError.invalid(field: "body")) {
            try network.submit(0, .publish(.admit, body: [1], token: nil))
        }
        #expect(network.nodes[0].accepted.count == 1)
        let largest = [UInt8](repeating: 0, count: limit)
        try network.submit(0, .publish(.attachmentAdded, body: largest, token: CommandToken(9)))
        #expect(network.nodes[0].accepted.last?.body == largest)
        #expect(network.nodes[0].accepted.last?.id == network.nodes[0].published[9])
    }

    @Test func `a newcomer's first records follow its own admission`() throws {
        let network = try GossipNetwork.mesh(2, seed: 31)
        try network.publish(1, "eager", token: 4)
        #expect(network.nodes[1].published[4] == nil)
        for _ in 1..<64 { try network.publish(1, "more") }
        #expect(throws: CommandError.queueFull(limit: 64)) { try network.publish(1, "too many") }
        network.connect(0, 1)
        network.run(milliseconds: 500)
        #expect(network.nodes[1].published[4] != nil)
        #expect(network.haveConverged())
        #expect(network.nodes[0].accepted.count == 2 + 64)
    }

    @Test func `GENESIS is adopted only when it is the one the mesh is named after`() throws {
        let network = try GossipNetwork.mesh(1, seed: 32)
        let other = try GossipNetwork.mesh(1, seed: 33)
        network.addNode()
        let mesh = try #require(network.nodes[0].gossip.meshID)
        network.nodes[1].gossip.setMesh(mesh)
        network.nodes[1].gossip.setEpochSecrets([network.secret])
        let genuine = try #require(network.nodes[0].gossip.genesis)
        var damaged = genuine
        damaged[damaged.count - 1] ^= 1
        for bytes in [[], damaged, try #require(other.nodes[0].gossip.genesis)] {
            #expect(throws: CommandError.invalid(field: "genesis")) { try network.submit(1, .adopt(genesis: bytes)) }
        }
        try network.submit(1, .adopt(genesis: genuine))
        try network.submit(1, .adopt(genesis: genuine))
        #expect(network.nodes[1].accepted.count == 1 && network.nodes[1].disk.count == 1)
    }

    @Test func `secrets that come later open what waited for them`() throws {
        let network = try GossipNetwork.mesh(1, seed: 34)
        let records = network.nodes[0].gossip.records
        network.addNode()
        network.nodes[1].gossip.setMesh(try #require(network.nodes[0].gossip.meshID))
        #expect(network.nodes[1].gossip.restore(records).accepted.isEmpty)
        network.nodes[1].gossip.setEpochSecrets([network.secret])
        network.run(milliseconds: 1)
        #expect(network.nodes[1].accepted.map(\.kind) == [.genesis])
    }
}

extension NodeIdentity {
    /// The same node in another process life.
    func restarted(_ incarnation: UInt64) -> NodeIdentity {
        NodeIdentity(signing: signing, incarnation: Incarnation(incarnation))
    }
}

extension SignedRecord {
    /// The envelope as it stands, with a genuine signature of its author.
    static func resigned(_ envelope: Envelope, by identity: NodeIdentity) throws -> SignedRecord {
        var writer = ByteWriter()
        envelope.encodeUnsigned(into: &writer)
        let signature = identity.signing.sign((Array("STARLING/1 record\0".utf8) + writer.bytes).span)
        return try SignedRecord(decoding: writer.bytes + signature)
    }
}

extension RandomStream {
    mutating func testBytes32() -> Bytes32 { Bytes32(bytes(32)) ?? .zero }
}
