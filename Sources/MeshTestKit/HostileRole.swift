import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// A way to break the rules.
public enum HostileKind: String, Hashable, Sendable, CaseIterable {
    case forger, replayer, equivocator
    case lamportLiar = "lamport-liar"
    case flooder
    case slowReader = "slow-reader"
    case withholder
    case tomorrow
    case stranger

    public var summary: String {
        switch self {
        case .forger: "writes presences, records, messages and farewells in others' names"
        case .replayer: "repeats datagrams, messages and records of others, from its own address and over its links"
        case .equivocator: "signs two different records of one number and tells each to half of the members"
        case .lamportLiar: "signs records and messages with the greatest times and numbers there are"
        case .flooder: "sends as much of everything as its links take, and junk beside them"
        case .slowReader: "reads five datagrams a second"
        case .withholder: "passes nothing on, answers no request, and claims to be linked with everybody"
        case .tomorrow: "speaks a later version: unknown kinds of messages and records, unknown capabilities"
        case .stranger: "is no member: sends junk, and pieces and copies of others' datagrams"
        }
    }

    /// Whether it holds an invite and joins.
    public var isMember: Bool { self != .stranger }

    func makeRole() -> any HostileRole {
        switch self {
        case .forger: Forger()
        case .replayer: Replayer()
        case .equivocator: Equivocator()
        case .lamportLiar: LamportLiar()
        case .flooder: Flooder()
        case .slowReader: SlowReader()
        case .withholder: Withholder()
        case .tomorrow: Tomorrow()
        case .stranger: Flooder()
        }
    }
}

/// One message for a linked peer.
public struct HostileMessage: Sendable {
    public var channel: Channel
    public var bytes: [UInt8]
    public var peer: PeerID
    public var priority: Priority
    public var isReliable: Bool
    /// As in `OutgoingMessage`.
    public var receipt: UInt64?

    public init(
        _ channel: Channel, _ bytes: [UInt8], to peer: PeerID, priority: Priority = .command, isReliable: Bool = true,
        receipt: UInt64? = nil
    ) {
        self.receipt = receipt
        self.channel = channel
        self.bytes = bytes
        self.peer = peer
        self.priority = priority
        self.isReliable = isReliable
    }
}

/// What a hostile member does differently from an honest one. Every method but `act` may stay as it is.
protocol HostileRole {
    /// Datagrams read at once, and the pause after as many.
    var readLimit: Int { get }
    var readPause: TimeSpan { get }
    /// What becomes of a message that an honest member would send: as it is, another one, several, or none.
    mutating func change(_ message: HostileMessage, _ hands: inout HostileHands) -> [HostileMessage]
    mutating func hear(_ channel: Channel, _ bytes: [UInt8], from peer: PeerID)
    mutating func overhear(_ bytes: [UInt8], to destination: SocketAddress)
    /// Does something of its own; returns when it wants to act again.
    mutating func act(_ hands: inout HostileHands) -> TimeSpan
}

extension HostileRole {
    var readLimit: Int { 1_000 }
    var readPause: TimeSpan { .zero }
    func change(_ message: HostileMessage, _ hands: inout HostileHands) -> [HostileMessage] { [message] }
    func hear(_ channel: Channel, _ bytes: [UInt8], from peer: PeerID) {}
    func overhear(_ bytes: [UInt8], to destination: SocketAddress) {}
}

/// What a hostile member has at hand: its own key, the mesh's secrets and records, and its links.
struct HostileHands {
    let identity: NodeIdentity
    let mesh: MeshID
    let address: SocketAddress
    var random: RandomStream
    var now = HostTime.zero
    var linked: [PeerID] = []
    var members: [Member] = []
    var secret: GroupSecret?
    /// All records it holds, in total order.
    var records: [[UInt8]] = []
    var refusedCommands = 0
    var unsent = 0
    private var messages: [HostileMessage] = []
    private var datagrams: [(bytes: [UInt8], destination: SocketAddress)] = []
    private var commands: [GossipCommand] = []

    init(identity: NodeIdentity, mesh: MeshID, address: SocketAddress, random: RandomStream) {
        self.identity = identity
        self.mesh = mesh
        self.address = address
        self.random = random
    }

    mutating func say(_ channel: Channel, _ bytes: [UInt8], to peer: PeerID, isReliable: Bool = true) {
        messages.append(HostileMessage(channel, bytes, to: peer, isReliable: isReliable))
    }

    mutating func sayToAll(_ channel: Channel, _ bytes: [UInt8]) {
        for peer in linked { say(channel, bytes, to: peer) }
    }

    mutating func throwDatagram(_ bytes: [UInt8], to destination: SocketAddress) {
        datagrams.append((bytes, destination))
    }

    /// As an honest member's gossip would do it.
    mutating func command(_ command: GossipCommand) { commands.append(command) }

    mutating func anyLinked() -> PeerID? { linked.isEmpty ? nil : linked[random.below(linked.count)] }
    mutating func anyMember() -> Member? { members.isEmpty ? nil : members[random.below(members.count)] }

    mutating func takeMessages() -> [HostileMessage] {
        defer { messages = [] }
        return messages
    }

    mutating func takeDatagrams() -> [(bytes: [UInt8], destination: SocketAddress)] {
        defer { datagrams = [] }
        return datagrams
    }

    mutating func takeCommands() -> [GossipCommand] {
        defer { commands = [] }
        return commands
    }

    // MARK: Making records

    /// A record with a valid seal and whatever else it is told, signed by `signer`. `nil` without a secret.
    mutating func record(
        _ kind: RecordKind, author: PeerID, incarnation: Incarnation, sequence: UInt64, lamport: UInt64,
        previous: RecordID, parents: [RecordID], body: [UInt8], signer: SigningKeyPair
    ) -> [UInt8]? {
        guard let secret else { return nil }
        var envelope = Envelope(
            kind: kind, mesh: mesh, author: author, incarnation: incarnation, sequence: sequence, lamport: lamport,
            previous: previous, epoch: secret.id, parents: parents, nonce: random.bytes(Envelope.nonceByteCount),
            sealedBody: [], signature: [])
        var header = ByteWriter(reserving: 256)
        envelope.encodeHeader(into: &header, sealedByteCount: body.count + WireLimits.tagBytes)
        guard
            let sealed = try? AuthenticatedCipher.sealExtended(
                body.span, associated: header.bytes.span, nonce: envelope.nonce.span, key: secret.envelopeKey)
        else { return nil }
        envelope.sealedBody = sealed
        var unsigned = ByteWriter(reserving: 512)
        envelope.encodeUnsigned(into: &unsigned)
        let signature = signer.sign((Array("STARLING/1 record\0".utf8) + unsigned.bytes).span)
        return unsigned.bytes + signature
    }

    static func identifier(of record: [UInt8]) -> RecordID {
        RecordID(Digest.hash32(Array(record.dropLast(Envelope.signatureByteCount))))
    }

    /// The last record known, as a cause for another.
    var lastRecord: (id: RecordID, envelope: Envelope)? {
        guard let bytes = records.last, let envelope = try? Envelope(decoding: bytes) else { return nil }
        return (Self.identifier(of: bytes), envelope)
    }

    func bundle(_ records: [[UInt8]]) -> [UInt8] {
        GossipMessage.records(RecordBundle(hasMore: false, records: records)).encoded
    }
}
