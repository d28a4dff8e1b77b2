import MeshBase
import MeshWire
import Testing

/// The byte forms of what carriers are given.
@Suite struct RelayMessageTests {
    static let peer = PeerID(Bytes32((0..<32).map { UInt8($0) })!)
    static let datagram = [UInt8](repeating: 4, count: 64)
    static let messages: [RelayMessage] = [
        .carry(datagram, to: peer), .carried(datagram, from: peer), .notCarried(to: peer, .noLink),
        .notCarried(to: peer, .noRoom),
    ]

    @Test(arguments: messages)
    func `every message comes back from its bytes`(message: RelayMessage) throws {
        #expect(try RelayMessage(decoding: message.encoded) == message)
    }

    @Test func `the bytes are kind, member, datagram`() {
        #expect(RelayMessage.carry(Self.datagram, to: Self.peer).encoded == [1] + Self.peer.bytes + Self.datagram)
        #expect(RelayMessage.carried(Self.datagram, from: Self.peer).encoded == [2] + Self.peer.bytes + Self.datagram)
        #expect(RelayMessage.notCarried(to: Self.peer, .noLink).encoded == [3] + Self.peer.bytes + [1])
    }

    @Test func `AB-08 AB-13 a message cut short, of no kind, or with a datagram of an impossible size is refused`() {
        for message in Self.messages {
            for length in 0..<34 {
                #expect(throws: WireError.self) { try RelayMessage(decoding: Array(message.encoded.prefix(length))) }
            }
        }
        let sizes = [0, 55, 56, 1120, 1121].map { [UInt8](repeating: 4, count: $0) }
        let isTaken = sizes.map { bytes in (try? RelayMessage(decoding: [1] + Self.peer.bytes + bytes)) != nil }
        #expect(isTaken == [false, false, true, true, false])
        for kind in [UInt8(0), 4, 255] {
            #expect(throws: WireError.unknownType) {
                try RelayMessage(decoding: [kind] + Self.peer.bytes + Self.datagram)
            }
        }
        #expect(throws: WireError.invalidValue) { try RelayMessage(decoding: [3] + Self.peer.bytes + [9]) }
        #expect(throws: WireError.trailingBytes) { try RelayMessage(decoding: [3] + Self.peer.bytes + [1, 0]) }
    }
}
