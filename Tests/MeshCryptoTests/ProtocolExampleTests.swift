import Foundation
import MeshBase
import Testing

@testable import MeshCrypto

/// The worked examples of Docs/Protocol.md, read from the page itself and computed again: page and code cannot differ.
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

    @Test func `the secret's id and keys are those of the written protocol`() {
        let group = GroupSecret(secret: sampleSecret(0))

        #expect(group.secret.revealed() == bytes("secret"))
        #expect(group.id.bytes == bytes("secretID"))
        #expect(group.presharedKey.revealed() == bytes("presharedKey"))
        #expect(group.mac1Key.revealed() == bytes("mac1Key"))
        #expect(group.cookieKey.revealed() == bytes("cookieKey"))
        #expect(group.discoveryKey.revealed() == bytes("discoveryKey"))
        #expect(group.envelopeKey.revealed() == bytes("envelopeKey"))
    }

    @Test func `the ticket's bytes and text are those of the written protocol`() throws {
        let second = try #require(SocketAddress("[2001:db8::1]:47800"))
        let mesh = try #require(MeshID(bytes: sampleBytes(32, from: 0x20)))
        let ticket = Ticket(
            meshID: mesh, joinSecret: sampleSecret(0), addresses: [.ipv4(192, 0, 2, 14, port: 47_800), second])

        #expect(ticket.encodedBytes == bytes("ticketBytes"))
        #expect(ticket.text == examples["ticketText"])
    }

    @Test func `a DATA datagram is sealed as in the written protocol`() throws {
        var datagram: [UInt8] = [4, 0, 0, 0, 4, 3, 2, 1, 7] + [UInt8](repeating: 0, count: 7)
        datagram += bytes("dataPlain") + [UInt8](repeating: 0, count: 16)
        try seal(&datagram)

        #expect(datagram == bytes("dataDatagram"))
    }

    @Test func `a beacon opens as in the written protocol`() throws {
        let datagram = bytes("beaconDatagram")
        try #require(datagram.count == 64)
        let plain = try open(
            Array(datagram[24...]), associated: [], nonce: Array(datagram[..<24]), keyName: "discoveryKey")

        #expect(plain == bytes("beaconPlain"))
    }

    @Test func `a GENESIS record is signed, sealed and named as in the written protocol`() throws {
        let record = bytes("genesisRecord")
        try #require(record.count == 320)
        let author = try #require(PeerID(bytes: bytes("genesisAuthor")))
        let unsigned = Array(record.dropLast(64))
        let signed = Array("STARLING/1 record\0".utf8) + unsigned
        let mesh = bytes("genesisMesh")
        let head = Digest.hash16(
            Array("STARLING/1 head\0".utf8) + mesh + author.bytes + littleEndian(7) + littleEndian(1) + [0] + mesh)
        let pair = SigningKeyPair(seed: sampleSecret(0x40))
        let signature = pair.sign(signed.span)

        #expect(pair.peerID == author)
        #expect(signature == Array(record.suffix(64)))
        #expect(Digest.hash32(unsigned).bytes == mesh)
        let body = try open(
            Array(unsigned[169...]), associated: Array(unsigned[..<145]), nonce: Array(unsigned[145..<169]),
            keyName: "envelopeKey")
        #expect(body == bytes("genesisBody"))
        #expect(head.bytes == bytes("genesisHead"))
    }

    @Test func `a presence is signed and compared as in the written protocol`() {
        let presence = bytes("presence")
        let author = bytes("genesisAuthor")
        let signed = Array("STARLING/1 presence\0".utf8) + bytes("genesisMesh") + presence.dropLast(64)
        let version = author + littleEndian(1) + littleEndian(7) + littleEndian(2)
        let signature = SigningKeyPair(seed: sampleSecret(0x40)).sign(signed.span)

        #expect(signature == Array(presence.suffix(64)))
        #expect(Digest.hash16(version).bytes == bytes("presenceDigest"))
    }

    @Test func `hash trees are those of the written protocol`() throws {
        let key = try #require(Bytes32(bytes("treeKey")))
        let empty = tree(key, [])
        let small = tree(key, Array("Starling\n".utf8))
        let large = tree(key, [UInt8](repeating: 0, count: 131_072) + [1])

        #expect(empty.content.bytes == bytes("emptyContent"))
        #expect(small.leaves.map(\.bytes) == [bytes("smallLeaf")])
        #expect(small.content.bytes == bytes("smallContent"))
        #expect(
            large.leaves.map(\.bytes) == [bytes("largeLeaf0"), bytes("largeLeaf1"), bytes("largeLeaf2")])
        #expect(large.pageRoots.map(\.bytes) == [bytes("largeTop")])
        #expect(large.content.bytes == bytes("largeContent"))
    }

    /// Empty, and so equal to nothing computed, when the page has no such example.
    private func bytes(_ name: String) -> [UInt8] { Hexadecimal.decode(examples[name] ?? "") ?? [] }

    private func seal(_ datagram: inout [UInt8]) throws(CryptoError) {
        var span = datagram.mutableSpan
        try AuthenticatedCipher.sealDatagram(&span, headerByteCount: 16, counter: 7, key: sampleSecret(0))
    }

    private func open(
        _ sealed: [UInt8], associated: [UInt8], nonce: [UInt8], keyName: String
    ) throws -> [UInt8] {
        let key = SecretBytes(copying: bytes(keyName))
        return try AuthenticatedCipher.openExtended(
            sealed.span, associated: associated.span, nonce: nonce.span, key: key)
    }

    private func tree(_ key: Bytes32, _ content: [UInt8]) -> ChunkTreeBuilder.Result {
        let builder = ChunkTreeBuilder(key: key)
        builder.append(content.span)
        return builder.finish()
    }

    private func littleEndian(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
    }
}
