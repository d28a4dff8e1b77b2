import MeshBase

/// What two linked peers say to each other about who is here. Channel `session`; first byte = kind.
public enum SessionMessage: WireMessage {
    /// From a newcomer, on a link made under a join secret: who it is. Repeated until answered.
    case hello(PresenceRecord)
    /// To a newcomer that was let in.
    case welcome(Welcome)
    /// To a newcomer that was not, although it held the secret.
    case refusal(Refusal)
    /// Presence records, new to the receiver as far as the sender knows.
    case presences([PresenceRecord])
    /// What the sender holds: asks the receiver for what is newer there.
    case summary([PresenceVersion])
    /// Presence records that the sender lacks.
    case want([PeerID])
    /// Every 250 ms on a watched link.
    case keepAlive(KeepAlive)
    /// Says "I do not hear you": answered at once with the same nonce.
    case probe(nonce: UInt64)
    case probeAnswer(nonce: UInt64)
    /// Asks a neighbour to probe somebody whom the sender no longer hears.
    case probeRequest(subject: PeerID, nonce: UInt64)
    case probeResult(subject: PeerID, nonce: UInt64, outcome: ProbeOutcome)
    /// Tells peers that do not watch `subject` that they had better look themselves. A reason to look, never a verdict.
    case suspicion(subject: PeerID)
    /// Answers a farewell, so that the one who leaves need not wait.
    case farewellSeen
    /// Where the sender sees the receiver's datagrams come from: on a new link, and whenever it changes.
    case yourAddress(SocketAddress)
    /// The sender does not reach `subject`, and asks the receiver to bring the two together.
    case introductionRequest(subject: PeerID)
    case introduction(Introduction)
    /// The sender has no direct link to `subject` itself.
    case introductionRefused(subject: PeerID)

    public enum Refusal: UInt8, Hashable, Sendable, CaseIterable {
        /// The member list is at its limit.
        case meshFull = 1
        /// The mesh was ended.
        case ended = 2
        /// The newcomer's record is not acceptable: not its own, or nameless.
        case invalidPresence = 3
        /// The invite of the link was revoked, or has expired, since the link was made.
        case inviteVoid = 4
        /// The key of the newcomer was removed from the mesh, for ever.
        case removed = 5
    }

    public enum ProbeOutcome: UInt8, Hashable, Sendable, CaseIterable {
        case heard = 1
        case silent = 2
        /// No link to the subject: says nothing about it.
        case notLinked = 3
    }

    /// Bounds of the lists; a message beyond them is refused as a whole.
    public enum Limits {
        public static let presencesPerMessage = 64
        public static let summaryEntries = 1024
        public static let wantEntries = 64
        public static let keepAliveEntries = 64
        public static let epochSecrets = 255
        public static let genesisBytes = 4096
    }

    enum Kind: UInt8 {
        case hello = 1
        case welcome = 2
        case refusal = 3
        case presences = 4
        case summary = 5
        case want = 6
        case keepAlive = 7
        case probe = 8
        case probeAnswer = 9
        case probeRequest = 10
        case probeResult = 11
        case suspicion = 12
        case farewellSeen = 13
        case yourAddress = 20
        case introductionRequest = 21
        case introduction = 22
        case introductionRefused = 23
    }
}

/// `n u8 ≤ 16 | n × epoch secret 32 | genesis sized`: all a newcomer needs to read the mesh's records.
public struct Welcome: Hashable, Sendable {
    /// Newest first; 32 bytes each. They travel inside the link's own encryption only.
    public var epochSecrets: [Bytes32]
    /// The whole GENESIS record, signature included.
    public var genesis: [UInt8]

    public init(epochSecrets: [Bytes32], genesis: [UInt8]) {
        self.epochSecrets = epochSecrets
        self.genesis = genesis
    }
}

/// Which presence record the sender holds of one peer: 56 bytes.
public struct PresenceVersion: Hashable, Sendable {
    public var peer: PeerID
    public var startCount: UInt64
    public var revision: UInt64
    public var incarnation: Incarnation

    public init(peer: PeerID, startCount: UInt64, revision: UInt64, incarnation: Incarnation) {
        self.peer = peer
        self.startCount = startCount
        self.revision = revision
        self.incarnation = incarnation
    }
}

/// `digest 16 | flags u8 | health u8 | n u8 | n × asked 32 | n u8 | n × (subject 32 | age ms u32)`: 21 bytes with the kind
/// before it, in a full mesh. Flag 1: the sender watches the receiver.
public struct KeepAlive: Hashable, Sendable {
    /// How long ago the sender, or somebody it hears, last heard `subject`.
    public struct Report: Hashable, Sendable {
        public var subject: PeerID
        public var ageMilliseconds: UInt32

        public init(subject: PeerID, ageMilliseconds: UInt32) {
            self.subject = subject
            self.ageMilliseconds = ageMilliseconds
        }
    }

    /// Digest of the presence records the sender holds.
    public var digest: Bytes16
    /// The sender watches the receiver, and counts on hearing it every 250 ms.
    public var isWatching: Bool
    /// The sender's own-health multiplier, 1 to 8.
    public var health: UInt8
    /// Members the sender does not hear itself and wants reports about; at most 64.
    public var asked: [PeerID]
    /// Reports about what the receiver asked for; at most 64.
    public var reports: [Report]

    public init(
        digest: Bytes16, isWatching: Bool, health: UInt8, asked: [PeerID] = [], reports: [Report] = []
    ) {
        self.digest = digest
        self.isWatching = isWatching
        self.health = health
        self.asked = asked
        self.reports = reports
    }
}

// MARK: Encoding

extension SessionMessage {
    public func encode(into writer: inout ByteWriter) {
        switch self {
        case .hello(let presence):
            writer.write(Kind.hello.rawValue)
            presence.encode(into: &writer)
        case .welcome(let welcome):
            writer.write(Kind.welcome.rawValue)
            writer.write(UInt8(welcome.epochSecrets.count))
            for secret in welcome.epochSecrets { writer.write(secret) }
            writer.write(sized: welcome.genesis)
        case .refusal(let refusal):
            writer.write(Kind.refusal.rawValue)
            writer.write(refusal.rawValue)
        case .presences(let presences):
            writer.write(Kind.presences.rawValue)
            writer.write(UInt8(presences.count))
            for presence in presences { presence.encode(into: &writer) }
        case .summary(let versions):
            writer.write(Kind.summary.rawValue)
            writer.write(UInt16(versions.count))
            for version in versions { version.encode(into: &writer) }
        case .want(let peers):
            writer.write(Kind.want.rawValue)
            writer.write(list: peers)
        case .keepAlive(let keepAlive):
            writer.write(Kind.keepAlive.rawValue)
            keepAlive.encode(into: &writer)
        case .probe(let nonce):
            writer.write(Kind.probe.rawValue)
            writer.write(nonce)
        case .probeAnswer(let nonce):
            writer.write(Kind.probeAnswer.rawValue)
            writer.write(nonce)
        case .probeRequest(let subject, let nonce):
            writer.write(Kind.probeRequest.rawValue)
            writer.write(subject.value)
            writer.write(nonce)
        case .probeResult(let subject, let nonce, let outcome):
            writer.write(Kind.probeResult.rawValue)
            writer.write(subject.value)
            writer.write(nonce)
            writer.write(outcome.rawValue)
        case .suspicion(let subject):
            writer.write(Kind.suspicion.rawValue)
            writer.write(subject.value)
        case .farewellSeen:
            writer.write(Kind.farewellSeen.rawValue)
        case .yourAddress(let address):
            writer.write(Kind.yourAddress.rawValue)
            writer.write(address)
        case .introductionRequest(let subject):
            writer.write(Kind.introductionRequest.rawValue)
            writer.write(subject.value)
        case .introduction(let introduction):
            writer.write(Kind.introduction.rawValue)
            introduction.encode(into: &writer)
        case .introductionRefused(let subject):
            writer.write(Kind.introductionRefused.rawValue)
            writer.write(subject.value)
        }
    }
}

extension ByteWriter {
    fileprivate mutating func write(list peers: [PeerID]) {
        write(UInt8(peers.count))
        for peer in peers { write(peer.value) }
    }
}

extension PresenceVersion {
    fileprivate func encode(into writer: inout ByteWriter) {
        writer.write(peer.value)
        writer.write(startCount)
        writer.write(revision)
        writer.write(incarnation.value)
    }

    fileprivate init(reading bytes: Span<UInt8>, at position: inout Int) throws(WireError) {
        peer = PeerID(try bytes.readBytes32(&position))
        startCount = try bytes.readUInt64(&position)
        revision = try bytes.readUInt64(&position)
        incarnation = Incarnation(try bytes.readUInt64(&position))
    }
}

extension KeepAlive {
    fileprivate func encode(into writer: inout ByteWriter) {
        writer.write(digest)
        writer.write(UInt8(isWatching ? 1 : 0))
        writer.write(health)
        writer.write(list: asked)
        writer.write(UInt8(reports.count))
        for report in reports {
            writer.write(report.subject.value)
            writer.write(report.ageMilliseconds)
        }
    }

    fileprivate init(reading bytes: Span<UInt8>, at position: inout Int) throws(WireError) {
        digest = try bytes.readBytes16(&position)
        isWatching = try bytes.readUInt8(&position) & 1 != 0
        health = try bytes.readUInt8(&position)
        asked = try bytes.readPeers(&position, maximum: SessionMessage.Limits.keepAliveEntries)
        let count = try bytes.readCount8(&position, maximum: SessionMessage.Limits.keepAliveEntries)
        reports = []
        for _ in 0..<count {
            let subject = PeerID(try bytes.readBytes32(&position))
            reports.append(Report(subject: subject, ageMilliseconds: try bytes.readUInt32(&position)))
        }
    }
}

// MARK: Decoding

extension Span where Element == UInt8 {
    fileprivate func readPeers(_ position: inout Int, maximum: Int) throws(WireError) -> [PeerID] {
        let count = try readCount8(&position, maximum: maximum)
        var peers: [PeerID] = []
        for _ in 0..<count { peers.append(PeerID(try readBytes32(&position))) }
        return peers
    }
}

extension SessionMessage {
    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard let kind = Kind(rawValue: try bytes.readUInt8(&position)) else { throw .unknownType }
        self = try Self.read(kind, bytes, &position)
        try bytes.expectEnd(position)
    }

    private static func read(
        _ kind: Kind, _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> SessionMessage {
        switch kind {
        case .hello: return .hello(try PresenceRecord(reading: bytes, at: &position))
        case .welcome: return .welcome(try readWelcome(bytes, &position))
        case .refusal:
            guard let refusal = Refusal(rawValue: try bytes.readUInt8(&position)) else { throw .invalidValue }
            return .refusal(refusal)
        case .presences: return .presences(try readPresences(bytes, &position))
        case .summary: return .summary(try readSummary(bytes, &position))
        case .want: return .want(try bytes.readPeers(&position, maximum: Limits.wantEntries))
        case .keepAlive: return .keepAlive(try KeepAlive(reading: bytes, at: &position))
        case .probe: return .probe(nonce: try bytes.readUInt64(&position))
        case .probeAnswer: return .probeAnswer(nonce: try bytes.readUInt64(&position))
        case .probeRequest:
            let subject = PeerID(try bytes.readBytes32(&position))
            return .probeRequest(subject: subject, nonce: try bytes.readUInt64(&position))
        case .probeResult:
            let subject = PeerID(try bytes.readBytes32(&position))
            let nonce = try bytes.readUInt64(&position)
            guard let outcome = ProbeOutcome(rawValue: try bytes.readUInt8(&position)) else { throw .invalidValue }
            return .probeResult(subject: subject, nonce: nonce, outcome: outcome)
        case .suspicion: return .suspicion(subject: PeerID(try bytes.readBytes32(&position)))
        case .farewellSeen: return .farewellSeen
        case .yourAddress: return .yourAddress(try bytes.readAddress(&position))
        case .introductionRequest: return .introductionRequest(subject: PeerID(try bytes.readBytes32(&position)))
        case .introduction: return .introduction(try Introduction(reading: bytes, at: &position))
        case .introductionRefused: return .introductionRefused(subject: PeerID(try bytes.readBytes32(&position)))
        }
    }

    private static func readWelcome(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> Welcome {
        let count = Int(try bytes.readUInt8(&position))
        guard (1...Limits.epochSecrets).contains(count) else { throw .limitExceeded }
        var secrets: [Bytes32] = []
        for _ in 0..<count { secrets.append(try bytes.readBytes32(&position)) }
        return Welcome(
            epochSecrets: secrets, genesis: try bytes.readSizedBytes(&position, maximum: Limits.genesisBytes))
    }

    private static func readPresences(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> [PresenceRecord] {
        let count = try bytes.readCount8(&position, maximum: Limits.presencesPerMessage)
        var presences: [PresenceRecord] = []
        for _ in 0..<count { presences.append(try PresenceRecord(reading: bytes, at: &position)) }
        return presences
    }

    private static func readSummary(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> [PresenceVersion] {
        let count = try bytes.readCount16(&position, maximum: Limits.summaryEntries)
        var versions: [PresenceVersion] = []
        for _ in 0..<count { versions.append(try PresenceVersion(reading: bytes, at: &position)) }
        return versions
    }
}
