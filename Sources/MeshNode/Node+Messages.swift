import MeshBase
import MeshProtocol
import MeshWire

/// Messages for the program around the node, without JSON: in by outlets, out by feeds.
extension Node {
    /// A way in for reliable messages to these members; nil: to everybody but this node. Any thread.
    public nonisolated func outlet(to recipients: [PeerID]? = nil) -> MessageOutlet {
        MessageOutlet(recipients: recipients, inbox: inbox)
    }

    /// What arrives from now on, behind what `inbox` keeps of what has arrived. Any thread.
    public nonisolated func messageFeed() -> MessageFeed {
        let feed = MessageFeed()
        inbox.report(.reader(.feed(feed)))
        return feed
    }

    /// The same by a call on the node's own thread, where nothing else goes on until it returns: for what only takes
    /// note or answers at once.
    public nonisolated func onMessages(_ body: @escaping @Sendable (DeliveredMessages) -> Void) {
        inbox.report(.reader(.handler(body)))
    }

    /// A new reader first gets what is kept.
    func add(_ reader: MessageReader) {
        for content in messages.contents { reader.tell(DeliveredMessages(content)) }
        followers.readers.append(reader)
    }

    /// Hands on what waits in an outlet, as much as may be under way.
    func advance(_ outlet: MessageOutlet, at now: HostTime) async {
        while let batch = outlet.takeBatch() {
            let token = waiting.makeToken()
            waiting.wait(for: token, until: nil, timeout: .timedOut("", hint: "")) { result, node, now in
                if case .success(.message(.delivered)) = result {
                    outlet.settle(batch, isDelivered: true)
                } else {
                    outlet.settle(batch, isDelivered: false)
                }
                await node.advance(outlet, at: now)
            }
            do throws(NodeError) {
                try await submitToGossip(
                    .sendUserMessages(batch, recipients: outlet.recipients, token: token), at: now)
            } catch {
                guard error.code == "queueFull" else {
                    waiting.fail(token, error)
                    continue
                }
                waiting.cancel(token)
                outlet.putBack(batch)
                return tryAgain(outlet, at: now)
            }
        }
    }

    /// The queue is full of others' messages, or of this outlet's: looked at again shortly.
    private func tryAgain(_ outlet: MessageOutlet, at now: HostTime) {
        let token = waiting.makeToken()
        waiting.wait(for: token, until: now + .milliseconds(2), timeout: .timedOut("", hint: "")) { _, node, now in
            await node.advance(outlet, at: now)
        }
    }
}
