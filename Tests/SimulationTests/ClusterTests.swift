import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import Testing

/// Directed scenarios of a few real nodes.
@Suite(.serialized) struct ClusterTests {
    private func mesh(_ count: Int, seed: UInt64) throws -> Cluster {
        let cluster = try Cluster.joining(count, seed: seed)
        let isWhole = cluster.run(atMost: .seconds(10)) { cluster in
            cluster.nodes.allSatisfy { cluster.snapshot(of: $0.index)?.members.count == count }
        }
        try #require(isWhole)
        return cluster
    }

    @Test func `a late joiner gets a file whose adder was killed`() throws {
        let cluster = Cluster(seed: 21, count: 3)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        try cluster.start(1, invite: invite)
        cluster.run(for: .seconds(2))
        let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }
        cluster.nodes[0].storage.putFile(bytes, at: "/files/film.bin")
        let added = try cluster.answer(to: ["verb": "journal.add", "path": "/files/film.bin"], of: 0)
        try #require(added.errorCode == nil)
        cluster.run(atMost: .seconds(20)) { $0.snapshot(of: 1)?.attachments.first?.isPresent == true }

        cluster.kill(0)
        try cluster.start(2, invite: try cluster.invite(from: 1))
        let isThere = cluster.run(atMost: .seconds(30)) { $0.snapshot(of: 2)?.attachments.first?.isPresent == true }

        #expect(isThere)
        let id = try #require(cluster.snapshot(of: 2)?.attachments.first?.id.description)
        let got = try cluster.answer(to: ["verb": "journal.get", "id": .string(id), "directory": "/out"], of: 2)
        #expect(got.errorCode == nil)
        #expect(cluster.nodes[2].storage.file(at: "/out/film.bin") == bytes)
    }

    @Test func `three nodes in a line hear one another's messages`() throws {
        let cluster = Cluster(seed: 22, count: 3)
        cluster.network.cut(0, 2)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        try cluster.start(1, invite: invite)
        cluster.run(for: .seconds(2))
        try cluster.start(2, invite: try cluster.invite(from: 1))
        let isWhole = cluster.run(atMost: .seconds(20)) { cluster in
            cluster.nodes.allSatisfy { cluster.snapshot(of: $0.index)?.members.count { $0.state == .alive } == 3 }
        }
        try #require(isWhole)

        let there = try cluster.request(["verb": "send", "text": "over two links"], of: 0)
        let back = try cluster.request(["verb": "send", "text": "and back"], of: 2)
        cluster.run(atMost: .seconds(20)) { _ in there.isFinished && back.isFinished }
        cluster.run(for: .seconds(1))

        #expect(there.errorCode == nil && back.errorCode == nil)
        #expect(cluster.nodes[0].receivedByLife.last?.map(\.text) == ["and back"])
        #expect(cluster.nodes[1].receivedByLife.last?.map(\.text).sorted() == ["and back", "over two links"])
        #expect(cluster.nodes[2].receivedByLife.last?.map(\.text) == ["over two links"])
    }

    @Test func `a message finds its way round a link that was cut`() throws {
        let cluster = try mesh(3, seed: 28)
        cluster.run(for: .seconds(2))
        cluster.network.cut(0, 2)

        let sent = try cluster.request(["verb": "send", "text": "the long way"], of: 0)
        let isThere = cluster.run(atMost: .seconds(60)) { $0.nodes[2].receivedByLife.last?.isEmpty == false }

        #expect(isThere, "\(cluster.elapsed.seconds) s, \(sent.objects)")
        #expect(cluster.nodes[2].receivedByLife.last?.map(\.text) == ["the long way"])
    }

    @Test func `a killed member is noticed by all within two seconds, and is itself again after a restart`() throws {
        let cluster = try mesh(3, seed: 23)
        cluster.run(for: .seconds(3))
        let id = try #require(cluster.nodes[2].id)

        cluster.kill(2)
        let isNoticed = cluster.run(atMost: .seconds(2)) { cluster in
            [0, 1].allSatisfy { index in
                cluster.snapshot(of: index)?.members.contains { $0.peer.description == id && $0.state == .dead } == true
            }
        }
        #expect(isNoticed)
        try cluster.start(2)
        let isBack = cluster.run(atMost: .seconds(15)) { cluster in
            [0, 1, 2].allSatisfy { index in
                cluster.snapshot(of: index)?.members.count { $0.state == .alive } == 3
            }
        }

        #expect(isBack)
        #expect(cluster.nodes[2].id == id)
    }

    @Test func `a member that leaves politely is known to have left at once`() throws {
        let cluster = try mesh(3, seed: 24)
        cluster.run(for: .seconds(2))
        let id = try #require(cluster.nodes[1].id)

        cluster.leave(1)
        let isKnown = cluster.run(atMost: .seconds(1)) { cluster in
            [0, 2].allSatisfy { index in
                cluster.snapshot(of: index)?.members.contains { $0.peer.description == id && $0.state == .left } == true
            }
        }

        #expect(isKnown)
        #expect(!cluster.nodes[1].isRunning)
    }

    @Test func `members frozen for five seconds come back without being anybody else`() throws {
        let cluster = try mesh(3, seed: 25)
        cluster.run(for: .seconds(2))

        cluster.freeze(1, for: .seconds(5))
        cluster.run(for: .seconds(6))
        let isWhole = cluster.run(atMost: .seconds(10)) { cluster in
            cluster.nodes.allSatisfy { cluster.snapshot(of: $0.index)?.members.count { $0.state == .alive } == 3 }
        }

        #expect(isWhole)
        #expect(cluster.nodes.allSatisfy { $0.startCount == 1 })
    }

    @Test func `host clocks days and 100 ppm apart show one mesh time within the stated error`() throws {
        let cluster = try mesh(4, seed: 26)
        cluster.run(for: .seconds(15))

        let view = ClusterView(cluster)

        #expect(Invariants.clocksAgree.check(view) == [])
        let errors = view.nodes.map(\.snapshot.clock.error.nanoseconds)
        #expect(errors.allSatisfy { $0 < 1_000_000 }, "\(errors)")
    }

    /// What three nodes came to after half a minute in which their times of day were stepped and turned, or not.
    private func outcome(steppingTimeOfDay: Bool) throws -> (digest: String, text: [String]) {
        let cluster = try mesh(3, seed: 29)
        for step in [5.0, -5, 3_600, -86_400, 1e9] {
            cluster.run(for: .seconds(4))
            if steppingTimeOfDay {
                for (place, host) in cluster.nodes.enumerated() {
                    host.stepWallClock(bySeconds: Double(place + 1) * step)
                }
            }
            let sent = try cluster.answer(to: ["verb": "send", "text": .string("at \(step)")], of: 0)
            #expect(sent.errorCode == nil)
        }
        cluster.run(for: .seconds(5))
        let text = cluster.nodes.compactMap { cluster.snapshot(of: $0.index) }.flatMap { snapshot -> [String] in
            let members = snapshot.members.map { "\($0.name) \($0.state.rawValue)" }
            return members + [
                "\(snapshot.meshTime) \(snapshot.clock.error.nanoseconds) \(snapshot.session.suspicions)",
                "\(snapshot.recordsHead) \(snapshot.gossip) \(snapshot.session)",
            ]
        }
        return ("\(cluster.network.trace)", text)
    }

    @Test func `CLK-01 steps of the time of day change no datagram, no judgement and no nanosecond of mesh time`()
        throws
    {
        let steady = try outcome(steppingTimeOfDay: false)
        let stepped = try outcome(steppingTimeOfDay: true)

        #expect(stepped.text == steady.text)
        #expect(stepped.digest == steady.digest)
        #expect(steady.text.count { $0.hasSuffix(" alive") } == 9)
    }

    /// Two members over a slow path, the second with a fifth of the first's file.
    private func halfway(seed: UInt64) throws -> Cluster {
        let cluster = try mesh(2, seed: seed)
        cluster.run(for: .seconds(3))
        cluster.network.setConditions(PathConditions(delay: .milliseconds(40)))
        cluster.nodes[0].storage.putFile([UInt8](repeating: 7, count: 6 << 20), at: "/files/film.bin")
        let added = try cluster.answer(to: ["verb": "journal.add", "path": "/files/film.bin"], of: 0)
        try #require(added.errorCode == nil)
        let isHalfway = cluster.run(atMost: .seconds(30)) { cluster in
            (cluster.snapshot(of: 1)?.attachments.first?.fraction ?? 0) > 0.2
        }
        try #require(isHalfway)
        try #require(cluster.snapshot(of: 1)?.attachments.first?.isPresent == false)
        return cluster
    }

    @Test func `within three seconds of the only holder's death the others say that they wait for one`() throws {
        let cluster = try halfway(seed: 31)
        let wait = try cluster.request(
            ["verb": "journal.wait", "id": "film.bin", "timeoutSeconds": 3], of: 1)

        cluster.kill(0)
        let isSaid = cluster.run(atMost: .seconds(3)) { cluster in
            let film = cluster.snapshot(of: 1)?.attachments.first
            return film?.state == .waitingForHolder && film?.holders == []
        }

        #expect(isSaid)
        cluster.run(atMost: .seconds(3)) { _ in wait.isFinished }
        #expect(wait.objects.last?["message"]?.stringValue?.contains("waiting for a holder") == true, "\(wait.objects)")
    }

    @Test func `a holder frozen for five seconds is waited for, and serves on over the same link`() throws {
        let cluster = try halfway(seed: 32)
        let link = try #require(cluster.snapshot(of: 1)?.peers.first?.link)

        cluster.freeze(0, for: .seconds(5))
        cluster.run(for: .seconds(3))
        #expect(cluster.snapshot(of: 1)?.attachments.first?.state == .waitingForHolder)
        cluster.run(for: .milliseconds(2_500))
        #expect(cluster.snapshot(of: 1)?.attachments.first?.state != .waitingForHolder)
        let isThere = cluster.run(atMost: .seconds(20)) { $0.snapshot(of: 1)?.attachments.first?.isPresent == true }

        #expect(isThere)
        #expect(cluster.snapshot(of: 1)?.peers.first?.link?.establishedAt == link.establishedAt)
    }

    @Test func `the first word of a frozen holder is enough: it is asked again before any new handshake could end`()
        throws
    {
        let cluster = try halfway(seed: 34)
        // Nothing reaches it meanwhile, no handshake either.
        var deaf = PathConditions(delay: .milliseconds(40))
        deaf.isCut = true
        cluster.network.setConditions(deaf, from: 1, to: 0)
        cluster.freeze(0, for: .seconds(5))
        cluster.run(for: .milliseconds(4_999))
        #expect(cluster.snapshot(of: 1)?.attachments.first?.state == .waitingForHolder)

        cluster.network.setConditions(nil, from: 1, to: 0)
        cluster.run(for: .milliseconds(60))

        // One way takes 40 ms, the answer to a handshake twice that.
        #expect(cluster.snapshot(of: 1)?.attachments.first?.state == .fetching)
    }

    @Test func `what actors refused is shown for each of them, and is nothing among healthy members`() throws {
        let cluster = try mesh(2, seed: 33)
        let before = try cluster.answer(to: ["verb": "metrics"], of: 0).objects.first?["counters"]
        for name in ["journal", "coordinator", "session"] {
            #expect(before?["\(name).malformedMessages"]?.integerValue == 0, "\(name)")
            #expect(before?["\(name).refusedCommands"]?.integerValue == 0, "\(name)")
        }
        #expect(before?["messenger.refusedCommands"]?.integerValue != nil)
        #expect(before?["messenger.droppedQueueFull"]?.integerValue == 0)

        let status = try cluster.answer(to: ["verb": "status"], of: 0).objects.first
        #expect(status?["faults"]?["malformedMessages"]?.integerValue == 0)
        #expect(status?["faults"]?["refusedCommands"]?.integerValue == 0)
    }

    @Test func `a full disk fails an addition with a typed error and harms nothing else`() throws {
        let cluster = try mesh(2, seed: 27)
        cluster.nodes[0].storage.faults.isFull = true
        cluster.nodes[0].storage.putFile([1, 2, 3], at: "/files/small.bin")

        let refused = try cluster.answer(to: ["verb": "journal.add", "path": "/files/small.bin"], of: 0)
        cluster.nodes[0].storage.faults.isFull = false
        let added = try cluster.answer(to: ["verb": "journal.add", "path": "/files/small.bin"], of: 0)

        #expect(refused.errorCode == "noSpace" || refused.errorCode == "storageFull")
        #expect(added.errorCode == nil)
        #expect(cluster.snapshot(of: 0)?.attachments.count == 1)
    }

    @Test func `a machine that slept drops what it measured before and finds its place again`() throws {
        let cluster = try mesh(2, seed: 29)
        cluster.run(for: .seconds(5))
        let before = try #require(cluster.snapshot(of: 1))
        cluster.freeze(1, for: .seconds(60))
        cluster.run(for: .milliseconds(59_999))
        cluster.nodes[1].clock?.wakeUp(after: .milliseconds(59_900))
        cluster.run(for: .seconds(20))

        let events = try cluster.answer(to: ["verb": "events"], of: 1).objects
        #expect(events.contains { $0["kind"]?.stringValue == "suspended" })
        let (left, right) = (try #require(cluster.snapshot(of: 0)), try #require(cluster.snapshot(of: 1)))
        #expect(right.clock.epoch == before.clock.epoch)
        #expect(left.clock.state == .steady && right.clock.state == .steady)
        let apart = left.meshTime.since(right.meshTime).nanoseconds.magnitude
        #expect(apart <= UInt64((left.clock.error + right.clock.error).nanoseconds))
    }
}
