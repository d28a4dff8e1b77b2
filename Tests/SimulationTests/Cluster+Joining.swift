import MeshBase
import MeshTestKit
import Testing

extension Cluster {
    /// A founder and others that were told to join it, all at once; nobody has been waited for.
    static func joining(_ count: Int, seed: UInt64) throws -> Cluster {
        let cluster = Cluster(seed: seed, count: count)
        try cluster.start(0)
        cluster.run(for: .milliseconds(200))
        let invite = try #require(try cluster.invite(from: 0))
        for index in 1..<count { try cluster.start(index, invite: invite) }
        return cluster
    }
}
