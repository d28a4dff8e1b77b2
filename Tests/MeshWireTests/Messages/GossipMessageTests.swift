import MeshBase
import MeshWire
import Testing

private func filled32(_ byte: UInt8) -> Bytes32 { Bytes32([UInt8](repeating: byte, count: 32)) ?? .zero }
private func run(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte, count: count) }
private func key(_ byte: UInt8, _ life: UInt64) -> ChainKey {
    ChainKey(author: PeerID(filled32(byte)), incarnation: Incarnation(life))
}

private let relayed = RelayedMessage(
    hopsLeft: 8, author: PeerID(filled32(1)), incarnation: Incarnation(2), counter: 3, recipient: PeerID(filled32(4)),
    recipientIncarnation: Incarnation(9), epoch: SecretID(Bytes16(run(5, 16)) ?? .zero), nonce: run(6, 24),
    sealed: run(7, 16), signature: run(8, 64))

/// One of each kind with its bytes.
private let golden: [(GossipMessage, [UInt8])] = [
    (
        .summary(
            RecordSummary(
                asksForRecords: true, lower: key(1, 2), reachesEnd: true,
                chains: [ChainSummary(key: key(1, 3), contiguous: 258, isForked: true)])),
        [1, 7] + run(1, 32) + [2, 0, 0, 0, 0, 0, 0, 0] + [1, 0] + run(1, 32) + [3, 0, 0, 0, 0, 0, 0, 0]
            + [2, 1, 0, 0, 0, 0, 0, 0] + [1]
    ),
    (
        .summary(RecordSummary(asksForRecords: false, lower: nil, reachesEnd: false, chains: [])),
        [1, 0] + run(0, 40) + [0, 0]
    ),
    (
        .records(RecordBundle(hasMore: true, records: [[9, 8], []])),
        [2, 1, 2, 0, 2, 0, 0, 0, 9, 8, 0, 0, 0, 0]
    ),
    (.want([RecordID(filled32(3))]), [3, 1, 0] + run(3, 32)),
    (.head(Bytes16(run(7, 16)) ?? .zero), [4] + run(7, 16)),
    (.neighbours([PeerID(filled32(1)), PeerID(filled32(2))]), [5, 2] + run(1, 32) + run(2, 32)),
    (
        .direct(
            DirectMessage(
                isReliable: true, sequence: 5, base: 4, lamport: 6, payload: [1, 2])),
        [6, 1, 5, 1, 6, 1, 2]
    ),
    (
        .direct(
            DirectMessage(
                isReliable: true, sequence: 300, base: 300, lamport: 128, payload: [1, 7, 0, 2, 8, 9], count: 3,
                audience: .several([PeerTag(value: 1), PeerTag(value: 258)]),
                causes: [.init(life: LifeTag(value: 3), lamport: 16_384)])),
        [6, 43] + [0xac, 2, 0, 0x80, 1] + [2, 1, 0, 0, 0, 2, 1, 0, 0] + [1, 3, 0, 0, 0, 0x80, 0x80, 1]
            + [3, 1, 7, 0, 2, 8, 9]
    ),
    (
        .direct(
            DirectMessage(
                isReliable: true, sequence: 5, base: 5, lamport: 6, payload: [1], isSettledByLink: true)),
        [6, 65, 5, 0, 6, 1]
    ),
    (
        .direct(
            DirectMessage(
                isReliable: false, sequence: 1, base: 1, lamport: 2, payload: [5], audience: .everybody,
                deadline: .init(epoch: 0x0201, time: MeshTime(nanoseconds: 3)))),
        [6, 20, 1, 0, 2] + [1, 2] + [3, 0, 0, 0, 0, 0, 0, 0] + [5]
    ),
    (
        .acknowledgement(MessageAcknowledgement(incarnation: Incarnation(1), next: 2)),
        [7] + [1, 0, 0, 0, 0, 0, 0, 0] + [2, 0, 0, 0, 0, 0, 0, 0]
    ),
    (
        .relayed(relayed),
        [8, 8] + run(1, 32) + [2, 0, 0, 0, 0, 0, 0, 0] + [3, 0, 0, 0, 0, 0, 0, 0] + run(4, 32)
            + [9, 0, 0, 0, 0, 0, 0, 0] + run(5, 16) + [16, 0, 0, 0] + run(6, 24) + run(7, 16) + run(8, 64)
    ),
    (.fork([1], [2, 3]), [9, 1, 0, 0, 0, 1, 2, 0, 0, 0, 2, 3]),
    (
        .ordered(
            OrderedMessage(
                author: PeerID(filled32(1)), incarnation: Incarnation(2), sequence: 3, lamport: 4,
                epoch: SecretID(Bytes16(run(5, 16)) ?? .zero), nonce: run(6, 24), sealed: run(7, 17),
                signature: run(8, 64))),
        [10] + run(1, 32) + [2, 0, 0, 0, 0, 0, 0, 0] + [3, 0, 0, 0, 0, 0, 0, 0] + [4, 0, 0, 0, 0, 0, 0, 0]
            + run(5, 16) + [17, 0, 0, 0] + run(6, 24) + run(7, 17) + run(8, 64)
    ),
    (
        .promise(OrderPromise(asks: true, lamport: 300, nextOrdered: 1, nextDirect: 128)),
        [11, 1, 0xac, 2, 1, 0x80, 1]
    ),
    (
        .orderedSummary(
            OrderedSummary(asksForAll: true, lives: [.init(key: key(1, 2), runs: [1...1, 3...130])])),
        [12, 1, 1] + run(1, 32) + [2, 0, 0, 0, 0, 0, 0, 0] + [2, 1, 0, 3, 127]
    ),
]

struct `A gossip message` {
    @Test func `has exactly the bytes of the specification`() throws {
        for (message, bytes) in golden {
            #expect(message.encoded == bytes)
            #expect(try GossipMessage(decoding: bytes) == message)
        }
    }

    @Test func `is refused at every shorter length and with a byte more`() {
        for (message, bytes) in golden {
            for count in bytes.indices {
                // A direct message's payload reaches to the end, so a shorter one is another message.
                if case .direct(let direct) = message, direct.count == 1, count >= bytes.count - direct.payload.count {
                    continue
                }
                #expect(throws: WireError.self) { try GossipMessage(decoding: Array(bytes.prefix(count))) }
            }
            if case .direct = message { continue }
            #expect(throws: WireError.trailingBytes) { try GossipMessage(decoding: bytes + [0]) }
        }
    }

    @Test func `with a flipped bit is refused or another message, and has one byte form`() {
        for (message, bytes) in golden {
            for position in bytes.indices {
                for bit in 0..<8 {
                    var flipped = bytes
                    flipped[position] ^= 1 << bit
                    guard let decoded = try? GossipMessage(decoding: flipped) else { continue }
                    #expect(decoded != message)
                    #expect(decoded.encoded == flipped)
                }
            }
        }
    }

    @Test func `keeps its limits`() throws {
        let peers = (0..<65).map { PeerID(filled32(UInt8($0))) }
        #expect(throws: Never.self) {
            try GossipMessage(decoding: GossipMessage.neighbours(Array(peers.prefix(64))).encoded)
        }
        #expect(throws: WireError.limitExceeded) {
            try GossipMessage(decoding: GossipMessage.neighbours(peers).encoded)
        }
        let ids = (0..<257).map { _ in RecordID(.zero) }
        #expect(throws: Never.self) { try GossipMessage(decoding: GossipMessage.want(Array(ids.prefix(256))).encoded) }
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: GossipMessage.want(ids).encoded) }

        let records = [[UInt8]](repeating: [], count: 513)
        #expect(throws: Never.self) {
            try GossipMessage(
                decoding: GossipMessage.records(RecordBundle(hasMore: false, records: Array(records.prefix(512))))
                    .encoded)
        }
        #expect(throws: WireError.limitExceeded) {
            try GossipMessage(decoding: GossipMessage.records(RecordBundle(hasMore: false, records: records)).encoded)
        }
        let huge = run(0, Envelope.maximumByteCount + 1)
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: GossipMessage.fork(huge, []).encoded) }

        let chains = (0..<1_025).map { ChainSummary(key: key(1, UInt64($0)), contiguous: 1, isForked: false) }
        func summary(_ count: Int) -> [UInt8] {
            GossipMessage.summary(
                RecordSummary(asksForRecords: false, lower: nil, reachesEnd: true, chains: Array(chains.prefix(count)))
            ).encoded
        }
        #expect(throws: Never.self) { try GossipMessage(decoding: summary(1_024)) }
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: summary(1_025)) }
        #expect(summary(1_024).count < WireLimits.maximumLinkMessageBytes)
    }

    @Test func `MSG-01 a payload of the limit is read and one byte more is not`() {
        func direct(_ count: Int) -> [UInt8] {
            GossipMessage.direct(
                DirectMessage(
                    isReliable: true, sequence: 1, base: 1, lamport: 1,
                    payload: run(0, count))
            ).encoded
        }
        #expect(throws: Never.self) { try GossipMessage(decoding: direct(WireLimits.maximumMessageBytes)) }
        #expect(throws: WireError.limitExceeded) {
            try GossipMessage(decoding: direct(WireLimits.maximumMessageBytes + 1))
        }
        var largest = relayed
        largest.sealed = run(0, RelayedMessage.maximumSealedBytes)
        #expect(throws: Never.self) { try GossipMessage(decoding: GossipMessage.relayed(largest).encoded) }
        #expect(GossipMessage.relayed(largest).encoded.count <= WireLimits.maximumLinkMessageBytes)
        largest.sealed.append(0)
        #expect(throws: WireError.limitExceeded) { try GossipMessage(decoding: GossipMessage.relayed(largest).encoded) }
    }

    @Test func `out of order, of unknown kind or with numbers that cannot be is refused`() {
        let two = [key(1, 1), key(1, 2)].map { ChainSummary(key: $0, contiguous: 1, isForked: false) }
        let unsorted = RecordSummary(asksForRecords: false, lower: nil, reachesEnd: true, chains: two.reversed())
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: GossipMessage.summary(unsorted).encoded) }
        let below = RecordSummary(asksForRecords: false, lower: key(1, 1), reachesEnd: true, chains: two)
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: GossipMessage.summary(below).encoded) }
        let peers = [PeerID(filled32(2)), PeerID(filled32(1))]
        #expect(throws: WireError.invalidValue) { try GossipMessage(decoding: GossipMessage.neighbours(peers).encoded) }
        for (sequence, base) in [(0, 1), (1, 0), (1, 2)] as [(UInt64, UInt64)] {
            let direct = DirectMessage(
                isReliable: true, sequence: sequence, base: base, lamport: 0, payload: [])
            #expect(throws: WireError.invalidValue) {
                try GossipMessage(decoding: GossipMessage.direct(direct).encoded)
            }
        }
        let runs: [(OrderedSummary, WireError)] = [
            (OrderedSummary(asksForAll: false, lives: [.init(key: key(1, 1), runs: [1...2, 3...4])]), .invalidValue),
            (OrderedSummary(asksForAll: false, lives: [.init(key: key(1, 1), runs: [5...6, 1...2])]), .invalidValue),
            (
                OrderedSummary(asksForAll: false, lives: [key(1, 2), key(1, 1)].map { .init(key: $0, runs: []) }),
                .invalidValue
            ),
            (
                OrderedSummary(
                    asksForAll: false, lives: [.init(key: key(1, 1), runs: (0..<9).map { $0 * 2...$0 * 2 })]),
                .limitExceeded
            ),
        ]
        for (summary, error) in runs {
            #expect(throws: error) { try GossipMessage(decoding: GossipMessage.orderedSummary(summary).encoded) }
        }
        let none = MessageAcknowledgement(incarnation: Incarnation(1), next: 0)
        #expect(throws: WireError.invalidValue) {
            try GossipMessage(decoding: GossipMessage.acknowledgement(none).encoded)
        }
        for kind in [0, 13, 0x7f, 0x80, 0xff] as [UInt8] {
            #expect(throws: WireError.unknownType) { try GossipMessage(decoding: [kind, 0, 0]) }
        }
        #expect(throws: WireError.truncated) { try GossipMessage(decoding: []) }
    }
}
