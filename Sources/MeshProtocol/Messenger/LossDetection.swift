import MeshBase

/// One datagram that was sent and whose fate is not settled.
struct SentDatagram: Sendable {
    enum State: UInt8, Sendable {
        case outstanding, acknowledged, lost
        /// A number never used, to catch acknowledgements that are lies (AB-62).
        case skipped
    }

    var state = State.outstanding
    var isEliciting: Bool
    var bytes: Int
    var sentAt: HostTime
    var contents = SentContents()
    /// Size under trial when this was an MTU probe; its loss says nothing about congestion.
    var probeSize: Int?
    /// The acknowledgement it carried: (local key index, largest counter).
    var acknowledged: (keyIndex: UInt32, largest: UInt64)?
    var delivery = DeliveryMark()

    init(isEliciting: Bool, bytes: Int, sentAt: HostTime) {
        self.isEliciting = isEliciting
        self.bytes = bytes
        self.sentAt = sentAt
    }
}

/// All datagrams in flight to one peer, in the order of sending; what is acknowledged and what counts as lost
/// (RFC 9002, section 6: packet threshold and time threshold).
///
/// Numbers go on across a rekey: each key knows its first number. Deviation from the RFC: the packet threshold grows
/// when a datagram that counted as lost is acknowledged after all, as jitter reorders more than three.
struct LossDetection: Sendable {
    private var datagrams: [SentDatagram] = []
    private var head = 0
    /// Number of `datagrams[head]`.
    private var headNumber: UInt64 = 0
    private(set) var bytesInFlight = 0
    private(set) var elicitingInFlight = 0
    private(set) var largestAcknowledged: UInt64?
    private var largestAcknowledgedSentAt: HostTime = .distantPast
    /// Below this number nothing is outstanding.
    private var scanFrom: UInt64 = 0
    private var packetThreshold: UInt64 = 3
    /// When the time threshold strikes next.
    private(set) var lossTime: HostTime?
    /// When the last datagram that asks for an acknowledgement left.
    private(set) var lastElicitingSentAt: HostTime = .distantPast
    private(set) var spurious: UInt64 = 0
    /// Numbers of the two datagrams that were last found lost, the newest first: one may turn out a false alarm.
    private var lastLost: (newest: UInt64?, before: UInt64?)

    private static let maximumPacketThreshold: UInt64 = 64

    var nextNumber: UInt64 { headNumber + UInt64(datagrams.count - head) }

    mutating func append(_ datagram: SentDatagram) {
        if datagram.isEliciting {
            bytesInFlight += datagram.bytes
            elicitingInFlight += 1
            lastElicitingSentAt = datagram.sentAt
        }
        datagrams.append(datagram)
    }

    mutating func appendSkipped(at now: HostTime) {
        var datagram = SentDatagram(isEliciting: false, bytes: 0, sentAt: now)
        datagram.state = .skipped
        datagrams.append(datagram)
    }

    /// Settles the numbers in `range` that are not settled, newest first, into `settled`.
    /// Returns `false` when one of them was never sent.
    mutating func acknowledge(_ range: ClosedRange<UInt64>, into settled: inout [SentDatagram]) -> Bool {
        guard range.upperBound < nextNumber else { return false }
        guard range.upperBound >= headNumber else { return true }
        var number = range.upperBound
        let low = max(range.lowerBound, headNumber)
        while number >= low {
            let index = head + Int(number - headNumber)
            switch datagrams[index].state {
            case .skipped: return false
            case .acknowledged: break
            case .outstanding, .lost: settle(index, number: number, into: &settled)
            }
            if number == 0 { break }
            number -= 1
        }
        return true
    }

    private mutating func settle(_ index: Int, number: UInt64, into settled: inout [SentDatagram]) {
        if datagrams[index].state == .lost {
            spurious += 1
            if lastLost.newest == number { lastLost = (lastLost.before, nil) }
            packetThreshold = min(packetThreshold * 2, Self.maximumPacketThreshold)
        } else {
            leaveFlight(index)
        }
        datagrams[index].state = .acknowledged
        if number >= largestAcknowledged ?? 0 {
            largestAcknowledged = number
            largestAcknowledgedSentAt = datagrams[index].sentAt
        }
        settled.append(datagrams[index])
        datagrams[index].contents = SentContents()
    }

    private mutating func leaveFlight(_ index: Int) {
        guard datagrams[index].isEliciting else { return }
        bytesInFlight -= datagrams[index].bytes
        elicitingInFlight -= 1
    }

    /// Declares lost what acknowledgements of later datagrams prove lost; sets `lossTime` for what is still in doubt.
    mutating func detect(at now: HostTime, lossDelay: TimeSpan, into lost: inout [SentDatagram]) {
        lossTime = nil
        advanceScan()
        guard let largest = largestAcknowledged else { return }
        var number = scanFrom
        while number < largest, number < nextNumber {
            let index = head + Int(number - headNumber)
            if datagrams[index].state == .outstanding {
                let deadline = datagrams[index].sentAt + lossDelay
                if number + packetThreshold <= largest || deadline <= now {
                    declareLost(index, number: number, into: &lost)
                } else {
                    lossTime = lossTime.map { min($0, deadline) } ?? deadline
                }
            }
            number += 1
        }
        advanceScan()
    }

    private mutating func declareLost(_ index: Int, number: UInt64, into lost: inout [SentDatagram]) {
        leaveFlight(index)
        if datagrams[index].isEliciting, datagrams[index].probeSize == nil, lastLost.newest ?? 0 <= number {
            lastLost = (number, lastLost.newest)
        }
        datagrams[index].state = .lost
        lost.append(datagrams[index])
    }

    /// Declares the oldest datagrams that ask for an acknowledgement lost, so that what they carried goes again.
    mutating func declareOldestLost(count: Int, into lost: inout [SentDatagram]) {
        advanceScan()
        var number = scanFrom
        var found = 0
        while number < nextNumber, found < count {
            let index = head + Int(number - headNumber)
            if datagrams[index].state == .outstanding, datagrams[index].isEliciting {
                declareLost(index, number: number, into: &lost)
                found += 1
            }
            number += 1
        }
        advanceScan()
    }

    /// Whether one of the last `count` datagrams was lost.
    func hasLost(amongLast count: UInt64) -> Bool { lastLost.newest.map { nextNumber - $0 <= count } ?? false }

    private mutating func advanceScan() {
        scanFrom = max(scanFrom, headNumber)
        while scanFrom < nextNumber {
            let datagram = datagrams[head + Int(scanFrom - headNumber)]
            // What asks for nothing is settled by itself: it will seldom be acknowledged.
            guard datagram.state != .outstanding || !datagram.isEliciting else { break }
            scanFrom += 1
        }
    }

    /// Forgets settled datagrams at the front; what was lost is remembered until `before`, to learn of false alarms.
    mutating func forget(sentBefore before: HostTime) {
        while head < datagrams.count {
            let datagram = datagrams[head]
            switch datagram.state {
            case .acknowledged, .skipped: break
            case .lost: guard datagram.sentAt < before else { return compact() }
            case .outstanding: guard !datagram.isEliciting, datagram.sentAt < before else { return compact() }
            }
            head += 1
            headNumber += 1
        }
        compact()
    }

    private mutating func compact() {
        if head == datagrams.count {
            datagrams.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 512, head * 2 > datagrams.count {
            datagrams.removeFirst(head)
            head = 0
        }
    }

    /// Forgets the fate of everything: the peer began anew and will acknowledge none of it.
    mutating func abandonAll() {
        headNumber = nextNumber
        datagrams.removeAll(keepingCapacity: true)
        head = 0
        bytesInFlight = 0
        elicitingInFlight = 0
        lossTime = nil
        scanFrom = headNumber
    }
}
