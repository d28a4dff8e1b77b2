import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import MeshWire
import Testing

/// What a link gives to somebody who holds an invite and was never admitted: a handshake, and nothing else.
@Suite(.serialized) struct AdmissionGateTests {
    private struct Scene {
        let cluster: Cluster
        let guest: SilentGuest
        let member: PeerID
    }

    /// Two members with a file, and a guest that is linked with the first and says nothing.
    private func scene(seed: UInt64) throws -> Scene {
        let cluster = Cluster(seed: seed, count: 2)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        try cluster.start(1, invite: invite)
        cluster.run(atMost: .seconds(10)) { $0.snapshot(of: 0)?.members.count == 2 }
        let guest = try SilentGuest(of: cluster, host: 9, invite: invite)
        guest.dial(0)
        guest.run(cluster, for: .milliseconds(500))
        let member = try #require(cluster.nodes[0].peerID)
        try #require(guest.linked == [member])
        return Scene(cluster: cluster, guest: guest, member: member)
    }

    @Test func `a guest that says no hello hears nothing of files, clock, records or messages`() throws {
        let scene = try scene(seed: 41)
        let (cluster, guest) = (scene.cluster, scene.guest)

        cluster.nodes[0].storage.putFile([UInt8](repeating: 5, count: 100_000), at: "/files/film.bin")
        _ = try cluster.request(["verb": "journal.add", "path": "/files/film.bin"], of: 0)
        _ = try cluster.request(["verb": "send", "text": "among us"], of: 0)
        guest.run(cluster, for: .seconds(5))

        #expect(cluster.snapshot(of: 1)?.attachments.first?.isPresent == true)
        #expect(guest.linked == [scene.member])
        #expect(guest.heard.mapValues(\.count) == [:])
    }

    @Test func `a guest that says no hello puts no text into an inbox`() throws {
        let scene = try scene(seed: 42)
        for (number, isReliable) in [(UInt64(1), true), (2, false)] {
            let message = DirectMessage(
                isReliable: isReliable, sequence: number, base: 1,
                lamport: 1, payload: Array("hello from nobody".utf8))
            try scene.guest.say(.gossip, GossipMessage.direct(message).encoded, to: scene.member)
        }
        scene.guest.run(scene.cluster, for: .seconds(2))

        #expect(scene.cluster.nodes[0].receivedByLife.last == [])
        #expect(scene.cluster.snapshot(of: 0)?.gossip.messagesReceived == 0)
    }

    @Test func `a guest is carried to nobody, and nobody's datagrams are taken from it`() throws {
        let scene = try scene(seed: 44)
        let (cluster, guest) = (scene.cluster, scene.guest)
        let other = try #require(cluster.nodes[1].peerID)
        let datagram = [UInt8](repeating: 1, count: 352)
        try guest.say(.relay, RelayMessage.carry(datagram, to: other).encoded, to: scene.member)
        try guest.say(.relay, RelayMessage.carried(datagram, from: other).encoded, to: scene.member)
        guest.run(cluster, for: .seconds(1))

        let snapshot = try #require(cluster.snapshot(of: 0))
        #expect(snapshot.messenger.relayStrangers == 2)
        #expect(snapshot.linkTable.relayedDatagrams == 0 && snapshot.linkTable.relayReceived == 0)
        #expect(guest.linked == [scene.member])
    }

    @Test func `a guest that says no hello does not move the mesh clock`() throws {
        let scene = try scene(seed: 43)
        let before = try #require(scene.cluster.snapshot(of: 0))
        let digits = try #require(before.clock.epoch.split(separator: "-").last)
        let losing = ClockEpoch(birth: 2, id: try #require(UInt64(digits, radix: 16)))
        let merge = ClockMerge(
            losing: losing, winning: ClockEpoch(birth: 2, id: .max),
            switchAt: before.meshTime.advanced(by: .seconds(1 as Int64)),
            shift: .seconds(3_600 as Int64))
        try scene.guest.say(.coordinator, ClockMessage.merge(merge).encoded, to: scene.member)
        scene.guest.run(scene.cluster, for: .seconds(5))

        let after = try #require(scene.cluster.snapshot(of: 0))
        #expect(after.clock.epoch == before.clock.epoch)
        #expect(after.coordinator.messagesRefused == 0, "the coordinator never heard of it")
    }
}
