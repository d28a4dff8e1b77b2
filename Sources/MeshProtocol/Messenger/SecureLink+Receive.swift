import MeshBase
import MeshCrypto
import MeshWire

extension SecureLink {
    enum Reception: Hashable {
        /// `probesOnly`: it holds challenges and answers to them and nothing else.
        case accepted(probesOnly: Bool)
        case replay, badTag
        /// Keys that are gone.
        case unknownIndex
        case closedByPeer
        /// Authentic, and against the protocol.
        case violation
    }

    /// Opens one DATA datagram in place and takes its frames.
    mutating func receive(
        _ datagram: inout MutableSpan<UInt8>, header: DataHeader, from source: SocketAddress, receivedAt: HostTime,
        at now: HostTime, random: inout RandomStream, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) -> Reception {
        guard let position = generationPosition(localIndex: header.receiverIndex) else { return .unknownIndex }
        let byteCount = datagram.count
        switch generations[position].open(&datagram, counter: header.counter) {
        case .replay: return .replay
        case .badTag: return .badTag
        case .opened: break
        }
        let isNewest = noteHeard(byteCount, counter: header.counter, generation: position, at: now)
        let plain = datagram.span.extracting(WireLimits.dataHeaderBytes..<(byteCount - WireLimits.tagBytes))
        do throws(WireError) {
            let contents = try takePlain(
                plain, header: header, position: position, isNewest: isNewest, from: source, receivedAt: receivedAt,
                at: now, statistics: &statistics, into: &outbox)
            if isNewest, contents == .accepted(probesOnly: false) {
                follow(source, bytes: byteCount, random: &random, at: now)
            }
            return contents
        } catch {
            return .violation
        }
    }

    /// The peer's newest datagram came from there. One that only asks or answers whether a path works moves nothing: so
    /// a spare path is kept warm (RFC 9000, section 9.1).
    private mutating func follow(
        _ source: SocketAddress, bytes: Int, random: inout RandomStream, at now: HostTime
    ) {
        guard source != path.address || !path.isValidated else { return }
        path.heardNewest(from: source, bytes: bytes, challenge: random.uint64(), at: now)
        noteAddress()
    }

    /// Returns whether this is the newest datagram of the peer.
    private mutating func noteHeard(
        _ byteCount: Int, counter: UInt64, generation position: Int, at now: HostTime
    ) -> Bool {
        datagramsReceived += 1
        bytesReceived += UInt64(byteCount)
        listenedFor = listenedFor + min(now - lastHeardAt, .seconds(1))
        lastHeardAt = max(lastHeardAt, now)
        expireMessages()
        if position != current, generations[position].retiresAt == nil, !generations[position].isActivated {
            // The peer has the keys that this side made and kept back until now.
            activate(position, at: now)
        }
        return position == current && generations[position].window.next == counter + 1
    }

    /// Once per second of listening is fine enough for a life of ten.
    private mutating func expireMessages() {
        guard listenedFor - expiredAt >= .seconds(1) else { return }
        expiredAt = listenedFor
        reassembler.expire(listenedFor: listenedFor)
    }

    private mutating func takePlain(
        _ plain: Span<UInt8>, header: DataHeader, position: Int, isNewest: Bool, from source: SocketAddress,
        receivedAt: HostTime, at now: HostTime, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) throws(WireError) -> Reception {
        var offset = 0
        let timingHeader = try TimingHeader(decoding: plain, at: &offset)
        if let sample = timing.receive(
            timingHeader, keyIndex: header.receiverIndex, counter: header.counter, isNewest: isNewest,
            receivedAt: receivedAt)
        {
            outbox.append(.clockSample(peer, sample))
        }
        var isEliciting = false
        var isProbe = false
        var isMore = false
        while let frame = try Frame.next(in: plain, at: &offset) {
            switch frame {
            case .pathChallenge, .pathResponse: isProbe = true
            default: isMore = true
            }
            switch frame {
            case .acknowledgement(let acknowledgement):
                guard take(acknowledgement, receivedAt: receivedAt, at: now) else { return .violation }
                let receipts = queue.takeReceipts()
                if !receipts.isEmpty { outbox.append(.received(receipts, by: peer)) }
                continue
            case .close:
                return .closedByPeer
            case .ping, .mtuProbe:
                break
            case .pathChallenge(let number):
                takeChallenge(number, from: source, statistics: &statistics)
            case .pathResponse(let number):
                takeResponse(number, from: source, at: now, into: &outbox)
            case .message(let message):
                take(
                    message, plain: plain, position: position, receivedAt: receivedAt, statistics: &statistics,
                    into: &outbox)
                // A sender that wants to know the fate of an unreliable message says PING beside it.
                if message.messageID == nil { continue }
            case .fragment(let fragment):
                take(fragment, plain: plain, position: position, statistics: &statistics, into: &outbox)
            case .unknown:
                statistics.skippedFrames += 1
            }
            isEliciting = true
        }
        generations[position].acknowledgements.note(
            header.counter, isEliciting: isEliciting, receivedAt: receivedAt, at: now, delay: acknowledgementDelay)
        return .accepted(probesOnly: isProbe && !isMore)
    }

    // MARK: Acknowledgements

    /// `false` when it names a counter that was never used: a lie that would inflate the rate (AB-62).
    private mutating func take(
        _ frame: AcknowledgementFrame, receivedAt: HostTime, at now: HostTime
    ) -> Bool {
        // Keys that are gone already: their datagrams are settled.
        guard let generation = generations.first(where: { $0.remoteIndex == frame.keyIndex }) else { return true }
        settledScratch.removeAll(keepingCapacity: true)
        var largest: UInt64 = 0
        for counters in frame.ranges {
            guard let numbers = generation.numbers(of: counters) else { return false }
            guard detection.acknowledge(numbers, into: &settledScratch) else { return false }
            largest = max(largest, numbers.upperBound)
        }
        guard !settledScratch.isEmpty else { return true }
        measureRoundTrip(frame, isLargestNew: detection.largestAcknowledged == largest, receivedAt: receivedAt, at: now)
        settle(receivedAt: receivedAt, at: now)
        return true
    }

    private mutating func measureRoundTrip(
        _ frame: AcknowledgementFrame, isLargestNew: Bool, receivedAt: HostTime, at now: HostTime
    ) {
        guard isLargestNew, let newest = settledScratch.first, newest.isEliciting, newest.state != .lost else { return }
        let delay = min(
            TimeSpan.microseconds(Int64(frame.delayMicroseconds)), configuration.maximumAcknowledgementDelay)
        roundTrip.measure(receivedAt - newest.sentAt, acknowledgementDelay: delay, at: now)
    }

    private mutating func settle(receivedAt: HostTime, at now: HostTime) {
        probeTimeouts = 0
        for datagram in settledScratch {
            if let size = datagram.probeSize {
                mtu.probeAcknowledged(size: size, at: now)
            } else if datagram.isEliciting {
                mtu.acknowledged(datagramBytes: datagram.bytes)
            }
            if let told = datagram.acknowledged, let position = generationPosition(localIndex: told.keyIndex) {
                generations[position].acknowledgements.prune(through: told.largest)
            }
            if let first = datagram.contents.first { queue.acknowledge(first) }
            for content in datagram.contents.more { queue.acknowledge(content) }
        }
        congestion.acknowledged(
            settledScratch, roundTrip: &roundTrip, bytesInFlight: detection.bytesInFlight,
            datagramBytes: datagramLimit, at: receivedAt)
        detectLosses(at: now)
        detection.forget(sentBefore: now - (roundTrip.smoothed ?? configuration.initialRoundTrip) * 2)
        updatePacer(at: now)
    }

    // MARK: Path

    private mutating func takeChallenge(
        _ number: UInt64, from source: SocketAddress, statistics: inout LinkTableStatistics
    ) {
        guard pathResponses.count < configuration.maximumPathResponses else {
            statistics.ignoredPathChallenges += 1
            return
        }
        pathResponses.append((number, source))
    }

    private mutating func takeResponse(
        _ number: UInt64, from source: SocketAddress, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        if spareProbe?.number == number, spareProbe?.address == source { spareProbe?.isAnswered = true }
        guard path.receiveResponse(number, from: source) else { return }
        noteAddress()
        resetPath(at: now)
        updatePacer(at: now)
        outbox.append(.moved(peer, source))
    }

    // MARK: Messages

    private mutating func take(
        _ frame: MessageFrame, plain: Span<UInt8>, position: Int, receivedAt: HostTime,
        statistics: inout LinkTableStatistics, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let channel = Channel(rawValue: frame.channel) else {
            statistics.unknownChannels += 1
            return
        }
        if let messageID = frame.messageID {
            guard isNew(messageID, position: position, statistics: &statistics) else { return }
            reassembler.discard(messageID)
            receivedIDs.mark(messageID & 0xff_ffff_ffff)
        }
        let payload = [UInt8](copying: plain.extracting(frame.payload))
        if channel == .relay { return outbox.append(.relayMessage(payload, from: peer, receivedAt: receivedAt)) }
        messagesReceived += 1
        outbox.append(.message(channel, payload, from: peer))
    }

    private mutating func take(
        _ frame: FragmentFrame, plain: Span<UInt8>, position: Int, statistics: inout LinkTableStatistics,
        into outbox: inout Outbox<LinkOutput>
    ) {
        guard let channel = Channel(rawValue: frame.channel) else {
            statistics.unknownChannels += 1
            return
        }
        guard isNew(frame.messageID, position: position, statistics: &statistics) else { return }
        let abandoned = reassembler.abandoned
        switch reassembler.insert(frame, data: plain.extracting(frame.payload), listenedFor: listenedFor) {
        case .stored: break
        case .refused: statistics.refusedFragments += 1
        case .complete(let bytes):
            receivedIDs.mark(frame.messageID & 0xff_ffff_ffff)
            messagesReceived += 1
            outbox.append(.message(channel, bytes, from: peer))
        }
        statistics.abandonedMessages += reassembler.abandoned - abandoned
    }

    /// Whether a message of this id was not delivered yet. A new epoch of the peer's queue begins a new window; only the
    /// present keys may say so, or a late datagram would throw it back.
    private mutating func isNew(
        _ messageID: UInt64, position: Int, statistics: inout LinkTableStatistics
    ) -> Bool {
        let epoch = messageID >> 40
        if epoch != receivedEpoch {
            guard receivedEpoch == nil || position == current else {
                statistics.duplicateMessages += 1
                return false
            }
            receivedEpoch = epoch
            receivedIDs = ReplayWindow()
            reassembler.removeAll()
        }
        guard receivedIDs.check(messageID & 0xff_ffff_ffff) == .accept else {
            statistics.duplicateMessages += 1
            return false
        }
        return true
    }
}
