import MeshBase

/// Tunables, each with its unit and reason.
public struct CoordinatorConfiguration: Hashable, Sendable {
    /// Between two corrections, and two reports to each neighbour, while the clock is finding its place.
    public var activeInterval = TimeSpan.milliseconds(100)
    /// The same once in step. Sixteen idle nodes then send 240 reports a second in all.
    public var idleInterval = TimeSpan.seconds(1)
    /// Between probes on a fresh link whose delays scatter: an edge needs many samples there.
    public var probeInterval = TimeSpan.milliseconds(20)
    /// How long a link counts as fresh: the offset's window.
    public var freshLinkAge = TimeSpan.seconds(10)
    /// Delays that scatter more ask for probes, nanoseconds.
    public var probeScatter = 50_000.0
    /// A link that scatters more, nanoseconds, is reported to every `activeInterval` for as long as it does: a radio
    /// that sleeps for 300 ms shows its edge to one datagram in many (CLK-07).
    public var noisyScatter = 2_000_000.0
    /// Share of the mean error that is removed in 100 ms, and of the mean rate difference.
    public var errorGain = 0.05
    public var rateGain = 0.02
    /// For so long after joining, corrections count as so many.
    public var settlingTime = TimeSpan.seconds(8)
    public var settlingFactor = 4.0
    /// Pull towards the node's own oscillator, per second: keeps the mesh's rate near its members' mean, so that
    /// neither noise nor a liar can walk it to the limit. Costs 0.14 ppm of disagreement at 100 ppm.
    public var rateLeak = 1.0 / 3600
    /// A joining node is in step when its error scatters less, nanoseconds ...
    public var joinScatter = 1_000_000.0
    /// ... and this long has passed, or at once where half a round trip is less than `joinScatter`.
    public var joinTime = TimeSpan.seconds(2)
    /// After this long it is in step with whatever it has, and states the error.
    public var joinTimeLimit = TimeSpan.seconds(10)
    /// Samples each way without which nothing is adopted.
    public var joinSamples = 4
    /// A member that meets nobody in step for so long begins (or resumes) a clock of its own.
    public var lonelyTime = TimeSpan.seconds(5)
    /// A neighbour silent for so long has no vote.
    public var silenceLimit = TimeSpan.seconds(10)
    /// An error beyond this, with bounds that exclude each other, is stepped and not slewed.
    public var stepThreshold = TimeSpan.milliseconds(250)
    /// The losing mesh switches together, this long after the first of it decided.
    public var mergeNotice = TimeSpan.milliseconds(300)
    /// Switches and steps after joining that a node makes before it grows suspicious, and the time that earns one
    /// back: a member that invents ever greater epochs stops being followed.
    public var stepAllowance = 8
    public var stepAllowanceRefill = TimeSpan.seconds(120)
    /// Neighbours that are kept; more are ignored and counted.
    public var maximumNeighbours = 256
    /// Immediate answers that one neighbour gets within `freshLinkAge`.
    public var answerAllowance = 64
    /// Entries of the order's log.
    public var orderCapacity = 4096
    /// How far two oscillators that agreed wander apart unwatched (temperature): grows the error in holdover.
    public var holdoverRateError = 5e-6

    public init() {}
}

/// What happened, counted since the start.
public struct CoordinatorStatistics: Hashable, Sendable {
    public var samplesAccepted: UInt64 = 0
    /// Contradicting, stale, or of a peer without a link.
    public var samplesRefused: UInt64 = 0
    public var samplesRepeated: UInt64 = 0
    public var messagesSent: UInt64 = 0
    public var messagesReceived: UInt64 = 0
    /// Of a peer without a link, or with a claim outside its limits.
    public var messagesRefused: UInt64 = 0
    public var answersRefused: UInt64 = 0
    /// A peer's clock jumped, and its history was dropped.
    public var filterRestarts: UInt64 = 0
    /// Steps of a clock that was in step before.
    public var steps: UInt64 = 0
    public var merges: UInt64 = 0
    /// Steps and merges that the allowance forbade.
    public var stepsRefused: UInt64 = 0
    public var corrections: UInt64 = 0
    public var recordsOrdered: UInt64 = 0
    public var recordsBeyondLog: UInt64 = 0
    public var neighboursRefused: UInt64 = 0

    public init() {}
}
