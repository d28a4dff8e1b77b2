import MeshBase
import MeshCrypto
import MeshWire

/// Which attachments exist, which chunks to ask for and which to serve.
public struct JournalStateMachine: Sendable {
    public private(set) var statistics = JournalStatistics()

    public init(identity: PeerID, configuration: JournalConfiguration = JournalConfiguration(), random: RandomStream) {}

    public mutating func receive(
        _ message: JournalMessage, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<JournalOutput>
    ) {}

    public mutating func submit(
        _ command: JournalCommand, at now: HostTime, into outbox: inout Outbox<JournalOutput>
    ) throws(CommandError) {}

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<JournalOutput>) {}

    public var nextDeadline: HostTime? { nil }

    /// All live attachments in total order (lamport, author, incarnation, sequence).
    public var attachments: [AttachmentSummary] { [] }

    /// The live attachments whose id begins with `prefixOrName` (at least 4 hexadecimal digits) or that are called so.
    public func attachment(matching prefixOrName: String) -> [AttachmentSummary] { [] }
}
