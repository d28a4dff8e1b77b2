import MeshBase
import MeshCrypto
import MeshProtocol
import Testing

@testable import MeshNode

@Suite struct DocumentsTests {
    @Test func `short ids have four digits, and more only where two would be the same`() {
        let (first, second, third) = (id([0xaa, 0xbb, 0x01]), id([0xaa, 0xbb, 0x02]), id([0x7c, 0x1e]))
        let ids = ShortIDs([first, second, third])

        #expect(ids.text(first) == "aabb01")
        #expect(ids.text(second) == "aabb02")
        #expect(ids.text(third) == "7c1e")
    }

    @Test func `an event keeps its names, order and exact numbers`() {
        let event = ProtocolEvent(
            .attachmentAdded, subject: PeerID(.zero), lamport: 9_007_199_254_740_993,
            detail: [.init("name", .text("a\u{1b}[2J")), .init("bytes", .integer(9_007_199_254_740_993))])
        let noted = NodeEvent(
            wallSeconds: 0, hostTime: HostTime(nanoseconds: 5), event: event, subjectName: "ana")

        let object = Documents.event(noted)

        #expect(object["schema"]?.stringValue == "starling/events/1")
        #expect(object["kind"]?.stringValue == "attachmentAdded")
        #expect(object["node"]?.stringValue == "ana")
        #expect(object["lamport"]?.integerValue == 9_007_199_254_740_993)
        #expect(object["detail"]?["bytes"]?.integerValue == 9_007_199_254_740_993)
        #expect(!object.text.contains("\u{1b}"))
    }

    @Test func `fingerprints are three words, the same for the same key`() {
        let peer = SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: 7, count: 32))).peerID
        let words = Fingerprint.words(of: peer)

        #expect(words.split(separator: " ").count == 3)
        #expect(words == Fingerprint.words(of: peer))
        #expect(words != Fingerprint.words(of: PeerID(.zero)))
    }

    @Test func `numbers that are not numbers become zero`() {
        #expect(Documents.rounded(.nan, 2) == 0)
        #expect(Documents.rounded(.infinity, 2) == 0)
        #expect(Documents.integer(.nan) == 0)
        #expect(Documents.integer(1e300) == 0)
        #expect(Documents.count(.max) == .integer(.max))
    }

    private func id(_ head: [UInt8]) -> RecordID {
        RecordID(Bytes32(head + [UInt8](repeating: 0, count: 32 - head.count)) ?? .zero)
    }
}
