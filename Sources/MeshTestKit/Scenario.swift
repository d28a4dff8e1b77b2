import MeshBase

/// What is done to a cluster, drawn from a seed, before everything heals and must converge. Scenarios stand in a file
/// (`ScenarioFile`); the format is in Docs/Testing.md.
public struct Scenario: Hashable, Sendable {
    public var name: String
    /// One line for people.
    public var summary = ""
    /// How many nodes, drawn uniformly. Hostile ones come on top.
    public var nodeCounts = 3...6
    /// Meshes of one label that the nodes are dealt out to; they share the network and must stay apart.
    public var meshCount = 1
    /// What the network does while there are faults.
    public var conditions = PathConditions.lan
    /// How long faults last.
    public var stormSpan = TimeSpan.seconds(15)
    /// What else may happen meanwhile.
    public var hazards: [RecurringHazard] = []
    public var schedule: [ScheduledHazard] = []
    /// Members that break the rules, and strangers.
    public var hostiles: [HostileKind] = []
    public var traffic = Traffic()
    public var limits = Limits()

    /// What the members do meanwhile, on average and all together.
    public struct Traffic: Hashable, Sendable {
        /// One in five is unreliable, one in ten has up to 20,000 bytes.
        public var messagesPerMinute = 55.0
        /// One in four has up to 150,000 bytes, the others up to 4,000.
        public var filesPerMinute = 20.0

        public init() {}
    }

    /// What a run must keep beside the invariants.
    public struct Limits: Hashable, Sendable {
        /// From the last fault until all invariants hold.
        public var convergence = TimeSpan.seconds(90)
        /// Members declared dead whose process was there. `nil`: not counted as a violation.
        public var falseDeaths: Int?
        /// From the end (or stop) of a process until every other one has noticed it.
        public var notice: TimeSpan?

        public init() {}
    }

    public init(name: String) { self.name = name }
}
