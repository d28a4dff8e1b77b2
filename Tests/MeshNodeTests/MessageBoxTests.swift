import MeshBase
import MeshProtocol
import MeshWire
import Testing

@testable import MeshNode

struct `The message box` {
    private func peer(_ byte: UInt8) -> PeerID { PeerID(Bytes32([UInt8](repeating: byte, count: 32)) ?? .zero) }

    private func message(_ sender: UInt8, _ number: Int) -> UserMessage {
        UserMessage(from: peer(sender), mode: .reliable, lamport: UInt64(number), payload: [sender])
    }

    @Test func `MSG-03 keeps each sender's last ones, whatever another floods it with`() {
        var box = MessageBox()
        box.append(.one(message(1, 0)), fromName: "ana")
        for number in 1...10_000 { box.append(.one(message(2, number)), fromName: "ben") }
        box.append(.one(message(1, 10_001)), fromName: "ana")

        let kept = box.messages
        #expect(kept.count == MessageBox.capacityPerSender + 2)
        #expect(kept.first?.fromName == "ana" && kept.last?.fromName == "ana", "in the order of arrival")
        #expect(box.droppedCount == 10_000 - MessageBox.capacityPerSender)
        #expect(box.receivedCount == 10_002)
    }

    @Test func `MSG-05 drops exactly what is too much of a batch, and counts it`() {
        var box = MessageBox()
        var batch = MessageBatch()
        for number in 0..<100 { batch.append([UInt8(number)]) }
        for round in 0..<4 {
            box.append(
                .several(
                    UserMessageBatch(
                        from: peer(1), mode: .reliable, lamport: UInt64(100 * round), batch: batch)), fromName: "ana")
        }
        #expect(box.droppedCount == 400 - MessageBox.capacityPerSender)
        #expect(box.messages.count == MessageBox.capacityPerSender)
        #expect(box.messages.map(\.message.lamport) == Array(144..<400))
        #expect(box.messages.first?.message.payload == [44])
    }
}
