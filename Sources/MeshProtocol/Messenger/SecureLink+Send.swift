import MeshBase
import MeshCrypto
import MeshWire

extension SecureLink {
    /// Datagrams that urgent messages may have in flight beyond the window.
    private static let urgentAllowanceBytes = 65_536

    mutating func enqueue(_ message: OutgoingMessage) throws(CommandError) {
        try queue.enqueue(message)
        messagesSent += 1
    }

    /// Queues what this link carries for others, or for this node's own links through it. False when it is full of such
    /// already, or goes through a member itself.
    mutating func enqueueRelay(_ payload: [UInt8]) -> Bool {
        guard !isRelayed, queue.otherBytes < configuration.relayQueueBytes else { return false }
        let message = OutgoingMessage(channel: .relay, payload: payload, priority: .message, isReliable: false)
        do throws(CommandError) { try queue.enqueue(message) } catch { return false }
        return true
    }

    /// Whether `flush` would find anything to do.
    func wantsFlush(at now: HostTime) -> Bool {
        queue.nextPriority != nil || !pathResponses.isEmpty || spareProbe?.isSent == false || hasControl(at: now)
            || (canProbe && mtu.nextProbeAt.isDue(at: now))
    }

    /// Assembles and seals datagrams until the queues are empty or pacing, congestion or the path says stop. Returns
    /// whether any was made.
    mutating func flush(
        at now: HostTime, random: inout RandomStream, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) -> Bool {
        guard wantsFlush(at: now) else { return false }
        let sentBefore = datagramsSent
        let lateBefore = queue.lateMessages
        defer { statistics.lateMessages += queue.lateMessages - lateBefore }
        isPacingBlocked = false
        updatePacer(at: now)
        sendPathResponses(at: now, random: &random, statistics: &statistics, into: &outbox)
        sendSpareProbe(at: now, statistics: &statistics, into: &outbox)
        sendProbe(at: now, random: &random, statistics: &statistics, into: &outbox)
        while generations[current].canSend {
            let lowest = lowestPriority(at: now)
            guard lowest != nil && queue.nextPriority != nil || hasControl(at: now) else { break }
            guard canSend else { break }
            let sent = sendDatagram(
                through: lowest, at: now, random: &random, statistics: &statistics, into: &outbox)
            guard sent else { break }
            if probeCredits > 0 { probeCredits -= 1 }
        }
        probeCredits = 0
        if queue.nextPriority == nil {
            congestion.noteApplicationLimited(bytesInFlight: detection.bytesInFlight)
        }
        return datagramsSent > sentBefore
    }

    /// The least urgent priority that may send now; `nil` when none may.
    private mutating func lowestPriority(at now: HostTime) -> Priority? {
        guard let next = queue.nextPriority else { return nil }
        let window = congestion.window(roundTrip, datagramBytes: datagramLimit)
        if probeCredits > 0 { return .attachment }
        if detection.bytesInFlight < window {
            if pacer.allows(at: now) { return .attachment }
            isPacingBlocked = true
        }
        // Commands never wait behind bulk that fills the window.
        let isUrgent = next <= .command && detection.bytesInFlight < window + Self.urgentAllowanceBytes
        return isUrgent ? .command : nil
    }

    private func hasControl(at now: HostTime) -> Bool {
        if wantsPing { return true }
        if path.owesChallenge(at: now) { return true }
        for position in generations.indices {
            if generations[position].acknowledgements.isDue { return true }
            if generations[position].acknowledgements.deadline.isDue(at: now) { return true }
        }
        return false
    }

    // MARK: One datagram

    private mutating func sendDatagram(
        through lowest: Priority?, at now: HostTime, random: inout RandomStream,
        statistics: inout LinkTableStatistics, into outbox: inout Outbox<LinkOutput>
    ) -> Bool {
        let allowance = min(datagramLimit, path.allowance)
        let capacity = PaddingPolicy.capacity(of: allowance)
        skipCounterIfDue(at: now, random: &random)
        var bytes = startDatagram(reserving: lowest == nil ? 256 : allowance, at: now)
        var record = SentDatagram(isEliciting: false, bytes: 0, sentAt: now)
        let limit = WireLimits.dataHeaderBytes + capacity
        appendAcknowledgements(to: &bytes, record: &record, limit: limit, at: now)
        if wantsPing {
            Frame.appendPing(to: &bytes)
            wantsPing = false
            record.isEliciting = true
        }
        if let challenge = path.takeChallenge(at: now) {
            Frame.appendPathChallenge(challenge, to: &bytes)
            record.isEliciting = true
        }
        if let lowest {
            let filling = appendMessages(to: &bytes, limit: limit, through: lowest, record: &record, at: now)
            askForFate(of: filling, in: &bytes, record: &record, limit: limit, at: now)
        }
        guard bytes.count > WireLimits.dataHeaderBytes + TimingHeader.byteCount else { return false }
        appendKeepTrackPing(to: &bytes, record: &record, limit: limit, at: now)
        return finish(
            bytes, capacity: capacity, record: record, to: path.address, statistics: &statistics, into: &outbox, at: now
        )
    }

    private mutating func startDatagram(reserving capacity: Int, at now: HostTime) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(capacity)
        DataHeader(receiverIndex: generations[current].remoteIndex, counter: generations[current].nextCounter)
            .encode(into: &bytes)
        timing.header(at: now).encode(into: &bytes)
        return bytes
    }

    private mutating func appendAcknowledgements(
        to bytes: inout [UInt8], record: inout SentDatagram, limit: Int, at now: HostTime
    ) {
        for position in generations.indices where generations[position].acknowledgements.pendingCount > 0 {
            let ranges = generations[position].acknowledgements.ranges
            let room = limit - bytes.count - AcknowledgementFrame.byteCount(ranges: 1)
            guard room >= 0, let newest = ranges.first else { continue }
            let fitting = 1 + room / AcknowledgementFrame.rangeBytes
            let delay = max(.zero, now - generations[position].acknowledgements.largestReceivedAt)
            AcknowledgementFrame.append(
                keyIndex: generations[position].localIndex,
                delayMicroseconds: UInt32(clamping: delay.nanoseconds / 1000), ranges: ranges.prefix(fitting),
                to: &bytes)
            generations[position].acknowledgements.didSend()
            record.acknowledged = (generations[position].localIndex, newest.upperBound)
        }
    }

    private mutating func appendMessages(
        to bytes: inout [UInt8], limit: Int, through lowest: Priority, record: inout SentDatagram, at now: HostTime
    ) -> SendQueue.Filling {
        let emptyRoom = PaddingPolicy.capacity(of: datagramLimit) - TimingHeader.byteCount
        return queue.fill(
            &bytes, limit: limit, emptyRoom: emptyRoom, through: lowest, contents: &record.contents, at: now,
            insurance: insurance)
    }

    /// Only on a path that loses: elsewhere the second copies would be waste.
    private var insurance: LossInsurance? {
        guard detection.hasLost(amongLast: configuration.insuredDatagramsAfterLoss) else { return nil }
        let perDelay = congestion.pacingRate(roundTrip) * configuration.insuranceDelay.seconds
        return LossInsurance(
            delay: configuration.insuranceDelay, maximumBytes: configuration.maximumInsuredBytes,
            budgetBytes: max(WireLimits.baseDatagramBytes, Int(min(perDelay * configuration.insuredShare, 65_536))))
    }

    /// A reliable message asks for an acknowledgement by itself; an unreliable one needs a PING for that. Keep-alives and
    /// clock reports do without, save now and then, so that loss and round trip stay known: acknowledging each would
    /// double the traffic of an idle mesh.
    private mutating func askForFate(
        of filling: SendQueue.Filling, in bytes: inout [UInt8], record: inout SentDatagram, limit: Int, at now: HostTime
    ) {
        let isDue = now - detection.lastElicitingSentAt >= configuration.fleetingPingInterval
        guard filling == .lasting || (filling == .fleeting && isDue) else { return }
        if record.contents.isEmpty, !record.isEliciting, bytes.count + FrameType.headerBytes <= limit {
            Frame.appendPing(to: &bytes)
        }
        record.isEliciting = true
    }

    /// A datagram that only acknowledges is never acknowledged itself, and the ranges would pile up: now and then it
    /// asks for an answer.
    private mutating func appendKeepTrackPing(
        to bytes: inout [UInt8], record: inout SentDatagram, limit: Int, at now: HostTime
    ) {
        guard !record.isEliciting, record.acknowledged != nil, generations[current].acknowledgements.ranges.count >= 8,
            now - lastPingWithAcknowledgement >= max(roundTrip.smoothed ?? .zero, .milliseconds(25)),
            bytes.count + FrameType.headerBytes <= limit
        else { return }
        lastPingWithAcknowledgement = now
        Frame.appendPing(to: &bytes)
        record.isEliciting = true
    }

    /// Pads, seals, books and hands over.
    private mutating func finish(
        _ assembled: consuming [UInt8], capacity: Int, record: SentDatagram, to address: SocketAddress,
        statistics: inout LinkTableStatistics, into outbox: inout Outbox<LinkOutput>, at now: HostTime
    ) -> Bool {
        var bytes = assembled
        var record = record
        let plainBytes = bytes.count - WireLimits.dataHeaderBytes
        let padded = PaddingPolicy.paddedBytes(plainBytes, capacity: capacity)
        bytes.appendZeros(padded - plainBytes + WireLimits.tagBytes)
        guard generations[current].seal(&bytes) else { return false }
        record.bytes = bytes.count
        record.delivery = congestion.mark(at: now, bytesInFlight: detection.bytesInFlight)
        detection.append(record)
        if record.isEliciting, record.probeSize == nil { pacer.spend(bytes.count) }
        if address == path.address { path.didSend(bytes.count) }
        datagramsSent += 1
        bytesSent += UInt64(bytes.count)
        statistics.datagramsSent += 1
        statistics.bytesSent += UInt64(bytes.count)
        lastSentAt = now
        outbox.append(.transmit(OutgoingDatagram(bytes: bytes, destination: address)))
        return true
    }

    private mutating func skipCounterIfDue(at now: HostTime, random: inout RandomStream) {
        guard configuration.counterSkipInterval > 0, detection.nextNumber >= nextSkip,
            generations[current].nextCounter < ReplayWindow.counterLimit - 1
        else { return }
        generations[current].skipCounter()
        detection.appendSkipped(at: now)
        nextSkip = detection.nextNumber + UInt64(1 + random.below(2 * configuration.counterSkipInterval))
    }

    // MARK: Small datagrams of their own

    /// An answer goes to where the challenge came from, whatever the link's address is.
    private mutating func sendPathResponses(
        at now: HostTime, random: inout RandomStream, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) {
        guard !pathResponses.isEmpty else { return }
        let responses = pathResponses
        pathResponses.removeAll(keepingCapacity: true)
        for response in responses where generations[current].canSend {
            var bytes = startDatagram(reserving: 128, at: now)
            Frame.appendPathResponse(response.number, to: &bytes)
            let record = SentDatagram(isEliciting: true, bytes: 0, sentAt: now)
            _ = finish(
                bytes, capacity: PaddingPolicy.capacity(of: WireLimits.baseDatagramBytes), record: record,
                to: response.address, statistics: &statistics, into: &outbox, at: now)
        }
    }

    /// Keeps a way through another member warm: its place there, and the knowledge that it works.
    private mutating func sendSpareProbe(
        at now: HostTime, statistics: inout LinkTableStatistics, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let probe = spareProbe, !probe.isSent, generations[current].canSend else { return }
        spareProbe?.isSent = true
        var bytes = startDatagram(reserving: 128, at: now)
        Frame.appendPathChallenge(probe.number, to: &bytes)
        let record = SentDatagram(isEliciting: true, bytes: 0, sentAt: now)
        _ = finish(
            bytes, capacity: PaddingPolicy.capacity(of: WireLimits.relayedDatagramBytes), record: record,
            to: probe.address, statistics: &statistics, into: &outbox, at: now)
    }

    private mutating func sendProbe(
        at now: HostTime, random: inout RandomStream, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) {
        guard canProbe, canSend, let size = mtu.probeSize(at: now) else { return }
        var bytes = startDatagram(reserving: size, at: now)
        Frame.appendMTUProbe(to: &bytes)
        bytes.appendZeros(size - WireLimits.tagBytes - bytes.count)
        var record = SentDatagram(isEliciting: true, bytes: 0, sentAt: now)
        record.probeSize = size
        mtu.didSendProbe()
        _ = finish(
            bytes, capacity: PaddingPolicy.capacity(of: size), record: record, to: path.address,
            statistics: &statistics, into: &outbox, at: now)
    }

    /// The last datagrams of a link: what is queued above bulk, at most sixteen datagrams of it, then CLOSE twice.
    mutating func sendClose(
        _ code: UInt8, sendsQueue: Bool, at now: HostTime, random: inout RandomStream,
        statistics: inout LinkTableStatistics, into outbox: inout Outbox<LinkOutput>
    ) {
        var remaining = sendsQueue ? 16 : 0
        while remaining > 0, let next = queue.nextPriority, next < .attachment, generations[current].canSend {
            remaining -= 1
            guard sendDatagram(through: .message, at: now, random: &random, statistics: &statistics, into: &outbox)
            else { break }
        }
        // Twice: nothing retransmits it, and a peer that misses it waits for its own failure detection.
        for _ in 0..<2 where generations[current].canSend {
            var bytes = startDatagram(reserving: 128, at: now)
            Frame.appendClose(code, to: &bytes)
            let record = SentDatagram(isEliciting: false, bytes: 0, sentAt: now)
            _ = finish(
                bytes, capacity: PaddingPolicy.capacity(of: WireLimits.baseDatagramBytes), record: record,
                to: path.address, statistics: &statistics, into: &outbox, at: now)
        }
    }
}
