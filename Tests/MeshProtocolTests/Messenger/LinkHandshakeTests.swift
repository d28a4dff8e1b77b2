import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct LinkHandshakeTests {
    private let stranger = SocketAddress.ipv4(192, 0, 2, 9, port: 9)

    /// A node that makes an INIT for node 1 of `pipe` without being on the pipe.
    private func initiation(
        _ pipe: LinkPipe, node: Int = 5, seed: UInt64 = 77, secret: GroupSecret = LinkPipe.secret
    ) -> (table: LinkTable, bytes: [UInt8]) {
        var table = LinkTable(
            identity: LinkPipe.identity(node), configuration: LinkConfiguration(), random: RandomStream(testSeed: seed))
        table.setMesh(LinkPipe.mesh)
        table.setSecrets([secret])
        var outbox = Outbox<LinkOutput>()
        table.dial(DialRequest(addresses: [pipe.nodes[1].address], secretID: secret.id), at: pipe.now, into: &outbox)
        for item in outbox.items {
            if case .transmit(let datagram) = item { return (table, datagram.bytes) }
        }
        return (table, [])
    }

    // MARK: Strangers

    @Test func `the 43 foreign datagrams and random junk get no byte`() throws {
        let pipe = LinkPipe.linkedPair()
        let foreign = try #require(try LinkVectors.load("abuse/foreign_datagrams.json")["datagrams"]?.arrayValue)
        #expect(foreign.count == 43)
        for item in foreign {
            let bytes = try #require(Hexadecimal.decode(item["hex"]?.stringValue ?? ""))
            #expect(pipe.inject(bytes, into: 1, from: stranger).isEmpty, "\(item["name"]?.stringValue ?? "?")")
        }
        var generator = RandomStream(testSeed: 5)
        for _ in 0..<2000 {
            var bytes = generator.bytes(generator.below(400))
            if !bytes.isEmpty { bytes[0] = UInt8(generator.below(6)) }
            #expect(pipe.inject(bytes, into: 1, from: stranger).isEmpty)
        }
        #expect(pipe.isLinked(1, 0))
    }

    @Test func `AB-01 every length of every type byte is dropped and counted`() {
        let pipe = LinkPipe.pair()
        for type in 0...255 as ClosedRange<UInt8> {
            for count in 0...96 {
                var bytes = [UInt8](repeating: 0, count: count)
                if count > 0 { bytes[0] = type }
                #expect(pipe.inject(bytes, into: 1, from: stranger).isEmpty)
            }
        }
        let statistics = pipe.nodes[1].table.statistics
        let refused =
            statistics.refusedLength + statistics.refusedType + statistics.refusedIndex
            + statistics.refusedReserved + statistics.refusedState
        #expect(refused == statistics.datagramsReceived)
    }

    @Test func `AB-32 empty datagrams are counted like any other`() {
        let pipe = LinkPipe.pair()
        for _ in 0..<100 { pipe.inject([], into: 1, from: stranger) }
        #expect(pipe.nodes[1].table.statistics.datagramsReceived == 100)
        #expect(pipe.nodes[1].table.statistics.refusedLength == 100)
    }

    @Test func `AB-33 without mac1 no state and no answer, whatever the number`() {
        let pipe = LinkPipe.pair()
        let other = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 9, count: 32)))
        let (_, bytes) = initiation(pipe, secret: other)
        for number in 0..<200 {
            var changed = bytes
            changed[20] = UInt8(number)
            #expect(pipe.inject(changed, into: 1, from: stranger).isEmpty)
        }
        #expect(pipe.nodes[1].table.halfOpen.entries.isEmpty)
        #expect(pipe.nodes[1].table.statistics.refusedMac1 == 200)
    }

    @Test func `AB-33 under load a cookie is asked for, smaller than the request, and the one who has it gets in`() {
        var configuration = LinkConfiguration()
        configuration.handshakesPerSecondBeforeCookies = 0
        let pipe = LinkPipe.pair(configuration: configuration)
        let (_, bytes) = initiation(pipe)

        let replies = pipe.inject(bytes, into: 1, from: stranger)
        #expect(replies.map(\.bytes.count) == [64])
        #expect(pipe.nodes[1].table.halfOpen.entries.isEmpty)

        pipe.dial(0, to: 1)
        pipe.run(for: .milliseconds(100))
        #expect(pipe.isLinked(0, 1) && pipe.isLinked(1, 0))
        #expect(pipe.nodes[1].table.statistics.cookiesSent == 2)
    }

    @Test func `AB-26 half-open handshakes are at most 64, four per unproven network, and gone after 10 s`() {
        let pipe = LinkPipe.pair()
        for number in 0..<300 {
            let (_, bytes) = initiation(pipe, seed: UInt64(1000 + number))
            let source = SocketAddress.ipv4(172, 16, UInt8(number / 10), UInt8(number % 10), port: 5)
            pipe.inject(bytes, into: 1, from: source)
            if number == 9 { #expect(pipe.nodes[1].table.halfOpen.entries.count == 4) }
        }
        #expect(pipe.nodes[1].table.halfOpen.entries.count == 64)
        pipe.run(for: .seconds(11))
        #expect(pipe.nodes[1].table.halfOpen.entries.isEmpty)
        #expect(pipe.nodes[1].table.owners.isEmpty)
    }

    @Test func `AB-37 failing handshakes give their place back, the next good one succeeds at once`() throws {
        let pipe = LinkPipe.pair()
        for number in 0..<300 {
            let (_, bytes) = initiation(pipe, seed: UInt64(1000 + number))
            let replies = pipe.inject(bytes, into: 1, from: stranger)
            guard let response = replies.first, response.bytes.first == DatagramType.response.rawValue else {
                pipe.run(for: .seconds(2))
                continue
            }
            let answer = try HandshakeDatagram(decoding: response.bytes.span)
            let bad = HandshakeSuite.sealed(
                HandshakeDatagram(
                    type: .final, senderIndex: answer.receiverIndex, receiverIndex: answer.senderIndex,
                    noise: [UInt8](repeating: 1, count: 224)), secret: LinkPipe.secret, cookie: nil)
            #expect(pipe.inject(bad, into: 1, from: stranger).isEmpty)
        }
        #expect(pipe.nodes[1].table.statistics.refusedHandshake > 200)
        #expect(pipe.nodes[1].table.halfOpen.entries.isEmpty)
        pipe.dial(0, to: 1)
        pipe.run(for: .milliseconds(20))
        #expect(pipe.isLinked(1, 0))
    }

    // MARK: Order and repetition

    @Test
    func `the same INIT gets the same RESP at its source, and a copy from elsewhere that overtakes it blocks nobody`() {
        let pipe = LinkPipe.pair()
        let (_, bytes) = initiation(pipe)
        let copy = pipe.inject(bytes, into: 1, from: .ipv4(192, 0, 2, 10, port: 9))
        let first = pipe.inject(bytes, into: 1, from: stranger)
        let again = pipe.inject(bytes, into: 1, from: stranger)
        #expect(first.count == 1)
        #expect(first == again)
        #expect(copy.first?.bytes != first.first?.bytes, "a handshake apart")
        #expect(first.first?.destination == stranger)
    }

    @Test func `a dial retransmits the same bytes, at most six times, and then says that nobody answered`() {
        let pipe = LinkPipe.pair()
        pipe.nodes[1].isSilent = true
        pipe.dial(0, to: 1)
        pipe.run(for: .seconds(12))

        #expect(pipe.sent.count >= 5 && pipe.sent.count <= 6)
        #expect(Set(pipe.sent.map(\.bytes)).count == 1)
        #expect(pipe.sent.allSatisfy { $0.bytes.count == 352 })
        #expect(pipe.nodes[0].failures == [.noAnswer])
        let first = (pipe.sent[1].at - pipe.sent[0].at).milliseconds
        #expect(first > 199 && first < 301)
    }

    @Test func `AB-64 an address gets one attempt per 5 s however often it is dialled`() {
        let pipe = LinkPipe.pair()
        pipe.nodes[1].isSilent = true
        for number in 0..<20 {
            let peer = PeerID(Bytes32([UInt8](repeating: UInt8(number + 1), count: 32))!)
            pipe.dial(
                0,
                DialRequest(
                    addresses: [pipe.nodes[1].address], secretID: LinkPipe.secret.id, expectedPeer: peer))
        }
        pipe.run(for: .milliseconds(4900))
        #expect(Set(pipe.sent.map(\.bytes)).count == 1)
        #expect(pipe.sent.count <= 5)
    }

    @Test func `AB-65 no answer is larger than its request, and nothing follows it to a source that stays silent`() {
        let pipe = LinkPipe.pair()
        let (_, bytes) = initiation(pipe)
        let replies = pipe.inject(bytes, into: 1, from: stranger)
        #expect(replies.map(\.bytes.count) == [352])
        pipe.sent.removeAll()
        pipe.run(for: .seconds(20))
        #expect(pipe.sent.isEmpty)
    }

    @Test(arguments: [1, 20, 250] as [Int64])
    func `AB-57 both sides open at once: one link, and both send under the same keys`(delay: Int64) throws {
        let pipe = LinkPipe.pair(faults: PipeFaults(delay: .milliseconds(delay)))
        pipe.dial(0, to: 1)
        pipe.dial(1, to: 0)
        pipe.run(for: .seconds(4))
        for number in 0..<20 as Range<UInt8> {
            try pipe.send([number], from: 0, to: 1)
            try pipe.send([number], from: 1, to: 0)
        }
        pipe.run(for: .seconds(4))

        #expect(pipe.nodes[0].established.count == 1 && pipe.nodes[1].established.count == 1)
        #expect(pipe.nodes[0].lost.isEmpty && pipe.nodes[1].lost.isEmpty)
        #expect(pipe.nodes[0].messages.count == 20 && pipe.nodes[1].messages.count == 20)
        let left = try #require(pipe.link(0, 1))
        let right = try #require(pipe.link(1, 0))
        #expect(left.generations[left.current].handshakeHash == right.generations[right.current].handshakeHash)
        #expect(pipe.nodes[0].failures.isEmpty && pipe.nodes[1].failures.isEmpty)
    }

    @Test func `AB-57 AB-63 handshake datagrams early, twice, late and replayed change nothing`() throws {
        let pipe = LinkPipe.linkedPair()
        let handshakes = pipe.sent.filter { $0.bytes.count == 352 }
        #expect(handshakes.count == 3)
        for wait in [TimeSpan.milliseconds(1), .seconds(12)] {
            pipe.run(for: wait)
            for _ in 0..<2 {
                for flight in handshakes.reversed() + handshakes {
                    pipe.inject(flight.bytes, into: 0, from: pipe.nodes[1].address)
                    pipe.inject(flight.bytes, into: 1, from: pipe.nodes[0].address)
                }
            }
        }
        try pipe.send([1], from: 0, to: 1)
        pipe.run(for: .seconds(1))

        #expect(pipe.nodes[1].messages.count == 1)
        #expect(pipe.nodes[0].established.count == 1 && pipe.nodes[1].established.count == 1)
        #expect(pipe.nodes[0].lost.isEmpty && pipe.nodes[1].lost.isEmpty)
    }

    @Test func `AB-61 a handshake changed at any byte makes no link and no weaker one`() {
        for type in 1...3 as ClosedRange<UInt8> {
            for offset in stride(from: 4, to: 336, by: 23) {
                let pipe = LinkPipe.pair()
                pipe.tap = { flight in
                    guard flight.bytes[0] == type else { return flight.bytes[0] == 4 ? nil : flight }
                    var changed = flight
                    changed.bytes[offset] ^= 0x40
                    return changed
                }
                pipe.dial(0, to: 1)
                pipe.run(for: .seconds(1))
                // FIN comes last: the initiator knows the responder by then, the responder nobody.
                if type < 3 { #expect(!pipe.isLinked(0, 1)) }
                #expect(!pipe.isLinked(1, 0), "type \(type), byte \(offset)")
            }
        }
    }

    @Test func `AB-45 nothing in a handshake depends on clocks: hosts a century apart link and exchange`() throws {
        let pipe = LinkPipe.pair()
        pipe.nodes[1].clockOffset = .seconds(3_155_760_000)
        pipe.dial(0, to: 1)
        pipe.run(for: .milliseconds(50))
        try pipe.send([1], from: 0, to: 1)
        pipe.run(for: .milliseconds(50))
        #expect(pipe.nodes[1].messages.count == 1)
    }

    // MARK: Who

    @Test func `a node that reaches itself does not link`() {
        let pipe = LinkPipe(seed: 3)
        pipe.addNode(0)
        pipe.dial(0, DialRequest(addresses: [pipe.nodes[0].address], secretID: LinkPipe.secret.id))
        pipe.run(for: .seconds(12))
        #expect(pipe.nodes[0].established.isEmpty)
        #expect(pipe.nodes[0].failures == [.wrongPeer])
        #expect(pipe.nodes[0].table.statistics.refusedSelf == 1)
    }

    @Test func `somebody else at the address is refused`() {
        let pipe = LinkPipe.pair()
        pipe.dial(
            0,
            DialRequest(
                addresses: [pipe.nodes[1].address], secretID: LinkPipe.secret.id,
                expectedPeer: LinkPipe.identity(9).peerID))
        pipe.run(for: .seconds(1))
        #expect(pipe.nodes[0].failures == [.wrongPeer])
        #expect(!pipe.isLinked(1, 0))
    }

    @Test func `an unknown secret fails at once`() {
        let pipe = LinkPipe.pair()
        pipe.dial(0, DialRequest(addresses: [pipe.nodes[1].address], secretID: SecretID(.zero)))
        #expect(pipe.nodes[0].failures == [.unknownSecret])
    }

    @Test func `the first address that answers wins, the others are left alone`() {
        let pipe = LinkPipe.pair()
        let dead = (0..<4).map { SocketAddress.ipv4(203, 0, 113, UInt8($0), port: 1) }
        pipe.dial(
            0,
            DialRequest(
                addresses: Array(dead[..<2]) + [pipe.nodes[1].address] + Array(dead[2...]), secretID: LinkPipe.secret.id
            ))
        pipe.run(for: .seconds(3))
        #expect(pipe.nodes[0].established.count == 1)
        let tried = Set(pipe.sent.filter { $0.bytes.count == 352 }.map(\.to))
        #expect(tried.isSuperset(of: dead[..<2]) && !tried.contains(dead[2]) && !tried.contains(dead[3]))
        #expect(pipe.nodes[0].failures.isEmpty)
    }

    @Test func `any of the active secrets opens, and it is told which`() {
        let ticket = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 8, count: 32)))
        let pipe = LinkPipe(seed: 2)
        pipe.addNode(0, secrets: [ticket])
        pipe.addNode(1, secrets: [LinkPipe.secret, ticket])
        pipe.dial(0, DialRequest(addresses: [pipe.nodes[1].address], secretID: ticket.id))
        pipe.run(for: .milliseconds(50))
        #expect(pipe.nodes[1].established.map(\.secretID) == [ticket.id])
    }

    @Test func `MSG-13 a foreign version is said once and tried ever more seldom`() {
        var newer = LinkConfiguration()
        newer.minimumVersion = 2
        newer.maximumVersion = 3
        let pipe = LinkPipe(seed: 2)
        pipe.addNode(0)
        pipe.addNode(1, configuration: newer)
        for _ in 0..<120 {
            pipe.dial(0, to: 1)
            pipe.run(for: .seconds(1))
        }
        #expect(pipe.nodes[0].established.isEmpty)
        #expect(pipe.nodes[0].failures.allSatisfy { $0 == .versionMismatch(theirMinimum: 2, theirMaximum: 3) })
        #expect(pipe.nodes[0].events.filter { $0.kind == .versionMismatch }.count == 1)
        #expect(pipe.sent.filter { $0.bytes.first == 1 }.count <= 6)
    }

    /// Which side no longer holds the secret, and before which datagram arrives.
    @Test(arguments: [(1, DatagramType.final), (0, .response), (1, .initiation)])
    func `AB-76 a secret revoked while its handshake runs makes no link on the side that knows`(
        side: Int, before: DatagramType
    ) {
        let pipe = LinkPipe.pair()
        pipe.tap = { flight in
            if flight.bytes.first == before.rawValue { pipe.nodes[side].table.setSecrets([]) }
            return flight
        }
        pipe.dial(0, to: 1)
        pipe.run(for: .seconds(3))

        #expect(pipe.nodes[side].established.isEmpty)
        #expect(!pipe.isLinked(side, 1 - side))
        #expect(pipe.sent.contains { $0.bytes.first == before.rawValue }, "the handshake came so far")
    }

    @Test func `AB-14 bits for abilities that this build does not know change nothing between two nodes`() throws {
        for bit in 0..<32 {
            var configuration = LinkConfiguration()
            configuration.capabilities = 1 << UInt32(bit)
            let pipe = LinkPipe(seed: UInt64(bit) + 1)
            pipe.addNode(0)
            pipe.addNode(1, configuration: configuration)
            pipe.dial(bit % 2, to: 1 - bit % 2)
            pipe.run(for: .milliseconds(50))

            #expect(pipe.isLinked(0, 1) && pipe.isLinked(1, 0), "bit \(bit)")
            try pipe.send([1], from: 0, to: 1)
            try pipe.send([2], from: 1, to: 0)
            pipe.run(for: .milliseconds(50))
            #expect(pipe.nodes[0].messages.map(\.payload) == [[2]] && pipe.nodes[1].messages.map(\.payload) == [[1]])
        }
    }

    /// Which datagrams of a handshake are lost for good: everything of this type and after it.
    @Test(arguments: [DatagramType.initiation, .response, .final, .data])
    func `AB-12 a handshake that fails at any step leaves no place, no timer and no link behind`(step: DatagramType)
        throws
    {
        let pipe = LinkPipe.pair()
        pipe.tap = { flight in (flight.bytes.first ?? 0) >= step.rawValue ? nil : flight }
        for _ in 0..<20 {
            pipe.dial(0, to: 1)
            pipe.run(for: .seconds(6))
        }
        pipe.run(for: .seconds(60))

        for node in pipe.nodes {
            #expect(node.table.dials.isEmpty && node.table.finals.isEmpty)
            #expect(node.table.halfOpen.entries.isEmpty)
            #expect(node.table.owners.isEmpty)
            #expect(node.table.linkedPeers.isEmpty)
            #expect(node.table.nextDeadline == nil, "no timer is left")
        }
        #expect(pipe.nodes[0].established.isEmpty || !pipe.nodes[0].lost.isEmpty)
        pipe.tap = nil
        pipe.dial(0, to: 1)
        pipe.run(for: .milliseconds(50))
        #expect(pipe.isLinked(0, 1) && pipe.isLinked(1, 0))
    }

    @Test func `MSG-07 dialling again does not make a second link or more traffic`() {
        let pipe = LinkPipe.linkedPair()
        pipe.run(for: .seconds(1))
        let before = pipe.sentCount
        for _ in 0..<50 { pipe.dial(0, to: 1) }
        pipe.run(for: .milliseconds(500))
        #expect(pipe.sentCount - before <= 4)
        #expect(pipe.nodes[0].table.linkedPeers.count == 1 && pipe.nodes[1].table.linkedPeers.count == 1)
    }

    @Test func `a restarted peer replaces its old link and that is said`() {
        let pipe = LinkPipe.linkedPair()
        pipe.nodes[1].isSilent = true
        pipe.addNode(1, incarnation: 999, address: SocketAddress.ipv4(10, 0, 9, 9, port: 4000), seed: 50)
        pipe.dial(2, to: 0)
        pipe.run(for: .milliseconds(50))
        #expect(pipe.nodes[0].lost.map(\.loss) == [.replaced])
        #expect(pipe.nodes[0].established.map(\.incarnation) == [Incarnation(101), Incarnation(999)])
    }
}
