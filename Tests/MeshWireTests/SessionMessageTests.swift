import MeshBase
import MeshWire
import Testing

/// The byte forms of what members say to each other.
@Suite struct SessionMessageTests {
    static let peer = PeerID(Bytes32((0..<32).map { UInt8($0) })!)
    static let other = PeerID(Bytes32((0..<32).map { UInt8(255 - $0) })!)

    static let presence = PresenceRecord(
        peer: peer, incarnation: Incarnation(0x0102_0304_0506_0708), startCount: 3, revision: 9, state: .alive,
        capabilities: 5, name: "ada", addresses: [.ipv4(192, 0, 2, 1, port: 47_800)],
        signature: [UInt8](repeating: 0xab, count: 64))

    static let messages: [SessionMessage] = [
        .hello(presence),
        .welcome(Welcome(epochSecrets: [Bytes32([UInt8](repeating: 7, count: 32))!], genesis: [1, 2, 3])),
        .refusal(.meshFull), .presences([presence, presence]), .presences([]),
        .summary([PresenceVersion(peer: peer, startCount: 1, revision: 2, incarnation: Incarnation(3))]),
        .want([peer, other]),
        .keepAlive(
            KeepAlive(
                digest: Bytes16([UInt8](repeating: 9, count: 16))!, isWatching: true, health: 2, asked: [other],
                reports: [KeepAlive.Report(subject: peer, ageMilliseconds: 250)])),
        .probe(nonce: 77), .probeAnswer(nonce: 77), .probeRequest(subject: peer, nonce: 5),
        .probeResult(subject: peer, nonce: 5, outcome: .silent), .suspicion(subject: other), .farewellSeen,
        .yourAddress(.ipv4(203, 0, 113, 7, port: 6_000)), .introductionRequest(subject: peer),
        .introduction(.init(subject: peer, delay: .milliseconds(35), roundTrip: .milliseconds(80))),
        .introductionRefused(subject: other),
    ]

    @Test(arguments: messages)
    func `every message comes back from its bytes`(message: SessionMessage) throws {
        #expect(try SessionMessage(decoding: message.encoded) == message)
    }

    @Test(arguments: messages)
    func `every truncation and every extra byte is refused`(message: SessionMessage) {
        let bytes = message.encoded
        for length in 0..<bytes.count {
            #expect(throws: WireError.self) { try SessionMessage(decoding: Array(bytes.prefix(length))) }
        }
        #expect(throws: WireError.trailingBytes) { try SessionMessage(decoding: bytes + [0]) }
    }

    @Test(arguments: messages)
    func `a flipped bit is refused or is another message, never the same and never a trap`(message: SessionMessage) {
        let bytes = message.encoded
        for position in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[position] ^= 1 << UInt8(bit)
                if let decoded = try? SessionMessage(decoding: flipped) {
                    // Reserved flag bits are ignored; nothing else may be.
                    let isReservedFlag = bytes[0] == 7 && position == 17 && bit > 0
                    #expect(decoded != message || isReservedFlag)
                }
            }
        }
    }

    @Test func `a presence record has these bytes`() {
        let expected =
            "01" + "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" + "0807060504030201"
            + "0300000000000000" + "0900000000000000" + "01" + "05000000" + "0300616461" + "01" + "04c0000201b8ba"
            + String(repeating: "ab", count: 64)
        #expect(Hexadecimal.encode(Self.presence.encoded) == expected)
    }

    @Test func `a presence record's signature covers the domain, the mesh and every field`() {
        let mesh = MeshID(Bytes32([UInt8](repeating: 1, count: 32))!)
        let signed = Self.presence.signedBytes(mesh: mesh)

        #expect(Array(signed.prefix(20)) == Array("STARLING/1 presence".utf8) + [0])
        #expect(Array(signed[20..<52]) == mesh.bytes)
        #expect(Array(signed[52...]) == Array(Self.presence.encoded.dropLast(64)))
        #expect(Self.presence.signedBytes(mesh: MeshID(.zero)) != signed)
    }

    @Test func `a keep-alive in a full mesh takes 21 bytes`() {
        let keepAlive = SessionMessage.keepAlive(KeepAlive(digest: .zero, isWatching: false, health: 1))
        #expect(keepAlive.encoded == [7] + [UInt8](repeating: 0, count: 17) + [1, 0, 0])
    }

    @Test func `unknown kinds below 0x80 are unknown, and so are those above`() {
        for kind: UInt8 in [0, 14, 0x7f, 0x80, 0xff] {
            #expect(throws: WireError.unknownType) { try SessionMessage(decoding: [kind, 0, 0]) }
        }
    }

    @Test(arguments: [0, 1, 64, 65])
    func `a name has 1 to 64 bytes`(count: Int) {
        var presence = Self.presence
        presence.name = String(repeating: "x", count: count)
        let decoded = try? PresenceRecord(decoding: presence.encoded)
        #expect((decoded != nil) == (1...64).contains(count))
    }

    @Test(arguments: [16, 17])
    func `a presence record holds at most 16 addresses`(count: Int) {
        let address: [UInt8] = [4, 10, 0, 0, 1, 1, 0]
        var bytes = Self.presence.encoded.dropLast(64 + 7 + 1)
        bytes += [UInt8(count)] + Array(repeating: address, count: count).joined() + [UInt8](repeating: 0, count: 64)
        let decoded = try? PresenceRecord(decoding: Array(bytes))
        #expect((decoded?.addresses.count == 16) == (count == 16))
    }

    @Test(arguments: [
        SocketAddress.ipv4(0, 0, 0, 0, port: 1), .ipv4(224, 0, 0, 1, port: 1), .ipv4(10, 0, 0, 1, port: 0),
    ])
    func `MEM-09 a record with an address nobody can have is refused`(address: SocketAddress) {
        var presence = Self.presence
        presence.addresses = [address]
        #expect(throws: WireError.invalidValue) { try PresenceRecord(decoding: presence.encoded) }
    }

    @Test(arguments: [64, 65])
    func `lists beyond their bounds are refused before anything is read`(count: Int) {
        let want = [6, UInt8(count)] + [UInt8](repeating: 1, count: count * 32)
        #expect(((try? SessionMessage(decoding: want)) != nil) == (count == 64))
        let asked =
            [7] + [UInt8](repeating: 0, count: 18) + [UInt8(count)] + [UInt8](repeating: 1, count: count * 32) + [0]
        #expect(((try? SessionMessage(decoding: asked)) != nil) == (count == 64))
        #expect(throws: WireError.limitExceeded) { try SessionMessage(decoding: [4, 65]) }
        #expect(throws: WireError.limitExceeded) { try SessionMessage(decoding: [5, 1, 4]) }
        #expect(throws: WireError.limitExceeded) { try SessionMessage(decoding: [2, 0, 0, 0]) }
    }

    @Test func `a beacon has these 24 bytes inside its seal`() throws {
        let beacon = Beacon(
            isQuestion: true, isMember: false, port: 47_800, incarnation: Incarnation(0x0102_0304_0506_0708))
        #expect(Hexadecimal.encode(beacon.encoded) == "0101b8ba0807060504030201" + String(repeating: "00", count: 12))
        #expect(try Beacon(decoding: beacon.encoded) == beacon)
        for length in 0..<24 {
            #expect(throws: WireError.self) { try Beacon(decoding: Array(beacon.encoded.prefix(length))) }
        }
        #expect(throws: WireError.trailingBytes) { try Beacon(decoding: beacon.encoded + [0]) }
        #expect(throws: WireError.invalidValue) {
            try Beacon(
                decoding: Beacon(isQuestion: false, isMember: true, port: 0, incarnation: Incarnation(1)).encoded)
        }
        #expect(throws: WireError.unsupportedVersion) { try Beacon(decoding: [2] + beacon.encoded.dropFirst()) }
    }
}
