import MeshBase
import MeshCrypto
import MeshWire

/// How hard the mesh tries to deliver a message of an application.
public enum DeliveryMode: UInt8, Hashable, Sendable, CaseIterable {
    /// Exactly once, in order per sender and behind what the sender had delivered before, or an error that names the
    /// member.
    case reliable = 1
    /// At most once, never repeated.
    case unreliable = 2
    /// To everybody, this node included, in one order over all senders that is the same at every member.
    case ordered = 3
}

/// A message of an application, as it came out at this node.
public struct UserMessage: Hashable, Sendable {
    /// Proven: by the link it came over, or by the signature it carried through others.
    public var from: PeerID
    public var mode: DeliveryMode
    /// What the sender had seen when it wrote, plus one: orders an answer after its question. For display only; no
    /// record's order depends on it.
    public var lamport: UInt64
    public var payload: [UInt8]
    /// Of an ordered one: it came when its place was passed. A log sorted by (lamport, author, incarnation) has it in
    /// its place.
    public var isLate: Bool

    public init(from: PeerID, mode: DeliveryMode, lamport: UInt64, payload: [UInt8], isLate: Bool = false) {
        self.isLate = isLate
        self.from = from
        self.mode = mode
        self.lamport = lamport
        self.payload = payload
    }
}

/// Several messages of one sender that came out one behind the other.
public struct UserMessageBatch: Hashable, Sendable {
    public var from: PeerID
    public var mode: DeliveryMode
    /// Of the first; each further one has one more.
    public var lamport: UInt64
    public var batch: MessageBatch

    public init(from: PeerID, mode: DeliveryMode, lamport: UInt64, batch: MessageBatch) {
        self.from = from
        self.mode = mode
        self.lamport = lamport
        self.batch = batch
    }

    /// Each as a message of its own. Allocates.
    public var messages: [UserMessage] {
        batch.payloads.enumerated().map { position, payload in
            UserMessage(from: from, mode: mode, lamport: lamport &+ UInt64(position), payload: payload)
        }
    }
}

/// Why a recipient did not (provably) get a reliable message.
public struct DeliveryFailure: Hashable, Sendable {
    public enum Reason: String, Hashable, Sendable, CaseIterable {
        /// Declared dead and not back within `GossipConfiguration.patienceAfterLoss`.
        case dead
        /// It left in order.
        case left
        /// A member still, but unreachable for `GossipConfiguration.messageLifetime`.
        case expired
        /// Its queue was full and it had stopped taking anything, so it was skipped rather than slow the others.
        case stalled
    }

    public var peer: PeerID
    public var reason: Reason

    public init(peer: PeerID, reason: Reason) {
        self.peer = peer
        self.reason = reason
    }
}

/// How a message ended.
public enum MessageOutcome: Hashable, Sendable {
    /// Every recipient has acknowledged it; also a message to nobody.
    case delivered
    /// An unreliable message was handed to the network.
    case sent
    /// These recipients are not known to have it, sorted by peer; all others have acknowledged.
    case failed([DeliveryFailure])
}

/// What the gossip wants done.
public enum GossipOutput: Sendable {
    /// A message of channel `.gossip` for a directly linked peer.
    case send([UInt8], to: PeerID, priority: Priority, isReliable: Bool)
    /// A reliable message of an application over its recipient's link; `received` is to be told the number when that
    /// link has it.
    case sendDirect([UInt8], to: PeerID, number: UInt64)
    /// The same for an unreliable message of an application; not sent any more when it would leave at `expiresAt` or
    /// later.
    case sendUnreliable([UInt8], to: PeerID, expiresAt: HostTime?)
    /// Once each, in causal order; this node's own records too.
    case recordAccepted(AcceptedRecord)
    /// Its author signed two records of one number: this record was accepted and counts no longer.
    case recordVoided(RecordID)
    /// Its author was removed behind its back, or never let in by a record that counts: what was told counts no longer.
    /// Should that change, it is told again as accepted.
    case recordMuted(RecordID, RecordKind)
    /// Who is in, who is out and whether the mesh is over; told when more changed than an admission.
    case membership(Membership)
    /// Every epoch secret known here, the one that seals first; and those of them that nobody who was removed can know.
    case epochSecrets([GroupSecret], safe: [GroupSecret])
    /// An ADMIT that is void and admits nevertheless (Decision 9).
    case voidAdmission(AcceptedRecord)
    /// A record to keep for ever, own or foreign. Comes before its acceptance.
    case persist(id: RecordID, bytes: [UInt8])
    /// The record made for a command.
    case published(CommandToken, RecordID)
    /// A record that waited for this node's admission cannot be made; whoever wanted it must hear of it.
    case publishRefused(RecordKind, body: [UInt8], CommandError)
    case userMessage(UserMessage)
    case userMessages(UserMessageBatch)
    /// Exactly once for every accepted `sendUserMessage`.
    case messageSettled(CommandToken, MessageOutcome)
    case event(ProtocolEvent)
}

/// What a start finds on disk.
public struct RestoredRecords: Hashable, Sendable {
    public var accepted: [AcceptedRecord]
    /// ADMITs of forked chains, whose newcomers are members nevertheless.
    public var voidAdmissions: [AcceptedRecord]
    /// What all of them together say.
    public var membership = Membership()
}

/// What the gossip can be asked.
public enum GossipCommand: Sendable {
    /// Makes a record and spreads it; a newcomer's waits until its own admission is known here. `body` is at most `WireLimits.maximumRecordBodyBytes` − 16 bytes.
    case publish(RecordKind, body: [UInt8], token: CommandToken?)
    /// Puts a member out of the mesh, for ever: writes a REMOVE, and an EPOCH whose secret it cannot learn. Throws
    /// `notFound` for who is no member, `notPermitted` where the policy does not allow it.
    case remove(PeerID, token: CommandToken?)
    /// Ends the mesh for everybody. Throws `notPermitted` where the policy does not allow it.
    case end(token: CommandToken?)
    /// Makes the GENESIS record; its id becomes `meshID`.
    case found(GenesisBody, secret: GroupSecret, token: CommandToken?)
    /// A joiner's copy of GENESIS, checked against the mesh set before.
    case adopt(genesis: [UInt8])
    /// `recipients` nil: all members but this node. Unknown recipients and this node itself are ignored.
    /// Ordered ones have no recipients: they go to everybody, and are settled when they have their place here.
    /// `deadline`, of unreliable ones only: counted from now; at most `GossipConfiguration.maximumDeadline`.
    case sendUserMessage(
        payload: [UInt8], recipients: [PeerID]?, mode: DeliveryMode, deadline: TimeSpan? = nil, token: CommandToken)
    /// Reliable messages that follow each other, settled together.
    case sendUserMessages(MessageBatch, recipients: [PeerID]?, token: CommandToken)
    /// The mesh clock as the coordinator has it; nil while it is not known well.
    case meshClock(MeshClockReading?)
    /// The members alive or suspect, without this node. Who is missing and was not `memberLost` has left in order.
    /// `lives`: the process life of everybody of whom it is known; what goes through others is sealed for it.
    case membersChanged([PeerID], lives: [PeerID: Incarnation])
    /// Declared dead.
    case memberLost(PeerID)
}

/// Tuning of the gossip. Sizes in bytes or items.
public struct GossipConfiguration: Hashable, Sendable {
    /// A head digest goes to every link this often, ± 20 %.
    public var headInterval = TimeSpan.milliseconds(1_000)
    /// A changed list of links is announced after this pause, so that a burst of links makes one announcement.
    public var neighboursDelay = TimeSpan.milliseconds(20)
    /// A catch-up with one peer that brought nothing for this long is given up for another.
    public var catchUpTimeout = TimeSpan.milliseconds(2_000)
    /// Between two summaries to one peer; doubles to `summaryBackoffLimit` while they bring nothing.
    public var summaryInterval = TimeSpan.milliseconds(300)
    public var summaryBackoffLimit = TimeSpan.milliseconds(5_000)
    /// A differing head is acted upon only when it still differs after this: what is under way arrives meanwhile.
    public var headGrace = TimeSpan.milliseconds(200)
    /// A record waits this long for its causes.
    public var pendingTimeout = TimeSpan.milliseconds(30_000)
    /// Missing causes are asked for after this, for links do not keep the order of messages.
    public var wantDelay = TimeSpan.milliseconds(40)
    /// Causes still missing are asked of another peer this often.
    public var wantInterval = TimeSpan.milliseconds(500)
    public var maximumPendingRecords = 1024
    public var maximumPendingRecordsPerAuthor = 256
    /// Chains one author may have: one for each process life that published something.
    public var maximumChainsPerAuthor = 1024
    public var maximumRecordsPerAuthor = 65_536

    /// Records a newcomer may write before it holds its own admission.
    public var maximumWaitingPublications = 64
    /// A new epoch secret that nobody has made is made by one after the other, each so much later …
    public var renewalDelay = TimeSpan.milliseconds(500)
    /// … at most.
    public var longestRenewalDelay = TimeSpan.milliseconds(8_000)
    /// Missing secrets are asked of one member after the other this often; after several times it is done without them.
    public var secretsInterval = TimeSpan.milliseconds(300)
    public var secretsPatience = TimeSpan.milliseconds(3_000)

    /// What waits for one recipient, queued or not yet acknowledged: messages and batches, the messages in them, and
    /// bytes. The same bounds what waits at the recipient for what comes before it.
    public var maximumQueuedItems = 1024
    public var maximumQueuedMessages = 65_536
    public var maximumQueuedBytes = 4 * 1024 * 1024
    /// A recipient with a full queue that acknowledged nothing for this long is skipped instead of slowing the sender.
    public var stallTime = TimeSpan.milliseconds(1_000)
    /// A dead member that is back within this still gets what was sent to it.
    public var patienceAfterLoss = TimeSpan.milliseconds(30_000)
    /// Long enough that a death told right after a changed list of members is still taken as one.
    public var patienceAfterLeave = TimeSpan.milliseconds(500)
    /// Nothing is tried for longer than this.
    public var messageLifetime = TimeSpan.milliseconds(120_000)
    /// First retransmission through others, and of a direct message nobody acknowledged; both double to the limit.
    public var relayRetransmission = TimeSpan.milliseconds(500)
    public var directRetransmission = TimeSpan.milliseconds(3_000)
    public var retransmissionLimit = TimeSpan.milliseconds(5_000)
    /// A new link tells what was received before; after this the sender no longer waits for it.
    public var statusTimeout = TimeSpan.milliseconds(1_000)
    /// Acknowledgements wait this long for company, or for so many messages.
    public var acknowledgementDelay = TimeSpan.milliseconds(4)
    public var acknowledgementCount = 32
    /// Messages and batches in flight to one linked recipient.
    public var directWindow = 512
    public var directWindowBytes = 2 * 1024 * 1024
    /// Messages in flight to one recipient through others.
    public var relayWindow = 32
    /// Relayed messages one peer may hand us: burst, and refill per second (at 36 µs a signature, 5 % of a core).
    public var relayBurst = 2048
    public var relayRate = 1400
    public var relayHopLimit: UInt8 = 8

    /// What was delivered longer ago than this is named as a cause no more: it has come out everywhere, or been given up.
    public var causalHorizon = TimeSpan.milliseconds(10_000)
    /// A message waits this long at most for what must come first.
    public var causalPatience = TimeSpan.milliseconds(5_000)
    /// Whoever is waited for is asked after this whether anything comes, and again every `promiseAskInterval`.
    public var causalAskDelay = TimeSpan.milliseconds(100)

    /// What was heard of ordered messages in this span is promised for at once.
    public var promiseDelay = TimeSpan.milliseconds(1)
    /// Whoever holds up an ordered message is asked where it stands after this, and again.
    public var promiseAskDelay = TimeSpan.milliseconds(300)
    public var promiseAskInterval = TimeSpan.milliseconds(500)
    /// An ordered message is delivered after this, whoever is silent: longer than any living member needs to be found
    /// dead, so only one that withholds its promises is passed over.
    public var orderedPatience = TimeSpan.milliseconds(8_000)
    /// Numbers that stay missing this long are asked of everybody; after the second span nothing waits for them.
    public var orderedGapGrace = TimeSpan.milliseconds(400)
    public var orderedGapPatience = TimeSpan.milliseconds(5_000)
    /// Members tell each other what they have had this often while ordered messages come, and for a while after.
    public var orderedSummaryInterval = TimeSpan.milliseconds(1_000)
    public var orderedActivity = TimeSpan.milliseconds(3_000)
    /// Between two parts of what a peer lacks.
    public var orderedBacklogPause = TimeSpan.milliseconds(20)
    /// Ordered messages one peer may hand us: burst, and refill per second (at 36 µs a signature, 15 % of a core).
    public var orderedBurst = 4096
    public var orderedRate = 4000

    /// The longest deadline of an unreliable message.
    public var maximumDeadline = TimeSpan.seconds(60)
    /// A receiver drops what is late only while it knows the mesh clock this well.
    public var deadlineClockError = TimeSpan.milliseconds(20)

    public init() {}
}

/// Counters since the start; each drop of a bounded queue has one.
public struct GossipStatistics: Hashable, Sendable {
    public var recordsAccepted = 0
    /// Records received that were known already.
    public var recordsDuplicate = 0
    /// Records whose claims do not hold (causes, Lamport time, chain, body).
    public var recordsRefused = 0
    /// Bundles refused whole for a bad signature or bad bytes.
    public var bundlesRefused = 0
    /// Bundles of peers under a penalty, dropped unread.
    public var bundlesIgnored = 0
    /// Records dropped because the waiting room was full or their causes never came.
    public var pendingDropped = 0
    /// Records beyond an author's cap.
    public var recordsOverCap = 0
    public var forks = 0
    public var signaturesVerified = 0
    public var recordsForwarded = 0
    public var summariesSent = 0
    public var malformed = 0
    /// Messages of peers without a link here, or of the wrong incarnation.
    public var unexpected = 0
    /// Messages beyond the few that are held, relays and fork proofs of linked peers that no record
    /// admits.
    public var fromStrangers = 0

    public var messagesSent = 0
    public var messagesReceived = 0
    public var messagesDuplicate = 0
    /// Messages beyond the bounds of a reorder buffer.
    public var messagesOverCap = 0
    public var messagesRetransmitted = 0
    public var messagesFailed = 0
    /// How often a sender's messages had to wait for another's.
    public var messagesHeldBack = 0
    /// Messages that came out without what should have come first: it did not come in time.
    public var causesGivenUp = 0
    /// Ordered messages delivered after their place was passed.
    public var orderedLate = 0
    /// Ordered messages refused: signature, author, Lamport time, epoch or seal, or two of one number.
    public var orderedRefused = 0
    /// Ordered messages beyond what may wait of one author, or beyond a peer's allowance.
    public var orderedOverCap = 0
    /// Ordered messages sent to members that lacked them.
    public var orderedRepaired = 0
    /// Numbers that never came.
    public var orderedGivenUp = 0
    /// Ordered messages delivered though somebody here had not been heard past them.
    public var orderedImpatient = 0
    public var promisesAsked = 0
    /// Unreliable messages dropped here for want of a way to their recipient.
    public var unreliableDroppedNoRoute = 0
    /// Unreliable messages that arrived after their deadline.
    public var unreliableDroppedLate = 0
    public var relaysForwarded = 0
    public var relaysDuplicate = 0
    /// Relayed messages refused: signature, author, recipient's process life, epoch, seal or hop limit.
    public var relaysRefused = 0
    /// Relayed messages beyond a peer's allowance.
    public var relaysOverCap = 0

    public init() {}
}
