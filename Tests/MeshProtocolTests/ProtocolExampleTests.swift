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

    @Test func `the written handshake gives the written datagrams, hash and keys`() throws {
        var initiator = Party(.initiator, seed: 0x40, incarnation: 7, fixed: 0x10, ephemeral: 0x30, self)
        var responder = Party(.responder, seed: 0xc0, incarnation: 8, fixed: 0x50, ephemeral: 0x70, self)
        let first = try initiator.noise.writeMessage(payload: [])
        _ = try responder.noise.readMessage(first)
        let second = try responder.noise.writeMessage(payload: responder.payload)
        let heard = try initiator.noise.readMessage(second)
        let third = try initiator.noise.writeMessage(payload: initiator.payload)
        _ = try responder.noise.readMessage(third)

        #expect(initiator.payload == bytes("initiatorPayload"))
        #expect(responder.payload == bytes("responderPayload"))
        #expect(datagram(.initiation, 0x0102_0304, 0, first) == bytes("initiation"))
        #expect(datagram(.response, 0x0506_0708, 0x0102_0304, second) == bytes("response"))
        #expect(datagram(.final, 0x0102_0304, 0x0506_0708, third) == bytes("final"))
        #expect(heard == bytes("responderPayload"))
        #expect(initiator.noise.handshakeHash == bytes("handshakeHash"))
        let keys = try initiator.noise.split()
        #expect(keys.send.revealed() == bytes("initiatorKey"))
        #expect(keys.receive.revealed() == bytes("responderKey"))
    }

    /// One side of the written handshake; numbers are the first bytes of its keys.
    private struct Party {
        var noise: NoiseHandshake
        let payload: [UInt8]

        init(
            _ role: NoiseHandshake.Role, seed: UInt8, incarnation: UInt64, fixed: UInt8, ephemeral: UInt8,
            _ examples: ProtocolExampleTests
        ) {
            let identity = NodeIdentity(
                signing: SigningKeyPair(seed: Self.key(seed)), incarnation: Incarnation(incarnation))
            let suite = HandshakeSuite(
                identity: identity, mesh: MeshID(Bytes32(examples.bytes("genesisMesh")) ?? .zero),
                configuration: LinkConfiguration(), staticKey: AgreementKeyPair(secret: Self.key(fixed)))
            noise = NoiseHandshake(
                role: role, prologue: suite.prologue(secretID: examples.secret.id), localStatic: suite.staticKey,
                localEphemeral: AgreementKeyPair(secret: Self.key(ephemeral)),
                presharedKeys: [examples.secret.presharedKey])
            payload = suite.payload(
                role: role == .initiator ? .initiator : .responder, flags: 0,
                membershipHead: Bytes16(examples.bytes("genesisHead")) ?? .zero)
        }

        private static func key(_ start: UInt8) -> SecretBytes { SecretBytes(copying: Array(start..<(start + 32))) }
    }

    private func datagram(_ type: DatagramType, _ sender: UInt32, _ receiver: UInt32, _ noise: [UInt8]) -> [UInt8] {
        HandshakeSuite.sealed(
            HandshakeDatagram(type: type, senderIndex: sender, receiverIndex: receiver, noise: noise), secret: secret,
            cookie: nil)
    }

    private var secret: GroupSecret { GroupSecret(secret: SecretBytes(copying: Array(0..<32))) }

    /// Empty, and so equal to nothing computed, when the page has no such example.
    private func bytes(_ name: String) -> [UInt8] { Hexadecimal.decode(examples[name] ?? "") ?? [] }
}
