import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct PresenceTests {
    private let mesh = MeshID(Bytes32([UInt8](repeating: 4, count: 32))!)
    private let key = SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: 1, count: 32)))
    private let otherKey = SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: 2, count: 32)))

    private func record(
        start: UInt64 = 1, revision: UInt64 = 1, incarnation: UInt64 = 1, name: String = "ada",
        state: PresenceRecord.State = .alive, of owner: SigningKeyPair? = nil, signedBy signer: SigningKeyPair? = nil
    ) -> PresenceRecord {
        let record = PresenceRecord(
            peer: (owner ?? key).peerID, incarnation: Incarnation(incarnation), startCount: start, revision: revision,
            state: state, name: name, addresses: [])
        return record.signed(by: signer ?? owner ?? key, mesh: mesh)
    }

    private func list() -> MemberList {
        var list = MemberList()
        _ = list.admit(key.peerID, name: "ada", admission: nil)
        return list
    }

    private func isAccepted(_ verdict: MemberList.Verdict) -> Bool {
        if case .accepted = verdict { true } else { false }
    }

    @Test func `the newest record wins in whatever order the records come`() {
        let records = [
            record(), record(revision: 2, name: "b"), record(start: 2, name: "c"),
            record(start: 2, revision: 3, name: "d"),
        ]
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            var list = list()
            for index in order { _ = list.apply(records[index], mesh: mesh, isToldFromThisHost: false) }
            #expect(list[key.peerID]?.name == "d")
        }
    }

    @Test func `AB-52 a record signed by another, by nobody or for another mesh is refused`() {
        var list = list()
        #expect(list.apply(record(signedBy: otherKey), mesh: mesh, isToldFromThisHost: false) == .forged)
        var random = record()
        random.signature = (0..<64).map { UInt8($0) }
        #expect(list.apply(random, mesh: mesh, isToldFromThisHost: false) == .forged)
        #expect(list.apply(record(), mesh: MeshID(.zero), isToldFromThisHost: false) == .forged)
        var renamed = record()
        renamed.name = "mallory"
        #expect(list.apply(renamed, mesh: mesh, isToldFromThisHost: false) == .forged)
        #expect(list[key.peerID]?.presence == nil)
    }

    @Test func `MSG-12 a newcomer to a hundred members with the longest names learns all of them whole`() throws {
        let mesh = TestMesh.settled(2)
        let founder = mesh.nodes[0]
        let name = { (index: Int) in String(repeating: "\u{1f388}", count: 15) + String(1000 + index) }
        var random = RandomStream(testSeed: 12)
        let keys = (0..<100).map { _ in SigningKeyPair(seed: random.secret()) }
        let secret = try #require(founder.machine.invites.first?.id)
        var records: [PresenceRecord] = []
        for (index, key) in keys.enumerated() {
            let body = AdmitBody(subject: key.peerID, secretID: secret, name: name(index))
            mesh.inject(.admit, body.encoded, author: founder, at: founder)
            let addresses = (0..<WireLimits.maximumPresenceAddresses).map {
                SocketAddress.ipv4(10, 1, UInt8(index), UInt8($0 + 1), port: 47_800)
            }
            let record = PresenceRecord(
                peer: key.peerID, incarnation: Incarnation(5), startCount: 1, revision: 1, state: .alive,
                name: name(index), addresses: addresses)
            records.append(record.signed(by: key, mesh: try #require(founder.meshID)))
        }
        for start in stride(from: 0, to: 100, by: 50) {
            var outbox = Outbox<SessionOutput>()
            founder.machine.receive(
                SessionMessage.presences(Array(records[start..<start + 50])).encoded, from: mesh.nodes[1].peer,
                at: mesh.now, into: &outbox)
        }

        let newcomer = mesh.add()
        mesh.join(newcomer, mesh.ticket(founder))
        mesh.run(.seconds(1 as Int64))

        #expect(newcomer.machine.statistics.malformedMessages == 0)
        #expect(newcomer.machine.members.count == 103)
        let names = Dictionary(uniqueKeysWithValues: newcomer.machine.members.map { ($0.peer, $0.name) })
        // Names that begin alike for sixty bytes are still told apart.
        #expect(keys.indices.filter { names[keys[$0].peerID] != name($0) } == [])
        #expect(newcomer.machine.members.count { $0.addresses.count == WireLimits.maximumPresenceAddresses } >= 100)
    }

    @Test func `AB-35 ten thousand signed records of strangers fill a bounded room, and members are not pushed out`() {
        var list = list()
        #expect(isAccepted(list.apply(record(), mesh: mesh, isToldFromThisHost: false)))
        var random = RandomStream(testSeed: 3)
        let template = record()
        for _ in 0..<10_000 {
            var stranger = template
            stranger.peer = PeerID(Bytes32(random.bytes(32))!)
            #expect(list.apply(stranger, mesh: mesh, isToldFromThisHost: false) == .parked)
        }

        #expect(list.parkedCount == MemberList.maximumParked)
        #expect(list.evictedCount == 10_000 - 64)
        #expect(list.count == 1)
        #expect(list[key.peerID]?.name == "ada")
    }

    @Test func `a record that waited for its admission is used, and is checked then`() {
        var list = list()
        let good = record(of: otherKey)
        #expect(list.apply(good, mesh: mesh, isToldFromThisHost: false) == .parked)

        _ = list.admit(otherKey.peerID, name: "", admission: nil)
        let waiting = list.takeParked(otherKey.peerID)

        #expect(waiting?.presence == good)
        #expect(isAccepted(list.apply(good, mesh: mesh, isToldFromThisHost: false)))
        #expect(list.takeParked(otherKey.peerID) == nil)
    }

    @Test func `two records of one start by two lives are a conflict with one winner in either order`() {
        for order in [[1, 2], [2, 1]] as [[UInt64]] {
            var list = list()
            var conflicts = 0
            for incarnation in order {
                let verdict = list.apply(
                    record(start: 3, revision: 10 - incarnation, incarnation: incarnation, name: "life \(incarnation)"),
                    mesh: mesh, isToldFromThisHost: false)
                if case .accepted(let change) = verdict, change.isConflict { conflicts += 1 }
            }
            #expect(list[key.peerID]?.name == "life 2")
            #expect(conflicts == (order == [1, 2] ? 1 : 0))
        }
    }

    @Test func `a life that returns after it was superseded is a conflict, a restart is none`() {
        var list = list()
        var conflicts: [Bool] = []
        for (start, incarnation) in [(1, 5), (2, 6), (3, 7), (4, 6)] as [(UInt64, UInt64)] {
            if case .accepted(let change) = list.apply(
                record(start: start, incarnation: incarnation), mesh: mesh, isToldFromThisHost: false)
            {
                conflicts.append(change.isConflict)
            }
        }
        #expect(conflicts == [false, false, false, true])
    }

    @Test func `equal lists have equal digests, and the difference of two lists is exact`() {
        var left = list()
        var right = list()
        _ = left.admit(otherKey.peerID, name: "", admission: nil)
        _ = right.admit(otherKey.peerID, name: "", admission: nil)
        _ = left.apply(record(), mesh: mesh, isToldFromThisHost: false)
        _ = right.apply(record(revision: 2), mesh: mesh, isToldFromThisHost: true)
        _ = left.apply(record(of: otherKey), mesh: mesh, isToldFromThisHost: false)
        #expect(left.digest() != right.digest())

        let (newerHere, newerThere) = left.difference(from: right.versions)
        #expect(newerHere.map(\.peer) == [otherKey.peerID])
        #expect(newerThere == [key.peerID])

        for presence in newerHere { _ = right.apply(presence, mesh: mesh, isToldFromThisHost: false) }
        for presence in right.presences { _ = left.apply(presence, mesh: mesh, isToldFromThisHost: false) }
        #expect(left.digest() == right.digest())
    }

    @Test func `AB-73 only a member's own signed farewell counts, and an old one replayed does not`() throws {
        let mesh = TestMesh.settled(3)
        let (honest, liar, victim) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
        let meshID = try #require(honest.machine.meshID)
        let farewell = PresenceRecord(
            peer: victim.peer, incarnation: victim.incarnation, startCount: 9, revision: 99, state: .left, name: "x",
            addresses: []
        ).signed(by: liar.signing, mesh: meshID)
        var outbox = Outbox<SessionOutput>()
        honest.machine.receive(
            SessionMessage.presences([farewell]).encoded, from: liar.peer, at: mesh.now, into: &outbox)
        #expect(honest.state(of: victim) == .alive)
        #expect(honest.machine.statistics.presencesForged == 1)

        // A real farewell, then a new life, then the farewell again.
        mesh.submit(victim, .leave)
        let real = victim.outputs.compactMap { output -> PresenceRecord? in
            if case .send(.presences(let records), _, _, _) = output, records.first?.state == .left {
                records.first
            } else {
                nil
            }
        }
        mesh.run(.seconds(1 as Int64))
        #expect(honest.state(of: victim) == .left)
        mesh.restart(victim)
        mesh.run(.seconds(1 as Int64))
        honest.machine.receive(
            SessionMessage.presences(real).encoded, from: liar.peer, at: mesh.now, into: &outbox)
        #expect(!real.isEmpty)
        #expect(honest.state(of: victim) == .alive)
    }

    @Test func `AB-74 no member can declare another dead, rename it or move it`() throws {
        let mesh = TestMesh.settled(4)
        let (honest, liar, victim) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
        let meshID = try #require(honest.machine.meshID)
        let before = try #require(honest.machine.members.first { $0.peer == victim.peer })
        let lies: [SessionMessage] = [
            .suspicion(subject: victim.peer),
            .probeResult(subject: victim.peer, nonce: 0, outcome: .silent),
            .presences([
                PresenceRecord(
                    peer: victim.peer, incarnation: victim.incarnation, startCount: 5, revision: 9, state: .alive,
                    name: "renamed", addresses: [.ipv4(6, 6, 6, 6, port: 6)]
                ).signed(by: liar.signing, mesh: meshID)
            ]),
            .keepAlive(
                KeepAlive(
                    digest: .zero, isWatching: true, health: 1,
                    reports: [KeepAlive.Report(subject: victim.peer, ageMilliseconds: .max)])),
        ]
        for _ in 0..<40 {
            for lie in lies {
                var outbox = Outbox<SessionOutput>()
                honest.machine.receive(lie.encoded, from: liar.peer, at: mesh.now, into: &outbox)
            }
            mesh.run(.milliseconds(100))
        }

        let after = try #require(honest.machine.members.first { $0.peer == victim.peer })
        #expect(after.state == .alive)
        #expect(after.name == before.name)
        #expect(Set(after.addresses) == Set(before.addresses))
        #expect(honest.count(.memberDead) == 0)
    }

    @Test func `what no message brought is found by the digests in the keep-alives`() throws {
        let mesh = TestMesh.settled(3)
        mesh.delay = { _, _, message in
            if case .presences = message { .seconds(3_600 as Int64) } else { .zero }
        }
        mesh.submit(mesh.nodes[1], .rename("quiet"))
        mesh.run(.seconds(1 as Int64))
        #expect(!mesh.nodes[0].machine.members.contains { $0.name == "quiet" })

        mesh.delay = { _, _, _ in .zero }
        let time = mesh.run(limit: .seconds(10 as Int64)) {
            mesh.nodes.allSatisfy { node in node.machine.members.contains { $0.name == "quiet" } }
        }

        #expect(try #require(time) <= .seconds(3 as Int64))
    }
}
