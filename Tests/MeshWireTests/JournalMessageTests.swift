import MeshBase
import MeshWire
import Testing

@Suite struct JournalMessageTests {
    private static let content = ContentID(Bytes32((0..<32).map { UInt8($0) }) ?? .zero)
    private static let contentHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let hash = Bytes32([UInt8](repeating: 0xaa, count: 32)) ?? .zero
    private static let hashHex = String(repeating: "aa", count: 32)

    /// One of each kind with its bytes, written by hand from the layout in the documentation.
    private static let golden: [(JournalMessage, String)] = [
        (.have([HaveEntry(content: content, generation: 5, chunks: .complete)]), "010100\(contentHex)0500000001"),
        (
            .have([HaveEntry(content: content, generation: 1, chunks: .bitfield([0x81, 0x03]))]),
            "010100\(contentHex)0100000002020000008103"
        ),
        (
            .have([HaveEntry(content: content, generation: 2, chunks: .ranges([ChunkRange(first: 3, count: 4)]))]),
            "010100\(contentHex)020000000301000300000004000000"
        ),
        (.wantManifest(content), "02\(contentHex)"),
        (.manifest(content, byteCount: 70_000, hashes: [hash]), "03\(contentHex)70110100000000000100\(hashHex)"),
        (.wantPage(content, page: 258), "04\(contentHex)02010000"),
        (.page(content, page: 1, leaves: [hash]), "05\(contentHex)010000000100\(hashHex)"),
        (.request(content, chunks: [1, 515]), "06\(contentHex)02000100000003020000"),
        (.chunk(content, index: 9, bytes: [1, 2, 3]), "07\(contentHex)09000000010203"),
        (.cancel(content, chunks: []), "08\(contentHex)0000"),
        (.notHere(content, chunks: [7]), "09\(contentHex)010007000000"),
        (.ask([content]), "0a0100\(contentHex)"),
    ]

    @Test(arguments: golden.indices) func `every kind has its bytes`(_ index: Int) throws {
        let (message, hexadecimal) = Self.golden[index]

        #expect(Hexadecimal.encode(message.encoded) == hexadecimal)
        #expect(try JournalMessage(decoding: message.encoded) == message)
    }

    @Test(arguments: golden.indices) func `a message cut short anywhere is refused`(_ index: Int) {
        let bytes = Self.golden[index].0.encoded
        for length in bytes.indices {
            // A chunk's bytes run to the end, so a shorter chunk is a chunk; its length is checked against the file.
            if case .chunk = Self.golden[index].0, length > 37 { continue }
            #expect(throws: WireError.self) { try JournalMessage(decoding: Array(bytes[..<length])) }
        }
    }

    @Test(arguments: golden.indices) func `a flipped bit is refused or changes what is said, and never more`(
        _ index: Int
    ) {
        let bytes = Self.golden[index].0.encoded
        for position in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[position] ^= 1 << UInt8(bit)
                guard let message = try? JournalMessage(decoding: flipped) else { continue }  // refused
                #expect(message != Self.golden[index].0)
                #expect(message.encoded == flipped)
            }
        }
    }

    @Test(arguments: golden.indices) func `bytes after the end are refused`(_ index: Int) {
        if case .chunk = Self.golden[index].0 { return }
        #expect(throws: WireError.trailingBytes) { try JournalMessage(decoding: Self.golden[index].0.encoded + [0]) }
    }

    @Test func `unknown kinds are refused by name`() {
        for kind in [UInt8(0), 11, 0x7f, 0x80, 0xff] {
            #expect(throws: WireError.unknownType) {
                try JournalMessage(decoding: [kind] + [UInt8](repeating: 0, count: 64))
            }
        }
    }

    @Test func `AB-19 declared counts and sizes are checked against their limit and against what is there`() {
        let content = Self.content.bytes
        let tooMany: [[UInt8]] = [
            [1, 0x01, 0x04], [10, 0x01, 0x04], [6] + content + [65, 0], [8] + content + [65, 0],
            [3] + content + [UInt8](repeating: 0, count: 8) + [0x01, 0x10],
            [5] + content + [0, 0, 0, 0, 0x01, 0x10],
            [1, 1, 0] + content + [0, 0, 0, 0, 2] + [0x01, 0x00, 0x02, 0x00],
            [1, 1, 0] + content + [0, 0, 0, 0, 2] + [0xff, 0xff, 0xff, 0xff],
            [1, 1, 0] + content + [0, 0, 0, 0, 3] + [0x01, 0x10],
        ]
        for bytes in tooMany {
            #expect(throws: WireError.limitExceeded) { try JournalMessage(decoding: bytes + [0]) }
        }
        let notThere: [[UInt8]] = [
            [1, 0x00, 0x04], [10, 0x00, 0x04], [6] + content + [64, 0],
            [3] + content + [UInt8](repeating: 0, count: 8) + [0x00, 0x10],
            [1, 1, 0] + content + [0, 0, 0, 0, 2] + [0x00, 0x00, 0x02, 0x00],
            [1, 1, 0] + content + [0, 0, 0, 0, 3] + [0x00, 0x10],
        ]
        for bytes in notThere {
            #expect(throws: WireError.truncated) { try JournalMessage(decoding: bytes + [0]) }
        }
    }

    @Test func `a content beyond 64 GiB is refused, one of 64 GiB is not`() throws {
        let largest = JournalMessage.manifest(
            Self.content, byteCount: JournalLimits.maximumContentBytes, hashes: [])
        let larger = JournalMessage.manifest(
            Self.content, byteCount: JournalLimits.maximumContentBytes + 1, hashes: [])

        #expect(try JournalMessage(decoding: largest.encoded) == largest)
        #expect(throws: WireError.limitExceeded) { try JournalMessage(decoding: larger.encoded) }
    }

    @Test func `a chunk has 1 to 65,536 bytes`() throws {
        let whole = JournalMessage.chunk(Self.content, index: 0, bytes: [UInt8](repeating: 1, count: 65_536))
        let larger = JournalMessage.chunk(Self.content, index: 0, bytes: [UInt8](repeating: 1, count: 65_537))
        let none = JournalMessage.chunk(Self.content, index: 0, bytes: [])

        #expect(try JournalMessage(decoding: whole.encoded) == whole)
        #expect(throws: WireError.limitExceeded) { try JournalMessage(decoding: larger.encoded) }
        #expect(throws: WireError.truncated) { try JournalMessage(decoding: none.encoded) }
    }

    @Test func `chunk indices and runs end at the last chunk there can be`() throws {
        let last = UInt32(JournalLimits.maximumChunkCount - 1)
        func runs(_ range: ChunkRange) -> JournalMessage {
            .have([HaveEntry(content: Self.content, generation: 0, chunks: .ranges([range]))])
        }
        for message in [JournalMessage.request(Self.content, chunks: [last]), runs(ChunkRange(first: last, count: 1))] {
            #expect(try JournalMessage(decoding: message.encoded) == message)
        }
        for message in [
            JournalMessage.request(Self.content, chunks: [last + 1]), runs(ChunkRange(first: last, count: 2)),
            runs(ChunkRange(first: .max, count: .max)),
        ] {
            #expect(throws: WireError.limitExceeded) { try JournalMessage(decoding: message.encoded) }
        }
        #expect(throws: WireError.invalidValue) {
            try JournalMessage(decoding: runs(ChunkRange(first: 1, count: 0)).encoded)
        }
        #expect(throws: WireError.invalidValue) {
            try JournalMessage(decoding: JournalMessage.request(Self.content, chunks: []).encoded)
        }
    }

    @Test func `the largest messages fit a link`() {
        let leaves = [Bytes32](repeating: Self.hash, count: JournalLimits.leavesPerPage)
        let bitfield = [UInt8](repeating: 1, count: JournalLimits.maximumChunkCount / 8)
        for message in [
            JournalMessage.manifest(Self.content, byteCount: 1, hashes: leaves),
            .page(Self.content, page: 0, leaves: leaves),
            .have([HaveEntry(content: Self.content, generation: 0, chunks: .bitfield(bitfield))]),
            .chunk(Self.content, index: 0, bytes: [UInt8](repeating: 0, count: WireLimits.chunkBytes)),
        ] {
            #expect(message.encoded.count <= WireLimits.maximumLinkMessageBytes)
        }
    }
}
