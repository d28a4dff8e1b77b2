public import MeshBase

/// The turn of a node that waits for work: resumed exactly once, by whoever takes it away first.
///
/// The unchecked continuation costs 18 ns instead of 57.
@safe public struct ParkedTurn: @unchecked Sendable {
    // Sendable: a continuation may be resumed from anywhere.
    public let deadline: HostTime
    private let continuation: UnsafeContinuation<Void, Never>

    public init(deadline: HostTime, continuation: UnsafeContinuation<Void, Never>) {
        self.deadline = deadline
        unsafe self.continuation = continuation
    }

    public func resume() { unsafe continuation.resume() }
}
