import MeshBase
import MeshCrypto
import MeshNode

/// What is done to a cluster, drawn from a seed, before everything heals and must converge.
public struct Scenario: Sendable {
    public var name: String
    /// One line for people.
    public var summary: String
    /// How many nodes, drawn uniformly.
    public var nodeCounts: ClosedRange<Int>
    /// What the network does while there are faults.
    public var conditions: PathConditions
    /// How long faults last.
    public var stormSpan: TimeSpan
    /// What else may happen meanwhile.
    public var hazards: [Hazard]

    /// One kind of mishap.
    public enum Hazard: Hashable, Sendable {
        /// The hosts split into two groups for a while.
        case partition
        /// One pair loses its path for a while.
        case cut
        /// A process is killed, its disk as after a power cut, and started again later.
        case crash
        /// A process is stopped for up to five seconds.
        case freeze
        /// Somebody's disk fails some writes for a while.
        case diskFailure
    }

    public static let all: [Scenario] = [calm, storm, split, churn, freeze]

    public static func named(_ name: String) -> Scenario? { all.first { $0.name == name } }

    /// Nothing goes wrong.
    public static let calm = Scenario(
        name: "calm", summary: "three to six nodes on a wired network", nodeCounts: 3...6, conditions: .lan,
        stormSpan: .seconds(5), hazards: [])

    public static let storm = Scenario(
        name: "storm", summary: "30 % loss, reordering, duplication, corruption, and partitions", nodeCounts: 3...6,
        conditions: .storm, stormSpan: .seconds(15), hazards: [.partition, .cut])

    public static let split = Scenario(
        name: "split", summary: "a long path that is parted again and again", nodeCounts: 3...6, conditions: .wan,
        stormSpan: .seconds(20), hazards: [.partition])

    public static let churn = Scenario(
        name: "churn", summary: "processes that die and return, on a lossy network", nodeCounts: 3...5,
        conditions: PathConditions(delay: .milliseconds(2), jitter: .milliseconds(2), loss: 0.05),
        stormSpan: .seconds(20), hazards: [.crash])

    public static let freeze = Scenario(
        name: "freeze", summary: "processes that stop for seconds and go on", nodeCounts: 3...5, conditions: .lan,
        stormSpan: .seconds(20), hazards: [.freeze, .cut])
}
