import MeshBase
import MeshWire
import Testing

@Suite struct MembershipBodyTests {
    private static func bytes32(_ value: UInt8) -> Bytes32 { Bytes32([UInt8](repeating: value, count: 32))! }

    private static let remove = RemoveBody(
        subject: PeerID(bytes32(7)),
        lives: [.init(incarnation: Incarnation(1), sequence: 2), .init(incarnation: Incarnation(3), sequence: 4)])
    private static let epoch = EpochBody(
        secretID: SecretID(Bytes16([UInt8](repeating: 1, count: 16))!), bases: [RecordID(bytes32(2))],
        removals: [RecordID(bytes32(3))], ephemeralKey: bytes32(4),
        boxes: [.init(recipient: PeerID(bytes32(5)), sealed: [UInt8](repeating: 6, count: 48))])
    private static let merge = EpochBody(
        secretID: SecretID(Bytes16([UInt8](repeating: 1, count: 16))!),
        bases: [RecordID(bytes32(2)), RecordID(bytes32(3))], removals: [], ephemeralKey: .zero, boxes: [])

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test func `a removal has one byte form`() throws {
        let expected =
            "01" + String(repeating: "07", count: 32) + "0200" + "0100000000000000" + "0200000000000000"
            + "0300000000000000" + "0400000000000000"
        #expect(hex(Self.remove.encoded) == expected)
        #expect(try RemoveBody(decoding: Self.remove.encoded) == Self.remove)
    }

    @Test func `a new secret and a merge have one byte form`() throws {
        let expected =
            "01" + String(repeating: "01", count: 16) + "01" + String(repeating: "02", count: 32) + "0100"
            + String(repeating: "03", count: 32) + String(repeating: "04", count: 32) + "0100"
            + String(repeating: "05", count: 32) + String(repeating: "06", count: 48)
        #expect(hex(Self.epoch.encoded) == expected)
        for body in [Self.epoch, Self.merge] { #expect(try EpochBody(decoding: body.encoded) == body) }
        #expect(hex(EndBody().encoded) == "01")
    }

    @Test func `policies other than the standard ones stand in a second version of GENESIS`() throws {
        var body = GenesisBody(nonce: .zero, journalKey: .zero, label: "a")
        #expect(body.encoded.first == 1 && body.encoded.count == 68)
        body.policies = MeshPolicies(invite: .creator, remove: .anyMember, end: .creator)
        #expect(body.encoded.first == 2 && body.encoded.suffix(3) == [1, 3, 1])
        #expect(try GenesisBody(decoding: body.encoded) == body)
        #expect(throws: WireError.invalidValue) { try GenesisBody(decoding: body.encoded.dropLast() + [9]) }
        // The standard ones are said in one way.
        #expect(throws: WireError.invalidValue) { try GenesisBody(decoding: body.encoded.dropLast(3) + [3, 2, 3]) }
    }

    @Test func `AB-01 AB-02 AB-10 cut, longer and disordered bodies are refused`() {
        for bytes in [Self.remove.encoded, Self.epoch.encoded, Self.merge.encoded] {
            for count in 0..<bytes.count {
                let cut = Array(bytes.prefix(count))
                #expect(throws: WireError.self) { try RemoveBody(decoding: cut) }
                #expect(throws: WireError.self) { try EpochBody(decoding: cut) }
            }
            #expect(throws: WireError.self) { try RemoveBody(decoding: bytes + [0]) }
            #expect(throws: WireError.self) { try EpochBody(decoding: bytes + [0]) }
        }
        for bytes in [[], [2], [1, 0]] as [[UInt8]] { #expect(throws: WireError.self) { try EndBody(decoding: bytes) } }
        var lives = Self.remove
        lives.lives.reverse()
        #expect(throws: WireError.invalidValue) { try RemoveBody(decoding: lives.encoded) }
        var bases = Self.merge
        bases.bases.reverse()
        #expect(throws: WireError.invalidValue) { try EpochBody(decoding: bases.encoded) }
    }

    @Test func `a merge keeps nobody out, and needs two secrets to merge`() {
        var lone = Self.merge
        lone.bases.removeLast()
        #expect(throws: WireError.invalidValue) { try EpochBody(decoding: lone.encoded) }
        var claiming = Self.merge
        claiming.removals = [RecordID(Self.bytes32(9))]
        #expect(throws: WireError.invalidValue) { try EpochBody(decoding: claiming.encoded) }
    }

    @Test func `asking for secrets and giving them is coded and bounded`() throws {
        let messages: [GossipMessage] = [
            .wantSecrets([SecretID(Bytes16([UInt8](repeating: 1, count: 16))!)]), .secrets([Self.bytes32(2)]),
        ]
        for message in messages {
            let bytes = message.encoded
            #expect(try GossipMessage(decoding: bytes).encoded == bytes)
            for count in 0..<bytes.count {
                #expect(throws: WireError.self) { try GossipMessage(decoding: Array(bytes.prefix(count))) }
            }
        }
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: [20, 65]) }
    }
}
