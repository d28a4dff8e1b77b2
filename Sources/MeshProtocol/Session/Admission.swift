import MeshBase
import MeshCrypto
import MeshWire

/// A newcomer on its way in.
struct Joining: Sendable {
    let ticket: Ticket
    let secret: GroupSecret
    /// Tried at once and again every 2 s: the ticket's, those a person named, those of beacons.
    var addresses: [SocketAddress]
    /// In the order in which they were first tried.
    var tried: [DialAttempt] = []
    var isVersionMismatch = false
    /// To whom the next hello goes: one member is asked after the other, so that seldom two admit the same newcomer.
    var nextTarget = 0
    var isWelcomed = false
    /// This node's own ADMIT record has come.
    var isAdmitted = false

    static let maximumTried = 32

    mutating func note(_ address: SocketAddress, _ outcome: DialAttempt.Outcome) {
        if let known = tried.firstIndex(where: { $0.address == address }) {
            tried[known].outcome = outcome
        } else if tried.count < Self.maximumTried {
            tried.append(DialAttempt(address: address, outcome: outcome))
        }
    }
}

/// Newcomers that this node is letting in.
struct Admission: Sendable {
    /// ADMIT records asked for and not yet seen, with the time of asking. Bounded; a newcomer beyond waits for its next
    /// hello.
    private var publishing: [PeerID: HostTime] = [:]

    private static let maximumPublishing = 64
    private static let patience = TimeSpan.seconds(5 as Int64)

    /// Whether to publish an ADMIT now: once per newcomer.
    mutating func shouldPublish(_ peer: PeerID, at now: HostTime) -> Bool {
        if let since = publishing[peer], now - since < Self.patience { return false }
        publishing = publishing.filter { now - $0.value < Self.patience }
        guard publishing.count < Self.maximumPublishing else { return false }
        publishing[peer] = now
        return true
    }

    mutating func noteAdmitted(_ peer: PeerID) { publishing[peer] = nil }

    var count: Int { publishing.count }
}
