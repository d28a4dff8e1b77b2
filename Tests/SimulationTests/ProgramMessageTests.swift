import MeshBase
import MeshNode
import MeshSystem
import MeshWire
import Testing

@testable import MeshTestKit

/// What a program around a node sends and reads without JSON.
@Suite(.serialized) struct ProgramMessageTests {
    private func mesh(_ count: Int, seed: UInt64) throws -> Cluster {
        let cluster = try Cluster.joining(count, seed: seed)
        let isWhole = cluster.run(atMost: .seconds(10)) { cluster in
            cluster.nodes.allSatisfy { cluster.snapshot(of: $0.index)?.peers.count { $0.link != nil } == count - 1 }
        }
        try #require(isWhole)
        cluster.run(for: .seconds(1))
        return cluster
    }

    private func payload(_ number: Int) -> [UInt8] {
        [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)] + [UInt8](repeating: 0, count: 62)
    }

    /// False when the outlet is full.
    private func put(_ payload: [UInt8], into outlet: MessageOutlet) -> Bool {
        do {
            try outlet.send(payload)
            return true
        } catch {
            return false
        }
    }

    @Test func `MSG-02 go through an outlet to every reader in order, in batches, and the program feels back-pressure`()
        throws
    {
        let cluster = try mesh(3, seed: 71)
        let heard = Lock<[Int: [[UInt8]]]>([:])
        let batches = Lock(0)
        for index in 1...2 {
            let node = try #require(cluster.nodes[index].life?.node)
            node.onMessages { delivered in
                heard.withLock { $0[index, default: []] += delivered.batch.payloads }
                batches.withLock { $0 += 1 }
            }
        }
        cluster.run(for: .milliseconds(10))
        let outlet = try #require(cluster.nodes[0].life?.node.outlet())
        var sent = 0
        var refusals = 0
        while sent < 40_000 {
            if put(payload(sent), into: outlet) {
                sent += 1
            } else {
                refusals += 1
                cluster.run(for: .milliseconds(5))
            }
        }
        cluster.run(atMost: .seconds(60)) { _ in outlet.progress.delivered == 40_000 }

        #expect(outlet.progress.delivered == 40_000 && outlet.progress.failed == 0)
        let expected = (0..<40_000).map { payload($0) }
        for index in 1...2 { #expect(heard.withLock { $0[index] } == expected) }
        #expect(refusals > 0)
        #expect(batches.withLock { $0 } < 400, "a hundred messages and more at once")
    }

    @Test func `a single one leaves at once, and a late reader gets what is kept`() throws {
        let cluster = try mesh(2, seed: 72)
        let receiver = try #require(cluster.nodes[1].life?.node)
        let heard = Lock(0)
        receiver.onMessages { delivered in heard.withLock { $0 += delivered.batch.count } }
        cluster.run(for: .milliseconds(10))
        let outlet = try #require(cluster.nodes[0].life?.node.outlet())
        try outlet.send([1])
        cluster.run(for: .milliseconds(5))
        #expect(heard.withLock { $0 } == 1, "on a path of a millisecond")

        let late = Lock(0)
        receiver.onMessages { delivered in late.withLock { $0 += delivered.batch.count } }
        cluster.run(for: .milliseconds(5))
        #expect(late.withLock { $0 } == 1)
    }
}
