import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct AttachmentCatalogTests {
    static func record(_ kind: RecordKind, _ number: Int, body: [UInt8], lamport: UInt64) -> AcceptedRecord {
        AcceptedRecord(
            id: RecordID(Digest.hash32([UInt8(truncatingIfNeeded: number), kind.rawValue])), kind: kind,
            author: PeerID(Digest.hash32([UInt8(number % 3)])), incarnation: Incarnation(1), sequence: UInt64(number),
            lamport: lamport, body: body)
    }

    static func added(_ number: Int, name: String = "x", lamport: UInt64? = nil) -> AcceptedRecord {
        let content = ContentID(Digest.hash32([UInt8(number % 4), 9]))
        let body = AttachmentAddedBody(content: content, byteCount: 1, name: name, note: "")
        return record(.attachmentAdded, number, body: body.encoded, lamport: lamport ?? UInt64(number / 2))
    }

    static func removal(_ number: Int, of attachment: RecordID) -> AcceptedRecord {
        record(
            .attachmentRemoved, number, body: AttachmentRemovedBody(attachment: attachment).encoded,
            lamport: UInt64(number))
    }

    @Test(arguments: 0..<50) func `any order of records gives the same catalogue`(_ seed: Int) {
        var random = RandomStream(testSeed: UInt64(seed))
        let adds = (0..<12).map { Self.added($0) }
        let removals = (0..<6).map { Self.removal(20 + $0, of: adds[random.below(12)].id) }
        let records = adds + removals
        var expected = AttachmentCatalog(capacity: 1_000)
        for record in records { _ = expected.accept(record) }

        var shuffled = records + records
        for index in shuffled.indices.reversed() { shuffled.swapAt(index, random.below(index + 1)) }
        var catalog = AttachmentCatalog(capacity: 1_000)
        for record in shuffled { _ = catalog.accept(record) }

        #expect(catalog.liveEntries == expected.liveEntries)
        #expect(catalog.live.count == 12 - Set(removals.map(\.body)).count)
    }

    @Test func `a removal that comes first keeps the attachment out`() {
        var catalog = AttachmentCatalog(capacity: 10)
        let add = Self.added(1)

        let change1 = catalog.accept(Self.removal(2, of: add.id))
        #expect(change1 == .removed(add.id, nil))
        let change2 = catalog.accept(add)
        #expect(change2 == .none)
        #expect(catalog.live.isEmpty)
    }

    @Test func `a full catalogue refuses, counts nothing twice, and still takes removals of what it has`() {
        var catalog = AttachmentCatalog(capacity: 2)
        let first = Self.added(1)
        _ = catalog.accept(first)
        _ = catalog.accept(Self.added(2))

        let change3 = catalog.accept(Self.added(3))
        #expect(change3 == .refused)
        let change4 = catalog.accept(Self.removal(9, of: Self.added(3).id))
        #expect(change4 == .refused)
        let removal = catalog.accept(Self.removal(8, of: first.id))
        guard case .removed(_, .some) = removal else {
            Issue.record("a known attachment can always be removed")
            return
        }
        #expect(catalog.live.count == 1)
    }

    @Test func `malformed bodies are refused`() {
        var catalog = AttachmentCatalog(capacity: 10)

        for kind in [RecordKind.attachmentAdded, .attachmentRemoved] {
            let change5 = catalog.accept(Self.record(kind, 1, body: [1, 2, 3], lamport: 1))
            #expect(change5 == .refused)
        }
        let change6 = catalog.accept(Self.record(.invite, 1, body: [1, 2, 3], lamport: 1))
        #expect(change6 == .none)
    }
}
