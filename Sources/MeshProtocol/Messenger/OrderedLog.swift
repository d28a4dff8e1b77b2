import MeshBase
import MeshWire

/// Where an ordered message stands in the order that all members share.
struct OrderedPosition: Hashable, Comparable, Sendable {
    let lamport: UInt64
    let life: ChainKey
    let sequence: UInt64

    init(_ message: OrderedMessage) {
        lamport = message.lamport
        life = message.life
        sequence = message.sequence
    }

    static func < (left: OrderedPosition, right: OrderedPosition) -> Bool {
        (left.lamport, left.life, left.sequence) < (right.lamport, right.life, right.sequence)
    }
}

/// Ordered messages of all members: what has come, how far each author has been heard, what waits for its place, and
/// what is kept for those who lack it.
struct OrderedLog: Sendable {
    /// What is known of one author in one process life.
    struct Life: Sendable {
        /// Numbers that have come, exactly but for the oldest of very many gaps.
        fileprivate(set) var seen = IntervalSet(maximumIntervals: 256)
        /// All below have come or are given up. From 1 for a newcomer too: what is kept of the past comes to it, and the
        /// rest is given up.
        fileprivate(set) var next: UInt64 = 1
        /// Of the message before `next`.
        fileprivate var lamport: UInt64 = 0
        /// Lamport times of what came beyond a gap.
        fileprivate var ahead: [UInt64: UInt64] = [:]
        /// A promise that counts once all below its number have come.
        fileprivate var promise: (next: UInt64, lamport: UInt64)?
        /// Every message of this life with a Lamport time up to this has come.
        fileprivate(set) var heardPast: UInt64 = 0
        /// Since when something below what is known to exist is missing.
        fileprivate(set) var gapSince: HostTime?
        fileprivate(set) var waitingCount = 0
        fileprivate(set) var waitingBytes = 0
        fileprivate var usedAt = HostTime.distantPast
    }

    struct Waiting: Sendable {
        let position: OrderedPosition
        let message: OrderedMessage
        let since: HostTime
    }

    enum Arrival: Sendable {
        case new
        case duplicate
        case overCap
        /// Another message has this number: its author has signed two.
        case forked
        /// Its Lamport time does not rise with its number.
        case unruly
    }

    private(set) var lives: [ChainKey: Life] = [:]
    /// In order of position.
    private(set) var waiting: [Waiting] = []
    /// The last place that was given out.
    private(set) var lastDelivered: OrderedPosition?
    private var kept: [ChainKey: [UInt64: OrderedMessage]] = [:]
    private var keptOrder: [(key: ChainKey, sequence: UInt64)] = []
    private(set) var keptBytes = 0

    let limits: OrderedLimits

    init(limits: OrderedLimits) { self.limits = limits }

    // MARK: In

    /// A message whose signature was checked.
    mutating func insert(_ message: OrderedMessage, at now: HostTime) -> Arrival {
        let key = message.life
        makeRoom(for: key)
        var life = lives.removeValue(forKey: key) ?? Life()
        defer { lives[key] = life }
        if life.seen.contains(message.sequence) {
            let first = kept[key]?[message.sequence]
            return first == nil || first == message ? .duplicate : .forked
        }
        guard isInOrder(message, life) else { return .unruly }
        guard life.waitingCount < limits.maximumWaiting,
            life.waitingBytes + message.sealed.count <= limits.maximumWaitingBytes
        else { return .overCap }
        life.usedAt = now
        life.seen.insert(message.sequence)
        life.waitingCount += 1
        life.waitingBytes += message.sealed.count
        // What comes after it was given up is late.
        if message.sequence >= life.next { life.ahead[message.sequence] = message.lamport }
        advance(&life, at: now)
        keep(message)
        let position = OrderedPosition(message)
        let place = waiting.partitionPoint { $0.position < position }
        waiting.insert(Waiting(position: position, message: message, since: now), at: place)
        return .new
    }

    /// A Lamport time rises with the number, as far as the neighbours are known.
    private func isInOrder(_ message: OrderedMessage, _ life: Life) -> Bool {
        if message.sequence >= life.next, message.lamport <= life.lamport { return false }
        guard let own = kept[message.life] else { return true }
        if let before = own[message.sequence &- 1], before.lamport >= message.lamport { return false }
        if let after = own[message.sequence &+ 1], after.lamport <= message.lamport { return false }
        return true
    }

    /// What the author says of itself.
    mutating func promise(_ key: ChainKey, next: UInt64, lamport: UInt64, at now: HostTime) {
        makeRoom(for: key)
        var life = lives.removeValue(forKey: key) ?? Life()
        defer { lives[key] = life }
        life.usedAt = now
        if let known = life.promise, known.next > next || known.next == next && known.lamport >= lamport { return }
        life.promise = (next, lamport)
        advance(&life, at: now)
    }

    private func advance(_ life: inout Life, at now: HostTime) {
        while let lamport = life.ahead.removeValue(forKey: life.next) {
            life.lamport = max(life.lamport, lamport)
            life.next += 1
        }
        life.heardPast = max(life.heardPast, life.lamport)
        if let promise = life.promise, promise.next <= life.next {
            life.heardPast = max(life.heardPast, promise.lamport)
            life.promise = nil
        }
        let hasGap = !life.ahead.isEmpty || life.promise != nil
        life.gapSince = hasGap ? life.gapSince ?? now : nil
    }

    /// Gives up what has been missing since before `limit`. Returns how many numbers.
    mutating func giveUpGaps(openSince limit: HostTime, at now: HostTime) -> Int {
        var count = 0
        for (key, life) in lives {
            guard let since = life.gapSince, since <= limit else { continue }
            var life = life
            let end = min(life.ahead.keys.min() ?? .max, life.promise?.next ?? .max)
            guard end > life.next else { continue }
            count += Int(clamping: end - life.next)
            life.next = end
            life.gapSince = nil
            advance(&life, at: now)
            lives[key] = life
        }
        return count
    }

    // MARK: Out

    func heardPast(_ key: ChainKey) -> UInt64 { lives[key]?.heardPast ?? 0 }

    /// Takes the first waiting message out.
    mutating func takeFirst() -> Waiting? {
        guard !waiting.isEmpty else { return nil }
        let first = waiting.removeFirst()
        lives[first.position.life]?.waitingCount -= 1
        lives[first.position.life]?.waitingBytes -= first.message.sealed.count
        lastDelivered = max(lastDelivered ?? first.position, first.position)
        return first
    }

    /// Whether its place was passed already.
    func isLate(_ position: OrderedPosition) -> Bool { lastDelivered.map { position < $0 } ?? false }

    // MARK: For others

    private mutating func keep(_ message: OrderedMessage) {
        kept[message.life, default: [:]][message.sequence] = message
        keptOrder.append((message.life, message.sequence))
        keptBytes += Self.cost(message)
        var surplus = 0
        while keptOrder.count - surplus > limits.maximumKept || keptBytes > limits.maximumKeptBytes {
            let oldest = keptOrder[surplus]
            surplus += 1
            guard let message = kept[oldest.key]?.removeValue(forKey: oldest.sequence) else { continue }
            keptBytes -= Self.cost(message)
            if kept[oldest.key]?.isEmpty == true { kept[oldest.key] = nil }
        }
        keptOrder.removeFirst(surplus)
    }

    private static func cost(_ message: OrderedMessage) -> Int { message.sealed.count + 256 }

    func message(_ key: ChainKey, _ sequence: UInt64) -> OrderedMessage? { kept[key]?[sequence] }

    /// What is kept here and not in `summary`, in total order; of these authors.
    func missing(in summary: OrderedSummary, where isWanted: (PeerID) -> Bool) -> [OrderedPosition] {
        var missing: [OrderedPosition] = []
        for (key, messages) in kept where isWanted(key.author) {
            let runs = summary.lives.first { $0.key == key }?.runs ?? []
            for (sequence, message) in messages where !runs.contains(where: { $0.contains(sequence) }) {
                missing.append(OrderedPosition(message))
            }
        }
        return missing.sorted()
    }

    /// Whether another has had what never came here.
    func lacks(_ summary: OrderedSummary) -> Bool {
        summary.lives.contains { life in
            guard let own = lives[life.key] else { return !life.runs.isEmpty }
            return life.runs.contains { run in
                own.seen.contiguousEnd(from: run.lowerBound).map { $0 < run.upperBound } ?? true
            }
        }
    }

    /// What this node has had, newest lives first where there are too many.
    func summary(asksForAll: Bool) -> OrderedSummary {
        let newest = lives.filter { !$0.value.seen.intervals.isEmpty }
            .sorted { ($1.value.usedAt, $0.key) < ($0.value.usedAt, $1.key) }.prefix(OrderedSummary.maximumLives)
        let entries = newest.map { key, life in
            OrderedSummary.Life(key: key, runs: Array(life.seen.intervals.suffix(OrderedSummary.maximumRuns)))
        }
        return OrderedSummary(asksForAll: asksForAll, lives: entries.sorted { $0.key < $1.key })
    }

    /// A few lives of each author are remembered; of those with nothing waiting the least recently used goes.
    private mutating func makeRoom(for key: ChainKey) {
        guard lives[key] == nil else { return }
        let others = lives.filter { $0.key.author == key.author }
        guard others.count >= limits.maximumLivesPerAuthor else { return }
        let oldest = others.filter { $0.value.waitingCount == 0 }.min {
            ($0.value.usedAt, $0.key) < ($1.value.usedAt, $1.key)
        }
        if let oldest { lives[oldest.key] = nil }
    }
}

/// Bounds of the ordered messages, in messages and bytes.
struct OrderedLimits: Hashable, Sendable {
    /// Of one author's life, waiting for their place.
    var maximumWaiting = 1024
    var maximumWaitingBytes = 4 << 20
    /// Kept for members that lack them, in all.
    var maximumKept = 2048
    var maximumKeptBytes = 8 << 20
    var maximumLivesPerAuthor = 4
}
