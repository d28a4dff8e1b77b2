import MeshBase
import MeshProtocol
import MeshSystem

/// What happens inside a node, at the moment it happens: for whoever checks a node from outside, as simulations do.
public enum NodeObservation: Sendable {
    case event(ProtocolEvent)
    /// Its own records too, each once a life: those of earlier lives come from the store at the start.
    case recordAccepted(AcceptedRecord)
    case recordVoided(RecordID)
    case message(UserMessage)
}

extension Node {
    /// Tells `observer` everything as it happens, on the node's executor. Call before `run`; the last call counts.
    public nonisolated func observe(_ observer: @escaping @Sendable (NodeObservation) -> Void) {
        announcements.withLock { $0.observer = observer }
    }

    func tellObserver(_ observation: @autoclosure () -> NodeObservation) {
        guard let observer = announcements.withLock(\.observer) else { return }
        observer(observation())
    }

    /// Unpacks a batch only when there is somebody to tell.
    func tellObserver(messages content: ReceivedContent) {
        guard let observer = announcements.withLock(\.observer) else { return }
        for message in content.messages { observer(.message(message)) }
    }
}
