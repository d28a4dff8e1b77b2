import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// One machine whose peers and store are played by the test.
private struct Rig {
    var machine: JournalStateMachine
    var now = HostTime.zero
    var records = 0
    static let peers = (0..<4).map { PeerID(Digest.hash32([UInt8($0), 77])) }

    init(_ configuration: JournalConfiguration = JournalConfiguration()) {
        machine = JournalStateMachine(
            identity: PeerID(Digest.hash32([99])), configuration: configuration, random: RandomStream(testSeed: 1))
        submit(.setKey(TestFile.key))
    }

    @discardableResult
    mutating func submit(_ command: JournalCommand) -> [JournalOutput] {
        var outbox = Outbox<JournalOutput>()
        try? machine.submit(command, at: now, into: &outbox)  // refusals are looked at where they matter
        return outbox.items
    }

    @discardableResult
    mutating func receive(_ message: JournalMessage, from peer: Int = 0) -> [JournalOutput] {
        var outbox = Outbox<JournalOutput>()
        machine.receive(message, from: Self.peers[peer], at: now, into: &outbox)
        return outbox.items
    }

    mutating func advance(_ span: TimeSpan) -> [JournalOutput] {
        now = now + span
        var outbox = Outbox<JournalOutput>()
        machine.handleDeadline(at: now, into: &outbox)
        return outbox.items
    }

    /// An attachment by somebody else.
    @discardableResult
    mutating func announce(_ content: ContentID, byteCount: UInt64) -> [JournalOutput] {
        records += 1
        let body = AttachmentAddedBody(content: content, byteCount: byteCount, name: "n", note: "")
        return submit(
            .recordAccepted(
                AcceptedRecord(
                    id: RecordID(Digest.hash32([UInt8(records), 3])), kind: .attachmentAdded, author: Self.peers[0],
                    incarnation: Incarnation(1), sequence: UInt64(records), lamport: UInt64(records),
                    body: body.encoded)))
    }

    /// A content that is complete here.
    mutating func hold(_ file: TestFile) {
        submit(
            .restore([
                StoredContentSummary(id: file.id, byteCount: file.byteCount, leaves: file.leaves, isComplete: true)
            ]))
        announce(file.id, byteCount: file.byteCount)
        submit(.sweepOrphans)
    }

    /// Up to the point where chunks of the file are asked of peer 0. Returns what the last step brought.
    mutating func startFetching(_ file: TestFile) -> [JournalOutput] {
        submit(.linkUp(Self.peers[0]))
        announce(file.id, byteCount: file.byteCount)
        receive(.have([HaveEntry(content: file.id, generation: 1, chunks: .complete)]))
        receive(.manifest(file.id, byteCount: file.byteCount, hashes: file.leaves))
        return submit(.completion(.began(file.id)))
    }
}

extension [JournalOutput] {
    fileprivate var requestedChunks: [UInt32] {
        flatMap { output -> [UInt32] in
            if case .send(.request(_, let chunks), _, _, _) = output { chunks } else { [] }
        }
    }

    fileprivate var storage: [StorageRequest] {
        compactMap { if case .storage(let request) = $0 { request } else { nil } }
    }

    fileprivate var messages: [JournalMessage] {
        compactMap { if case .send(let message, _, _, _) = $0 { message } else { nil } }
    }

    fileprivate func sent(to peer: PeerID) -> [JournalMessage] {
        compactMap { if case .send(let message, peer, _, _) = $0 { message } else { nil } }
    }
}

@Suite struct JournalAbuseTests {
    @Test func `AB-29 claims and chunks nobody asked for bring a peer no larger window`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 60, seed: 1)
        let asked = rig.startFetching(file).requestedChunks
        #expect(asked.count == 8)

        for chunk in 0..<60 where !asked.contains(UInt32(chunk)) {
            let more = rig.receive(.chunk(file.id, index: UInt32(chunk), bytes: file.chunks[chunk]))
            #expect(more.requestedChunks.isEmpty && more.storage.isEmpty)
        }
        let last = UInt32(JournalLimits.maximumChunkCount - 1)
        let high = HaveEntry(content: file.id, generation: 2, chunks: .ranges([ChunkRange(first: last, count: 1)]))
        for _ in 0..<100 { #expect(rig.receive(.have([high])).requestedChunks.isEmpty) }

        #expect(rig.machine.statistics.unexpectedChunks == 52)
        #expect(rig.machine.peers[Rig.peers[0]]?.window.size == 8)
    }

    @Test func `AB-29 what a peer claims to hold of unknown contents is bounded in bytes and in number`() {
        var configuration = JournalConfiguration()
        configuration.maximumHoldingsPerPeer = 100
        configuration.maximumHoldingBytesPerPeer = 1 << 20
        var rig = Rig(configuration)
        rig.submit(.linkUp(Rig.peers[0]))
        let last = UInt32(JournalLimits.maximumChunkCount - 1)

        for number in 0..<200 {
            let content = ContentID(Digest.hash32([UInt8(number), 5]))
            let range = ChunkRange(first: number < 50 ? last : 0, count: 1)
            rig.receive(.have([HaveEntry(content: content, generation: 1, chunks: .ranges([range]))]))
        }

        let holdings = rig.machine.peers[Rig.peers[0]]?.holder.holdings ?? [:]
        // Eight bitfields of 128 KiB fill a MiB; nothing more fits then, large or small.
        #expect(holdings.count == 8)
        #expect(rig.machine.statistics.announcementsDropped == 192)

        for number in 0..<200 {
            let content = ContentID(Digest.hash32([UInt8(number), 6]))
            rig.receive(.have([HaveEntry(content: content, generation: 1, chunks: .complete)]))
        }
        #expect(rig.machine.peers[Rig.peers[0]]?.holder.holdings.count == 100)
    }

    @Test func `AB-39 asking and cancelling ten thousand times a second mutes the peer, not the others`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 40, seed: 2)
        rig.hold(file)
        rig.submit(.linkUp(Rig.peers[0]))
        rig.submit(.linkUp(Rig.peers[1]))

        var reads = 0
        for round in 0..<10_000 {
            let chunk = UInt32(round % 40)
            let outputs = rig.receive(.request(file.id, chunks: [chunk]))
            reads += outputs.storage.count
            for case .read(let id, let chunk, let peer) in outputs.storage {
                rig.receive(.cancel(file.id, chunks: [UInt32(chunk)]))
                rig.submit(
                    .completion(.read(id, chunk: chunk, for: peer, bytes: file.chunks[Int(chunk)])))
            }
            _ = rig.advance(.microseconds(100))
        }

        // A burst of 2,048 and 200 a second.
        #expect(reads <= 2_048 + 200 + 1)
        #expect(rig.machine.statistics.floodMutes == 1)
        #expect(rig.receive(.request(file.id, chunks: [1]), from: 0).storage.isEmpty)
        #expect(rig.receive(.request(file.id, chunks: [1]), from: 1).storage.count == 1)

        _ = rig.advance(.seconds(11))
        #expect(rig.receive(.request(file.id, chunks: [1]), from: 0).storage.count == 1)
    }

    @Test func `AB-39 a flood of requests waits in a bounded queue and reads are given out a few at a time`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 400, seed: 3, lastChunkBytes: 1)
        rig.hold(file)
        rig.submit(.linkUp(Rig.peers[0]))

        var reads: [StorageRequest] = []
        for start in stride(from: UInt32(0), to: 400, by: 50) {
            reads += rig.receive(.request(file.id, chunks: Array(start..<(start + 50)))).storage
        }

        #expect(reads.count == 16)
        #expect(rig.machine.peers[Rig.peers[0]]?.serving.pendingCount == 256)
        #expect(rig.machine.statistics.requestsDropped == 400 - 16 - 256)
    }

    @Test func `nothing is read beyond what the link's queue takes`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 40, seed: 4)
        rig.hold(file)
        rig.submit(.linkUp(Rig.peers[0]))
        rig.submit(.sendQueueSpace(Rig.peers[0], bytes: 3 * 65_536 + 10))

        let first = rig.receive(.request(file.id, chunks: Array(0..<40))).storage
        #expect(first.count == 3)
        // Read and handed to the link: the room is used until the link says that there is more.
        var more = 0
        for case .read(let id, let chunk, let peer) in first {
            more +=
                rig.submit(.completion(.read(id, chunk: chunk, for: peer, bytes: file.chunks[Int(chunk)]))).storage
                .count
        }
        #expect(more == 0)
        #expect(rig.submit(.sendQueueSpace(Rig.peers[0], bytes: 2 * 65_536)).storage.count == 2)
        #expect(rig.submit(.sendQueueSpace(Rig.peers[0], bytes: 2 * 65_536)).storage.isEmpty)
    }

    @Test func `AB-75 one bad leaf refuses the whole page, and another holder is asked`() {
        var configuration = JournalConfiguration()
        configuration.maximumFetchBytes = 1 << 30
        var rig = Rig(configuration)
        let leaves = (0..<5_000).map { Digest.hash32([UInt8($0 & 255), UInt8($0 >> 8), 1]) }
        let byteCount = UInt64(5_000 * 65_536)
        let roots = ChunkTree.pageRoots(key: TestFile.key, leaves: leaves)
        guard let id = ChunkTree.contentID(key: TestFile.key, leaves: leaves, byteCount: byteCount) else {
            Issue.record("no content id")
            return
        }
        rig.submit(.linkUp(Rig.peers[0]))
        rig.submit(.linkUp(Rig.peers[1]))
        rig.announce(id, byteCount: byteCount)
        let claim = HaveEntry(content: id, generation: 1, chunks: .complete)
        #expect(rig.receive(.have([claim])).messages == [.wantManifest(id)])
        let wanted = rig.receive(.manifest(id, byteCount: byteCount, hashes: roots)).messages
        #expect(wanted == [.wantPage(id, page: 0), .wantPage(id, page: 1)])

        rig.receive(.have([claim]), from: 1)
        var bad = Array(leaves[..<4_096])
        bad[17] = .zero
        var outputs = rig.receive(.page(id, page: 0, leaves: bad))
        #expect(rig.machine.statistics.rejectedHashes == 1)
        #expect(rig.machine.contents[id]?.hashes.pages.isEmpty == true)
        #expect(outputs.messages == [.wantPage(id, page: 0)])

        // The holder is chosen at random: whoever was asked answers well now.
        let asked = outputs.sent(to: Rig.peers[0]).isEmpty ? 1 : 0
        outputs = rig.receive(.page(id, page: 0, leaves: Array(leaves[..<4_096])), from: asked)
        #expect(outputs.storage.isEmpty)
        outputs = rig.receive(.page(id, page: 1, leaves: Array(leaves[4_096...])))
        #expect(outputs.storage == [.begin(id, byteCount: byteCount, leaves: leaves)])
    }

    @Test func `AB-75 a manifest with one bad leaf, a missing leaf or a wrong size is refused whole`() {
        let file = TestFile(chunkCount: 9, seed: 5)
        var flipped = file.leaves
        flipped[3] = .zero
        let lies: [(UInt64, [Bytes32])] = [
            (file.byteCount, flipped), (file.byteCount, Array(file.leaves.dropLast())),
            (file.byteCount - 1, file.leaves),
            (0, []), (file.byteCount + 65_536, file.leaves + [.zero]), (JournalLimits.maximumContentBytes, file.leaves),
        ]
        for (byteCount, leaves) in lies {
            var rig = Rig()
            rig.submit(.linkUp(Rig.peers[0]))
            rig.announce(file.id, byteCount: file.byteCount)
            rig.receive(.have([HaveEntry(content: file.id, generation: 1, chunks: .complete)]))

            let outputs = rig.receive(.manifest(file.id, byteCount: byteCount, hashes: leaves))

            #expect(rig.machine.statistics.rejectedHashes == 1)
            #expect(outputs.storage.isEmpty)
        }
    }

    @Test func `a record that lies about the size is named, and the true one is fetched`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 9, seed: 6)
        rig.submit(.linkUp(Rig.peers[0]))
        rig.announce(file.id, byteCount: 5)
        rig.announce(file.id, byteCount: file.byteCount)
        rig.receive(.have([HaveEntry(content: file.id, generation: 1, chunks: .complete)]))
        rig.receive(.manifest(file.id, byteCount: file.byteCount, hashes: file.leaves))

        #expect(rig.machine.attachments.map(\.state) == [.failed(.sizeMismatch(byteCount: file.byteCount)), .fetching])
    }

    @Test func `an older claim does not bring back what a peer took back`() {
        var rig = Rig()
        let file = TestFile(chunkCount: 4, seed: 7)
        rig.hold(file)
        rig.submit(.linkUp(Rig.peers[0]))
        let claim = HaveEntry(content: file.id, generation: 1, chunks: .complete)
        rig.receive(.have([claim]))
        #expect(rig.machine.attachments.first?.holders.contains(Rig.peers[0]) == true)

        rig.receive(.have([HaveEntry(content: file.id, generation: 2, chunks: .ranges([]))]))
        rig.receive(.have([claim]))

        #expect(rig.machine.attachments.first?.holders.contains(Rig.peers[0]) == false)
    }

    @Test func `an add beyond the limit is refused with both numbers and its content is dropped again`() {
        var configuration = JournalConfiguration()
        configuration.maximumAttachmentBytes = 65_536
        var rig = Rig(configuration)
        let file = TestFile(chunkCount: 2, seed: 8, lastChunkBytes: 1)
        var outbox = Outbox<JournalOutput>()

        #expect(throws: CommandError.limitExceeded(limit: 65_536, actual: 65_537)) {
            try rig.machine.submit(
                .imported(
                    file.id, byteCount: file.byteCount, leaves: file.leaves, name: "x", note: "",
                    token: CommandToken(1)), at: .zero, into: &outbox)
        }
        #expect(outbox.items.storage == [.remove(file.id)])
        #expect(rig.machine.attachments.isEmpty)
    }

    @Test func `contents beyond the limit are named and followed when there is room`() {
        var configuration = JournalConfiguration()
        configuration.maximumContents = 2
        var rig = Rig(configuration)
        let ids = (0..<3).map { ContentID(Digest.hash32([UInt8($0), 8])) }
        for id in ids { rig.announce(id, byteCount: 1) }
        #expect(rig.machine.attachments.last?.state == .failed(.tooManyContents(limit: 2)))

        let first = rig.machine.attachments[0].id
        rig.submit(
            .recordAccepted(
                AcceptedRecord(
                    id: RecordID(.zero), kind: .attachmentRemoved, author: Rig.peers[0], incarnation: Incarnation(1),
                    sequence: 9, lamport: 9, body: AttachmentRemovedBody(attachment: first).encoded)))

        #expect(rig.machine.attachments.count == 2)
        #expect(rig.machine.attachments.allSatisfy { $0.state == .waitingForHolder })
    }

    @Test func `an attachment is found by the beginning of its id and by its name in either form`() {
        var rig = Rig()
        let body = AttachmentAddedBody(content: ContentID(.zero), byteCount: 1, name: "caf\u{e9}.txt", note: "")
        rig.submit(
            .recordAccepted(
                AcceptedRecord(
                    id: RecordID(Digest.hash32([1])), kind: .attachmentAdded, author: Rig.peers[0],
                    incarnation: Incarnation(1), sequence: 1, lamport: 1, body: body.encoded)))
        let id = RecordID(Digest.hash32([1])).description

        #expect(rig.machine.attachment(matching: String(id.prefix(4))).count == 1)
        #expect(rig.machine.attachment(matching: id.uppercased()).count == 1)
        #expect(rig.machine.attachment(matching: String(id.prefix(3))).isEmpty)
        #expect(rig.machine.attachment(matching: "cafe\u{301}.txt").count == 1)
        #expect(rig.machine.attachment(matching: "cafe.txt").isEmpty)
    }

    @Test(arguments: 0..<30) func `no message traps, whatever it says`(_ seed: Int) {
        var rig = Rig()
        var random = RandomStream(testSeed: UInt64(seed))
        let files = [TestFile(chunkCount: 5, seed: 9), TestFile(chunkCount: 3, seed: 10, lastChunkBytes: 7)]
        rig.hold(files[0])
        for peer in Rig.peers { rig.submit(.linkUp(peer)) }
        rig.announce(files[1].id, byteCount: files[1].byteCount)
        let edges: [UInt32] = [0, 1, 2, 3, 4, 5, 63, 64, 4_095, 4_096, UInt32(JournalLimits.maximumChunkCount) - 1]
        for _ in 0..<400 {
            let id = files[random.below(2)].id
            let chunk = edges[random.below(edges.count)]
            let message: JournalMessage =
                switch random.below(11) {
                case 0: .have([HaveEntry(content: id, generation: random.uint32() % 4, chunks: .complete)])
                case 1: .have([HaveEntry(content: id, generation: random.uint32(), chunks: .bitfield(random.bytes(9)))])
                case 2:
                    .have([
                        HaveEntry(
                            content: id, generation: 3, chunks: .ranges([ChunkRange(first: chunk, count: 1)]))
                    ])
                case 3: .wantManifest(id)
                case 4: .manifest(id, byteCount: UInt64(chunk) << 16, hashes: files[1].leaves)
                case 5: .wantPage(id, page: chunk)
                case 6: .page(id, page: chunk, leaves: files[1].leaves)
                case 7: .request(id, chunks: [chunk, chunk])
                case 8: .chunk(id, index: chunk, bytes: files[1].chunks[2])
                case 9: random.below(2) == 0 ? .cancel(id, chunks: []) : .notHere(id, chunks: [chunk])
                default: .manifest(files[1].id, byteCount: files[1].byteCount, hashes: files[1].leaves)
                }
            let outputs = rig.receive(message, from: random.below(4))
            for case .begin(let id, _, _) in outputs.storage { rig.submit(.completion(.began(id))) }
            if random.below(10) == 0 { _ = rig.advance(.milliseconds(Int64(random.below(3_000)))) }
        }
        #expect(rig.machine.attachments.count == 2)
        #expect(rig.machine.attachments[0].isPresent)
    }
}
