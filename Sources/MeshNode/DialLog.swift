import MeshBase
import MeshProtocol

/// Which addresses of each member were tried last, and what came of it: for `why`, never for a decision.
struct DialLog: Sendable {
    enum Outcome: String, Sendable {
        case underWay = "under way"
        case answered
        case noAnswer = "no answer"
        case nobodyListens = "nobody listens there"
        case otherVersion = "speaks another version"
        case somebodyElse = "somebody else answered"
        case notProven = "did not prove who it is"
        case notSent = "not sent: too many at once"
    }

    /// What was dialled.
    enum Way: Hashable, Sendable {
        case address(SocketAddress)
        /// Through this member.
        case relay(PeerID)
    }

    struct Attempt: Sendable {
        var way: Way
        var time: HostTime
        var outcome: Outcome
    }

    static let maximumAddresses = 8
    static let maximumPeers = 1024

    private var attempts: [PeerID: [Attempt]] = [:]

    /// Newest first.
    func attempts(of peer: PeerID) -> [Attempt] { attempts[peer] ?? [] }

    /// A dial that names nobody belongs to nobody.
    mutating func began(_ request: DialRequest, at now: HostTime) {
        for way in Self.ways(request).reversed() { note(way, of: request.expectedPeer, .underWay, at: now) }
    }

    mutating func failed(_ request: DialRequest, _ failure: DialFailure, at now: HostTime) {
        for way in Self.ways(request).reversed() {
            // What the kernel said of one address is more than that the dial as a whole came to nothing.
            let known = request.expectedPeer.flatMap { attempts[$0]?.first { $0.way == way }?.outcome }
            if known == .nobodyListens { continue }
            note(way, of: request.expectedPeer, Self.outcome(failure), at: now)
        }
    }

    private static func ways(_ request: DialRequest) -> [Way] {
        request.addresses.map(Way.address) + request.relays.map(Way.relay)
    }

    mutating func answered(_ link: LinkIdentity, at now: HostTime) {
        note(link.relay.map(Way.relay) ?? .address(link.address), of: link.peer, .answered, at: now)
    }

    mutating func unreachable(_ address: SocketAddress, at now: HostTime) {
        let way = Way.address(address)
        for (peer, list) in attempts where list.contains(where: { $0.way == way && $0.outcome == .underWay }) {
            note(way, of: peer, .nobodyListens, at: now)
        }
    }

    private mutating func note(_ way: Way, of peer: PeerID?, _ outcome: Outcome, at now: HostTime) {
        guard let peer, attempts[peer] != nil || attempts.count < Self.maximumPeers else { return }
        var list = attempts[peer] ?? []
        list.removeAll { $0.way == way }
        list.insert(Attempt(way: way, time: now, outcome: outcome), at: 0)
        attempts[peer] = Array(list.prefix(Self.maximumAddresses))
    }

    private static func outcome(_ failure: DialFailure) -> Outcome {
        switch failure {
        case .noAnswer: .noAnswer
        case .versionMismatch: .otherVersion
        case .wrongPeer: .somebodyElse
        case .authenticationFailed, .unknownSecret: .notProven
        case .tooMany: .notSent
        }
    }
}
