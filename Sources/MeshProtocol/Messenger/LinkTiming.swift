import MeshBase
import MeshWire

/// Makes clock samples from the timing headers of both directions.
///
/// A sample waits for the next datagram of the peer, which says how late the one before really left; when that is not
/// the very next one, the sample goes out as stated.
struct LinkTiming: Sendable {
    private struct Stamp: Sendable {
        var stated: Int64
        var lateness: TimeSpan?
    }

    /// Send times of the last flushes, oldest overwritten: echoes are only believed when they are here.
    private var stamps: [Stamp] = []
    private var nextStamp = 0
    private var newestSendTime: Int64 = 0
    private var newestReceivedAt: HostTime = .distantPast
    private var lastEcho: Int64 = 0
    private var waiting: (sample: ClockSample, keyIndex: UInt32, counter: UInt64)?
    private var previousLateness = TimingHeader.unknown

    private static let stampCount = 128

    // MARK: Sending

    /// The header of a datagram that leaves at `now`.
    mutating func header(at now: HostTime) -> TimingHeader {
        let lateness = previousLateness
        previousLateness = TimingHeader.unknown
        note(now)
        guard newestSendTime != 0 else {
            return TimingHeader(
                sendTime: now.nanoseconds, echoSendTime: 0, hold: TimingHeader.unknown, previousLateness: lateness)
        }
        return TimingHeader(
            sendTime: now.nanoseconds, echoSendTime: newestSendTime, hold: TimingHeader.field(now - newestReceivedAt),
            previousLateness: lateness)
    }

    private mutating func note(_ now: HostTime) {
        guard stamps.isEmpty || stamps[lastStamp].stated != now.nanoseconds else { return }
        if stamps.count < Self.stampCount {
            stamps.append(Stamp(stated: now.nanoseconds))
        } else {
            stamps[nextStamp] = Stamp(stated: now.nanoseconds)
        }
        nextStamp = (nextStamp + 1) % Self.stampCount
    }

    private var lastStamp: Int { (nextStamp + Self.stampCount - 1) % Self.stampCount }

    /// The datagrams of the last flush left at `actual`.
    mutating func didTransmit(at actual: HostTime) {
        guard !stamps.isEmpty else { return }
        let lateness = actual - HostTime(nanoseconds: stamps[lastStamp].stated)
        stamps[lastStamp].lateness = lateness
        previousLateness = TimingHeader.field(lateness)
    }

    // MARK: Receiving

    /// Takes the header of an authentic datagram; returns a sample that is ready.
    mutating func receive(
        _ header: TimingHeader, keyIndex: UInt32, counter: UInt64, isNewest: Bool, receivedAt: HostTime
    ) -> ClockSample? {
        let ready = finishWaiting(header, keyIndex: keyIndex, counter: counter)
        guard isNewest else { return ready }
        newestSendTime = header.sendTime
        newestReceivedAt = receivedAt
        if let sample = sample(header, receivedAt: receivedAt) {
            lastEcho = header.echoSendTime
            waiting = (sample, keyIndex, counter)
        }
        return ready
    }

    private mutating func finishWaiting(_ header: TimingHeader, keyIndex: UInt32, counter: UInt64) -> ClockSample? {
        guard var finished = waiting else { return nil }
        // An older datagram that comes late says nothing about the one that waits.
        guard keyIndex != finished.keyIndex || counter > finished.counter else { return nil }
        waiting = nil
        if keyIndex == finished.keyIndex, counter == finished.counter &+ 1,
            header.previousLateness != TimingHeader.unknown
        {
            finished.sample.sentThere =
                finished.sample.sentThere + .nanoseconds(Int64(header.previousLateness))
        }
        return finished.sample
    }

    private func sample(_ header: TimingHeader, receivedAt: HostTime) -> ClockSample? {
        guard header.echoSendTime != 0, header.echoSendTime != lastEcho, header.hold != TimingHeader.unknown else {
            return nil
        }
        guard let stamp = stamps.last(where: { $0.stated == header.echoSendTime }) else { return nil }
        let sentHere = HostTime(nanoseconds: stamp.stated) + (stamp.lateness ?? .zero)
        let sentThere = HostTime(nanoseconds: header.sendTime)
        let hold = TimeSpan.nanoseconds(Int64(header.hold))
        // A hold longer than the whole exchange is a lie or a suspended machine.
        guard receivedAt - sentHere >= hold else { return nil }
        return ClockSample(
            sentHere: sentHere, receivedThere: sentThere - hold, sentThere: sentThere, receivedHere: receivedAt)
    }
}
