import MeshBase
import MeshWire
import Testing

private func filled32(_ byte: UInt8) -> Bytes32 { Bytes32([UInt8](repeating: byte, count: 32)) ?? .zero }

private func sample(parents: Int = 2, body: Int = 20) -> Envelope {
    Envelope(
        kind: .attachmentAdded, mesh: MeshID(filled32(0x11)), author: PeerID(filled32(0x22)),
        incarnation: Incarnation(0x0102_0304_0506_0708), sequence: 3, lamport: 0x0a0b,
        previous: RecordID(filled32(0x33)),
        epoch: SecretID(Bytes16([UInt8](repeating: 0x44, count: 16)) ?? .zero),
        parents: (0..<parents).map { RecordID(filled32(0x50 + UInt8($0))) },
        nonce: [UInt8](repeating: 0x66, count: 24), sealedBody: [UInt8](repeating: 0x77, count: body),
        signature: [UInt8](repeating: 0x88, count: 64))
}

private func run(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte, count: count) }

struct `An envelope` {
    @Test func `has exactly the bytes of the specification`() {
        let expected: [UInt8] =
            [1, 16, 0, 0] + run(0x11, 32) + run(0x22, 32) + [8, 7, 6, 5, 4, 3, 2, 1] + [3, 0, 0, 0, 0, 0, 0, 0]
            + [0x0b, 0x0a, 0, 0, 0, 0, 0, 0] + run(0x33, 32) + run(0x44, 16) + [2] + run(0x50, 32) + run(0x51, 32)
            + [20, 0, 0, 0] + run(0x66, 24) + run(0x77, 20) + run(0x88, 64)
        #expect(sample().encoded == expected)
        #expect((try? Envelope(decoding: expected)) == sample())
    }

    @Test func `comes back from its bytes with any number of parents`() throws {
        for parents in 0...WireLimits.maximumParents {
            let envelope = sample(parents: parents)
            #expect(try Envelope(decoding: envelope.encoded) == envelope)
        }
        let largest = sample(parents: WireLimits.maximumParents, body: WireLimits.maximumRecordBodyBytes)
        #expect(largest.encoded.count == Envelope.maximumByteCount)
        #expect(try Envelope(decoding: largest.encoded) == largest)
    }

    @Test func `is refused at every shorter length and with a byte more`() {
        let bytes = sample().encoded
        for count in bytes.indices {
            #expect(throws: WireError.self) { try Envelope(decoding: Array(bytes.prefix(count))) }
        }
        #expect(throws: WireError.trailingBytes) { try Envelope(decoding: bytes + [0]) }
    }

    @Test func `with a flipped bit is refused or another envelope, and has one byte form`() {
        let bytes = sample().encoded
        for position in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[position] ^= 1 << bit
                guard let decoded = try? Envelope(decoding: flipped) else { continue }
                #expect(decoded != sample())
                #expect(decoded.encoded == flipped)
            }
        }
    }

    @Test func `AB-68 names at most sixteen parents, rising, none of them the previous`() {
        var bytes = sample(parents: 16).encoded
        bytes[140] = 17
        #expect(throws: WireError.limitExceeded) { try Envelope(decoding: bytes) }

        var envelope = sample()
        envelope.parents.reverse()
        #expect(throws: WireError.invalidValue) { try Envelope(decoding: envelope.encoded) }
        envelope.parents = [envelope.parents[0], envelope.parents[0]]
        #expect(throws: WireError.invalidValue) { try Envelope(decoding: envelope.encoded) }
        envelope.parents = [envelope.previous]
        #expect(throws: WireError.invalidValue) { try Envelope(decoding: envelope.encoded) }
    }

    @Test func `of a later kind is read, and written back to the byte`() throws {
        var bytes = sample().encoded
        bytes[1] = 99
        let envelope = try Envelope(decoding: bytes)
        #expect(envelope.kind == RecordKind(rawValue: 99))
        #expect(envelope.encoded == bytes)
    }

    @Test func `of another version, flag or body size is refused`() {
        var bytes = sample().encoded
        bytes[0] = 2
        #expect(throws: WireError.unsupportedVersion) { try Envelope(decoding: bytes) }
        bytes[0] = 1
        bytes[3] = 1
        #expect(throws: WireError.invalidValue) { try Envelope(decoding: bytes) }
        #expect(throws: WireError.invalidValue) { try Envelope(decoding: sample(body: 15).encoded) }
        #expect(throws: WireError.limitExceeded) {
            try Envelope(decoding: sample(body: WireLimits.maximumRecordBodyBytes + 1).encoded)
        }
    }

    @Test func `AB-21 that claims a huge body allocates nothing for it`() {
        var bytes = sample(parents: 0).encoded
        for offset in 0..<4 { bytes[141 + offset] = 0xff }
        #expect(throws: WireError.limitExceeded) { try Envelope(decoding: bytes) }
    }
}
