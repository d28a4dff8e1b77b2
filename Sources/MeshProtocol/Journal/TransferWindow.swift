import MeshBase
import MeshWire

/// How many chunks may be asked of one peer at once, and how long it may be silent.
///
/// The window follows 1.25 times the product of the measured delivery rate and the least service time, so it grows
/// while the peer answers without queueing and stops growing when chunks begin to wait. Credit follows what arrived
/// after it was asked for, never what a peer claims to hold (AB-29).
struct TransferWindow: Sendable {
    /// When a chunk was asked for and how much the peer had delivered by then.
    struct Ask: Hashable, Sendable {
        var time: HostTime
        var deliveredBytes: UInt64
    }

    /// In chunks.
    private(set) var size: Int
    private(set) var deliveredBytes: UInt64 = 0
    /// Smoothed time from asking to arrival; `nil` before the first chunk.
    private(set) var serviceTime: TimeSpan?
    /// The peer was silent too long: nothing new is asked before this.
    private(set) var restsUntil: HostTime?
    private var variation = TimeSpan.zero
    private var leastServiceTime = TimeSpan.seconds(Int64(3600))
    private var leastServiceTimeAt = HostTime.distantPast
    /// Bytes a second.
    private var rate = 0.0
    private var stallCount = 0
    private var lastProgress = HostTime.distantPast

    init(size: Int) { self.size = size }

    /// Starts the silence clock when nothing was outstanding.
    mutating func ask(at now: HostTime, isFirst: Bool) -> Ask {
        if isFirst { lastProgress = now }
        return Ask(time: now, deliveredBytes: deliveredBytes)
    }

    mutating func chunkArrived(byteCount: Int, ask: Ask, at now: HostTime, configuration: JournalConfiguration) {
        let service = max(now - ask.time, .microseconds(1))
        measure(service, at: now)
        deliveredBytes &+= UInt64(byteCount)
        let sample = Double(deliveredBytes &- ask.deliveredBytes) / service.seconds
        rate = max(sample, rate * 0.98)
        let target = 1.25 * rate * leastServiceTime.seconds / Double(WireLimits.chunkBytes) + 2
        size = min(max(Int(min(target, 1e6)), configuration.initialWindowChunks), configuration.maximumWindowChunks)
        lastProgress = now
        stallCount = 0
        restsUntil = nil
    }

    private mutating func measure(_ service: TimeSpan, at now: HostTime) {
        if service <= leastServiceTime || now - leastServiceTimeAt > .seconds(10) {
            leastServiceTime = service
            leastServiceTimeAt = now
        }
        guard let smoothed = serviceTime else {
            serviceTime = service
            variation = service / 2
            return
        }
        let difference = service - smoothed
        variation = variation + (TimeSpan.nanoseconds(abs(difference.nanoseconds)) - variation) / 4
        serviceTime = smoothed + difference / 8
    }

    /// When a silent peer with chunks outstanding is taken for stalled.
    func stallDeadline(_ configuration: JournalConfiguration) -> HostTime {
        guard let serviceTime else { return lastProgress + configuration.initialStallTimeout }
        let timeout = serviceTime * 4 + variation * 4
        return lastProgress + min(max(timeout, configuration.minimumStallTimeout), configuration.maximumStallTimeout)
    }

    /// The peer is back after a silence: it need not rest for what it missed meanwhile.
    mutating func heardAgain() {
        restsUntil = nil
        stallCount = 0
    }

    /// The peer was silent: it rests, twice as long each time in a row, and then begins with one chunk.
    mutating func stalled(at now: HostTime, configuration: JournalConfiguration) {
        size = 1
        stallCount = min(stallCount + 1, 16)
        let rest = configuration.minimumStallTimeout * Int64(1 << (stallCount - 1))
        restsUntil = now + min(rest, configuration.maximumStallTimeout)
    }
}
