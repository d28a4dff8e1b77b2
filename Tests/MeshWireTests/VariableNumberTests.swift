import MeshWire
import Testing

struct `A number of variable length` {
    private static let golden: [(UInt64, [UInt8])] = [
        (0, [0]), (1, [1]), (127, [127]), (128, [0x80, 1]), (300, [0xac, 2]), (16_383, [0xff, 0x7f]),
        (16_384, [0x80, 0x80, 1]), (.max, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ]

    private static func read(_ bytes: [UInt8]) throws -> UInt64 {
        var position = 0
        return try bytes.span.readVariable(&position)
    }

    @Test func `has exactly these bytes`() throws {
        for (value, bytes) in Self.golden {
            var written: [UInt8] = []
            written.appendVariable(value)
            #expect(written == bytes)
            #expect(try Self.read(bytes) == value)
        }
    }

    @Test func `is refused when cut, longer than it needs to be, or beyond 64 bits`() {
        for (_, bytes) in Self.golden {
            for count in bytes.indices {
                let cut = Array(bytes[..<count])
                #expect(throws: WireError.truncated) { try Self.read(cut) }
            }
        }
        let bad: [[UInt8]] = [
            [0x80, 0], [0xff, 0x80, 0], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0],
        ]
        for bytes in bad {
            #expect(throws: WireError.invalidValue) { try Self.read(bytes) }
        }
    }
}

struct `A batch of messages` {
    @Test func `gives back what was put in, in order`() {
        var batch = MessageBatch()
        let payloads = [[], [1], [UInt8](repeating: 7, count: 200), [2, 3]]
        for payload in payloads { batch.append(payload) }

        #expect(batch.payloads == payloads)
        #expect(batch.payloadByteCount == 203)
        #expect(batch.bytes.prefix(4) == [0, 1, 1, 200])
        #expect(MessageBatch(packed: batch.bytes, count: 4) == batch)
        var copies: [[UInt8]] = []
        batch.forEach { copies.append([UInt8](copying: $0)) }
        #expect(copies == payloads)
    }

    @Test func `is closed at its target, and takes one message of any size`() {
        var batch = MessageBatch()
        #expect(batch.hasRoom(for: 262_144))
        while batch.hasRoom(for: 64) { batch.append([UInt8](repeating: 1, count: 64)) }
        #expect(batch.bytes.count <= MessageBatch.targetBytes)
        #expect(batch.count == MessageBatch.targetBytes / 65)
        var small = MessageBatch()
        while small.hasRoom(for: 0) { small.append([]) }
        #expect(small.count == MessageBatch.maximumCount)
    }

    @Test func `AB-02 that claims other lengths or another number than it has is refused`() {
        for (bytes, count) in [
            ([1, 7], 2), ([2, 7], 1), ([1, 7, 1], 1), ([], 1), ([0xff, 0xff, 0xff, 0xff, 0x0f, 1], 1), ([0x80, 0], 1),
        ] as [([UInt8], Int)] {
            #expect(MessageBatch(packed: bytes, count: count) == nil)
        }
        let many = [6, 9, 1, 0, 1] as [UInt8]
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: many + [2, 1, 7]) }
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: many + [1, 1, 7]) }
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: many + [0x81, 0x20, 1, 7]) }
        #expect(throws: Never.self) { try GossipMessage(decoding: many + [2, 1, 7, 0]) }
    }
}

struct `A direct message` {
    @Test func `AB-14 has causes only when reliable, a deadline only when not, and one audience`() {
        let causes = [1, 0, 0, 0, 0, 5] as [UInt8]
        let deadline = [UInt8](repeating: 0, count: 10)
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: [6, 2, 1, 0, 1] + causes) }
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: [6, 5, 1, 0, 1] + deadline) }
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: [6, 8, 1, 0, 1, 2, 0, 0]) }
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: [6, 49, 1, 0, 1, 0]) }
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: [6, 64, 1, 0, 1]) }
        #expect(throws: Never.self) { try GossipMessage(decoding: [6, 3, 1, 0, 1] + causes) }
        #expect(throws: Never.self) { try GossipMessage(decoding: [6, 4, 1, 0, 1] + deadline) }
    }

    @Test func `AB-02 names at most sixteen causes and sixteen recipients`() {
        func direct(_ count: Int) -> [UInt8] {
            let tags = (0..<count).map { PeerTag(value: UInt32($0)) }
            let causes = (0..<count).map { DirectMessage.Cause(life: LifeTag(value: UInt32($0)), lamport: .max) }
            return GossipMessage.direct(
                DirectMessage(
                    isReliable: true, sequence: .max - 1, base: 1, lamport: .max, payload: [],
                    audience: .several(tags), causes: causes)
            ).encoded
        }
        #expect(throws: Never.self) { try GossipMessage(decoding: direct(16)) }
        #expect(direct(16).count <= DirectMessage.maximumHeaderBytes)
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: direct(17)) }
    }
}
