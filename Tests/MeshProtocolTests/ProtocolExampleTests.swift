import Foundation
import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// The worked examples of Docs/Protocol.md, read from the page itself and taken in by the machines.
@Suite struct ProtocolExampleTests {
    private let examples: [String: String]

    init() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "Docs/Protocol.md"), encoding: .utf8)
        var examples: [String: String] = [:]
        for line in page.split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 3, words[1] == "=" { examples[String(words[0])] = String(words[2]) }
        }
        self.examples = examples
    }

    @Test func `the written GENESIS record founds the written mesh with the written head`() throws {
        let record = try SignedRecord(decoding: bytes("genesisRecord"))
        var log = RecordLog(configuration: GossipConfiguration())
        log.setMesh(MeshID(record.id.value))
        _ = log.setSecrets([secret])
        _ = log.insert([record], from: nil, at: .zero)
        let body = try GenesisBody(decoding: record.openBody(with: secret) ?? [])

        #expect(record.id.bytes == bytes("genesisMesh"))
        #expect(record.isSignatureValid)
        #expect(record.bytes == bytes("genesisRecord"))
        #expect(body.label == "home")
        #expect(body.journalKey.bytes == bytes("treeKey"))
        #expect(log.genesisID == record.id)
        #expect(log.head.bytes == bytes("genesisHead"))
    }

    @Test func `the written presence is its author's and gives the written digest`() throws {
        let mesh = try #require(MeshID(bytes: bytes("genesisMesh")))
        let presence = try PresenceRecord(decoding: bytes("presence"))
        var list = MemberList()
        _ = list.admit(presence.peer, name: "", admission: nil)
        let verdict = list.apply(presence, mesh: mesh, isToldFromThisHost: false)
        let digest = list.digest()

        #expect(presence.name == "ana")
        #expect(presence.addresses == [.ipv4(192, 0, 2, 14, port: 47_800)])
        #expect(presence.encoded == bytes("presence"))
        #expect(verdict == .accepted(MemberList.Change()))
        #expect(digest.bytes == bytes("presenceDigest"))
    }

    @Test func `the written beacon is read under the written secret`() {
        var discovery = Discovery()
        let reading = discovery.read(bytes("beaconDatagram"), secrets: [secret], at: .zero)
        guard case .beacon(let beacon, _) = reading else {
            Issue.record("the beacon does not open")
            return
        }

        #expect(beacon == Beacon(isQuestion: true, isMember: true, port: 47_800, incarnation: Incarnation(7)))
        #expect(beacon.encoded == bytes("beaconPlain"))
    }

    private var secret: GroupSecret { GroupSecret(secret: SecretBytes(copying: Array(0..<32))) }

    /// Empty, and so equal to nothing computed, when the page has no such example.
    private func bytes(_ name: String) -> [UInt8] { Hexadecimal.decode(examples[name] ?? "") ?? [] }
}
