import MeshBase
import MeshProtocol
import Testing

@testable import MeshNode

@Suite struct EventLogTests {
    @Test(arguments: [
        (0.0, "1970-01-01T00:00:00.000Z"), (951_782_400.0, "2000-02-29T00:00:00.000Z"),
        (1_709_164_799.999, "2024-02-28T23:59:59.999Z"), (1_796_083_200.5, "2026-12-01T00:00:00.500Z"),
        (-0.001, "1969-12-31T23:59:59.999Z"), (4_107_542_400.0, "2100-03-01T00:00:00.000Z"),
    ])
    func `wall-clock instants are shown as ISO 8601 in UTC`(seconds: Double, text: String) {
        #expect(timestampText(seconds) == text)
    }

    @Test func `the log forgets the oldest events and counts them`() {
        var log = EventLog()
        for index in 0..<(EventLog.capacity * 2 + 1) {
            log.append(event(at: Int64(index)))
        }

        #expect(log.events.count == EventLog.capacity + 1)
        #expect(log.droppedCount == EventLog.capacity)
        #expect(log.events.last?.hostTime == HostTime(nanoseconds: Int64(EventLog.capacity * 2)))
    }

    @Test func `only events since an instant are given`() {
        var log = EventLog()
        for index in 0..<10 { log.append(event(at: Int64(index))) }

        #expect(log.events(since: HostTime(nanoseconds: 7)).count == 3)
        #expect(log.events(since: .distantPast).count == 10)
        #expect(log.events(since: .distantFuture).isEmpty)
    }

    @Test func `MSG-05 the message box counts exactly what it dropped`() {
        var box = MessageBox()
        for index in 0..<(MessageBox.capacityPerSender + 1_000) {
            let message = UserMessage(
                from: PeerID(.zero), mode: .reliable, lamport: UInt64(index), payload: [1, 2, 3])
            box.append(.one(message), fromName: "ana")
        }

        #expect(box.droppedCount == 1_000)
        #expect(box.receivedCount == MessageBox.capacityPerSender + 1_000)
        #expect(box.receivedBytes == 3 * (MessageBox.capacityPerSender + 1_000))
        #expect(box.messages.first?.message.lamport == 1_000)
    }

    @Test func `the message box is bounded in bytes as well`() {
        var box = MessageBox()
        for index in 0..<100 {
            let payload = [UInt8](repeating: 0x2e, count: 256 << 10)
            let message = UserMessage(from: PeerID(.zero), mode: .reliable, lamport: UInt64(index), payload: payload)
            box.append(.one(message), fromName: "ana")
        }

        #expect(box.messages.count == MessageBox.capacityBytes / (256 << 10))
        #expect(box.droppedCount == 100 - box.messages.count)
        #expect(box.messages.last?.message.lamport == 99)
    }

    private func event(at nanoseconds: Int64) -> NodeEvent {
        NodeEvent(
            wallSeconds: 0, hostTime: HostTime(nanoseconds: nanoseconds), event: ProtocolEvent(.clockSteady),
            subjectName: "ana")
    }
}
