import MeshBase

/// Follows a peer to a new address: at once, but with little trust until it has answered from there (AB-46, AB-65).
struct PathValidation: Sendable {
    struct Candidate: Sendable {
        var address: SocketAddress
        var challenge: UInt64
        var receivedBytes: Int
        var sentBytes = 0
        var startedAt: HostTime
        /// When the challenge goes (again).
        var challengeAt: HostTime
        var challenges = 0
    }

    /// The last address that was proven.
    private(set) var validated: SocketAddress
    private(set) var candidate: Candidate?

    /// Before an address is proven, at most this many times the received bytes go to it (RFC 9000, section 8).
    private static let amplificationLimit = 3
    private static let timeLimit: TimeSpan = .seconds(3)
    private static let challengeInterval: TimeSpan = .milliseconds(250)
    private static let maximumChallenges = 8

    init(validated: SocketAddress) { self.validated = validated }

    /// Where datagrams go now.
    var address: SocketAddress { candidate?.address ?? validated }
    var isValidated: Bool { candidate == nil }

    /// The newest authentic datagram came from `source`. `challenge`: eight fresh random bytes, used when it moved.
    mutating func heardNewest(from source: SocketAddress, bytes: Int, challenge: UInt64, at now: HostTime) {
        if source == validated {
            candidate = nil
        } else if candidate?.address == source {
            candidate?.receivedBytes += bytes
        } else {
            candidate = Candidate(
                address: source, challenge: challenge, receivedBytes: bytes, startedAt: now, challengeAt: now)
        }
    }

    /// Bytes that may still go to the present address.
    var allowance: Int {
        guard let candidate else { return .max }
        return max(0, candidate.receivedBytes * Self.amplificationLimit - candidate.sentBytes)
    }

    mutating func didSend(_ bytes: Int) { candidate?.sentBytes += bytes }

    func owesChallenge(at now: HostTime) -> Bool {
        guard let candidate else { return false }
        return candidate.challengeAt <= now && candidate.challenges < Self.maximumChallenges
    }

    /// The challenge to send now, if one is due.
    mutating func takeChallenge(at now: HostTime) -> UInt64? {
        guard owesChallenge(at: now), let open = candidate else { return nil }
        candidate?.challengeAt = now + Self.challengeInterval
        candidate?.challenges += 1
        return open.challenge
    }

    /// Whether this answer proves the new address.
    mutating func receiveResponse(_ number: UInt64, from source: SocketAddress) -> Bool {
        guard let open = candidate, open.challenge == number, open.address == source else { return false }
        validated = open.address
        candidate = nil
        return true
    }

    /// A finished handshake proves an address too.
    mutating func validate(_ address: SocketAddress) {
        validated = address
        candidate = nil
    }

    var nextDeadline: HostTime? {
        guard let candidate else { return nil }
        guard allowance >= SecureLink.smallestAllowance else { return candidate.startedAt + Self.timeLimit }
        let end = candidate.startedAt + Self.timeLimit
        return candidate.challenges < Self.maximumChallenges ? min(candidate.challengeAt, end) : end
    }

    /// Goes back to the proven address when the new one stayed silent too long.
    mutating func handleDeadline(at now: HostTime) {
        guard let candidate, now - candidate.startedAt >= Self.timeLimit else { return }
        self.candidate = nil
    }
}
