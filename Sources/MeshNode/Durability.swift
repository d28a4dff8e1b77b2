import MeshBase
import MeshProtocol

/// What of the session's state must be on disk before another node may see a consequence of it, and whether it is.
///
/// That is the start count, which orders the lives of this node's key, and the mesh with its secrets, without which it
/// could not return. Addresses, names and the like are written as well and hold nothing back.
struct Durability: Sendable {
    private struct Essence: Hashable {
        var mesh: MeshID
        var startCount: UInt64
        var epochSecrets: [Bytes32]

        init(_ state: SessionState) {
            mesh = state.mesh
            startCount = state.startCount
            epochSecrets = state.epochSecrets
        }
    }

    /// A failed write is tried again after this.
    static let retryInterval = TimeSpan.seconds(2)

    private var latest: SessionState?
    private var essence: Essence?
    private var postedNumber: UInt64 = 0
    /// The write that must be durable before anything leaves the node.
    private var awaitedNumber: UInt64?
    /// Something has been stored in this life.
    private(set) var hasStored = false
    /// When the newest state is written again after a failure.
    private(set) var retryAt: HostTime?

    /// Whether datagrams may leave.
    var isOpen: Bool { awaitedNumber == nil }

    /// Notes that `state` goes to the store. Returns the write's number; numbers ascend.
    mutating func post(_ state: SessionState) -> UInt64 {
        postedNumber += 1
        let posted = Essence(state)
        // A later write holds whatever an earlier one held, so one that is awaited needs no second mark.
        if posted != essence { awaitedNumber = postedNumber }
        essence = posted
        latest = state
        retryAt = nil
        return postedNumber
    }

    mutating func stored(_ number: UInt64) {
        hasStored = true
        if let awaitedNumber, awaitedNumber <= number { self.awaitedNumber = nil }
    }

    /// A newer write that is under way makes up for an older one.
    mutating func failed(_ number: UInt64, at now: HostTime) {
        if number == postedNumber { retryAt = now + Self.retryInterval }
    }

    /// The state to write again, once it is due.
    mutating func takeRetry(at now: HostTime) -> SessionState? {
        guard let retryAt, retryAt <= now else { return nil }
        self.retryAt = nil
        return latest
    }
}
