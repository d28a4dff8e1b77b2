import MeshBase
import MeshCrypto
import MeshSystem
import MeshTestKit
import Testing

/// The simulator's own parts: a test kit that lies proves nothing.
struct TestKitTests {
    private final class Log: Sendable {
        private let lines = Lock<[String]>([])
        func add(_ line: String) { lines.withLock { $0.append(line) } }
        var all: [String] { lines.withLock { $0 } }
    }

    @Test func `things happen in order of time, and of scheduling within one instant`() {
        let time = SimulatedTime(startingAt: 0)
        let log = Log()
        for (name, instant) in [("c", 30), ("a", 10), ("b1", 20), ("b2", 20)] as [(String, Int64)] {
            time.schedule(at: instant) { log.add(name) }
        }

        while let next = time.next {
            time.advance(to: next)
            while time.runNextDue() {}
        }

        #expect(log.all == ["a", "b1", "b2", "c"])
        #expect(time.now == 30)
    }

    private func deliveries(
        _ conditions: PathConditions, seed: UInt64 = 1, count: Int = 2000,
        prepare: (SimulatedNetwork) -> Void = { _ in }
    ) -> (received: [[UInt8]], network: SimulatedNetwork, sender: SimulatedTransport) {
        let time = SimulatedTime()
        let network = SimulatedNetwork(seed: seed, time: time)
        let clock = SimulatedClock(time: time)
        let sender = SimulatedTransport(network: network, host: 0, clock: clock)
        let receiver = SimulatedTransport(network: network, host: 1, clock: clock)
        network.setConditions(conditions)
        prepare(network)
        var received: [[UInt8]] = []
        for number in 0..<count {
            let bytes = [UInt8(number & 255), UInt8(number >> 8), 7, 7, 7, 7, 7, 7]
            _ = sender.send([TransportDatagram(bytes: bytes, destination: receiver.address)])
            time.advance(to: time.now + 1_000_000)
            while time.runNextDue() {}
            _ = receiver.receive(limit: 1000) { span, _, _ in received.append(copied(span)) }
        }
        time.advance(to: time.now + 1_000_000_000)
        while time.runNextDue() {}
        _ = receiver.receive(limit: 1000) { span, _, _ in received.append(copied(span)) }
        return (received, network, sender)
    }

    @Test func `a quiet path delivers everything, in order and unharmed`() {
        let result = deliveries(PathConditions(delay: .milliseconds(3), jitter: .zero))

        #expect(result.received.count == 2000)
        #expect(result.received.enumerated().allSatisfy { $1[0] == UInt8($0 & 255) && $1[1] == UInt8($0 >> 8) })
    }

    @Test func `loss, duplication, reordering and corruption happen as often as told`() {
        let lossy = deliveries(PathConditions(jitter: .zero, loss: 0.3))
        #expect((520...680).contains(2000 - lossy.received.count))
        #expect(lossy.network.statistics.lostDatagrams == UInt64(2000 - lossy.received.count))

        let double = deliveries(PathConditions(jitter: .zero, duplication: 0.1))
        #expect((140...260).contains(double.received.count - 2000))

        let shuffled = deliveries(PathConditions(jitter: .zero, reordering: 0.1))
        let numbers = shuffled.received.map { Int($0[0]) | Int($0[1]) << 8 }
        #expect(zip(numbers, numbers.dropFirst()).contains { $0 > $1 })
        #expect(numbers.sorted() == Array(0..<2000))

        let damaged = deliveries(PathConditions(jitter: .zero, corruption: 0.1))
        let harmed = damaged.received.count { $0.count != 8 || $0.dropFirst(2).contains { $0 != 7 } }
        #expect(harmed > 80 && damaged.network.statistics.corruptedDatagrams < 260)
    }

    @Test func `cuts, partitions and tunnels that are too narrow let nothing pass until they heal`() {
        let cut = deliveries(.lan, count: 10) { $0.cut(0, 1) }
        #expect(cut.received.isEmpty && cut.network.statistics.cutDatagrams == 10)
        let split = deliveries(.lan, count: 10) { $0.partition([[0]]) }
        #expect(split.received.isEmpty)
        let healed = deliveries(.lan, count: 10) { network in
            network.partition([[0]])
            network.heal()
        }
        #expect(healed.received.count == 10)
        let narrow = deliveries(PathConditions(maximumBytes: 7), count: 10)
        #expect(narrow.received.isEmpty && narrow.network.statistics.tooLargeDatagrams == 10)
    }

    @Test func `one way may be worse than the other`() {
        let conditions = PathConditions(loss: 1)
        let oneWay = deliveries(.lan, count: 10) { $0.setConditions(conditions, from: 1, to: 0) }
        #expect(oneWay.received.count == 10)
        let otherWay = deliveries(.lan, count: 10) { $0.setConditions(conditions, from: 0, to: 1) }
        #expect(otherWay.received.isEmpty)
    }

    @Test func `the trace is the same for one seed and differs when one bit does`() {
        let storm = deliveries(.storm, seed: 5).network.trace

        #expect(deliveries(.storm, seed: 5).network.trace == storm)
        #expect(deliveries(.storm, seed: 5, count: 1999).network.trace != storm)
    }

    @Test func `a port where nobody listens answers, and a closed socket hears nothing`() {
        let time = SimulatedTime()
        let network = SimulatedNetwork(seed: 1, time: time)
        let sender = SimulatedTransport(network: network, host: 0, clock: SimulatedClock(time: time))
        let nowhere = SimulatedNetwork.address(ofHost: 7, port: 1)

        _ = sender.send([TransportDatagram(bytes: [1], destination: nowhere)])
        time.advance(to: time.now + 10_000_000)
        while time.runNextDue() {}
        time.advance(to: time.now + 10_000_000)
        while time.runNextDue() {}

        #expect(sender.takeUnreachable() == [nowhere])
        #expect(sender.takeUnreachable() == [])
    }

    @Test func `a simulated clock runs at its rate and jumps when told`() {
        let time = SimulatedTime(startingAt: 0)
        let clock = SimulatedClock(time: time, offset: .seconds(100), ratePartsPerMillion: 50)
        time.advance(to: 1_000_000_000)

        #expect(clock.now() == HostTime(nanoseconds: 101_000_050_000))
        clock.jump(by: .seconds(-3600))
        #expect(clock.now() == HostTime(nanoseconds: 101_000_050_000 - 3_600_000_000_000))
        #expect(clock.trueTime(of: clock.now()) == 1_000_000_000)
    }

    @Test func `a crash keeps what was durable and may take the rest`() throws {
        let storage = SimulatedStorage(seed: 3)
        let key = Bytes32.zero
        try storage.setSetting("name", [1, 2, 3])
        storage.putFile([UInt8](repeating: 9, count: 200_000), at: "/whole")
        let whole = try storage.importFile(path: "/whole", key: key, byteLimit: 1 << 20) { _, _ in }
        let part = SimulatedStorage(seed: 4)
        try part.beginContent(id: whole.id, byteCount: whole.byteCount, leaves: whole.leaves)
        for index in whole.leaves.indices {
            let bytes = try storage.readChunk(id: whole.id, index: UInt64(index))
            try part.writeChunk(id: whole.id, index: UInt64(index), bytes: bytes)
        }
        var faults = SimulatedStorage.Faults()
        faults.chunkLoss = 0.5
        faults.chunkTearing = 0.5
        part.faults = faults

        storage.crash()
        part.crash()
        #expect(throws: StorageError.stopped) { try storage.setting("name") }
        storage.reopen()
        part.reopen()

        #expect(try storage.setting("name") == [1, 2, 3])
        #expect(try storage.verifyPartial(id: whole.id, key: key) == [true, true, true, true])
        #expect(try part.verifyPartial(id: whole.id, key: key) == [false, false, false, false])
    }

    @Test func `injected failures are typed and change nothing`() throws {
        let storage = SimulatedStorage(seed: 5)
        storage.faults.writeFailure = 1
        #expect(throws: StorageError.callFailed(call: "write", path: "simulated", errorNumber: 5)) {
            try storage.setSetting("name", [1])
        }
        storage.faults.writeFailure = 0
        #expect(try storage.setting("name") == nil)
        storage.faults.isFull = true
        #expect(throws: StorageError.noSpace(path: "simulated", needed: 10, available: 0)) {
            try storage.beginContent(id: ContentID(.zero), byteCount: 10, leaves: [.zero])
        }
        #expect(storage.faultCount == 2)
    }

    @Test func `broken entropy throws and never repeats`() throws {
        let entropy = SimulatedEntropy(seed: 1)
        let first = try entropy.fill(count: 32)
        let second = try entropy.fill(count: 32)
        #expect(first.revealed() != second.revealed())
        #expect(try SimulatedEntropy(seed: 1).fill(count: 32).revealed() == first.revealed())

        entropy.fail()

        #expect(throws: SystemError.entropyUnavailable(errorNumber: 5)) { try entropy.fill(count: 32) }
    }

    @Test func `work is done in order, later, and not after the process died`() {
        let time = SimulatedTime()
        let queue = SimulatedWorkQueue(time: time, seed: 1)
        let log = Log()
        for number in 0..<5 { queue.run { log.add("\(number)") } }
        #expect(log.all.isEmpty && queue.pendingCount == 5)

        time.advance(to: time.now + 20_000_000)
        while time.runNextDue() {}
        #expect(log.all == ["0", "1", "2", "3", "4"])
        queue.run { log.add("late") }
        queue.close()
        time.advance(to: time.now + 20_000_000)
        while time.runNextDue() {}

        #expect(log.all.count == 5)
    }

    @Test func `lists of seeds are read exactly or refused with the line`() throws {
        let list = try SeedList(text: "# head\nstorm 3-5 # three\n\ncalm 9\n")

        #expect(list.runs.map(\.seed) == [3, 4, 5, 9])
        for text in ["storm", "storm x", "nosuch 1", "storm 5-3", "storm 1-2-3", "storm 0-99999999", "storm 1 2"] {
            #expect(throws: SeedList.Malformed(line: 2, text: text)) { try SeedList(text: "calm 1\n" + text) }
        }
    }
}

private func copied(_ span: borrowing MutableSpan<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    for index in 0..<span.count { bytes.append(span[index]) }
    return bytes
}
