import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// Distinct small payloads.
private func payload(_ number: Int) -> [UInt8] {
    [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
}

private func linked(_ count: Int, seed: UInt64, configuration: GossipConfiguration = GossipConfiguration()) throws
    -> GossipNetwork
{
    let network = try GossipNetwork.mesh(count, seed: seed, configuration: configuration)
    network.connectFully()
    network.run(milliseconds: 2_000)
    return network
}

struct `Messages between linked members` {
    @Test func `arrive once, in order, and are acknowledged`() throws {
        let network = try linked(3, seed: 20)
        network.faults = .init(delay: 1...40, loss: 0.2, duplication: 0.3, recovery: 50)

        for number in 0..<50 { try network.say(0, payload(number), token: UInt64(number)) }

        #expect(network.run(atMost: 5_000) { network.nodes[0].outcomes.count == 50 })
        #expect(network.nodes[0].outcomes.values.allSatisfy { $0 == .delivered })
        for receiver in 1...2 {
            #expect(network.nodes[receiver].payloads(from: network.nodes[0].id) == (0..<50).map { payload($0) })
        }
    }

    @Test func `cost no acknowledgement beside the link's once the first was taken`() throws {
        let network = try linked(2, seed: 61)
        try network.say(0, payload(0), token: 0)
        network.run(milliseconds: 100)
        #expect(network.nodes[0].outcomes[0] == .delivered)
        let before = network.nodes[1].sentAcknowledgements
        for number in 1..<50 { try network.say(0, payload(number), token: UInt64(number)) }
        network.run(milliseconds: 100)

        #expect(network.nodes[0].outcomes.values.filter { $0 == .delivered }.count == 50)
        #expect(network.nodes[1].sentAcknowledgements == before)
        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == (0..<50).map { payload($0) })
    }

    @Test func `that only the link of a member's last life had go to its next life`() throws {
        let network = try linked(2, seed: 62)
        try network.say(0, payload(0), token: 0)
        network.run(milliseconds: 100)
        // The link has the third message and not the second, so that its process holds it back and dies with it.
        network.lostNumber = 2
        for number in 1..<3 { try network.say(0, payload(number), token: UInt64(number)) }
        network.run(milliseconds: 100)
        network.lostNumber = nil
        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == [payload(0)])
        _ = network.restart(1)
        network.connect(0, 1)
        network.run(milliseconds: 1_500)

        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == [payload(1), payload(2)])
        #expect(network.nodes[0].outcomes.values.filter { $0 == .delivered }.count == 3)
    }

    @Test func `are not counted as taken by a link before the recipient has taken one`() throws {
        let network = try linked(2, seed: 63)
        network.nodes[0].receiptsAsked = 0
        for number in 0..<3 { try network.say(0, payload(number), token: UInt64(number)) }
        #expect(network.nodes[0].receiptsAsked == 0, "the recipient may not know this member yet and refuse them")
        network.run(milliseconds: 100)
        try network.say(0, payload(3))
        #expect(network.nodes[0].receiptsAsked == 1)
        network.run(milliseconds: 100)
        network.disconnect(0, 1)
        network.connect(0, 1)
        network.run(milliseconds: 1_500)
        try network.say(0, payload(4))
        #expect(network.nodes[0].receiptsAsked == 1, "nor on a new link")
    }

    @Test func `to nobody are delivered at once, and strangers and this node are ignored`() throws {
        let network = try GossipNetwork.mesh(1, seed: 21)
        let stranger = RandomStream.testKey(4711).peerID

        try network.say(0, [1], token: 1)
        try network.say(0, [2], to: [network.nodes[0].id, stranger], token: 2)

        #expect(network.nodes[0].outcomes == [1: .delivered, 2: .delivered])
        #expect(network.nodes[0].messages.isEmpty)
    }

    @Test func `MSG-01 a message of the limit passes and one byte more is refused with both numbers`() throws {
        let network = try linked(2, seed: 22)
        let limit = WireLimits.maximumMessageBytes
        let sentBefore = network.nodes[0].sentMessages

        for mode in [DeliveryMode.reliable, .unreliable] {
            #expect(throws: CommandError.limitExceeded(limit: limit, actual: limit + 1)) {
                try network.say(0, [UInt8](repeating: 7, count: limit + 1), mode: mode)
            }
        }
        #expect(network.nodes[0].sentMessages == sentBefore, "nothing was sent")

        try network.say(0, [UInt8](repeating: 7, count: limit), token: 1)
        try network.say(0, [UInt8](repeating: 8, count: limit - 1), token: 2)
        network.run(milliseconds: 100)
        #expect(network.nodes[1].messages.map(\.payload.count) == [limit, limit - 1])
        #expect(network.nodes[0].outcomes == [1: .delivered, 2: .delivered])
    }

    @Test func `MSG-01 the largest message fits a link directly and relayed`() throws {
        let network = try GossipNetwork.mesh(3, seed: 23)
        network.connectLine()
        network.run(milliseconds: 3_000)
        try network.say(0, [UInt8](repeating: 7, count: WireLimits.maximumMessageBytes), token: 1)
        network.run(milliseconds: 500)

        #expect(network.nodes[0].outcomes == [1: .delivered])
        #expect(RelayedMessage.maximumSealedBytes + 208 < WireLimits.maximumLinkMessageBytes)
    }

    @Test func `MSG-02 thousands from two senders all arrive in order and the senders feel back-pressure`() throws {
        let network = try linked(4, seed: 24)
        var next = [0, 0]
        var refusals = 0
        while next != [3_000, 3_000] {
            for sender in 0...1 {
                while next[sender] < 3_000 {
                    do {
                        try network.say(sender, payload(next[sender]), token: UInt64(next[sender]))
                        next[sender] += 1
                    } catch CommandError.queueFull {
                        refusals += 1
                        break
                    }
                }
            }
            network.run(milliseconds: 2)
        }
        network.run(milliseconds: 1_000)

        #expect(refusals > 0)
        let expected = (0..<3_000).map { payload($0) }
        for receiver in 0..<4 {
            for sender in 0...1 where sender != receiver {
                #expect(network.nodes[receiver].payloads(from: network.nodes[sender].id) == expected)
            }
        }
        #expect(network.nodes.prefix(2).allSatisfy { $0.outcomes.values.allSatisfy { $0 == .delivered } })
    }

    /// Every run cuts the link after another message crossed it; the last runs without a cut having happened.
    @Test(arguments: [GossipNetwork.Faults(), .init(delay: 1...30, duplication: 0.3)])
    func `MSG-06 a cut at any message boundary neither loses nor doubles`(faults: GossipNetwork.Faults) throws {
        var cut = 0
        var wasCut = true
        while wasCut {
            let network = try linked(2, seed: 25)
            network.faults = faults
            wasCut = false
            network.cutAfterDeliveries = network.deliveries + cut + 1
            network.onCut = { [unowned network] in
                wasCut = true
                network.disconnect(0, 1)
            }
            for number in 0..<3 {
                try network.say(0, payload(number), token: UInt64(number))
                try network.say(1, payload(number), token: UInt64(number))
                network.run(milliseconds: 6)
            }
            _ = network.run(atMost: 200) { network.nodes.allSatisfy { $0.outcomes.count == 3 } }
            if wasCut {
                network.run(milliseconds: 50)
                network.connect(0, 1)
            }
            #expect(network.run(atMost: 3_000) { network.nodes.allSatisfy { $0.outcomes.count == 3 } }, "cut \(cut)")
            network.run(milliseconds: 2_000)

            for (receiver, sender) in [(0, 1), (1, 0)] {
                let received = network.nodes[receiver].payloads(from: network.nodes[sender].id)
                #expect(received == (0..<3).map { payload($0) }, "cut after \(cut)")
                #expect(network.nodes[receiver].outcomes.values.allSatisfy { $0 == .delivered })
            }
            cut += 1
        }
        #expect(cut > 6)
    }

    @Test func `MSG-09 repeated over two paths is one message`() throws {
        let network = try linked(3, seed: 26)
        network.faults = .init(delay: 1...20, duplication: 1)
        try network.say(0, [1], token: 1)
        // The direct link goes while the message is on it, so it also travels through the third member.
        network.run(milliseconds: 12)
        network.disconnect(0, 1)
        network.run(milliseconds: 3_000)
        try network.say(0, [2], to: nil, mode: .unreliable)
        network.run(milliseconds: 500)

        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == [[1], [2]])
        #expect(network.nodes[2].payloads(from: network.nodes[0].id) == [[1], [2]])
    }

    @Test func `unreliable ones are settled at once and never repeated`() throws {
        let network = try linked(2, seed: 27)
        network.faults = .init(loss: 1)
        try network.say(0, [1], mode: .unreliable, token: 5)
        #expect(network.nodes[0].outcomes == [5: .sent])
        network.run(milliseconds: 60_000)
        #expect(network.nodes[1].messages.isEmpty)
    }

    @Test func `an answer has a greater Lamport time than its question`() throws {
        let network = try linked(3, seed: 29)
        try network.say(0, [1])
        network.run(milliseconds: 20)
        try network.say(1, [2])
        network.run(milliseconds: 20)
        let heard = network.nodes[2].messages
        #expect(heard.map(\.payload) == [[1], [2]])
        #expect(heard.count == 2 && heard[0].lamport < heard[1].lamport)
    }

    @Test func `AB-66 a claimed Lamport time cannot run a member's clock to its end`() throws {
        let network = try linked(2, seed: 30)
        var message = DirectMessage(
            isReliable: true, sequence: 1, base: 1, lamport: .max,
            payload: [1])
        for sequence in 1...1_000 as ClosedRange<UInt64> {
            message.sequence = sequence
            network.inject(.direct(message), from: 1, to: 0)
            network.run(milliseconds: 10)
        }
        try network.say(0, [2])
        network.run(milliseconds: 20)
        #expect(network.nodes[1].messages.count == 1)
        #expect(network.nodes[1].messages.allSatisfy { $0.lamport < 1 << 57 }, "a thousand lies in ten seconds")
        try network.publish(0, "records keep their own order")
        #expect((network.nodes[0].accepted.last?.lamport ?? .max) < 10)
    }

    @Test func `AB-58 a direct message belongs to the link's peer whatever it claims`() throws {
        let network = try linked(3, seed: 31)
        let message = DirectMessage(
            isReliable: true, sequence: 1, base: 1, lamport: 1,
            payload: [1])
        network.inject(.direct(message), from: 1, to: 0)
        #expect(network.nodes[0].messages.map(\.from) == [network.nodes[1].id])
    }

    @Test func `a number far beyond the reorder buffer is dropped and counted`() throws {
        let network = try linked(2, seed: 32)
        for sequence in [66_000, UInt64.max - 1, .max] {
            let message = DirectMessage(
                isReliable: true, sequence: sequence, base: 1, lamport: 1, payload: [1])
            network.inject(.direct(message), from: 1, to: 0)
        }
        #expect(network.nodes[0].messages.isEmpty)
        #expect(network.nodes[0].gossip.statistics.messagesOverCap == 3)
    }

    @Test func `AB-34 one member's messages out of order take a bounded number of bytes`() throws {
        let network = try linked(2, seed: 33)
        for sequence in 2..<40 as Range<UInt64> {
            let message = DirectMessage(
                isReliable: true, sequence: sequence, base: 1, lamport: 1,
                payload: [UInt8](repeating: 0, count: WireLimits.maximumMessageBytes))
            network.inject(.direct(message), from: 1, to: 0)
        }
        #expect(network.nodes[0].gossip.statistics.messagesOverCap == 38 - 16, "16 of 256 KiB fill 4 MiB")
    }

    @Test func `AB-34 process lives without number of one sender leave a few streams`() throws {
        let network = try linked(2, seed: 34)
        for life in 0..<10_000 as Range<UInt64> {
            network.changeLink(0) { $0.linkUp(network.nodes[1].id, Incarnation(life), at: $1, into: &$2) }
            let message = DirectMessage(
                isReliable: true, sequence: 1, base: 1, lamport: 1, payload: [1])
            network.inject(.direct(message), from: 1, to: 0)
        }
        #expect(network.nodes[0].messages.count == 10_000)
        #expect(network.nodes[0].gossip.incoming.count <= 5)
    }
}

struct `Messages to absent members` {
    @Test func `a frozen member that comes back within its patience still gets them`() throws {
        let network = try linked(3, seed: 40)
        network.nodes[2].isFrozen = true
        try network.say(0, [1], token: 1)
        network.run(milliseconds: 2_000)
        network.disconnect(0, 2)
        network.disconnect(1, 2)
        for member in 0...1 { try network.submit(member, .memberLost(network.nodes[2].id)) }
        try network.say(0, [2], to: [network.nodes[2].id], token: 2)
        network.run(milliseconds: 20_000)
        #expect(network.nodes[0].outcomes.isEmpty)

        network.thaw(2)
        network.connectFully()
        network.tellMembers()
        network.run(milliseconds: 1_000)

        #expect(network.nodes[2].payloads(from: network.nodes[0].id) == [[1], [2]])
        #expect(network.nodes[0].outcomes == [1: .delivered, 2: .delivered])
    }

    @Test func `a member that stays dead is named after the patience, and only it`() throws {
        let network = try linked(3, seed: 41)
        let dead = network.nodes[2].id
        network.nodes[2].isFrozen = true
        try network.say(0, [1], token: 1)
        network.disconnect(0, 2)
        network.disconnect(1, 2)
        for member in 0...1 { try network.submit(member, .memberLost(dead)) }
        network.run(milliseconds: 29_000)
        #expect(network.nodes[0].outcomes.isEmpty)
        network.run(milliseconds: 2_000)

        #expect(network.nodes[0].outcomes == [1: .failed([DeliveryFailure(peer: dead, reason: .dead)])])
        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == [[1]])

        try network.say(0, [2], to: [dead], token: 2)
        #expect(network.nodes[0].outcomes[2] == .failed([DeliveryFailure(peer: dead, reason: .dead)]), "at once now")
        network.run(milliseconds: 600_000)
        #expect(network.nodes[0].gossip.statistics.messagesRetransmitted < 40, "nothing is tried for ever")
    }

    @Test func `a death told after the list of members changed is a death, not a farewell`() throws {
        let network = try linked(2, seed: 48)
        network.nodes[1].isFrozen = true
        try network.say(0, [1], token: 1)
        try network.submit(0, .membersChanged([], lives: [:]))
        try network.submit(0, .memberLost(network.nodes[1].id))
        network.run(milliseconds: 25_000)
        #expect(network.nodes[0].outcomes.isEmpty)
        network.thaw(1)
        network.run(milliseconds: 100)
        #expect(network.nodes[0].outcomes == [1: .delivered])
    }

    @Test func `a member that left is named at once`() throws {
        let network = try linked(2, seed: 42)
        network.nodes[1].isFrozen = true
        try network.say(0, [1], token: 1)
        try network.submit(0, .membersChanged([], lives: [:]))
        network.run(milliseconds: 600)
        let left = DeliveryFailure(peer: network.nodes[1].id, reason: .left)
        #expect(network.nodes[0].outcomes == [1: .failed([left])])
    }

    @Test func `a member nobody reaches expires`() throws {
        let network = try GossipNetwork.mesh(2, seed: 43)
        try network.say(0, [1], token: 1)
        network.run(milliseconds: 121_000)
        let expired = DeliveryFailure(peer: network.nodes[1].id, reason: .expired)
        #expect(network.nodes[0].outcomes == [1: .failed([expired])])
        #expect(network.nodes[0].gossip.nextDeadline == nil)
    }

    @Test func `what was given up is not delivered later, and what follows is`() throws {
        let network = try GossipNetwork.mesh(2, seed: 44)
        try network.say(0, [1], token: 1)
        network.run(milliseconds: 121_000)
        try network.say(0, [2], token: 2)
        network.connect(0, 1)
        network.run(milliseconds: 200)
        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == [[2]])
        #expect(network.nodes[0].outcomes[2] == .delivered)
    }

    @Test func `late members get nothing of what was said before`() throws {
        let network = try linked(2, seed: 45)
        try network.say(0, [1], token: 1)
        network.run(milliseconds: 100)
        network.addNode()
        try network.admit(2)
        network.connect(2, 0)
        network.tellMembers()
        try network.say(0, [2], token: 2)
        network.run(milliseconds: 500)
        #expect(network.nodes[2].payloads(from: network.nodes[0].id) == [[2]])
    }

    @Test func `a restarted member goes on with the stream where its last life stopped`() throws {
        let network = try linked(2, seed: 46)
        for number in 0..<5 { try network.say(0, payload(number)) }
        network.run(milliseconds: 100)
        _ = network.restart(1)
        for number in 5..<8 { try network.say(0, payload(number), token: UInt64(number)) }
        network.connect(0, 1)
        network.run(milliseconds: 1_500)

        #expect(network.nodes[1].payloads(from: network.nodes[0].id) == (5..<8).map { payload($0) })
        #expect(network.nodes[0].outcomes[7] == .delivered)

        try network.say(1, [9], token: 1)
        network.run(milliseconds: 100)
        #expect(network.nodes[0].payloads(from: network.nodes[1].id) == [[9]])
    }

    @Test func `AB-41 a stopped member does not stop the others`() throws {
        let network = try linked(4, seed: 47)
        network.nodes[3].isFrozen = true
        let stopped = network.nodes[3].id
        let started = network.now
        var sent = 0
        while sent < 5_000 {
            do {
                try network.say(0, payload(sent), token: UInt64(sent))
                sent += 1
            } catch CommandError.queueFull {
                network.run(milliseconds: 5)
            }
        }
        network.run(milliseconds: 200)

        #expect(network.now - started < .milliseconds(2_000))
        let expected = (0..<5_000).map { payload($0) }
        for receiver in 1...2 { #expect(network.nodes[receiver].payloads(from: network.nodes[0].id) == expected) }
        let skipped = network.nodes[0].outcomes.values.filter {
            $0 == .failed([DeliveryFailure(peer: stopped, reason: .stalled)])
        }
        #expect(skipped.count > 3_000, "named, not forgotten")
        try network.publish(0, "while it stood still")

        network.thaw(3)
        network.run(milliseconds: 3_000)
        #expect(network.haveConverged(), "and it catches up")
        #expect(network.nodes[3].messages.count + skipped.count == 5_000)
        #expect(network.nodes[0].outcomes.count == 5_000)
    }
}

struct `Messages through others` {
    @Test(arguments: [3, 5])
    func `reach the far end of a line, once and in order`(count: Int) throws {
        let network = try GossipNetwork.mesh(count, seed: 50)
        network.connectLine()
        network.run(milliseconds: 4_000)
        network.faults = .init(delay: 1...20, duplication: 0.3)

        for number in 0..<100 { try network.say(0, payload(number), token: UInt64(number)) }

        #expect(network.run(atMost: 10_000) { network.nodes[0].outcomes.count == 100 })
        #expect(network.nodes[0].outcomes.values.allSatisfy { $0 == .delivered })
        for receiver in 1..<count {
            #expect(network.nodes[receiver].payloads(from: network.nodes[0].id) == (0..<100).map { payload($0) })
        }
    }

    @Test func `move to a new link and back without loss or repetition`() throws {
        let network = try linked(3, seed: 51)
        network.faults = .init(delay: 1...25, duplication: 0.2)
        for number in 0..<120 {
            try network.say(0, payload(number), to: [network.nodes[2].id], token: UInt64(number))
            network.run(milliseconds: 7)
            if number % 10 == 4 { network.disconnect(0, 2) }
            if number % 10 == 9 { network.connect(0, 2) }
        }
        #expect(network.run(atMost: 20_000) { network.nodes[0].outcomes.count == 120 })
        #expect(network.nodes[2].payloads(from: network.nodes[0].id) == (0..<120).map { payload($0) })
    }

    @Test(arguments: 0..<30)
    func `over random topologies that change all the time`(seed: Int) throws {
        let network = try GossipNetwork.mesh(5, seed: UInt64(seed) + 500)
        for position in 1..<5 { network.connect(position, network.random.below(position)) }
        network.run(milliseconds: 4_000)
        network.faults = .init(delay: 1...40, loss: 0.2, duplication: 0.2, recovery: 80)
        for number in 0..<40 {
            try network.say(number % 5, payload(number), token: UInt64(number))
            network.run(milliseconds: Int64(network.random.below(60)))
            let left = network.random.below(5)
            let right = network.random.below(5)
            if network.isConnected(left, right) {
                network.disconnect(left, right)
            } else {
                network.connect(left, right)
            }
        }
        for position in 1..<5 { network.connect(position, position - 1) }

        #expect(network.run(atMost: 40_000) { network.nodes.allSatisfy { $0.outcomes.count == 8 } }, "seed \(seed)")
        for sender in 0..<5 {
            let expected = (0..<40).filter { $0 % 5 == sender }.map { payload($0) }
            #expect(network.nodes[sender].outcomes.values.allSatisfy { $0 == .delivered })
            for receiver in 0..<5 where receiver != sender {
                #expect(network.nodes[receiver].payloads(from: network.nodes[sender].id) == expected, "seed \(seed)")
            }
        }
    }

    private func relayed(
        _ network: GossipNetwork, author: Int, to recipient: Int, counter: UInt64 = 1, inner: GossipMessage? = nil
    ) throws -> RelayedMessage {
        let direct = DirectMessage(
            isReliable: true, sequence: 1, base: 1, lamport: 1,
            payload: [42])
        let mesh = try #require(network.nodes[0].gossip.meshID)
        return try RelaySeal.seal(
            (inner ?? .direct(direct)).encoded, to: network.life(recipient), counter: counter, hops: 8, mesh: mesh,
            secret: network.secret, nonce: network.random.bytes(24), identity: network.nodes[author].identity)
    }

    @Test func `AB-52 are taken only with the signature of the author they name`() throws {
        let network = try GossipNetwork.mesh(3, seed: 52)
        network.connectLine()
        network.run(milliseconds: 3_000)
        let genuine = try relayed(network, author: 0, to: 2)

        var forged = try relayed(network, author: 1, to: 2)
        forged.author = network.nodes[0].id
        network.inject(.relayed(forged), from: 1, to: 2)
        var random = genuine
        random.signature = network.random.bytes(64)
        network.run(milliseconds: 20_000)
        network.inject(.relayed(random), from: 1, to: 2)
        #expect(network.nodes[2].messages.isEmpty)
        #expect(network.nodes[2].gossip.statistics.relaysRefused == 2)

        network.run(milliseconds: 20_000)
        network.inject(.relayed(genuine), from: 1, to: 2)
        #expect(
            network.nodes[2].messages.map(\.from) == [network.nodes[0].id], "a forgery does not keep the true one out")
        network.inject(.relayed(genuine), from: 1, to: 2)
        #expect(network.nodes[2].messages.count == 1)
        #expect(network.nodes[2].gossip.statistics.relaysDuplicate == 1)
    }

    @Test func `AB-52 for an earlier life of their recipient are refused, whoever repeats them`() throws {
        let network = try GossipNetwork.mesh(3, seed: 57)
        network.connectLine()
        network.run(milliseconds: 3_000)
        let unreliable = DirectMessage(
            isReliable: false, sequence: 1, base: 1, lamport: 1,
            payload: [42])
        let recorded = [
            try relayed(network, author: 0, to: 2),
            try relayed(network, author: 0, to: 2, counter: 2, inner: .direct(unreliable)),
        ]
        for message in recorded { network.inject(.relayed(message), from: 1, to: 2) }
        #expect(network.nodes[2].messages.count == 2)

        _ = network.restart(2)
        network.connect(1, 2)
        network.run(milliseconds: 3_000)
        for message in recorded { network.inject(.relayed(message), from: 1, to: 2) }
        #expect(network.nodes[2].messages.isEmpty)
        #expect(network.nodes[2].gossip.statistics.relaysRefused == 2)

        // Another life written into it breaks the signature.
        var altered = recorded[0]
        altered.recipientIncarnation = network.nodes[2].identity.incarnation
        network.inject(.relayed(altered), from: 1, to: 2)
        #expect(network.nodes[2].messages.isEmpty)
        try network.say(0, [7], to: [network.nodes[2].id], token: 3)
        #expect(network.run(atMost: 5_000) { network.nodes[2].messages.count == 1 }, "the present life is reached")
    }

    @Test func `AB-52 of strangers are refused`() throws {
        let network = try GossipNetwork.mesh(3, seed: 53)
        network.addNode()
        network.connectLine()
        network.run(milliseconds: 3_000)
        let stranger = try relayed(network, author: 3, to: 2)
        network.inject(.relayed(stranger), from: 1, to: 2)
        #expect(network.nodes[2].messages.isEmpty)
        #expect(network.nodes[2].gossip.statistics.relaysRefused == 1)
    }

    @Test func `AB-70 carry messages and nothing else`() throws {
        let network = try GossipNetwork.mesh(3, seed: 54)
        network.connectLine()
        network.run(milliseconds: 3_000)
        let before = network.nodes[2].gossip.records
        let others: [GossipMessage] = [
            .records(RecordBundle(hasMore: false, records: before)), .neighbours([]), .head(.zero), .want([]),
            .summary(RecordSummary(asksForRecords: true, lower: nil, reachesEnd: true, chains: [])),
            .fork(before[0], before[1]), .relayed(try relayed(network, author: 0, to: 2, counter: 90)),
        ]
        for (position, inner) in others.enumerated() {
            let message = try relayed(network, author: 0, to: 2, counter: UInt64(100 + position), inner: inner)
            network.inject(.relayed(message), from: 1, to: 2)
        }
        #expect(network.nodes[2].gossip.statistics.relaysRefused == others.count)
        #expect(network.nodes[2].messages.isEmpty)
    }

    @Test func `AB-13 with any length and any broken byte are counted, and the carrier stays in touch`() throws {
        let network = try GossipNetwork.mesh(3, seed: 57)
        network.connectLine()
        network.run(milliseconds: 3_000)
        let genuine = GossipMessage.relayed(try relayed(network, author: 0, to: 2)).encoded
        // kind, hops, author 32, incarnation 8, counter 8, recipient 32, its incarnation 8, epoch 16, then the length.
        let lengthOffset = 2 + 32 + 8 + 8 + 32 + 8 + 16
        let before = network.nodes[2].gossip.statistics
        var count = 0
        for length in [0, 1, 15, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 300_000, 1 << 20] as [UInt32] {
            var bytes = genuine
            for place in 0..<4 {
                bytes[lengthOffset + place] = UInt8(truncatingIfNeeded: length >> (8 * UInt32(place)))
            }
            network.inject(bytes, from: 1, to: 2)
            count += 1
        }
        for end in stride(from: 1, to: genuine.count, by: 3) {
            network.inject(Array(genuine[..<end]), from: 1, to: 2)
            count += 1
        }
        network.inject(genuine + [0], from: 1, to: 2)
        count += 1
        #expect(network.nodes[2].gossip.statistics.malformed - before.malformed == count)
        for place in 1..<genuine.count {
            var bytes = genuine
            bytes[place] ^= 0xff
            network.inject(bytes, from: 1, to: 2)
            network.run(milliseconds: 11_000)
        }

        #expect(network.nodes[2].messages.isEmpty, "nothing of it counts")
        network.inject(genuine, from: 1, to: 2)
        #expect(network.nodes[2].messages.map(\.payload) == [[42]], "and nothing of it keeps the true one out")
    }

    @Test func `travel no further than their hops and never in circles`() throws {
        let network = try linked(4, seed: 55)
        network.addNode()
        let mesh = try #require(network.nodes[0].gossip.meshID)
        let message = try RelaySeal.seal(
            [1], to: network.life(4), counter: 1, hops: 8, mesh: mesh, secret: network.secret,
            nonce: network.random.bytes(24), identity: network.nodes[0].identity)
        let before = network.deliveries
        network.inject(.relayed(message), from: 0, to: 1)
        network.run(milliseconds: 300)
        let heads = 4 * 3
        #expect(network.deliveries - before <= 9 + heads, "each passes it on once")

        var last = try relayed(network, author: 0, to: 3, counter: 2)
        last.hopsLeft = 1
        let forwardedBefore = network.nodes[1].gossip.statistics.relaysForwarded
        network.inject(.relayed(last), from: 0, to: 1)
        #expect(network.nodes[1].gossip.statistics.relaysForwarded == forwardedBefore)
    }

    @Test func `AB-34 of one peer have an allowance`() throws {
        var configuration = GossipConfiguration()
        configuration.relayBurst = 10
        configuration.relayRate = 10
        let network = try GossipNetwork.mesh(3, seed: 56, configuration: configuration)
        network.connectLine()
        network.run(milliseconds: 3_000)
        for counter in 1...50 as ClosedRange<UInt64> {
            network.inject(.relayed(try relayed(network, author: 0, to: 2, counter: counter)), from: 0, to: 1)
        }
        #expect(network.nodes[1].gossip.statistics.relaysForwarded == 10)
        #expect(network.nodes[1].gossip.statistics.relaysOverCap == 40)
        network.run(milliseconds: 1_000)
        let before = network.nodes[1].gossip.statistics.relaysForwarded
        network.inject(.relayed(try relayed(network, author: 0, to: 2, counter: 60)), from: 0, to: 1)
        #expect(network.nodes[1].gossip.statistics.relaysForwarded == before + 1, "it fills again")
    }
}
