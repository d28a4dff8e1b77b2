import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// What a removed member's datagrams come to, and how a member that missed a change of the secret is found again.
@Suite struct LinkRemovalTests {
    private let old = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 61, count: 32)))
    private let new = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 62, count: 32)))

    /// Three members under the old secret; then 2 is removed, and the others have the new one.
    private func pipe(linked: Bool = true) -> LinkPipe {
        let pipe = LinkPipe()
        for index in 0..<3 { pipe.addNode(index, secrets: [old]) }
        let peers = Set(pipe.nodes.map(\.peerID))
        for index in 0..<3 { for peer in peers { pipe.nodes[index].table.admit(peer) } }
        if linked {
            dial(pipe, from: 0, to: 1, old)
            dial(pipe, from: 0, to: 2, old)
            dial(pipe, from: 1, to: 2, old)
            pipe.run(for: .seconds(1))
        }
        return pipe
    }

    private func dial(_ pipe: LinkPipe, from: Int, to: Int, _ secret: GroupSecret) {
        pipe.dial(
            from,
            DialRequest(
                addresses: [pipe.nodes[to].address], secretID: secret.id, expectedPeer: pipe.nodes[to].peerID))
    }

    private func remove(in pipe: LinkPipe) {
        let members = Set([0, 1].map { pipe.nodes[$0].peerID })
        for index in 0...1 {
            pipe.nodes[index].table.setSecrets([new])
            pipe.nodes[index].table.setMembers(members, removed: [pipe.nodes[2].peerID])
        }
    }

    private func pairSecret(_ pipe: LinkPipe, _ one: Int, _ other: Int) throws -> GroupSecret {
        try #require(
            PairSecret.between(pipe.nodes[one].table.identity.signing, pipe.nodes[other].peerID, mesh: LinkPipe.mesh))
    }

    @Test func `a removed member gets no byte under any secret it ever knew`() throws {
        let pipe = pipe(linked: false)
        remove(in: pipe)
        let sent = pipe.sentCount
        dial(pipe, from: 2, to: 0, old)
        try dial(pipe, from: 2, to: 1, pairSecret(pipe, 2, 1))
        pipe.run(for: .seconds(12))
        let answers = pipe.sent.dropFirst(sent).filter { $0.from != pipe.nodes[2].address }
        #expect(answers.isEmpty)
        #expect(pipe.nodes[2].established.isEmpty)
        #expect(pipe.nodes[2].failures.count == 2)
    }

    @Test func `AB-54 a removed key makes no link under a valid ticket either`() throws {
        let pipe = pipe(linked: false)
        remove(in: pipe)
        let ticket = GroupSecret(secret: SecretBytes(copying: [UInt8](repeating: 63, count: 32)))
        pipe.nodes[0].table.setSecrets([new, ticket])
        pipe.nodes[2].table.setSecrets([old, ticket])
        dial(pipe, from: 2, to: 0, ticket)
        pipe.run(for: .seconds(12))
        #expect(pipe.nodes[0].established.isEmpty)
        #expect(pipe.nodes[0].table.statistics.refusedRemoved > 0)
    }

    @Test func `two members that know different epoch secrets link under the secret of the two`() throws {
        let pipe = pipe(linked: false)
        pipe.nodes[0].table.setSecrets([new])
        dial(pipe, from: 0, to: 1, new)
        pipe.run(for: .seconds(1))
        #expect(pipe.nodes[0].established.isEmpty)
        try dial(pipe, from: 1, to: 0, pairSecret(pipe, 1, 0))
        pipe.run(for: .seconds(2))
        #expect(pipe.nodes[0].established.first?.peer == pipe.nodes[1].peerID)
        #expect(pipe.nodes[1].established.first?.peer == pipe.nodes[0].peerID)
    }

    @Test func `nobody but the two finishes a handshake under their secret`() throws {
        let pipe = pipe(linked: false)
        // Node 2 was given the secret of 0 and 1 by one of them, and has a key of its own.
        let pair = try pairSecret(pipe, 0, 1)
        pipe.nodes[2].table.setSecrets([old, pair])
        dial(pipe, from: 2, to: 0, pair)
        pipe.run(for: .seconds(12))
        #expect(pipe.nodes[0].established.isEmpty)
        #expect(pipe.nodes[0].table.statistics.refusedWrongPeer > 0)
    }

    @Test func `a link made under the old secret gets new keys after a removal`() {
        let pipe = pipe()
        remove(in: pipe)
        let before = pipe.nodes[0].table.statistics.handshakesFinished
        pipe.run(for: .seconds(140))
        #expect(pipe.nodes[0].table.statistics.handshakesFinished > before)
        #expect(pipe.nodes[0].table.linkedPeers.contains(pipe.nodes[1].peerID))
    }

    @Test func `a removed member that keeps its state opens no datagram sent between the others`() throws {
        let pipe = pipe()
        let kept = pipe.nodes[2].table
        remove(in: pipe)
        pipe.sent = []
        for round in 0..<50 {
            for (from, to) in [(0, 1), (1, 0)] {
                let message = OutgoingMessage(
                    channel: .gossip, payload: [UInt8](repeating: UInt8(round), count: 200), priority: .command,
                    isReliable: true)
                try pipe.nodes[from].table.send(message, to: pipe.nodes[to].peerID, at: pipe.now)
            }
            pipe.run(for: .seconds(3))
        }
        let overheard = pipe.sent.filter { [$0.from, $0.to].allSatisfy { $0 != pipe.nodes[2].address } }
        #expect(overheard.count > 200)
        #expect(pipe.nodes[1].messages.count == 50)
        var table = kept
        _ = table.takeHeard()
        var outbox = Outbox<LinkOutput>()
        for flight in overheard {
            var bytes = flight.bytes
            var span = bytes.mutableSpan
            table.receive(&span, from: flight.from, receivedAt: pipe.now, at: pipe.now, into: &outbox)
        }
        #expect(outbox.items.isEmpty)
        #expect(table.takeHeard().isEmpty)
    }

    @Test func `AB-33 junk is tried against the secrets between two at a bounded rate`() {
        var pairs = PairSecrets(
            identity: NodeIdentity(signing: RandomStream.testKey(1), incarnation: Incarnation(1)))
        pairs.admit(RandomStream.testKey(2).peerID)
        let now = HostTime(nanoseconds: 1_000_000_000)
        let tries = (0..<10_000).count { _ in pairs.mayTry(at: now) }
        #expect(tries == 64)
    }
}
