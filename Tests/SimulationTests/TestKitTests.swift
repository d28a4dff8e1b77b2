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

    @Test func `a translator's new address is the only way to its host, and the old one vanishes in silence`() {
        let time = SimulatedTime()
        let network = SimulatedNetwork(seed: 1, time: time)
        let clock = SimulatedClock(time: time)
        let left = SimulatedTransport(network: network, host: 0, clock: clock)
        let right = SimulatedTransport(network: network, host: 1, clock: clock)
        func run() {
            time.advance(to: time.now + 10_000_000)
            while time.runNextDue() {}
        }
        func sources(_ transport: SimulatedTransport) -> [SocketAddress] {
            var sources: [SocketAddress] = []
            _ = transport.receive(limit: 100) { _, source, _ in sources.append(source) }
            return sources
        }

        network.rebind(0, to: 51_000)
        _ = left.send([TransportDatagram(bytes: [1], destination: right.address)])
        run()
        let outside = SimulatedNetwork.address(ofHost: 0, port: 51_000)
        #expect(sources(right) == [outside])
        _ = right.send([TransportDatagram(bytes: [2], destination: left.address)])
        run()
        #expect(sources(left) == [] && right.takeUnreachable() == [])
        #expect(network.statistics.staleDatagrams == 1)
        _ = right.send([TransportDatagram(bytes: [3], destination: outside)])
        run()
        #expect(sources(left) == [right.address])

        network.rebind(0, to: nil)
        _ = right.send([TransportDatagram(bytes: [4], destination: left.address)])
        run()
        #expect(sources(left) == [right.address])
    }

    @Test func `deaf, isolated, narrow and slow hosts are just that until they heal`() {
        let deaf = deliveries(.lan, count: 10) { $0.deafen(1, to: 0) }
        #expect(deaf.received.isEmpty)
        let deafTheOtherWay = deliveries(.lan, count: 10) { $0.deafen(0, to: 1) }
        #expect(deafTheOtherWay.received.count == 10)
        let isolated = deliveries(.lan, count: 10) { $0.isolate(1) }
        #expect(isolated.received.isEmpty)
        let narrow = deliveries(.lan, count: 10) { $0.narrow(1, to: 7) }
        #expect(narrow.received.isEmpty)
        let slow = deliveries(PathConditions(jitter: .zero), count: 200) { $0.slow(1, by: .milliseconds(50)) }
        let numbers = slow.received.map { Int($0[0]) }
        #expect(numbers.count == 200 && numbers != numbers.sorted())
        let healed = deliveries(.lan, count: 10) { network in
            network.deafen(1, to: 0)
            network.isolate(1)
            network.narrow(1, to: 1)
            network.rebind(0, to: 50_000)
            network.heal()
        }
        #expect(healed.received.count == 10)
    }

    @Test func `a clock changes its rate without a jump`() {
        let time = SimulatedTime(startingAt: 0)
        let clock = SimulatedClock(time: time, offset: .seconds(5))
        time.advance(to: 2_000_000_000)
        let before = clock.now()
        clock.setRate(partsPerMillion: 200)
        #expect(clock.now() == before)

        time.advance(to: 3_000_000_000)

        #expect(clock.now() - before == .nanoseconds(1_000_200_000))
    }

    @Test func `a process dies at the write it was told to die at, and nothing of that write happens`() throws {
        let storage = SimulatedStorage(seed: 9)
        let deaths = Log()
        storage.whenCrashing { deaths.add("died") }
        storage.faults.writesUntilCrash = 2

        try storage.setSetting("first", [1])
        try storage.setSetting("second", [2])
        #expect(deaths.all.isEmpty)
        #expect(throws: StorageError.stopped) { try storage.setSetting("third", [3]) }

        #expect(deaths.all == ["died"])
        storage.reopen()
        #expect(try storage.setting("second") == [2])
        #expect(try storage.setting("third") == nil)
    }

    @Test func `scenarios are read exactly`() throws {
        let file = try ScenarioFile(
            text: """
                # head
                scenario storm            # the first
                  about  a bad night
                  nodes  3-6
                  meshes 2
                  lasts  90s
                  path   delay=5ms loss=30% corrupt=0.01
                  traffic messages=10/min files=0/min
                  fault  crash 6/min for 1s-3s
                  at 10s partition 2 for 1m
                  limit  convergence=15s false-deaths=0 notice=2s
                  hostile forger stranger
                  seeds  3-5
                  seeds  4     # again

                scenario calm
                  seeds  9
                """)

        #expect(file.runs.map(\.seed) == [3, 4, 5, 9])
        let storm = try #require(file.named("storm"))
        #expect(storm.summary == "a bad night" && storm.nodeCounts == 3...6 && storm.meshCount == 2)
        #expect(storm.stormSpan == .seconds(90) && storm.conditions.loss == 0.3 && storm.conditions.corruption == 0.01)
        #expect(storm.hazards == [RecurringHazard(.crash, perMinute: 6, span: .seconds(1) ... .seconds(3))])
        #expect(
            storm.schedule == [
                ScheduledHazard(at: .seconds(10), .partition, count: 2, span: .seconds(60) ... .seconds(60))
            ])
        #expect(storm.limits.falseDeaths == 0 && storm.limits.notice == .seconds(2))
        #expect(storm.hostiles == [.forger, .stranger] && storm.traffic.filesPerMinute == 0)
    }

    @Test(arguments: [
        "nodes 5", "scenario a b", "scenario calm", "seeds", "seeds x", "seeds 5-3", "seeds 1-2-3", "seeds 0-99999999",
        "nodes 6-3", "nodes 0", "lasts 5", "lasts -5s", "path loss=2", "path speed=1", "fault flood 1/min",
        "fault crash 1",
        "fault crash 0/min", "fault crash 1/min for", "fault crash 1/min for 5s-1s", "at crash", "at 5s flood",
        "at 5s crash 0", "limit patience=5s", "hostile saint", "meshes 9", "colour blue",
    ])
    func `a line that is not exactly understood is refused with its number`(line: String) throws {
        let start = line.hasPrefix("nodes 5") ? "" : "scenario calm"
        #expect(throws: ScenarioFile.Malformed(line: 3, text: line)) {
            try ScenarioFile(text: "\n\(start)\n\(line)\n")
        }
    }

    @Test func `a scenario without seeds is refused`() {
        #expect(throws: ScenarioFile.Malformed.self) { try ScenarioFile(text: "scenario calm") }
    }
}

private func copied(_ span: borrowing MutableSpan<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    for index in 0..<span.count { bytes.append(span[index]) }
    return bytes
}
