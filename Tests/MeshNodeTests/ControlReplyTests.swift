import MeshBase
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

        #expect(items.withLock { $0 } == ["starling/test/1", "starling/done/1", "end"])
    }

    @Test func `MSG-03 a reader that stopped reading is dropped, not waited for`() {
        let reply = ControlReply { _ in false }

        #expect(reply.send(["schema": "starling/test/1"]) == false)
        #expect(reply.isOpen == false)
    }

    @Test func `a queue takes no more than its limit, and ends after what it holds`() {
        let queue = ReplyQueue()
        for index in 0..<ReplyQueue.maximumItems { #expect(queue.append(.object(.integer(Int64(index))))) }

        #expect(queue.append(.object(.null)) == false)
        queue.append(.end)
        var count = 0
        while case .object = queue.next(within: 1) { count += 1 }
        #expect(count == ReplyQueue.maximumItems)
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
        case .end: "end"
        }
    }
}
