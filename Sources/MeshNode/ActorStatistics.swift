/// What an actor could not hand to its machine; zero in a healthy node among healthy members.
public struct ActorStatistics: Hashable, Sendable {
    /// Told facts that the machine refused. Commands of people are not among them: those are answered.
    public internal(set) var refusedCommands: UInt64 = 0
    /// Messages that did not decode: the peer's fault, never a reason to stop. `nil` where the machine decodes and
    /// counts them itself.
    public internal(set) var malformedMessages: UInt64?
}
