import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// Removal, the end and new epoch secrets among gossip machines.
@Suite struct GossipRemovalTests {
    /// `count` members, linked each with each, the last records known to all.
    private func mesh(_ count: Int, seed: UInt64 = 1) throws -> GossipNetwork {
        let network = try GossipNetwork.mesh(count, seed: seed)
        network.connectFully()
        network.run(milliseconds: 500)
        return network
    }

    private func remove(_ subject: Int, by remover: Int, in network: GossipNetwork, token: UInt64 = 9) throws {
        try network.submit(remover, .remove(network.nodes[subject].id, token: CommandToken(token)))
    }

    /// The bytes of records that `reader` opens with any secret it ever had.
    private func opened(_ records: [[UInt8]], by reader: GossipNetwork.Node) -> [RecordKind] {
        records.compactMap { bytes in
            guard let record = try? SignedRecord(decoding: bytes) else { return nil }
            let secrets = reader.gossip.log.secrets.values
            return secrets.contains { record.openBody(with: $0) != nil } ? record.envelope.kind : nil
        }
    }

    private func current(_ network: GossipNetwork, _ position: Int) -> SecretID? {
        network.nodes[position].gossip.sealing.current?.id
    }

    @Test func `a removed member is told by the record, and opens nothing that is written after`() throws {
        let network = try mesh(5)
        let before = Set(network.nodes[0].disk.keys)
        try remove(3, by: 0, in: network)
        network.run(milliseconds: 300)
        // It keeps its old state, and hears everything that is said from now on.
        for position in [0, 1, 2, 4] { try network.publish(position, "after \(position)") }
        network.run(milliseconds: 2_000)

        let removed = network.nodes[3]
        #expect(removed.membership?.removals[removed.id]?.by == network.nodes[0].id)
        #expect(network.nodes[0].published[9] != nil)
        let written = network.nodes[0].disk.filter { !before.contains($0.key) }.map(\.value)
        #expect(written.count == 6)
        // What it must read to know that it is out, and the list of those who get the new secret; not the secret.
        #expect(Set(opened(written, by: removed)) == [.remove, .epoch])
        #expect(removed.gossip.log.secrets.count == 1)
        for position in [0, 1, 2, 4] {
            #expect(current(network, position) == current(network, 0))
            #expect(network.nodes[position].gossip.log.secrets.count == 2)
            #expect(!network.nodes[position].gossip.isMember(removed.id))
        }
        #expect(
            !removed.disk.keys.contains {
                !before.contains($0)
                    && removed.disk[$0].map { opened([$0], by: network.nodes[0]) } == [.attachmentAdded]
            })
    }

    @Test func `a message that others pass on is sealed so that a removed member cannot open it`() throws {
        let network = try mesh(4)
        try remove(3, by: 0, in: network)
        network.run(milliseconds: 300)
        network.disconnect(0, 2)
        network.run(milliseconds: 300)
        try network.say(0, Array("secret".utf8), to: [network.nodes[2].id])
        network.run(milliseconds: 2_000)
        #expect(network.nodes[2].payloads(from: network.nodes[0].id) == [Array("secret".utf8)])
        let secret = try #require(network.nodes[0].gossip.sealing.current)
        #expect(network.nodes[3].gossip.log.secrets[secret.id] == nil)
    }

    @Test func `an ordered message after a removal goes to members alone, under a secret that only they know`() throws {
        let network = try mesh(4)
        try network.say(0, Array("before".utf8), mode: .ordered)
        network.run(milliseconds: 3_000)
        #expect(network.nodes[3].payloads(from: network.nodes[0].id).count == 1)
        try remove(3, by: 0, in: network)
        network.run(milliseconds: 300)
        for position in network.nodes.indices {
            let others = network.nodes.indices.filter { $0 != position && $0 != 3 }.map { network.nodes[$0].id }
            try network.submit(position, .membersChanged(others, lives: network.lives(besides: position)))
        }
        try network.say(0, Array("after".utf8), mode: .ordered)
        network.run(milliseconds: 5_000)
        for position in 1...2 {
            #expect(network.nodes[position].payloads(from: network.nodes[0].id).last == Array("after".utf8))
        }
        #expect(network.nodes[3].payloads(from: network.nodes[0].id).count == 1)
        let life = ChainKey(author: network.nodes[0].id, incarnation: network.nodes[0].identity.incarnation)
        let message = try #require(network.nodes[1].gossip.ordered.message(life, 2))
        #expect(network.nodes[3].gossip.log.secrets[message.epoch] == nil)
        #expect(throws: CommandError.self) { try network.say(3, Array("still here".utf8), mode: .ordered) }
    }

    @Test func `two removals at once end in one secret that neither of the removed can compute`() throws {
        let network = try mesh(6)
        // Node 5 was let in by node 1, so that each half has somebody who may remove.
        network.addNode()
        try network.admit(6, by: 1)
        network.connectFully()
        network.run(milliseconds: 500)
        let halves = [[0, 2, 4, 5], [1, 3, 6]]
        for left in halves[0] { for right in halves[1] { network.disconnect(left, right) } }
        try remove(4, by: 0, in: network)
        try remove(6, by: 1, in: network)
        network.run(milliseconds: 500)
        #expect(current(network, 0) != current(network, 1))
        network.connectFully()
        network.run(milliseconds: 6_000)

        let remaining = [0, 1, 2, 3, 5]
        let secret = try #require(current(network, 0))
        for position in remaining { #expect(current(network, position) == secret, "\(position)") }
        for removed in [4, 6] {
            let node = network.nodes[removed]
            #expect(node.gossip.log.secrets[secret] == nil)
            // Not even with every record of the others at hand.
            let everything = network.nodes[0].gossip.records
            for bytes in everything {
                guard let record = try? SignedRecord(decoding: bytes) else { continue }
                network.changeLink(removed) { gossip, _, _ in _ = gossip.log.insert([record], from: nil, at: .zero) }
            }
            #expect(node.gossip.log.secrets[secret] == nil)
        }
        #expect(network.haveConverged(remaining))
    }

    @Test func `a member that was away for two changes of the secret catches up and reads everything`() throws {
        let network = try mesh(6)
        for other in 0..<5 { network.disconnect(5, other) }
        try remove(3, by: 0, in: network)
        network.run(milliseconds: 500)
        try network.publish(1, "under the second")
        try remove(4, by: 0, in: network)
        network.run(milliseconds: 500)
        try network.publish(2, "under the third")
        network.run(milliseconds: 500)
        for other in 0..<3 { network.connect(5, other) }
        network.run(milliseconds: 4_000)

        #expect(network.haveConverged([0, 1, 2, 5]))
        #expect(network.nodes[5].accepted.filter { $0.kind == .attachmentAdded }.count == 2)
        #expect(current(network, 5) == current(network, 0))
        #expect(network.nodes[5].gossip.membership.members.count == 4)
    }

    @Test func `whoever was let in while the secret changed asks for it and gets it`() throws {
        let network = try mesh(4)
        network.addNode()
        network.disconnect(0, 1)
        for other in 2..<4 { network.disconnect(1, other) }
        try remove(3, by: 0, in: network)
        network.run(milliseconds: 300)
        // Node 1 knows nothing of it and lets somebody in.
        try network.admit(4, by: 1)
        network.connect(1, 4)
        network.run(milliseconds: 500)
        #expect(network.nodes[4].gossip.log.secrets.count == 1)
        network.connect(0, 1)
        network.run(milliseconds: 4_000)

        #expect(current(network, 4) == current(network, 0))
        try network.publish(4, "thank you")
        network.run(milliseconds: 2_000)
        #expect(network.nodes[0].accepted.last?.kind == .attachmentAdded)
    }

    @Test func `a remover that dies before it makes the new secret is stood in for`() throws {
        let network = try mesh(4)
        let body = RemoveBody(
            subject: network.nodes[3].id,
            lives: [.init(incarnation: network.nodes[3].identity.incarnation, sequence: 0)])
        let old = try #require(current(network, 1))
        try network.submit(0, .publish(.remove, body: body.encoded, token: nil))
        network.run(milliseconds: 20)
        network.nodes[0].isFrozen = true
        network.run(milliseconds: 4_000)
        let secret = try #require(current(network, 1))
        #expect(secret != old)
        #expect(current(network, 2) == secret)
        #expect(network.nodes[3].gossip.log.secrets[secret] == nil)
    }

    @Test func `what a removed member goes on to say in another half counts for nobody once that is known`() throws {
        let network = try mesh(5)
        try network.publish(3, "known to all")
        network.run(milliseconds: 500)
        for left in [0, 1, 2] { for right in [3, 4] { network.disconnect(left, right) } }
        try remove(3, by: 0, in: network)
        try network.publish(3, "behind their backs")
        network.run(milliseconds: 500)
        let said = try #require(network.nodes[4].accepted.last)
        #expect(said.author == network.nodes[3].id)
        for left in [0, 1, 2] { network.connect(left, 4) }
        network.run(milliseconds: 4_000)

        #expect(network.nodes[4].muted == [said.id])
        for position in [0, 1, 2] {
            #expect(!network.nodes[position].accepted.contains { $0.id == said.id })
            #expect(network.nodes[position].accepted.filter { $0.author == network.nodes[3].id }.count == 1)
        }
        #expect(network.haveConverged([0, 1, 2, 4]))
        let restored = network.restart(4)
        #expect(!restored.contains { $0.id == said.id })
        #expect(restored.contains { $0.author == network.nodes[3].id })
    }

    @Test func `a removed member gets no record by asking, and moves nothing`() throws {
        let network = try mesh(3)
        try remove(2, by: 0, in: network)
        network.run(milliseconds: 300)
        try network.publish(0, "later")
        network.run(milliseconds: 300)
        let later = try #require(network.nodes[0].accepted.last?.id)
        let count = network.nodes[2].disk.count
        network.inject(.want([later]), from: 2, to: 1)
        network.inject(.wantSecrets([try #require(current(network, 0))]), from: 2, to: 1)
        network.inject(
            .summary(RecordSummary(asksForRecords: true, lower: nil, reachesEnd: true, chains: [])), from: 2, to: 1)
        network.run(milliseconds: 1_000)
        #expect(network.nodes[2].disk.count == count)
        #expect(network.nodes[2].gossip.log.secrets.count == 1)
        #expect(throws: CommandError.notPermitted) { try network.publish(2, "I am still here") }
    }

    @Test func `an invite made before a removal is void, one made after it counts`() throws {
        let network = try mesh(3)
        let body = InviteBody(joinSecret: Bytes32([UInt8](repeating: 5, count: 32))!, lifetimeSeconds: 0)
        try network.submit(1, .publish(.invite, body: body.encoded, token: nil))
        network.run(milliseconds: 300)
        let invite = try #require(network.nodes[0].accepted.last)
        try remove(2, by: 0, in: network)
        network.run(milliseconds: 300)
        for position in [0, 1] { #expect(network.nodes[position].muted == [invite.id]) }
        try network.submit(1, .publish(.invite, body: body.encoded, token: nil))
        network.run(milliseconds: 300)
        #expect(network.nodes[0].accepted.last?.kind == .invite)
        #expect(network.nodes[0].muted.count == 1)
    }

    @Test func `only whom the policy lets removes, and nobody removes the creator or itself`() throws {
        let network = try mesh(3)
        for (remover, subject) in [(1, 2), (1, 0), (0, 0), (2, 2)] {
            #expect(throws: CommandError.notPermitted) { try remove(subject, by: remover, in: network) }
        }
        network.addNode()
        #expect(throws: CommandError.notFound) { try remove(3, by: 0, in: network) }
        // Written all the same, it says nothing.
        let body = RemoveBody(subject: network.nodes[2].id, lives: [])
        try network.submit(1, .publish(.remove, body: body.encoded, token: nil))
        network.run(milliseconds: 500)
        #expect(network.nodes[0].gossip.isMember(network.nodes[2].id))
    }

    @Test func `the end reaches whoever meets somebody that knows it, also after a restart`() throws {
        let network = try mesh(4)
        for other in 0..<3 { network.disconnect(3, other) }
        try network.submit(1, .end(token: CommandToken(4)))
        network.run(milliseconds: 500)
        for position in 0..<3 { #expect(network.nodes[position].membership?.ending?.by == network.nodes[1].id) }
        #expect(throws: CommandError.ended) { try network.submit(0, .end(token: nil)) }
        _ = network.restart(2)
        #expect(network.nodes[2].gossip.membership.ending != nil)
        network.connect(2, 3)
        network.run(milliseconds: 2_000)
        #expect(network.nodes[3].membership?.ending?.by == network.nodes[1].id)
    }

    @Test(arguments: 1..<9 as Range<UInt64>)
    func `AB-67 removals in a network that loses, repeats and reorders leave the remaining members equal`(
        seed: UInt64
    ) throws {
        let network = try mesh(7, seed: seed)
        network.faults.delay = 1...40
        network.faults.loss = 0.2
        network.faults.duplication = 0.1
        var random = RandomStream(testSeed: seed)
        for subject in [4, 5, 6] {
            for left in network.nodes.indices {
                for right in network.nodes.indices where left < right {
                    if random.below(3) == 0 { network.disconnect(left, right) } else { network.connect(left, right) }
                }
            }
            try remove(subject, by: 0, in: network)
            if random.below(2) == 0 { try? network.publish(subject, "last word") }
            try network.publish(1, "between")
            network.run(milliseconds: Int64(random.below(400)))
        }
        network.faults.loss = 0
        network.connectFully()
        network.run(milliseconds: 12_000)
        let remaining = [0, 1, 2, 3]
        #expect(network.haveConverged(remaining))
        for position in remaining {
            #expect(current(network, position) == current(network, 0))
            #expect(network.nodes[position].gossip.membership == network.nodes[0].gossip.membership)
            #expect(network.nodes[position].gossip.membership.members.count == 4)
            let effective = network.nodes[position].gossip.log.stored.filter { !$0.value.isMuted && !$0.value.isVoid }
            #expect(
                Set(effective.keys)
                    == Set(network.nodes[0].gossip.log.stored.filter { !$0.value.isMuted && !$0.value.isVoid }.keys))
        }
    }
}
