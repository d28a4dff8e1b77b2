import MeshBase
import MeshWire

/// Messages on their way to one peer: queued, in flight, lost and queued again.
///
/// Strict priorities: a lower one always goes first, and within one priority what was lost goes before what is new.
/// Bounded twice, for bulk and for the rest; a full queue refuses the newest (`queueFull`). Lives with the link and not
/// with its keys, so a rekey, a move or a reconnection loses nothing.
struct SendQueue: Sendable {
    /// A part of a message inside one datagram. The generation tells a reused place from the message that was there.
    struct Content: Sendable {
        var index: Int32
        var generation: UInt32
        var firstSlot: UInt16
        var slotCount: UInt16
    }

    private struct Entry: Sendable {
        var message: OutgoingMessage
        var generation: UInt32
        var slots: Int
        /// Given at the first sending, so that the ids in flight lie close together.
        var messageID: UInt64?
        /// First slot never sent.
        var cursor = 0
        var lost: [Range<Int>] = []
        var acknowledged = SlotSet()
        var isQueued = true
        /// Counts among the messages that the peer may hold in pieces.
        var isOpenInPieces = false
        var isFinished = false
        /// When the second copy of a small command leaves; `nil` when none is wanted.
        var insuranceAt: HostTime?

        var hasPending: Bool { cursor < slots || !lost.isEmpty }
        var isUntouched: Bool { cursor == 0 && lost.isEmpty }
    }

    private var entries: [Entry] = []
    private var freeIndexes: [Int32] = []
    private var fresh: [IndexQueue]
    private var again: [IndexQueue]
    private(set) var attachmentBytes = 0
    private(set) var otherBytes = 0
    private var receipts: [UInt64] = []
    /// Unreliable messages dropped because their time had passed.
    private(set) var lateMessages: UInt64 = 0
    private let attachmentLimit: Int
    private let otherLimit: Int

    /// Names this queue's life: a peer that lost its state must not take new messages for old ones.
    private let epoch: UInt64
    private var nextSequence: UInt64 = 0
    /// Whether the sequences from `firstOpenSequence` on are finished.
    private var finishedSequences: [Bool] = []
    private var finishedHead = 0
    private var openPieces = 0
    private var openPieceBytes = 0

    /// The receiver tells apart this many ids; none further ahead is given out (a spare word as in `ReplayWindow`).
    private static let idWindow = 8000
    /// Below the receiver's caps of 64 messages and 4 MiB, so that an honest sender never meets them; bulk leaves room
    /// for the rest.
    private static let maximumOpenPieces = 60
    /// A message that fits a datagram whole and is no larger waits for the next one instead of being cut.
    private static let seldomCutBytes = 4096
    private static let maximumOpenBulkPieces = 48
    private static let maximumOpenPieceBytes = 3_900_000
    private static let maximumOpenBulkPieceBytes = 3_300_000

    /// `epoch`: 24 random bits.
    init(epoch: UInt64, configuration: LinkConfiguration) {
        self.epoch = epoch & 0xff_ffff
        attachmentLimit = configuration.maximumAttachmentQueueBytes
        otherLimit = configuration.maximumQueueBytes
        fresh = Priority.allCases.map { _ in IndexQueue() }
        again = Priority.allCases.map { _ in IndexQueue() }
    }

    var bytes: Int { attachmentBytes + otherBytes }

    // MARK: In

    mutating func enqueue(_ message: OutgoingMessage) throws(CommandError) {
        guard message.payload.count <= WireLimits.maximumLinkMessageBytes else {
            throw .limitExceeded(limit: WireLimits.maximumLinkMessageBytes, actual: message.payload.count)
        }
        let isBulk = message.priority == .attachment
        // What is soon out of date fills half at most, so that it never keeps out what must arrive.
        let limit = isBulk ? attachmentLimit : message.isReliable ? otherLimit : otherLimit / 2
        let cost = Self.cost(message)
        guard (isBulk ? attachmentBytes : otherBytes) + cost <= limit else { throw .queueFull(limit: limit) }
        if isBulk { attachmentBytes += cost } else { otherBytes += cost }
        let slots = SlotSet.slots(of: message.payload.count)
        let priority = Int(message.priority.rawValue)
        if let index = freeIndexes.popLast() {
            let generation = entries[Int(index)].generation &+ 1
            entries[Int(index)] = Entry(message: message, generation: generation, slots: slots)
            fresh[priority].append(index)
        } else {
            entries.append(Entry(message: message, generation: 0, slots: slots))
            fresh[priority].append(Int32(entries.count - 1))
        }
    }

    /// Small messages cost memory too: an entry is charged 128 bytes beside its payload.
    private static func cost(_ message: OutgoingMessage) -> Int { message.payload.count + 128 }

    /// The most urgent priority with something to send now.
    var nextPriority: Priority? {
        for priority in Priority.allCases where hasPending(priority) { return priority }
        return nil
    }

    private func hasPending(_ priority: Priority) -> Bool {
        let position = Int(priority.rawValue)
        return !again[position].isEmpty || !fresh[position].isEmpty
    }

    // MARK: Out

    /// What a datagram was filled with.
    enum Filling: Int, Comparable {
        case nothing
        /// Only unreliable messages of the clock and of membership: the next ones make up for them.
        case fleeting
        /// Something whose fate the sender must learn.
        case lasting

        static func < (left: Filling, right: Filling) -> Bool { left.rawValue < right.rawValue }
    }

    /// Appends frames to `plain` until it holds `limit` bytes or nothing of `priorities` fits; notes the reliable parts
    /// in `contents`. `emptyRoom`: bytes of frames that an empty datagram takes.
    mutating func fill(
        _ plain: inout [UInt8], limit: Int, emptyRoom: Int, through lowest: Priority, contents: inout SentContents,
        at now: HostTime, insurance: LossInsurance?
    ) -> Filling {
        var filling = Filling.nothing
        for priority in Priority.allCases where priority <= lowest {
            while let (index, isAgain) = head(priority) {
                guard !entries[Int(index)].message.expiresAt.isDue(at: now) else {
                    drop(Int(index), priority: priority, isAgain: isAgain)
                    continue
                }
                guard
                    appendFrame(
                        of: Int(index), to: &plain, room: limit - plain.count, emptyRoom: emptyRoom,
                        contents: &contents)
                else {
                    // No room for the more urgent one: nothing less urgent may pass it.
                    return filling
                }
                let isFleeting = priority == .clock && !entries[Int(index)].message.isReliable
                filling = max(filling, isFleeting ? .fleeting : .lasting)
                finishTurn(Int(index), priority: priority, isAgain: isAgain)
                if let insurance { insure(Int(index), at: now, insurance) }
            }
        }
        return filling
    }

    /// An unreliable message that nobody wants any more.
    private mutating func drop(_ index: Int, priority: Priority, isAgain: Bool) {
        lateMessages += 1
        entries[index].cursor = entries[index].slots
        entries[index].lost.removeAll()
        finishTurn(index, priority: priority, isAgain: isAgain)
    }

    private func head(_ priority: Priority) -> (index: Int32, isAgain: Bool)? {
        let position = Int(priority.rawValue)
        if let index = again[position].first { return (index, true) }
        if let index = fresh[position].first { return (index, false) }
        return nil
    }

    /// Takes an entry that has nothing left to send out of its queue.
    private mutating func finishTurn(_ index: Int, priority: Priority, isAgain: Bool) {
        guard !entries[index].hasPending else { return }
        entries[index].isQueued = false
        if isAgain { again[Int(priority.rawValue)].removeFirst() } else { fresh[Int(priority.rawValue)].removeFirst() }
        if !entries[index].message.isReliable { release(index) }
    }

    private mutating func appendFrame(
        of index: Int, to plain: inout [UInt8], room: Int, emptyRoom: Int, contents: inout SentContents
    ) -> Bool {
        guard giveID(index, emptyRoom: emptyRoom) else { return false }
        let total = entries[index].message.payload.count
        let wholeBytes = Self.wholeFrameBytes(entries[index].message)
        let isWhole = entries[index].isUntouched || entries[index].lost.first == 0..<entries[index].slots
        if isWhole, wholeBytes <= room {
            appendWhole(index, to: &plain, contents: &contents)
            return true
        }
        // What fits whole into the next datagram waits for it, unless that would waste a lot of this one.
        if isWhole, wholeBytes <= emptyRoom, total <= Self.seldomCutBytes { return false }
        return appendPiece(index, to: &plain, room: room, contents: &contents)
    }

    /// An unreliable message leaves room for the PING that asks for its fate.
    private static func wholeFrameBytes(_ message: OutgoingMessage) -> Int {
        MessageFrame.overhead(isReliable: message.isReliable) + message.payload.count
            + (message.isReliable ? 0 : FrameType.headerBytes)
    }

    private mutating func appendWhole(_ index: Int, to plain: inout [UInt8], contents: inout SentContents) {
        let slots = entries[index].slots
        let message = entries[index].message
        MessageFrame.append(
            channel: message.channel.rawValue, messageID: message.isReliable ? entries[index].messageID : nil,
            payload: message.payload, to: &plain)
        entries[index].cursor = slots
        entries[index].lost.removeAll()
        if message.isReliable { contents.append(content(index, 0..<slots)) }
    }

    private mutating func appendPiece(
        _ index: Int, to plain: inout [UInt8], room: Int, contents: inout SentContents
    ) -> Bool {
        let slotBytes = WireLimits.fragmentSlotBytes
        let total = entries[index].message.payload.count
        let available = room - FragmentFrame.overhead
        let range = entries[index].lost.first ?? (entries[index].cursor..<entries[index].slots)
        let start = range.lowerBound * slotBytes
        var end = min(range.upperBound * slotBytes, total)
        var last = range.upperBound
        if end - start > available {
            let fitting = available / slotBytes
            guard fitting > 0 else { return false }
            last = range.lowerBound + fitting
            end = last * slotBytes
        }
        guard end > start, let messageID = entries[index].messageID, openPieces(of: index) else { return false }
        FragmentFrame.append(
            messageID: messageID, firstSlot: range.lowerBound, totalBytes: total,
            channel: entries[index].message.channel.rawValue, isReliable: entries[index].message.isReliable,
            data: entries[index].message.payload[start..<end], to: &plain)
        let sent = range.lowerBound..<last
        if entries[index].lost.isEmpty {
            entries[index].cursor = last
        } else if last == range.upperBound {
            entries[index].lost.removeFirst()
        } else {
            entries[index].lost[0] = last..<range.upperBound
        }
        if entries[index].message.isReliable { contents.append(content(index, sent)) }
        return true
    }

    private func content(_ index: Int, _ slots: Range<Int>) -> Content {
        Content(
            index: Int32(index), generation: entries[index].generation, firstSlot: UInt16(slots.lowerBound),
            slotCount: UInt16(slots.count))
    }

    /// Gives the message its id and, when it will go in pieces, a place among those; `false` when it must wait.
    private mutating func giveID(_ index: Int, emptyRoom: Int) -> Bool {
        let message = entries[index].message
        let goesInPieces = Self.wholeFrameBytes(message) > emptyRoom
        if goesInPieces, !openPieces(of: index) { return false }
        guard entries[index].messageID == nil else { return true }
        // Every piece may turn out to be needed once the datagrams get smaller, so every reliable message has an id.
        guard message.isReliable || goesInPieces || message.payload.count > Self.seldomCutBytes else {
            return true
        }
        guard finishedSequences.count - finishedHead < Self.idWindow else { return false }
        entries[index].messageID = epoch << 40 | (nextSequence & 0xff_ffff_ffff)
        nextSequence += 1
        finishedSequences.append(!message.isReliable)
        return true
    }

    /// Counts a reliable message among those that the peer may hold in pieces; `false` when it must wait for a place. Also
    /// asked for one that would fit a datagram and is cut all the same to fill the rest of another.
    private mutating func openPieces(of index: Int) -> Bool {
        let message = entries[index].message
        guard message.isReliable, !entries[index].isOpenInPieces else { return true }
        guard hasPlaceForPieces(message) else { return false }
        entries[index].isOpenInPieces = true
        openPieces += 1
        openPieceBytes += message.payload.count
        return true
    }

    private func hasPlaceForPieces(_ message: OutgoingMessage) -> Bool {
        guard openPieces > 0 else { return true }
        let isBulk = message.priority == .attachment
        let countLimit = isBulk ? Self.maximumOpenBulkPieces : Self.maximumOpenPieces
        let byteLimit = isBulk ? Self.maximumOpenBulkPieceBytes : Self.maximumOpenPieceBytes
        return openPieces < countLimit && openPieceBytes + message.payload.count <= byteLimit
    }

    // MARK: Fate of what was sent

    mutating func acknowledge(_ content: Content) {
        let index = Int(content.index)
        guard isCurrent(content) else { return }
        let slots = Int(content.firstSlot)..<(Int(content.firstSlot) + Int(content.slotCount))
        entries[index].acknowledged.insert(slots)
        guard entries[index].acknowledged.count == entries[index].slots else { return }
        if let receipt = entries[index].message.receipt { receipts.append(receipt) }
        release(index)
    }

    /// Of messages that have come over whole since the last call, in no order.
    mutating func takeReceipts() -> [UInt64] {
        if receipts.isEmpty { return [] }
        defer { receipts.removeAll(keepingCapacity: true) }
        return receipts
    }

    /// Queues again what was lost, except slots that another copy has brought over meanwhile.
    mutating func lose(_ content: Content) {
        let index = Int(content.index)
        guard isCurrent(content) else { return }
        let end = Int(content.firstSlot) + Int(content.slotCount)
        var slot = Int(content.firstSlot)
        while slot < end {
            let start = entries[index].acknowledged.firstMissing(from: slot, limit: end)
            guard start < end else { break }
            slot = entries[index].acknowledged.firstContained(from: start, limit: end)
            entries[index].lost.append(start..<slot)
        }
        requeue(index)
    }

    private func isCurrent(_ content: Content) -> Bool {
        let index = Int(content.index)
        return entries[index].generation == content.generation && !entries[index].isFinished
    }

    private mutating func requeue(_ index: Int) {
        guard !entries[index].isQueued, entries[index].hasPending else { return }
        entries[index].isQueued = true
        again[Int(entries[index].message.priority.rawValue)].append(Int32(index))
    }

    private mutating func release(_ index: Int) {
        guard !entries[index].isFinished else { return }
        let message = entries[index].message
        if entries[index].isQueued {
            // Acknowledged late, while a copy was waiting to be sent.
            again[Int(message.priority.rawValue)].remove(Int32(index))
            fresh[Int(message.priority.rawValue)].remove(Int32(index))
        }
        if message.priority == .attachment {
            attachmentBytes -= Self.cost(message)
        } else {
            otherBytes -= Self.cost(message)
        }
        if entries[index].isOpenInPieces {
            openPieces -= 1
            openPieceBytes -= message.payload.count
        }
        if let messageID = entries[index].messageID { finishSequence(messageID & 0xff_ffff_ffff) }
        entries[index].isFinished = true
        entries[index].message.payload = []
        entries[index].lost = []
        entries[index].insuranceAt = nil
        freeIndexes.append(Int32(index))
    }

    private mutating func finishSequence(_ sequence: UInt64) {
        let first = nextSequence - UInt64(finishedSequences.count - finishedHead)
        guard sequence >= first, sequence < nextSequence else { return }
        finishedSequences[finishedHead + Int(sequence - first)] = true
        while finishedHead < finishedSequences.count, finishedSequences[finishedHead] { finishedHead += 1 }
        if finishedHead > 4096 {
            finishedSequences.removeFirst(finishedHead)
            finishedHead = 0
        }
    }

    /// Everything not acknowledged, most urgent and oldest first, as if it had never been sent.
    var unfinishedMessages: [OutgoingMessage] {
        let open = entries.filter { !$0.isFinished && $0.message.isReliable || $0.isQueued && !$0.isFinished }
        return open.sorted { left, right in
            let leftKey = (left.message.priority.rawValue, left.messageID ?? .max)
            let rightKey = (right.message.priority.rawValue, right.messageID ?? .max)
            return leftKey < rightKey
        }.map(\.message)
    }

    // MARK: Insurance against loss

    private struct Insured {
        var index: Int32
        var generation: UInt32
        var at: HostTime
        var bytes: Int
    }

    private var insured: [Insured] = []
    /// Payload bytes of messages of applications in `insured`.
    private var insuredMessageBytes = 0
    private static let maximumInsured = 64

    /// When the next second copy is due.
    var nextInsuranceAt: HostTime? { insured.first?.at }

    private mutating func insure(_ index: Int, at now: HostTime, _ insurance: LossInsurance) {
        guard insured.count < Self.maximumInsured else { return }
        let entry = entries[index]
        let bytes = entry.message.payload.count
        guard !entry.isFinished, entry.message.isReliable, entry.message.priority <= .message, !entry.hasPending,
            bytes <= insurance.maximumBytes, entry.insuranceAt == nil
        else { return }
        // A flood of messages would pay for every one of them twice and needs it least: later ones prove its losses.
        let counted = entry.message.priority == .message ? bytes : 0
        guard insuredMessageBytes + counted <= insurance.budgetBytes else { return }
        insuredMessageBytes += counted
        entries[index].insuranceAt = now + insurance.delay
        insured.append(
            Insured(index: Int32(index), generation: entry.generation, at: now + insurance.delay, bytes: counted))
    }

    /// Queues the second copies that are due.
    mutating func releaseInsurance(at now: HostTime) {
        while let first = insured.first, first.at <= now {
            insured.removeFirst()
            insuredMessageBytes -= first.bytes
            let index = Int(first.index)
            guard entries[index].generation == first.generation, !entries[index].isFinished,
                !entries[index].isQueued
            else { continue }
            entries[index].lost.append(0..<entries[index].slots)
            requeue(index)
        }
    }
}

/// How small messages are insured against loss: each leaves a second time, a little later, unless it is acknowledged
/// before. A lost one then costs that delay instead of a probe timeout.
struct LossInsurance {
    /// Long enough that one burst of losses seldom takes both copies.
    var delay: TimeSpan
    /// Payload bytes of the largest message that is insured.
    var maximumBytes: Int
    /// Payload bytes of messages of applications that may wait for their second copies at once. Commands have no such
    /// bound.
    var budgetBytes: Int
}

/// The reliable parts of one datagram. Bulk has exactly one, which costs no allocation.
struct SentContents: Sendable {
    private(set) var first: SendQueue.Content?
    private(set) var more: [SendQueue.Content] = []

    var isEmpty: Bool { first == nil }

    mutating func append(_ content: SendQueue.Content) {
        if first == nil { first = content } else { more.append(content) }
    }
}

/// A queue of places with a moving head; `removeFirst` costs no shifting.
struct IndexQueue: Sendable {
    private var items: [Int32] = []
    private var headOffset = 0

    var isEmpty: Bool { headOffset == items.count }
    var first: Int32? { isEmpty ? nil : items[headOffset] }

    mutating func append(_ item: Int32) { items.append(item) }

    mutating func removeFirst() {
        headOffset += 1
        if headOffset == items.count {
            items.removeAll(keepingCapacity: true)
            headOffset = 0
        } else if headOffset > 1024, headOffset * 2 > items.count {
            items.removeFirst(headOffset)
            headOffset = 0
        }
    }

    /// Linear; seldom needed.
    mutating func remove(_ item: Int32) {
        guard let position = items[headOffset...].firstIndex(of: item) else { return }
        items.remove(at: position)
        if headOffset == items.count {
            items.removeAll(keepingCapacity: true)
            headOffset = 0
        }
    }
}
