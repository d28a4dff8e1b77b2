import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct ReplayWindowTests {
    @Test func `AB-43 AB-44 all 48 sequences of the shared vectors come out as they must`() throws {
        let cases = try #require(try LinkVectors.load("replay/window_cases.json")["cases"]?.arrayValue)
        #expect(cases.count == 48)
        for item in cases {
            let name = item["name"]?.stringValue ?? "?"
            let size = Int(try #require(item["window"]?.integerValue))
            var window = ReplayWindow(bitCount: size + 64)
            for (position, step) in (item["steps"]?.arrayValue ?? []).enumerated() {
                let values = try #require(step.arrayValue)
                let counter = try #require(UInt64(values[0].stringValue ?? ""))
                let outcome = outcome(&window, counter, isAuthentic: values[1].integerValue == 1)
                #expect(outcome == values[2].stringValue, "\(name), step \(position), counter \(counter)")
            }
        }
    }

    private func outcome(_ window: inout ReplayWindow, _ counter: UInt64, isAuthentic: Bool) -> String {
        switch window.check(counter) {
        case .limit: return isAuthentic ? "reject-limit" : "reject-auth"
        case .old: return isAuthentic ? "reject-old" : "reject-auth"
        case .replay: return isAuthentic ? "reject-replay" : "reject-auth"
        case .accept:
            guard isAuthentic else { return "reject-auth" }
            window.mark(counter)
            return "accept"
        }
    }
}

@Suite struct AcknowledgementsTests {
    private func note(_ tracker: inout Acknowledgements, _ counter: UInt64) {
        tracker.note(counter, isEliciting: true, receivedAt: .zero, at: .zero, delay: .milliseconds(25))
    }

    @Test func `AB-28 every second counter 10 000 times keeps 64 ranges, the newest`() {
        var tracker = Acknowledgements()

        for counter in 0..<10_000 as Range<UInt64> { note(&tracker, counter * 2) }

        #expect(tracker.ranges.count == 64)
        #expect(tracker.ranges.first == 19_998...19_998)
        #expect(tracker.ranges.last == 19_872...19_872)
    }

    @Test func `ranges merge whatever the order of arrival`() {
        var generator = RandomStream(testSeed: 4)
        for _ in 0..<20 {
            var tracker = Acknowledgements()
            var counters = Array(0..<50 as Range<UInt64>)
            for index in counters.indices.reversed() { counters.swapAt(index, generator.below(index + 1)) }
            for counter in counters.prefix(40) { note(&tracker, counter) }
            let held = Set(counters.prefix(40))
            #expect(Set(tracker.ranges.flatMap(Array.init)) == held)
            for (above, below) in zip(tracker.ranges, tracker.ranges.dropFirst()) {
                #expect(below.upperBound + 1 < above.lowerBound)
            }
            for counter in counters { note(&tracker, counter) }
            #expect(tracker.ranges == [0...49])
        }
    }

    @Test func `the second datagram or one out of order is acknowledged at once, a single one after the delay`() {
        var tracker = Acknowledgements()
        note(&tracker, 0)
        #expect(!tracker.isDue)
        #expect(tracker.deadline == HostTime.zero + .milliseconds(25))
        note(&tracker, 1)
        #expect(tracker.isDue)
        tracker.didSend()
        #expect(tracker.deadline == nil)
        note(&tracker, 5)
        #expect(tracker.isDue)
    }

    @Test func `what the peer knows we told is not told again`() {
        var tracker = Acknowledgements()
        for counter in [0, 1, 4, 5, 9] as [UInt64] { note(&tracker, counter) }
        tracker.prune(through: 4)
        #expect(tracker.ranges == [9...9, 5...5])
    }
}

@Suite struct ReassemblerTests {
    private func fragment(
        _ id: UInt64, _ slot: Int, _ total: Int, _ data: [UInt8], isReliable: Bool
    ) throws -> (FragmentFrame, [UInt8]) {
        let bytes = LinkPipe.fragment(id: id, slot: slot, total: total, reliable: isReliable, data: data)
        var position = 0
        guard case .fragment(let frame) = try Frame.next(in: bytes.span, at: &position) else {
            throw WireError.invalidValue
        }
        return (frame, Array(bytes[frame.payload]))
    }

    private func insert(
        _ reassembler: inout Reassembler, _ id: UInt64, _ slot: Int, _ total: Int, _ data: [UInt8],
        isReliable: Bool = true, at time: TimeSpan = .zero
    ) throws -> Reassembler.Outcome {
        let (frame, data) = try fragment(id, slot * Self.slotsPerPiece, total, data, isReliable: isReliable)
        return reassembler.insert(frame, data: data.span, listenedFor: time)
    }

    /// The tests cut at every 1,024 bytes, and number the pieces.
    private static let slotsPerPiece = 1024 / WireLimits.fragmentSlotBytes
    private let slotBytes = [UInt8](repeating: 1, count: 1024)

    @Test func `a set of slots answers like a set, whatever the order of its runs`() {
        var generator = RandomStream(testSeed: 4)
        for _ in 0..<200 {
            var (slots, wanted) = (SlotSet(), Set<Int>())
            for _ in 0..<40 {
                let start = generator.below(100)
                let range = start..<(start + 1 + generator.below(generator.below(3) == 0 ? 30 : 3))
                slots.insert(range)
                wanted.formUnion(range)
            }
            #expect(slots.count == wanted.count)
            for slot in 0..<140 {
                #expect(slots.contains(slot) == wanted.contains(slot))
                #expect(
                    slots.firstMissing(from: slot, limit: 120)
                        == ((slot..<max(slot, 120)).first { !wanted.contains($0) } ?? 120))
                #expect(
                    slots.firstContained(from: slot, limit: 120)
                        == ((slot..<max(slot, 120)).first { wanted.contains($0) } ?? 120))
            }
        }
    }

    @Test func `slots in any order, alone and in runs, with repetitions, make the message`() throws {
        var generator = RandomStream(testSeed: 9)
        for _ in 0..<30 {
            let total = 1 + generator.below(20_000)
            let message = generator.bytes(total)
            var reassembler = Reassembler(configuration: LinkConfiguration())
            var result: [UInt8]?
            for _ in 0..<2000 where result == nil {
                let slots = (total + 1023) / 1024
                let first = generator.below(slots)
                let last = min(slots, first + 1 + generator.below(4))
                let data = Array(message[first * 1024..<min(total, last * 1024)])
                if case .complete(let bytes) = try insert(&reassembler, 1, first, total, data) { result = bytes }
            }
            #expect(result == message)
            #expect(reassembler.heldBytes == 0)
        }
    }

    @Test(arguments: [(true, 64, 4 << 20), (false, 16, 1 << 20)])
    func `AB-21 odd fragments of 1000 messages hold at most 64 messages and 4 MiB, or 16 and 1 MiB of unreliable ones`(
        isReliable: Bool, count: Int, byteCount: Int
    ) throws {
        var reassembler = Reassembler(configuration: LinkConfiguration())
        for id in 0..<1000 as Range<UInt64> {
            for slot in stride(from: 1, to: 255, by: 2) {
                _ = try insert(&reassembler, id, slot, 262_144, slotBytes, isReliable: isReliable)
                #expect(reassembler.openCount <= count)
                #expect(reassembler.heldBytes <= byteCount)
            }
            if id > 70 { break }
        }
        #expect(reassembler.abandoned > 0)
        reassembler.expire(listenedFor: .seconds(11))
        #expect((reassembler.openCount == 0) == !isReliable, "unreliable ones go after 10 s")
    }

    @Test func `acknowledged pieces of a reliable message outlast any number of unreliable ones and any silence`()
        throws
    {
        var reassembler = Reassembler(configuration: LinkConfiguration())
        _ = try insert(&reassembler, 1, 0, 2048, slotBytes)
        for id in 2..<500 as Range<UInt64> {
            for slot in 0..<200 { _ = try insert(&reassembler, id, slot, 262_144, slotBytes, isReliable: false) }
        }
        reassembler.expire(listenedFor: .seconds(3_600))

        guard case .complete(let bytes) = try insert(&reassembler, 1, 1, 2048, slotBytes, at: .seconds(3_600)) else {
            Issue.record("a reliable message was lost")
            return
        }
        #expect(bytes.count == 2048)
    }

    @Test func `AB-19 AB-29 a huge declared size with one slot holds one slot`() throws {
        var reassembler = Reassembler(configuration: LinkConfiguration())
        _ = try insert(&reassembler, 1, 255, WireLimits.maximumLinkMessageBytes, slotBytes)
        #expect(reassembler.heldBytes == 1024)
        _ = try insert(&reassembler, 1, 255, WireLimits.maximumLinkMessageBytes, slotBytes)
        #expect(reassembler.heldBytes == 1024)
    }

    @Test func `AB-24 another total, channel or kind for the same id drops the message`() throws {
        var reassembler = Reassembler(configuration: LinkConfiguration())
        _ = try insert(&reassembler, 1, 0, 4096, slotBytes)
        guard case .refused = try insert(&reassembler, 1, 1, 5000, slotBytes) else {
            Issue.record("another size was taken")
            return
        }
        #expect(reassembler.openCount == 0)
        // The rest of a dropped message does not open it again.
        _ = try insert(&reassembler, 1, 2, 4096, slotBytes)
        #expect(reassembler.openCount == 0)
    }

    @Test func `AB-25 the same slot with other bytes drops the message, with the same bytes it is ignored`() throws {
        var reassembler = Reassembler(configuration: LinkConfiguration())
        _ = try insert(&reassembler, 1, 2, 4096, slotBytes)
        _ = try insert(&reassembler, 1, 2, 4096, slotBytes)
        #expect(reassembler.openCount == 1)
        guard case .refused = try insert(&reassembler, 1, 2, 4096, [UInt8](repeating: 2, count: 1024)) else {
            Issue.record("other bytes were taken")
            return
        }
        #expect(reassembler.openCount == 0)
    }
}

@Suite struct LinkPartTests {
    @Test func `sizes on the wire are classes`() {
        let capacity = PaddingPolicy.capacity(of: 1232)
        #expect(PaddingPolicy.paddedBytes(1, capacity: capacity) == 16)
        #expect(PaddingPolicy.paddedBytes(97, capacity: capacity) == 112)
        #expect(PaddingPolicy.paddedBytes(129, capacity: capacity) == 256)
        #expect(PaddingPolicy.paddedBytes(257, capacity: capacity) == 512)
        #expect(PaddingPolicy.paddedBytes(513, capacity: capacity) == 1024)
        #expect(PaddingPolicy.paddedBytes(1025, capacity: capacity) == capacity)
        #expect(PaddingPolicy.paddedBytes(1300, capacity: 30_000) == capacity + 1024)
        #expect(PaddingPolicy.paddedBytes(29_990, capacity: 30_000) == 30_000)
    }

    @Test func `a pacer lets a burst through and then its rate`() {
        var pacer = Pacer(bytesPerSecond: 1_000_000, datagramBytes: 1000)
        var now = HostTime(nanoseconds: 1)
        var sent = 0
        let end = now + .seconds(1)
        while now < end {
            while pacer.allows(at: now) {
                pacer.spend(1000)
                sent += 1000
            }
            now = max(pacer.nextTime(from: now), now + .microseconds(1))
        }
        #expect(sent > 980_000 && sent < 1_030_000)
    }

    @Test func `AB-59 only an acknowledged probe raises the size, and silence brings it back to 1232 and not below`() {
        var mtu = PathMTU(configuration: LinkConfiguration(), address: .ipv4(192, 0, 2, 1, port: 1), at: .zero)
        #expect(mtu.current == 1232)
        #expect(mtu.probeSize(at: .zero) == 1452)
        mtu.didSendProbe()
        #expect(mtu.current == 1232)
        mtu.probeAcknowledged(size: 1452, at: .zero)
        #expect(mtu.current == 1452)
        for _ in 0..<100 { _ = mtu.lost(datagramBytes: 1232, at: .zero) }
        #expect(mtu.current == 1452)
        for _ in 0..<100 { _ = mtu.lost(datagramBytes: 1452, at: .zero) }
        #expect(mtu.current == 1232)
    }

    @Test func `a probe that finds no way is tried three times and then left alone`() {
        var mtu = PathMTU(configuration: LinkConfiguration(), address: .ipv4(192, 0, 2, 1, port: 1), at: .zero)
        var now = HostTime.zero
        for _ in 0..<3 {
            #expect(mtu.probeSize(at: now) == 1452)
            mtu.didSendProbe()
            mtu.probeLost(at: now, roundTrip: .milliseconds(10))
            now = now + .milliseconds(10)
        }
        #expect(mtu.probeSize(at: now) == nil)
        #expect(mtu.nextProbeAt.map { $0 > now + .seconds(500) } == true)
    }

    @Test func `a probe timeout has no floor of 200 ms`() {
        var roundTrip = RoundTrip()
        for _ in 0..<20 { roundTrip.measure(.microseconds(200), acknowledgementDelay: .zero, at: .zero) }
        #expect(
            roundTrip.probeTimeout(acknowledgementDelay: .milliseconds(2), initial: .milliseconds(100))
                < .milliseconds(5))
    }

    @Test func `a queue that is full refuses the newest, and bulk has its own bound`() throws {
        var configuration = LinkConfiguration()
        configuration.maximumQueueBytes = 1000
        configuration.maximumAttachmentQueueBytes = 2000
        var queue = SendQueue(epoch: 1, configuration: configuration)
        let message = { (priority: Priority) in
            OutgoingMessage(
                channel: .gossip, payload: [UInt8](repeating: 0, count: 300), priority: priority, isReliable: true)
        }
        try queue.enqueue(message(.command))
        try queue.enqueue(message(.message))
        #expect(throws: CommandError.queueFull(limit: 1000)) { try queue.enqueue(message(.clock)) }
        for _ in 0..<4 { try queue.enqueue(message(.attachment)) }
        #expect(throws: CommandError.queueFull(limit: 2000)) { try queue.enqueue(message(.attachment)) }
        #expect(queue.bytes == 6 * 428)
    }

    @Test func `load is measured in the present second and the one before`() {
        var meter = LoadMeter(limitPerSecond: 2)
        let times: [TimeSpan] = [.zero, .zero, .zero, .seconds(1), .seconds(4)]
        let answers = times.map { meter.note(at: .zero + $0) }
        #expect(answers == [false, false, true, true, false])
    }
}
