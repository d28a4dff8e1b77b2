import MeshBase

/// What a node says about itself: its name, where it can be reached, and whether it is here or has left.
///
/// One per node, last writer wins: the greater (start count, incarnation, revision) replaces the other, whatever the
/// order of arrival and without any clock. The start count is kept on disk and grows with every start of the node, so a
/// restarted node supersedes its earlier life everywhere; the revision grows with every change within one life. Only
/// the owner's signature counts, so nobody renames, moves or dismisses another (AB-73, AB-74).
///
/// Bytes: `version u8 = 1 | peer 32 | incarnation u64 | start count u64 | revision u64 | state u8 | capabilities u32 |
/// name text | n u8 | n × address | signature 64`. The signature covers `signedBytes(mesh:)`.
public struct PresenceRecord: WireMessage {
    public enum State: UInt8, Hashable, Sendable {
        case alive = 1
        /// An orderly farewell. A later start supersedes it.
        case left = 2
    }

    /// Whose record it is, and whose signature it must bear.
    public var peer: PeerID
    /// The process life that wrote it. Its order says nothing about which was earlier; it decides, the same way
    /// everywhere, between two processes on copies of one state.
    public var incarnation: Incarnation
    /// How many times the node has started with this key.
    public var startCount: UInt64
    /// How many times this life has changed its record.
    public var revision: UInt64
    public var state: State
    /// Bits for what the node can do; unknown ones are kept and ignored.
    public var capabilities: UInt32
    /// Shown to people; 1 to `WireLimits.maximumNameBytes` bytes of UTF-8. Never an identity.
    public var name: String
    /// At most `WireLimits.maximumPresenceAddresses`; each dialable. A scope has no meaning elsewhere and is not sent.
    public var addresses: [SocketAddress]
    /// Ed25519, 64 bytes.
    public var signature: [UInt8]

    public static let signatureByteCount = 64
    /// Separates these signatures from every other kind made with the same key.
    public static let signatureDomain: [UInt8] = Array("STARLING/1 presence".utf8) + [0]
    /// The largest record: all names and addresses at their limits.
    public static let maximumByteCount =
        1 + 32 + 8 + 8 + 8 + 1 + 4 + 2 + WireLimits.maximumNameBytes + 1 + WireLimits.maximumPresenceAddresses * 19
        + signatureByteCount

    public init(
        peer: PeerID, incarnation: Incarnation, startCount: UInt64, revision: UInt64, state: State,
        capabilities: UInt32 = 0, name: String, addresses: [SocketAddress], signature: [UInt8] = []
    ) {
        self.peer = peer
        self.incarnation = incarnation
        self.startCount = startCount
        self.revision = revision
        self.state = state
        self.capabilities = capabilities
        self.name = name
        self.addresses = addresses
        self.signature = signature
    }

    /// What the owner signs: the domain, the mesh, and every field before the signature. The mesh is not sent: a record
    /// replayed into another mesh does not verify.
    public func signedBytes(mesh: MeshID) -> [UInt8] {
        var writer = ByteWriter(reserving: Self.maximumByteCount + 64)
        writer.write(bytes: Self.signatureDomain)
        writer.write(mesh.value)
        encodeUnsigned(into: &writer)
        return writer.bytes
    }

    public func encode(into writer: inout ByteWriter) {
        encodeUnsigned(into: &writer)
        writer.write(bytes: signature)
    }

    private func encodeUnsigned(into writer: inout ByteWriter) {
        precondition(addresses.count <= WireLimits.maximumPresenceAddresses, "too many addresses in a presence record")
        writer.write(UInt8(1))
        writer.write(peer.value)
        writer.write(incarnation.value)
        writer.write(startCount)
        writer.write(revision)
        writer.write(state.rawValue)
        writer.write(capabilities)
        writer.write(text: name)
        writer.write(UInt8(addresses.count))
        for address in addresses { writer.write(address) }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        self = try PresenceRecord(reading: bytes, at: &position)
        try bytes.expectEnd(position)
    }

    /// Reads one record of several and moves `position` past it.
    public init(reading bytes: Span<UInt8>, at position: inout Int) throws(WireError) {
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        peer = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
        startCount = try bytes.readUInt64(&position)
        revision = try bytes.readUInt64(&position)
        guard let state = State(rawValue: try bytes.readUInt8(&position)) else { throw .invalidValue }
        self.state = state
        capabilities = try bytes.readUInt32(&position)
        name = try bytes.readText(&position, maximum: WireLimits.maximumNameBytes)
        guard !name.isEmpty else { throw .invalidValue }
        let count = try bytes.readCount8(&position, maximum: WireLimits.maximumPresenceAddresses)
        addresses = []
        addresses.reserveCapacity(count)
        for _ in 0..<count {
            let address = try bytes.readAddress(&position)
            guard address.isDialable else { throw .invalidValue }
            addresses.append(address)
        }
        signature = try bytes.readBytes(&position, count: Self.signatureByteCount)
    }
}
