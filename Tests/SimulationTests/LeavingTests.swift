import MeshBase
import MeshNode
import MeshProtocol
import MeshTestKit
import Testing

/// A node that has left its mesh and stays up says so, everywhere.
@Suite(.serialized) struct LeavingTests {
    private static let bytes = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }

    /// Three members with a file of the second's; the first leaves.
    private func left(seed: UInt64) throws -> Cluster {
        let cluster = Cluster(seed: seed, count: 3)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        for index in 1...2 { try cluster.start(index, invite: invite) }
        cluster.nodes[1].storage.putFile(Self.bytes, at: "/files/film.bin")
        cluster.nodes[0].storage.putFile(Self.bytes, at: "/files/other.bin")
        cluster.run(for: .seconds(3))
        _ = try cluster.answer(to: ["verb": "journal.add", "path": "/files/film.bin"], of: 1)
        try #require(cluster.run(atMost: .seconds(10)) { $0.snapshot(of: 0)?.attachments.first?.isPresent == true })
        _ = try cluster.answer(to: ["verb": "leave"], of: 0)
        cluster.run(for: .seconds(3))
        return cluster
    }

    private func ask(_ verb: String, _ cluster: Cluster) throws -> JSONValue {
        try #require(try cluster.answer(to: ["verb": .string(verb)], of: 0).objects.first)
    }

    @Test func `a node that has left claims neither a session nor that others are alive`() throws {
        let cluster = try left(seed: 51)

        let status = try ask("status", cluster)
        #expect(status["session"] == .null)
        #expect(status["mesh"]?["hasLeft"] == true)
        #expect(try ask("session", cluster)["session"] == .null)
        let peers = try ask("peers", cluster)["peers"]?.arrayValue ?? []
        #expect(peers.count == 2)
        #expect(peers.allSatisfy { $0["state"] == "unknown" && $0["path"] == .null })
        let members = try ask("members", cluster)["members"]?.arrayValue ?? []
        #expect(members.first { $0["isLocal"] == true }?["state"] == "left")
        #expect(try ask("links", cluster)["links"]?.arrayValue?.isEmpty == true)
        let why = try cluster.answer(to: ["verb": "why", "name": "node1"], of: 0).objects.first
        #expect(why?["state"] == "unknown")
        for index in 1...2 {
            let seen = cluster.snapshot(of: index)?.members.first { $0.name == "node0" }
            #expect(seen?.state == .left)
        }
    }

    @Test(
        arguments: [
            ["verb": "send", "text": "hi"], ["verb": "invite"], ["verb": "journal.add", "path": "/files/other.bin"],
            ["verb": "journal.get", "id": "nowhere.bin", "directory": "/out"],
            ["verb": "journal.wait", "id": "film.bin", "replicas": 2], ["verb": "journal.rm", "id": "film.bin"],
        ] as [JSONValue])
    func `what needs the mesh is refused at once after leaving, with the way back`(request: JSONValue) throws {
        let cluster = try left(seed: 52)

        let answer = try cluster.answer(to: request, of: 0, within: .milliseconds(500))

        #expect(answer.isFinished)
        #expect(answer.errorCode == "left")
        #expect(answer.objects.last?["exit"] == 5)
        #expect(answer.objects.last?["hint"]?.stringValue?.contains("starling up --name node0") == true)
    }

    @Test func `what is here is still given after leaving`() throws {
        let cluster = try left(seed: 53)

        let got = try cluster.answer(to: ["verb": "journal.get", "id": "film.bin", "directory": "/out"], of: 0)

        #expect(got.errorCode == nil)
        #expect(cluster.nodes[0].storage.file(at: "/out/film.bin") == Self.bytes)
    }

    @Test func `a send under way is answered when the node leaves`() throws {
        let cluster = Cluster(seed: 54, count: 2)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        try cluster.start(1, invite: try cluster.invite(from: 0))
        cluster.run(for: .seconds(3))
        cluster.network.cut(0, 1)
        let sending = try cluster.request(["verb": "send", "text": "hi"], of: 0)
        cluster.run(for: .milliseconds(100))
        _ = try cluster.answer(to: ["verb": "leave"], of: 0)
        cluster.run(for: .seconds(2))

        #expect(sending.isFinished)
        #expect(sending.errorCode == "left")
    }

    @Test func `nobody is called relayed of whom no linked member says that it is linked`() throws {
        let cluster = Cluster(seed: 55, count: 2)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        try cluster.start(1, invite: try cluster.invite(from: 0))
        cluster.run(for: .seconds(3))
        cluster.network.cut(0, 1)
        var paths: Set<String> = []
        for _ in 0..<40 {
            cluster.run(for: .milliseconds(100))
            let peer = try ask("peers", cluster)["peers"]?.arrayValue?.first
            paths.insert(peer?["path"]?["kind"]?.stringValue ?? "none")
        }

        #expect(!paths.contains("relayed"))
    }
}
