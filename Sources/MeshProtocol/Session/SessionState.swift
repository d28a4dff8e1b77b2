import MeshBase
import MeshWire

/// What a node must remember to return to its mesh: written to a setting that only its user can read (0600), because it
/// holds the mesh's secrets. Records are kept by the store, not here.
///
/// Bytes: `version u8 = 1 | mesh 32 | start count u64 | label text | name text | n u8 | n × epoch secret 32 |
/// genesis sized | n u16 | n × invite | n u16 | n × contact`.
public struct SessionState: WireMessage {
    public var mesh: MeshID
    /// Of the last start; the next one uses the next number.
    public var startCount: UInt64
    public var label: String
    public var name: String
    /// Newest first.
    public var epochSecrets: [Bytes32]
    /// The GENESIS record; empty until it is known.
    public var genesis: [UInt8]
    /// The invites that expire, anybody's. Those that do not are in the records.
    public var expiringInvites: [ExpiringInvite]
    /// Where the other members were last reached.
    public var contacts: [Contact]

    /// `secret id 16 | remaining ns u64`: the time starts again from here after a restart, since the host's clock may
    /// too.
    public struct ExpiringInvite: Hashable, Sendable {
        public var id: SecretID
        public var remaining: TimeSpan

        public init(id: SecretID, remaining: TimeSpan) {
            self.id = id
            self.remaining = remaining
        }
    }

    /// `peer 32 | n u8 ≤ 4 | n × address`.
    public struct Contact: Hashable, Sendable {
        public var peer: PeerID
        public var addresses: [SocketAddress]

        public init(peer: PeerID, addresses: [SocketAddress]) {
            self.peer = peer
            self.addresses = addresses
        }
    }

    static let maximumContacts = 1024
    static let maximumContactAddresses = 4
    static let maximumExpiringInvites = Invites.maximumInvites

    public init(mesh: MeshID, startCount: UInt64, label: String, name: String, epochSecrets: [Bytes32]) {
        self.mesh = mesh
        self.startCount = startCount
        self.label = label
        self.name = name
        self.epochSecrets = epochSecrets
        genesis = []
        expiringInvites = []
        contacts = []
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(mesh.value)
        writer.write(startCount)
        writer.write(text: label)
        writer.write(text: name)
        writer.write(UInt8(epochSecrets.count))
        for secret in epochSecrets { writer.write(secret) }
        writer.write(sized: genesis)
        writer.write(UInt16(expiringInvites.count))
        for invite in expiringInvites {
            writer.write(invite.id.value)
            writer.write(invite.remaining.nanoseconds)
        }
        writer.write(UInt16(contacts.count))
        for contact in contacts {
            writer.write(contact.peer.value)
            writer.write(UInt8(contact.addresses.count))
            for address in contact.addresses { writer.write(address) }
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        mesh = MeshID(try bytes.readBytes32(&position))
        startCount = try bytes.readUInt64(&position)
        label = try bytes.readText(&position, maximum: WireLimits.maximumNameBytes)
        name = try bytes.readText(&position, maximum: WireLimits.maximumNameBytes)
        epochSecrets = try Self.readSecrets(bytes, &position)
        genesis = try bytes.readSizedBytes(&position, maximum: SessionMessage.Limits.genesisBytes)
        expiringInvites = try Self.readInvites(bytes, &position)
        contacts = try Self.readContacts(bytes, &position)
        try bytes.expectEnd(position)
    }

    private static func readSecrets(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Bytes32] {
        let count = Int(try bytes.readUInt8(&position))
        guard (1...SessionMessage.Limits.epochSecrets).contains(count) else { throw .limitExceeded }
        var secrets: [Bytes32] = []
        for _ in 0..<count { secrets.append(try bytes.readBytes32(&position)) }
        return secrets
    }

    private static func readInvites(
        _ bytes: Span<UInt8>, _ position: inout Int
    ) throws(WireError) -> [ExpiringInvite] {
        let count = try bytes.readCount16(&position, maximum: maximumExpiringInvites)
        var invites: [ExpiringInvite] = []
        for _ in 0..<count {
            let id = SecretID(try bytes.readBytes16(&position))
            let remaining = TimeSpan(nanoseconds: try bytes.readInt64(&position))
            guard remaining >= .zero else { throw .invalidValue }
            invites.append(ExpiringInvite(id: id, remaining: remaining))
        }
        return invites
    }

    private static func readContacts(_ bytes: Span<UInt8>, _ position: inout Int) throws(WireError) -> [Contact] {
        let count = try bytes.readCount16(&position, maximum: maximumContacts)
        var contacts: [Contact] = []
        for _ in 0..<count {
            let peer = PeerID(try bytes.readBytes32(&position))
            let addressCount = try bytes.readCount8(&position, maximum: maximumContactAddresses)
            var addresses: [SocketAddress] = []
            for _ in 0..<addressCount { addresses.append(try bytes.readAddress(&position)) }
            contacts.append(Contact(peer: peer, addresses: addresses))
        }
        return contacts
    }
}
