import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct AdmissionTests {
    private func failures(_ node: TestMesh.Node) -> [JoinFailure] {
        node.outputs.compactMap { if case .joinFailed(let failure) = $0 { failure } else { nil } }
    }

    @Test func `MEM-12 without discovery the ticket's addresses alone are enough, and the rest is learnt from members`()
    {
        let mesh = TestMesh()
        mesh.configuration.isDiscoveryEnabled = false
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        for _ in 0..<3 { mesh.join(mesh.add(), mesh.ticket(founder)) }
        mesh.run(.seconds(3 as Int64))

        #expect(mesh.isWhole)
        #expect(mesh.isFullyLinked)
        #expect(mesh.nodes.allSatisfy { $0.machine.statistics.beaconsSent == 0 })
    }

    @Test func `MEM-12 a newcomer that reaches nobody says after ten seconds what it tried`() throws {
        let mesh = TestMesh.settled(2)
        let stranger = mesh.add()
        mesh.reaches = { one, other in one != 2 && other != 2 }
        let nobody = SocketAddress.ipv4(10, 9, 9, 9, port: 1)
        mesh.submit(
            stranger, .join(mesh.ticket(mesh.nodes[0]), extraAddresses: [nobody, .ipv4(0, 0, 0, 0, port: 5)]))
        mesh.run(.milliseconds(100))
        mesh.submit(stranger, .unreachable(nobody))
        mesh.run(.milliseconds(9_800))
        #expect(failures(stranger).isEmpty)
        mesh.run(.milliseconds(200))

        guard case .noAnswer(let tried) = try #require(failures(stranger).first) else { return #expect(Bool(false)) }
        #expect(tried.contains(DialAttempt(address: mesh.nodes[0].address, outcome: .noAnswer)))
        #expect(tried.contains { $0.address == nobody })
        #expect(tried.contains(DialAttempt(address: .ipv4(0, 0, 0, 0, port: 5), outcome: .notDialable)))
        // It may try again.
        mesh.reaches = { _, _ in true }
        mesh.join(stranger, mesh.ticket(mesh.nodes[0]))
        mesh.run(.seconds(2 as Int64))
        #expect(mesh.isWhole)
    }

    @Test func `a guest that comes within a second of the founding is announced, and history is not`() {
        let mesh = TestMesh()
        let founder = mesh.found()
        mesh.run(.milliseconds(50))
        let guest = mesh.add(name: "guest")
        mesh.join(guest, mesh.ticket(founder))
        mesh.run(.milliseconds(300))

        #expect(founder.count(.memberAdmitted, about: guest.peer) == 1)
        #expect(guest.count(.memberAdmitted) == 0, "whoever was there before is no news to the guest")
        let late = mesh.add()
        mesh.run(.seconds(2 as Int64))
        mesh.join(late, mesh.ticket(founder))
        mesh.run(.seconds(1 as Int64))
        #expect(founder.count(.memberAdmitted, about: late.peer) == 1)
        #expect(guest.count(.memberAdmitted, about: late.peer) == 1)
        #expect(late.count(.memberAdmitted) == 0)
    }

    @Test func `AB-76 a ticket revoked between the handshake and the hello lets nobody in`() throws {
        let mesh = TestMesh.settled(1)
        let founder = mesh.nodes[0]
        let ticket = mesh.ticket(founder)
        let guest = mesh.add()
        // The hello is on its way for a second; the handshake is done by then.
        mesh.delay = { from, _, message in
            if from == 1, case .hello = message { .seconds(1 as Int64) } else { .zero }
        }
        mesh.join(guest, ticket)
        mesh.run(.milliseconds(200))
        #expect(founder.links[1] != nil, "linked under the ticket")

        mesh.submit(founder, .revokeInvite(ticket.secretID, token: mesh.nextToken()))
        mesh.run(.seconds(3 as Int64))

        #expect(founder.machine.members.count == 1)
        #expect(founder.count(.memberAdmitted) == 0)
        #expect(founder.count(.memberRefused, about: guest.peer) >= 1)
        #expect(guest.count(.meshJoined) == 0)
        #expect(founder.links[1] == nil, "and its link is closed")
    }

    @Test func `peers of a foreign version are named as the reason`() {
        let mesh = TestMesh.settled(2)
        let newcomer = mesh.add()
        mesh.reaches = { one, other in one != 2 && other != 2 }
        mesh.join(newcomer, mesh.ticket(mesh.nodes[0]))
        mesh.run(.milliseconds(100))
        mesh.submit(
            newcomer, .dialFailed(newcomer.dialled[0], .versionMismatch(theirMinimum: 2, theirMaximum: 3)))
        mesh.run(.seconds(10 as Int64))

        guard case .versionMismatch = failures(newcomer).first else { return #expect(Bool(false)) }
    }

    @Test func `AB-76 MEM-22 a guessed or revoked secret gets silence and no admission`() throws {
        let mesh = TestMesh.settled(2)
        let founder = mesh.nodes[0]
        let ticket = mesh.ticket(founder)
        // 256 bits, different for every invite and every mesh.
        #expect(ticket.joinSecret.count == 32)
        #expect(!TestMesh.settled(1, seed: 2).nodes[0].machine.invites[0].ticket!.joinSecret.matches(ticket.joinSecret))

        let guesser = mesh.add()
        let guess = Ticket(
            meshID: ticket.meshID, joinSecret: SecretBytes(copying: [UInt8](repeating: 1, count: 32)),
            addresses: ticket.addresses)
        mesh.join(guesser, guess)
        let token = mesh.nextToken()
        mesh.submit(founder, .revokeInvite(ticket.secretID, token: token))
        mesh.run(.milliseconds(100))
        let late = mesh.add()
        mesh.join(late, ticket)
        mesh.run(.seconds(11 as Int64))

        for node in [guesser, late] {
            guard case .noAnswer = failures(node).first else {
                #expect(Bool(false), "expected silence")
                continue
            }
        }
        #expect(founder.machine.members.count == 2)
        #expect(founder.machine.invites.isEmpty)
        #expect(
            founder.outputs.contains { if case .inviteRevoked(token, ticket.secretID) = $0 { true } else { false } })
    }

    @Test func `a link made under a secret that is revoked before its hello leads to no admission`() {
        let mesh = TestMesh.settled(2)
        let founder = mesh.nodes[0]
        let ticket = mesh.ticket(founder)
        let newcomer = mesh.add()
        mesh.delay = { from, _, message in
            if case .hello = message, from == 2 { .milliseconds(500) } else { .zero }
        }
        mesh.join(newcomer, ticket)
        mesh.run(.milliseconds(100))
        mesh.submit(founder, .revokeInvite(ticket.secretID, token: mesh.nextToken()))
        mesh.run(.seconds(3 as Int64))

        #expect(!founder.machine.isAdmitted(newcomer.peer))
        #expect(founder.machine.statistics.admissionsRefused > 0)
        #expect(newcomer.links.isEmpty)
        // Whoever holds a link under it is told, unlike a stranger.
        #expect(failures(newcomer) == [.refused(.inviteVoid)])
    }

    private func expiringInvite(_ mesh: TestMesh, of node: TestMesh.Node, seconds: Int64) throws -> Ticket {
        let token = mesh.nextToken()
        mesh.submit(node, .createInvite(expiresAfter: .seconds(seconds), token: token))
        mesh.run(.milliseconds(100))
        return try #require(
            node.outputs.compactMap { if case .inviteReady(token, let ticket) = $0 { ticket } else { nil } }.first)
    }

    private func honours(_ node: TestMesh.Node, _ ticket: Ticket) -> Bool {
        node.machine.invites.contains { $0.id == ticket.secretID }
    }

    @Test func `an invite expires by every member's own clock, whether its issuer is there or not`() throws {
        for isIssuerThere in [true, false] {
            let mesh = TestMesh.settled(3)
            let ticket = try expiringInvite(mesh, of: mesh.nodes[1], seconds: 20)
            #expect(mesh.nodes.allSatisfy { honours($0, ticket) })
            #expect(mesh.nodes.allSatisfy { $0.machine.invites.first?.expiresAt != nil }, "everybody knows when")
            if !isIssuerThere { mesh.kill(mesh.nodes[1]) }

            mesh.run(.seconds(19 as Int64))
            let running = mesh.nodes.filter(\.isRunning)
            #expect(running.allSatisfy { honours($0, ticket) })
            mesh.run(.seconds(4 as Int64))

            #expect(running.allSatisfy { !honours($0, ticket) })
            #expect(mesh.nodes[0].records.count { $0.kind == .revoke } == 1, "one of them revokes it for all")
            let late = mesh.add()
            mesh.join(late, ticket)
            mesh.run(.seconds(11 as Int64))
            guard case .noAnswer = failures(late).first else { return #expect(Bool(false), "expected silence") }
        }
    }

    @Test func `a member cut off from the others stops honouring an expired invite by itself`() throws {
        let mesh = TestMesh.settled(3)
        let ticket = try expiringInvite(mesh, of: mesh.nodes[1], seconds: 20)
        mesh.reaches = { one, other in one != 2 && other != 2 }

        mesh.run(.seconds(19 as Int64))
        #expect(honours(mesh.nodes[2], ticket))
        mesh.run(.seconds(1 as Int64))

        #expect(!honours(mesh.nodes[2], ticket))
    }

    @Test func `the time an invite has left survives a restart of any member, and an expired one stays so`() throws {
        let mesh = TestMesh.settled(2)
        let ticket = try expiringInvite(mesh, of: mesh.nodes[1], seconds: 100)
        mesh.run(.seconds(70 as Int64))
        mesh.kill(mesh.nodes[1])
        mesh.restart(mesh.nodes[0])
        mesh.run(.seconds(1 as Int64))
        #expect(honours(mesh.nodes[0], ticket))

        // It was last saved a minute after the invite was made.
        mesh.run(.seconds(41 as Int64))
        #expect(!honours(mesh.nodes[0], ticket))
        mesh.restart(mesh.nodes[0])
        mesh.run(.seconds(1 as Int64))
        #expect(!honours(mesh.nodes[0], ticket))
    }

    @Test func `an invite made of two records ends with the earlier one, and only the newest 256 records count`() {
        var invites = Invites()
        var random = RandomStream(testSeed: 5)
        func invite(_ secret: GroupSecret, _ lamport: UInt64) -> Invites.Invite {
            Invites.Invite(
                secret: secret, author: PeerID(.zero), lamport: lamport, record: RecordID(Bytes32(random.bytes(32))!))
        }
        let now = HostTime(nanoseconds: 1_000)
        let secret = GroupSecret(secret: random.secret())
        _ = invites.add(invite(secret, 1_000), lifetime: nil, at: now)
        _ = invites.add(invite(secret, 2), lifetime: .seconds(10 as Int64), at: now)
        #expect(invites.inForce.count == 1)
        #expect(invites.expiresAt(secret.id) == now + .seconds(10 as Int64))

        for lamport in 3..<1_000 as Range<UInt64> {
            _ = invites.add(invite(GroupSecret(secret: random.secret()), lamport), lifetime: nil, at: now)
        }
        #expect(invites.inForce.count == 256)
        #expect(invites.inForce.map(\.lamport) == (745...1_000).reversed().map { UInt64($0) })
    }

    @Test func `an expiring invite goes on expiring after a restart of its issuer`() {
        let mesh = TestMesh.settled(2)
        mesh.submit(mesh.nodes[1], .createInvite(expiresAfter: .seconds(60 as Int64), token: mesh.nextToken()))
        mesh.run(.seconds(30 as Int64))
        mesh.restart(mesh.nodes[1])
        mesh.run(.seconds(5 as Int64))
        #expect(mesh.nodes[0].machine.invites.count == 2)

        mesh.run(.seconds(60 as Int64))

        #expect(mesh.nodes[0].machine.invites.count == 1)
    }

    @Test func `at most 16 invites live at once, and each is revocable alone`() throws {
        let mesh = TestMesh.settled(2)
        let node = mesh.nodes[0]
        for _ in 0..<15 { #expect(mesh.submit(node, .createInvite(expiresAfter: nil, token: mesh.nextToken())) == nil) }
        mesh.run(.milliseconds(50))
        #expect(node.machine.invites.count == 16)
        #expect(
            mesh.submit(node, .createInvite(expiresAfter: nil, token: mesh.nextToken()))
                == .limitExceeded(limit: 16, actual: 17))

        let victim = node.machine.invites[7].id
        #expect(mesh.submit(mesh.nodes[1], .revokeInvite(victim, token: mesh.nextToken())) == nil)
        mesh.run(.milliseconds(50))
        #expect(node.machine.invites.count == 15)
        #expect(!node.machine.invites.contains { $0.id == victim })
        #expect(mesh.submit(node, .revokeInvite(victim, token: mesh.nextToken())) == .notFound)
    }

    @Test func `a newcomer needs both the welcome and its own record`() {
        let mesh = TestMesh.settled(1)
        let newcomer = mesh.add()
        newcomer.isDeafToRecords = true
        mesh.join(newcomer, mesh.ticket(mesh.nodes[0]))
        mesh.run(.seconds(3 as Int64))
        func hasJoined() -> Bool { newcomer.outputs.contains { if case .joined = $0 { true } else { false } } }
        #expect(newcomer.machine.epochSecrets.count == 1)
        #expect(!hasJoined())

        newcomer.isDeafToRecords = false
        mesh.synchronizeAll()
        mesh.run(.milliseconds(100))

        #expect(hasJoined())
        // Asked again and again, the member still made one record.
        #expect(mesh.nodes[0].records.count { $0.kind == .admit } == 1)
    }

    @Test func `AB-72 a newcomer says nothing that others must heed before it is a member`() {
        let mesh = TestMesh.settled(2)
        let newcomer = mesh.add()
        mesh.delay = { _, to, message in
            if case .welcome = message, to == 2 { .seconds(5 as Int64) } else { .zero }
        }
        mesh.join(newcomer, mesh.ticket(mesh.nodes[0]))
        mesh.run(.seconds(3 as Int64))

        for output in newcomer.outputs {
            switch output {
            case .publish, .foundMesh: #expect(Bool(false), "a newcomer publishes nothing")
            case .send(let message, _, _, _):
                // That it is there, when asked, and nothing else.
                switch message {
                case .hello, .probeAnswer: continue
                default: #expect(Bool(false), "a newcomer says hello and nothing else: \(message)")
                }
            default: break
            }
        }
        #expect(mesh.submit(newcomer, .createInvite(expiresAfter: nil, token: mesh.nextToken())) == .noMesh)
        #expect(newcomer.machine.invites.isEmpty)
    }

    @Test func `a welcome whose genesis is another mesh's is not believed`() {
        let mesh = TestMesh.settled(1)
        let newcomer = mesh.add()
        mesh.delay = { _, to, message in
            if case .welcome = message, to == 1 { .seconds(60 as Int64) } else { .zero }
        }
        mesh.join(newcomer, mesh.ticket(mesh.nodes[0]))
        mesh.run(.milliseconds(100))
        var outbox = Outbox<SessionOutput>()
        let forged = SessionMessage.welcome(
            Welcome(epochSecrets: [.zero], genesis: [UInt8](repeating: 3, count: 200)))
        newcomer.machine.receive(forged.encoded, from: mesh.nodes[0].peer, at: mesh.now, into: &outbox)

        #expect(outbox.isEmpty)
        #expect(newcomer.machine.statistics.malformedMessages == 1)
        #expect(newcomer.machine.epochSecrets.isEmpty)
    }

    @Test func `an ADMIT by somebody who is no member admits nobody`() throws {
        let mesh = TestMesh.settled(2)
        let outsider = mesh.add()
        let body = AdmitBody(
            subject: outsider.peer, secretID: mesh.ticket(mesh.nodes[0]).secretID, name: "outsider")

        mesh.inject(.admit, body.encoded, author: outsider, at: mesh.nodes[0])

        #expect(!mesh.nodes[0].machine.isAdmitted(outsider.peer))
        #expect(mesh.nodes[0].count(.recordRefused) == 1)
    }

    @Test func `a guest that never says hello loses its link when its invite is revoked`() {
        let mesh = TestMesh.settled(2)
        let ticket = mesh.ticket(mesh.nodes[0])
        let guest = mesh.add()
        mesh.delay = { from, _, message in
            if case .hello = message, from == 2 { .seconds(600 as Int64) } else { .zero }
        }
        mesh.join(guest, ticket)
        mesh.run(.milliseconds(100))
        #expect(mesh.nodes[0].links.keys.contains(2))

        mesh.submit(mesh.nodes[1], .revokeInvite(ticket.secretID, token: mesh.nextToken()))
        mesh.run(.seconds(1 as Int64))

        #expect(!mesh.nodes[0].links.keys.contains(2))
        #expect(mesh.nodes[0].links.keys.contains(1), "members stay")
    }

    @Test func `MEM-22 a known name with a new key is said aloud`() {
        let mesh = TestMesh()
        let founder = mesh.found(name: "ada")
        mesh.run(.seconds(2 as Int64))
        mesh.join(mesh.add(name: "ada"), mesh.ticket(founder))
        mesh.run(.seconds(1 as Int64))

        let admitted = founder.events.first { $0.event.kind == .memberAdmitted }?.event
        #expect(admitted?.detail.contains { $0.name == "sameNameAs" } == true)
    }

    @Test func `commands without a mesh, and after leaving, are refused by name`() {
        let mesh = TestMesh()
        let node = mesh.add()
        #expect(mesh.submit(node, .createInvite(expiresAfter: nil, token: mesh.nextToken())) == .noMesh)
        #expect(
            mesh.submit(node, .found(label: String(repeating: "x", count: 65))) == .limitExceeded(limit: 64, actual: 65)
        )
        mesh.submit(node, .found(label: "x"))
        mesh.run(.milliseconds(50))
        #expect(mesh.submit(node, .found(label: "y")) == .notPermitted)
        mesh.submit(node, .leave)
        mesh.run(.seconds(1 as Int64))
        #expect(mesh.submit(node, .createInvite(expiresAfter: nil, token: mesh.nextToken())) == .ended)
    }

    @Test func `junk from a linked peer is counted and changes nothing`() {
        let mesh = TestMesh.settled(2)
        let node = mesh.nodes[0]
        var random = RandomStream(testSeed: 9)
        var outbox = Outbox<SessionOutput>()
        for _ in 0..<2_000 {
            let bytes = random.bytes(random.below(80))
            node.machine.receive(bytes, from: mesh.nodes[1].peer, at: mesh.now, into: &outbox)
        }
        node.machine.receive([1], from: PeerID(.zero), at: mesh.now, into: &outbox)

        #expect(node.machine.statistics.malformedMessages > 1_900)
        #expect(node.machine.statistics.unexpectedMessages >= 1)
        #expect(node.machine.members.count == 2)
    }
}
