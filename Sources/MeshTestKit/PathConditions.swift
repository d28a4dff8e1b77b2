import MeshBase

/// What happens to datagrams from one host to another. Probabilities are 0 ... 1, each drawn per datagram.
public struct PathConditions: Hashable, Sendable {
    /// One-way delay, and what is added to it, uniform.
    public var delay: TimeSpan
    public var jitter: TimeSpan
    public var loss: Double
    public var duplication: Double
    /// Held back by up to `reorderingDelay` more, so that later ones overtake.
    public var reordering: Double
    public var reorderingDelay = TimeSpan.milliseconds(20)
    /// One to four bits flipped, or the end cut off.
    public var corruption: Double
    /// Datagrams with a larger UDP payload vanish, as in a tunnel that drops what does not fit.
    public var maximumBytes: Int
    /// Nothing passes.
    public var isCut = false

    public init(
        delay: TimeSpan = .microseconds(100), jitter: TimeSpan = .microseconds(20), loss: Double = 0,
        duplication: Double = 0, reordering: Double = 0, corruption: Double = 0, maximumBytes: Int = 1472
    ) {
        self.delay = delay
        self.jitter = jitter
        self.loss = loss
        self.duplication = duplication
        self.reordering = reordering
        self.corruption = corruption
        self.maximumBytes = maximumBytes
    }

    /// A wired network.
    public static let lan = PathConditions()
    /// Across a country: 20 ms ± 4 ms, 2 % loss.
    public static let wan = PathConditions(delay: .milliseconds(18), jitter: .milliseconds(4), loss: 0.02)
    /// 30 % loss with everything else that a network can do.
    public static let storm = PathConditions(
        delay: .milliseconds(5), jitter: .milliseconds(15), loss: 0.3, duplication: 0.05, reordering: 0.1,
        corruption: 0.01)
}
