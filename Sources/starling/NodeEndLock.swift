import MeshSystem

/// The state behind `NodeForeground`, under the house's lock.
final class NodeEndLock: Sendable {
    struct State: Sendable {
        var code: Int32?
        var isPrinted = false
    }

    private let state = Lock(State())

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }
    var read: State { state.withLock { $0 } }
}
