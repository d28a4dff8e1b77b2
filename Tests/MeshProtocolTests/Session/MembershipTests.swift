import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire
import Testing

@Suite struct MembershipTests {
    @Test func `a founder is the one member of its mesh and has an invite`() {
        let mesh = TestMesh()
        let founder = mesh.found(name: "ada")
        mesh.run(.milliseconds(50))

        #expect(founder.machine.members.map(\.name) == ["ada"])
        #expect(founder.machine.members.first?.isLocal == true)
        #expect(founder.machine.invites.count == 1)
        #expect(mesh.ticket(founder).addresses == [founder.address])
        #expect(founder.count(.meshFounded) == 1)
    }

    @Test func `three nodes see each other alive and linked`() {
        let mesh = TestMesh.settled(3)

        #expect(mesh.isWhole)
        #expect(mesh.isFullyLinked)
        for node in mesh.nodes { #expect(node.machine.members.count == 3) }
        #expect(mesh.nodes[1].count(.meshJoined) == 1)
        #expect(mesh.nodes[2].machine.members.map(\.name) == ["node0", "node1", "node2"])
    }

    @Test func `a newcomer is admitted by one record`() {
        let mesh = TestMesh.settled(5)

        for node in mesh.nodes.dropFirst() {
            let admits = mesh.nodes[0].records.filter { record in
                record.kind == .admit && (try? AdmitBody(decoding: record.body))?.subject == node.peer
            }
            #expect(admits.count == 1)
        }
    }

    @Test func `a late joiner enters through any member when the founder is dead`() {
        let mesh = TestMesh.settled(3)
        let ticket = Ticket(
            meshID: mesh.ticket(mesh.nodes[0]).meshID, joinSecret: mesh.ticket(mesh.nodes[0]).joinSecret,
            addresses: [mesh.nodes[0].address, mesh.nodes[2].address])
        mesh.kill(mesh.nodes[0])
        mesh.run(.seconds(3 as Int64))

        let late = mesh.add()
        mesh.join(late, ticket)
        mesh.run(.seconds(2 as Int64))

        #expect(mesh.isWhole)
        #expect(late.state(of: mesh.nodes[0]) != .alive)
        #expect(late.machine.members.count == 4)
    }

    @Test(arguments: [false, true])
    func `a killed member is dead for all within two seconds, and within half a second with a hint`(hints: Bool) throws
    {
        for seed in 1...5 {
            let mesh = TestMesh.settled(5, seed: UInt64(seed)) { $0.givesHints = hints }
            let victim = mesh.nodes[2]
            mesh.run(.milliseconds(Int64(seed) * 47))

            mesh.kill(victim)
            let survivors = mesh.nodes.filter { $0 !== victim }
            let time = try #require(
                mesh.run(limit: .seconds(5 as Int64)) { survivors.allSatisfy { $0.state(of: victim) == .dead } })

            #expect(time < (hints ? .milliseconds(500) : .milliseconds(1_700)))
            for node in survivors { #expect(node.count(.memberDead, about: victim.peer) == 1) }
            for node in survivors {
                #expect(survivors.allSatisfy { node.state(of: $0) == .alive })
            }
        }
    }

    @Test func `the last other member's death is noticed without anybody to ask`() throws {
        let mesh = TestMesh.settled(2)
        mesh.kill(mesh.nodes[1])

        let time = try #require(
            mesh.run(limit: .seconds(5 as Int64)) { mesh.nodes[0].state(of: mesh.nodes[1]) == .dead })

        #expect(time < .milliseconds(1_600))
    }

    @Test func `MEM-05 a member frozen for five seconds dies and returns as the same`() {
        let mesh = TestMesh.settled(3)
        let frozen = mesh.nodes[1]
        let incarnation = mesh.nodes[0].machine.members.first { $0.peer == frozen.peer }?.incarnation

        mesh.freeze(frozen)
        mesh.run(.seconds(5 as Int64))
        #expect(mesh.nodes[0].state(of: frozen) == .dead)
        mesh.thaw(frozen)
        mesh.run(.seconds(1 as Int64))

        #expect(mesh.isWhole)
        #expect(mesh.nodes[0].count(.memberReturned, about: frozen.peer) == 1)
        #expect(mesh.nodes[0].machine.members.first { $0.peer == frozen.peer }?.incarnation == incarnation)
        // The sleeper blames itself, not the others.
        #expect(frozen.count(.memberDead) == 0)
        #expect(frozen.machine.localHealthMultiplier > 1)
        #expect(mesh.nodes[0].machine.members.count == 3)
    }

    @Test func `MEM-05 a sleeper that finds nothing in its mailbox suspects nobody`() {
        let mesh = TestMesh.settled(3)
        let sleeper = mesh.nodes[1]
        mesh.freeze(sleeper)
        mesh.run(.seconds(20 as Int64))
        mesh.thaw(sleeper, losingBacklog: true)
        mesh.run(.seconds(3 as Int64))

        #expect(mesh.isWhole)
        #expect(sleeper.count(.memberSuspect) == 0)
        #expect(sleeper.machine.statistics.lateDeadlines > 0)
    }

    @Test func `MEM-05 after two minutes of sleep a member is back within five seconds`() throws {
        let mesh = TestMesh.settled(3)
        let frozen = mesh.nodes[1]
        mesh.freeze(frozen)
        mesh.run(.seconds(120 as Int64))
        mesh.thaw(frozen)

        let time = try #require(mesh.run(limit: .seconds(10 as Int64)) { mesh.isWhole })

        #expect(time <= .seconds(5 as Int64))
        #expect(mesh.nodes[0].machine.members.count == 3)
    }

    @Test func `an orderly farewell is known at once and is no death`() throws {
        let mesh = TestMesh.settled(4)
        let leaver = mesh.nodes[3]

        mesh.submit(leaver, .leave)
        let time = try #require(
            mesh.run(limit: .seconds(2 as Int64)) {
                mesh.nodes.dropLast().allSatisfy { $0.state(of: leaver) == .left }
            })
        #expect(time < .milliseconds(100))
        #expect(leaver.outputs.contains { if case .left = $0 { true } else { false } })
        mesh.kill(leaver)
        mesh.run(.seconds(5 as Int64))

        for node in mesh.nodes.dropLast() {
            #expect(node.state(of: leaver) == .left)
            #expect(node.count(.memberDead) == 0)
            #expect(node.count(.memberSuspect) == 0)
            #expect(node.count(.memberLeft, about: leaver.peer) == 1)
        }
    }

    @Test func `a farewell nobody confirms ends after half a second`() throws {
        let mesh = TestMesh.settled(2)
        mesh.freeze(mesh.nodes[1])

        mesh.submit(mesh.nodes[0], .leave)
        let time = try #require(
            mesh.run(limit: .seconds(2 as Int64)) {
                mesh.nodes[0].outputs.contains { if case .left = $0 { true } else { false } }
            })

        #expect(time >= .milliseconds(490) && time <= .milliseconds(520))
    }

    @Test func `in a line of three everybody shows alive, and a death at the end is known at the other`() throws {
        let mesh = TestMesh()
        mesh.reaches = { one, other in abs(one - other) <= 1 }
        // Nobody is introduced or carried for: what is known of the far end is what the middle reports.
        mesh.configuration.introductionDelay = .seconds(3_600 as Int64)
        let (a, b, c) = (mesh.found(), mesh.add(), mesh.add())
        mesh.run(.milliseconds(50))
        mesh.join(b, mesh.ticket(a))
        mesh.run(.seconds(1 as Int64))
        mesh.join(
            c, Ticket(meshID: mesh.ticket(a).meshID, joinSecret: mesh.ticket(a).joinSecret, addresses: [b.address]))
        mesh.run(.seconds(3 as Int64))
        #expect(mesh.isWhole)
        #expect(a.links[c.index] == nil)

        for node in mesh.nodes { node.events = [] }
        mesh.run(.seconds(30 as Int64))
        #expect(mesh.isWhole)
        for node in mesh.nodes { #expect(node.count(.memberSuspect) == 0) }

        mesh.kill(c)
        let time = try #require(
            mesh.run(limit: .seconds(6 as Int64)) { a.state(of: c) == .dead && b.state(of: c) == .dead })
        #expect(time < .seconds(3 as Int64))
        mesh.run(.seconds(20 as Int64))
        #expect(a.state(of: c) == .dead)
        #expect(a.count(.memberReturned) == 0)
    }

    @Test func `in a line of four the ends are alive through two neighbours, and no report goes round for ever`() throws
    {
        let mesh = TestMesh()
        mesh.reaches = { one, other in abs(one - other) <= 1 }
        mesh.found()
        mesh.run(.milliseconds(50))
        for index in 1...3 {
            let ticket = mesh.ticket(mesh.nodes[0])
            let node = mesh.add()
            mesh.join(
                node,
                Ticket(
                    meshID: ticket.meshID, joinSecret: ticket.joinSecret, addresses: [mesh.nodes[index - 1].address]))
            mesh.run(.seconds(2 as Int64))
        }
        #expect(mesh.isWhole)

        mesh.kill(mesh.nodes[3])
        let survivors = mesh.nodes.dropLast()
        let time = try #require(
            mesh.run(limit: .seconds(10 as Int64)) { survivors.allSatisfy { $0.state(of: mesh.nodes[3]) == .dead } })
        #expect(time < .seconds(4 as Int64))
    }

    @Test func `a farewell crosses a line`() throws {
        let mesh = TestMesh()
        mesh.reaches = { one, other in abs(one - other) <= 1 }
        let (a, b, c) = (mesh.found(), mesh.add(), mesh.add())
        mesh.run(.milliseconds(50))
        mesh.join(b, mesh.ticket(a))
        mesh.run(.seconds(1 as Int64))
        mesh.join(
            c, Ticket(meshID: mesh.ticket(a).meshID, joinSecret: mesh.ticket(a).joinSecret, addresses: [b.address]))
        mesh.run(.seconds(3 as Int64))

        mesh.submit(c, .leave)

        #expect(mesh.run(limit: .seconds(1 as Int64)) { a.state(of: c) == .left } != nil)
    }

    @Test(arguments: [0.05, 0.2])
    func `keep-alives lost at random bury nobody`(loss: Double) {
        let mesh = TestMesh.settled(6) { $0.loss = loss }
        mesh.run(.seconds(120 as Int64))

        #expect(mesh.nodes.allSatisfy { $0.count(.memberDead) == 0 })
        #expect(mesh.isWhole)
    }

    /// Deaths while one member after the other stands still for 700 ms on a network that loses a twentieth.
    private func deathsInPauses(of mesh: TestMesh) -> Int {
        mesh.run(.seconds(3 as Int64))
        for node in mesh.nodes { node.events = [] }
        // The beginnings of the pauses go through all the instants between two keep-alives.
        for round in 0..<50 {
            let paused = mesh.nodes[round % mesh.nodes.count]
            mesh.freeze(paused)
            mesh.run(.milliseconds(700))
            mesh.thaw(paused)
            mesh.run(.milliseconds(Int64(400 + 31 * round % 250)))
        }
        return mesh.nodes.reduce(0) { $0 + $1.count(.memberDead) }
    }

    @Test(arguments: [5, 17])
    func `MEM-05 pauses of 700 ms on a network that loses a twentieth bury nobody`(count: Int) {
        let mesh = TestMesh.settled(count, seed: 3) { $0.loss = 0.05 }
        #expect(deathsInPauses(of: mesh) == 0)
        #expect(mesh.nodes.contains { $0.count(.memberSuspect) > 0 })
        #expect(mesh.isWhole)

        let hasty = TestMesh.settled(count, seed: 3) { mesh in
            mesh.loss = 0.05
            mesh.configuration.leastDoubt = mesh.configuration.leastProbeTime
        }
        #expect(deathsInPauses(of: hasty) > 0, "with less doubt the same pauses do")
    }

    @Test func `what a neighbour heard before a suspicion does not answer it`() throws {
        let mesh = TestMesh.settled(5)
        let (observer, stopped) = (mesh.nodes[0], mesh.nodes[1])
        var isLosing = true
        mesh.delay = { from, to, message in
            if case .keepAlive = message, isLosing, from == 1, to == 0 { .seconds(3_600 as Int64) } else { .zero }
        }
        mesh.run(.milliseconds(300))
        isLosing = false
        mesh.freeze(stopped)
        observer.events = []

        let time = try #require(
            mesh.run(limit: .seconds(5 as Int64)) { observer.state(of: stopped) == .dead })

        #expect(time < .milliseconds(1_600))
        #expect(observer.count(.memberSuspect, about: stopped.peer) == 1)
        #expect(observer.count(.memberAlive, about: stopped.peer) == 0)
    }

    @Test(arguments: [5, 17])
    func `a member that stands still is dead for all within two seconds`(count: Int) throws {
        for seed in 1...4 as ClosedRange<UInt64> {
            let mesh = TestMesh.settled(count, seed: seed) { $0.loss = 0.01 }
            mesh.run(.milliseconds(3_000 + Int64(seed) * 61))
            let stopped = mesh.nodes[1]

            mesh.freeze(stopped)
            let time = try #require(
                mesh.run(limit: .seconds(5 as Int64)) {
                    mesh.nodes.allSatisfy { $0 === stopped || $0.state(of: stopped) == .dead }
                })

            #expect(time <= .seconds(2 as Int64))
        }
    }

    @Test func `a suspect that answers a probe in time stays alive`() {
        let mesh = TestMesh.settled(4)
        // Its keep-alives are lost, its answers are not.
        mesh.delay = { from, _, message in
            if case .keepAlive = message, from == 1 { .seconds(3_600 as Int64) } else { .zero }
        }
        mesh.run(.seconds(20 as Int64))

        let others = mesh.nodes.filter { $0.index != 1 }
        #expect(others.allSatisfy { $0.count(.memberSuspect, about: mesh.nodes[1].peer) > 0 })
        #expect(others.allSatisfy { $0.count(.memberDead) == 0 })
        #expect(others.allSatisfy { $0.machine.statistics.refutations > 0 })
    }

    @Test func `one seed run twice gives one trace`() {
        func trace() -> [String] {
            let mesh = TestMesh.settled(5, seed: 7) { $0.loss = 0.1 }
            mesh.kill(mesh.nodes[1])
            mesh.run(.seconds(5 as Int64))
            return mesh.nodes.flatMap { node in
                node.events.map { "\(node.index) \($0.at.nanoseconds) \($0.event.kind.rawValue)" }
            }
        }
        let first = trace()
        #expect(!first.isEmpty)
        #expect(first == trace())
    }

    @Test func `a rename reaches everybody and only its owner makes it`() {
        let mesh = TestMesh.settled(3)

        mesh.submit(mesh.nodes[1], .rename("neu"))
        mesh.run(.milliseconds(100))

        #expect(mesh.nodes.allSatisfy { node in node.machine.members.contains { $0.name == "neu" } })
        #expect(mesh.nodes[0].count(.memberRenamed, about: mesh.nodes[1].peer) == 1)
        #expect(mesh.submit(mesh.nodes[1], .rename("")) == .invalid(field: "name"))
    }
}
