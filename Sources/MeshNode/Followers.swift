import MeshBase
import MeshProtocol

/// Control clients that follow something until they go away. One that stops reading is dropped, and told by the end of
/// its stream; it never slows the node.
struct Followers {
    var events: [ControlReply] = []
    var messages: [ControlReply] = []
    var counts: [ControlReply] = []
    var journal: [ControlReply] = []
    /// Inside the program.
    var readers: [MessageReader] = []

    static let maximumFollowers = 64

    mutating func publish(_ event: NodeEvent) {
        guard !events.isEmpty else { return }
        let object = Documents.event(event)
        events.removeAll { !$0.send(object) }
    }

    mutating func publish(_ content: ReceivedContent, fromName: String, counting box: MessageBox) {
        if !readers.isEmpty {
            let delivered = DeliveredMessages(content)
            for reader in readers { reader.tell(delivered) }
        }
        if !messages.isEmpty {
            for message in content.messages {
                let object = Documents.message(ReceivedMessage(fromName: fromName, message: message))
                messages.removeAll { !$0.send(object) }
            }
        }
        if !counts.isEmpty {
            let object = Documents.count(box)
            counts.removeAll { !$0.send(object) }
        }
    }

    mutating func publish(journal object: JSONValue) {
        journal.removeAll { !$0.send(object) }
    }

    mutating func endAll() {
        for reply in events + messages + counts + journal { reply.finish() }
        for case .feed(let feed) in readers { feed.end() }
        self = Followers()
    }
}
