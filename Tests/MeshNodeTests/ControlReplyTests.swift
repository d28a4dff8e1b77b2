import MeshBase
import MeshProtocol
import MeshSystem
import Testing

@testable import MeshNode

@Suite struct ControlReplyTests {
    @Test func `an answer ends once, and nothing follows its end`() {
        let items = Lock<[String]>([])
        let reply = ControlReply { item in
            items.withLock { $0.append(Self.text(item)) }
            return true
        }

        reply.answer(["schema": "starling/test/1"])
        reply.finish()
        reply.fail(.usage("late", hint: ""))
        reply.send(["schema": "starling/late/1"])

        #expect(items.withLock { $0 } == ["starling/test/1", "end starling/done/1"])
    }

    @Test func `MSG-03 a reader that stopped reading is dropped, not waited for`() {
        let reply = ControlReply { _ in false }

        #expect(reply.send(["schema": "starling/test/1"]) == false)
        #expect(reply.isOpen == false)
    }

    @Test
    func `MSG-04 a reader that fell behind gets what is queued, nothing else among it, and then an error that says so`()
    {
        let queue = ReplyQueue()
        let reply = ControlReply { queue.append($0) }
        for index in 0..<(ReplyQueue.maximumItems + 1_000) { reply.send(["index": .integer(Int64(index))]) }

        #expect(reply.isOpen == false)
        reply.finish()
        var received: [JSONValue] = []
        while case .object(let object) = queue.next(within: 0) { received.append(object) }
        guard case .end = queue.next(within: 0) else {
            Issue.record("the reader would wait for ever")
            return
        }
        #expect(
            received.dropLast().map { $0["index"]?.integerValue } == (0..<Int64(ReplyQueue.maximumItems)).map { $0 })
        #expect(received.last?["schema"]?.stringValue == "starling/error/1")
        #expect(received.last?["code"]?.stringValue == "fellBehind")
    }

    @Test func `MSG-04 what the message box dropped is a number of its own, never an element among the messages`() {
        var box = MessageBox()
        for index in 0..<(MessageBox.capacityPerSender + 7) {
            let message = UserMessage(
                from: PeerID(.zero), mode: .unreliable, lamport: UInt64(index), payload: Array("text".utf8))
            box.append(.one(message), fromName: "ana")
        }

        let shown = box.messages.map(Documents.message)
        #expect(shown.count == MessageBox.capacityPerSender)
        #expect(
            shown.allSatisfy { $0["schema"]?.stringValue == "starling/inbox/1" && $0["text"]?.stringValue == "text" })
        #expect(Documents.count(box)["dropped"]?.integerValue == 7)
    }

    @Test func `what waits for a reader is bounded in bytes, and the end says that something is missing`() {
        let queue = ReplyQueue()
        let reply = ControlReply { queue.append($0) }
        let text = JSONValue.string(String(repeating: "x", count: 256 << 10))
        var accepted = 0
        while reply.send(text) { accepted += 1 }

        #expect((12...16).contains(accepted))
        #expect(!reply.isOpen)
        var last = JSONValue.null
        while case .object(let object) = queue.next(within: 1) { last = object }
        #expect(last["code"] == "fellBehind")
    }

    @Test func `an object larger than all that may wait still reaches a reader who keeps up`() {
        let queue = ReplyQueue()
        let large = JSONValue.string(String(repeating: "x", count: ReplyQueue.maximumBytes))

        #expect(queue.append(.object(large)))
        #expect(queue.append(.object("small")) == false)
        guard case .object = queue.next(within: 1) else {
            Issue.record("nothing came")
            return
        }
        #expect(queue.append(.object(large)))
    }

    @Test func `a request's arguments are read only in their own type`() {
        let call = ControlCall(
            request: ["verb": "send", "text": 5, "repeat": 1.5, "to": ["ana", 7]], reply: ControlReply { _ in true })

        #expect(call.verb == "send")
        #expect(call.text("text") == nil)
        #expect(call.integer("repeat") == nil)
        #expect(call.texts("to") == ["ana"])
        #expect(call.flag("follow") == false)
    }

    private static func text(_ item: ControlReply.Item) -> String {
        switch item {
        case .object(let object): object["schema"]?.stringValue ?? "?"
        case .later(let make): text(.object(make()))
        case .end(let closing): "end \(closing["schema"]?.stringValue ?? "?")"
        }
    }
}
