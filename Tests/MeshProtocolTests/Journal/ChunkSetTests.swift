import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct ChunkSetTests {
    @Test(arguments: 0..<20) func `it behaves as a set of integers`(_ seed: Int) {
        var random = RandomStream(testSeed: UInt64(seed))
        var chunks = ChunkSet()
        var model: Set<Int> = []
        for _ in 0..<200 {
            let chunk = random.below(300)
            switch random.below(4) {
            case 0:
                let (was, expected) = (chunks.remove(chunk), model.remove(chunk) != nil)
                #expect(was == expected)
            case 1:
                let range = chunk..<(chunk + random.below(100))
                chunks.insert(range)
                model.formUnion(range)
            case 2:
                var other = ChunkSet()
                let members = (0..<5).map { _ in random.below(500) }
                for member in members { other.insert(member) }
                let added = chunks.formUnion(other)
                #expect(Set(added.members) == Set(members).subtracting(model))
                model.formUnion(members)
            default:
                let (isNew, expected) = (chunks.insert(chunk), model.insert(chunk).inserted)
                #expect(isNew == expected)
            }
            #expect(chunks.count == model.count)
        }
        #expect(chunks.members == model.sorted())
        #expect(ChunkSet(bitfield: chunks.bitfield).members == model.sorted())
        let limit = random.below(400)
        chunks.truncate(to: limit)
        #expect(chunks.members == model.filter { $0 < limit }.sorted())
        #expect(chunks.count == chunks.members.count)
    }

    @Test(arguments: [0, 1, 63, 64, 65, 128]) func `a full set ends where it should`(_ count: Int) {
        let chunks = ChunkSet(repeating: true, count: count)

        #expect(chunks.count == count)
        #expect(chunks.members == Array(0..<count))
    }

    @Test func `runs name exactly the members`() {
        let runs = ChunkSet.ranges(of: [0, 1, 2, 5, 7, 8])

        #expect(
            runs == [
                ChunkRange(first: 0, count: 3), ChunkRange(first: 5, count: 1), ChunkRange(first: 7, count: 2),
            ])
    }
}

@Suite struct DeadlineQueueTests {
    @Test func `what is armed is handed out once, in order of time`() {
        var queue = DeadlineQueue()
        let peers = (0..<50).map { PeerID(Digest.hash32([UInt8($0)])) }
        var random = RandomStream(testSeed: 4)
        var times: [PeerID: HostTime] = [:]
        for _ in 0..<300 {
            let peer = peers[random.below(50)]
            let time = HostTime(nanoseconds: Int64(random.below(1_000)))
            queue.arm(.peer(peer), at: time)
            times[peer] = min(times[peer] ?? .distantFuture, time)
        }

        var handed: [JournalDeadline] = []
        for now in 0..<1_000 {
            while let deadline = queue.popDue(at: HostTime(nanoseconds: Int64(now))) {
                handed.append(deadline)
                if case .peer(let peer) = deadline { #expect(times[peer] == HostTime(nanoseconds: Int64(now))) }
            }
        }
        #expect(handed.count == times.count)
        #expect(queue.next == nil)
    }
}
