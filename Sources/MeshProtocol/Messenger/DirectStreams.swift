import MeshBase
import MeshWire

/// Reliable messages on their way to one recipient, in order, until it acknowledges them.
///
/// The numbers run on whatever the route: the link, another link after a cut, or other members. So the recipient can
/// tell repetitions, and a cut loses and doubles nothing (MSG-06).
struct OutgoingStream: Sendable {
    enum Route: Hashable, Sendable {
        case none
        /// Linked, and waiting for the recipient to say what it has.
        case awaitingStatus
        case direct
        case relayed
    }

    struct Item: Sendable {
        /// Of the first message.
        let sequence: UInt64
        let lamport: UInt64
        /// Messages in the payload; more than one are packed.
        let count: Int
        let payload: [UInt8]
        let audience: DirectMessage.Audience
        let causes: [DirectMessage.Cause]
        /// Names the message in the table of those not settled.
        let number: UInt64
        let submittedAt: HostTime
        /// The recipient's link has it, and it takes what its link has.
        var isReceived = false
    }

    /// Not acknowledged, rising without gaps.
    private(set) var items: [Item] = []
    private(set) var byteCount = 0
    private(set) var messageCount = 0
    private(set) var nextSequence: UInt64 = 1
    /// How many of `items`, from the first, were sent on the present route.
    var sentCount = 0
    var sentByteCount = 0
    private(set) var route = Route.none
    /// The recipient has said over this link that it took a message: it knows this node as a member, and what its link
    /// acknowledges from here on it has taken. Before, it may have had to refuse one.
    private(set) var isSettledByLink = false
    /// What the recipient was told to deliver first, by the author's life: once told, it need not be told again.
    var namedCauses: [LifeTag: UInt64] = [:]
    /// When to send again, or to stop waiting for a status.
    var retransmitAt: HostTime?
    var retransmissionPause = TimeSpan.zero
    /// When the recipient last acknowledged something new, or the queue last began to fill.
    var progressAt = HostTime.distantPast

    /// The least number that may still come.
    var base: UInt64 { items.first?.sequence ?? nextSequence }

    mutating func append(
        _ message: OutgoingContent, causes: [DirectMessage.Cause], lamport: UInt64, number: UInt64, at now: HostTime
    ) {
        if items.isEmpty { progressAt = now }
        items.append(
            Item(
                sequence: nextSequence, lamport: lamport, count: message.count, payload: message.payload,
                audience: message.audience, causes: causes, number: number, submittedAt: now))
        nextSequence &+= UInt64(message.count)
        byteCount += message.payload.count
        messageCount += message.count
    }

    /// Takes what lies below `next` out; a number never sent is ignored.
    mutating func acknowledge(below next: UInt64, overLink: Bool, at now: HostTime) -> [Item] {
        guard next <= nextSequence, next > base else { return [] }
        progressAt = now
        if overLink, route == .direct { isSettledByLink = true }
        let count = items.partitionPoint { $0.sequence &+ UInt64($0.count) <= next }
        return removeFirst(count + items[count...].prefix(while: \.isReceived).count)
    }

    /// The recipient's link has these; takes out what is settled now. Numbers never sent are ignored.
    mutating func receive(_ numbers: [UInt64], at now: HostTime) -> [Item] {
        for number in numbers {
            let position = items.partitionPoint { $0.sequence < number }
            guard position < sentCount, items[position].sequence == number else { continue }
            items[position].isReceived = true
            progressAt = now
        }
        return removeFirst(items.prefix(while: \.isReceived).count)
    }

    /// Gives up everything submitted before `limit`.
    mutating func expire(submittedBefore limit: HostTime) -> [Item] {
        giveUp(items.prefix { $0.submittedAt < limit }.count)
    }

    mutating func removeAll() -> [Item] { giveUp(items.count) }

    /// What is not sent names no causes: they are named again.
    private mutating func giveUp(_ count: Int) -> [Item] {
        if count > 0 { namedCauses.removeAll() }
        return removeFirst(count)
    }

    private mutating func removeFirst(_ count: Int) -> [Item] {
        let removed = Array(items.prefix(count))
        items.removeFirst(count)
        for (position, item) in removed.enumerated() {
            byteCount -= item.payload.count
            messageCount -= item.count
            if position < sentCount { sentByteCount -= item.payload.count }
        }
        sentCount = max(0, sentCount - count)
        return removed
    }

    mutating func restart(on route: Route) {
        self.route = route
        sentCount = 0
        sentByteCount = 0
        retransmitAt = nil
        retransmissionPause = .zero
        isSettledByLink = false
        // Another process life of the recipient may have none of it; this one drops what comes twice.
        for position in items.indices where items[position].isReceived { items[position].isReceived = false }
    }
}

/// What is to be sent to some recipients: one message, or a batch.
struct OutgoingContent: Sendable {
    var count: Int
    var payload: [UInt8]
    var audience: DirectMessage.Audience
}

/// Reliable messages of one sender in one of its process lives, put in order.
struct IncomingStream: Sendable {
    struct Received: Sendable {
        let lamport: UInt64
        /// Messages in the payload; more than one are packed.
        let count: Int
        let payload: [UInt8]
        let audience: DirectMessage.Audience
        let causes: [DirectMessage.Cause]

        /// Of the last message in it.
        var lastLamport: UInt64 { lamport &+ UInt64(count - 1) }

        init(_ message: DirectMessage) {
            audience = message.audience
            causes = message.causes
            lamport = message.lamport
            count = message.count
            payload = message.payload
        }
    }

    enum Arrival: Sendable {
        /// In order now, with what waited behind it.
        case delivered([Received])
        case held
        case duplicate
        case overCap
    }

    /// The number expected next: all below were delivered or given up by the sender.
    private(set) var next: UInt64 = 1
    private var held: [UInt64: Received] = [:]
    private var heldByteCount = 0
    /// In order, and held back until what must come first has come out.
    private(set) var blocked: [(received: Received, since: HostTime)] = []
    private var blockedByteCount = 0
    /// Of what has come out.
    private var deliveredLamport: UInt64 = 0
    /// All that the sender sends from `next` on is later than `lamport`.
    private var promise: (next: UInt64, lamport: UInt64)?
    var acknowledgeAt: HostTime?
    var unacknowledgedCount = 0
    var usedAt: HostTime
    /// Numbers of unreliable messages, for telling copies apart.
    var unreliableSeen = IntervalSet(maximumIntervals: 64)

    init(at now: HostTime) { usedAt = now }

    // MARK: Causes

    mutating func block(_ received: Received, at now: HostTime) {
        blocked.append((received, now))
        blockedByteCount += received.payload.count
    }

    mutating func removeFirstBlocked() { blockedByteCount -= blocked.removeFirst().received.payload.count }

    func isBlockedBeyond(_ limits: GossipConfiguration) -> Bool {
        blocked.count > limits.maximumQueuedItems || blockedByteCount > limits.maximumQueuedBytes
    }

    mutating func noteDelivery(through lamport: UInt64) { deliveredLamport = max(deliveredLamport, lamport) }

    mutating func note(promisedFrom next: UInt64, lamport: UInt64) {
        if let promise, promise.next > next || promise.lamport > lamport { return }
        promise = (next, lamport)
    }

    /// Whether everything up to `lamport` that is for this node has come out.
    func isPast(_ lamport: UInt64) -> Bool {
        if deliveredLamport >= lamport { return true }
        guard let promise, promise.lamport >= lamport else { return false }
        return promise.next <= next && blocked.isEmpty
    }

    // MARK: Sequence

    mutating func receive(_ message: DirectMessage, limits: GossipConfiguration) -> Arrival {
        guard message.sequence < .max - UInt64(message.count) else { return .overCap }
        var delivered = skip(below: message.base)
        guard message.sequence >= next else { return delivered.isEmpty ? .duplicate : .delivered(delivered) }
        let received = Received(message)
        if message.sequence == next {
            delivered.append(received)
            next += UInt64(message.count)
            delivered.append(contentsOf: takeInOrder())
            return .delivered(delivered)
        }
        guard held[message.sequence] == nil else { return delivered.isEmpty ? .duplicate : .delivered(delivered) }
        let isInReach = message.sequence - next <= UInt64(max(0, limits.maximumQueuedMessages))
        guard isInReach, held.count < limits.maximumQueuedItems,
            heldByteCount + message.payload.count <= limits.maximumQueuedBytes
        else {
            return delivered.isEmpty ? .overCap : .delivered(delivered)
        }
        held[message.sequence] = received
        heldByteCount += message.payload.count
        return delivered.isEmpty ? .held : .delivered(delivered)
    }

    /// The sender has settled everything below `base`: what is missing there will never come.
    private mutating func skip(below base: UInt64) -> [Received] {
        guard base > next else { return [] }
        for sequence in held.keys.sorted() where sequence < base {
            heldByteCount -= held.removeValue(forKey: sequence)?.payload.count ?? 0
        }
        next = base
        return takeInOrder()
    }

    private mutating func takeInOrder() -> [Received] {
        var delivered: [Received] = []
        while let received = held.removeValue(forKey: next) {
            heldByteCount -= received.payload.count
            delivered.append(received)
            next += UInt64(received.count)
        }
        return delivered
    }
}
