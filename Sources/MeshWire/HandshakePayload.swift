import MeshBase

/// What each side says about itself inside the handshake: 160 bytes, sealed.
///
/// ```
/// NodeID 32 | incarnation 8 | min version u8 | max version u8 | flags 2 | capabilities 4 | membership head 16 |
/// Ed25519("STARLING/1 noise-key\0" || mesh_id || role || static || payload[0..<64]) 64 | 32x0
/// ```
public struct HandshakePayload: Hashable, Sendable {
    public static let byteCount = 160
    /// The bytes that the signature covers.
    public static let signedByteCount = 64
    /// Flag bit 0: the sender still holds a link with this peer and only wants new keys.
    public static let keepsLinkFlag: UInt16 = 1

    public var node: PeerID
    public var incarnation: Incarnation
    public var minimumVersion: UInt8
    public var maximumVersion: UInt8
    public var flags: UInt16
    public var capabilities: UInt32
    public var membershipHead: Bytes16
    /// 64 bytes.
    public var signature: [UInt8]

    public init(
        node: PeerID, incarnation: Incarnation, minimumVersion: UInt8, maximumVersion: UInt8, flags: UInt16,
        capabilities: UInt32, membershipHead: Bytes16, signature: [UInt8] = []
    ) {
        self.node = node
        self.incarnation = incarnation
        self.minimumVersion = minimumVersion
        self.maximumVersion = maximumVersion
        self.flags = flags
        self.capabilities = capabilities
        self.membershipHead = membershipHead
        self.signature = signature
    }

    /// The first 64 bytes.
    public var signedPart: [UInt8] {
        var writer = ByteWriter(reserving: Self.byteCount)
        writer.write(node.value)
        writer.write(incarnation.value)
        writer.write(minimumVersion)
        writer.write(maximumVersion)
        writer.write(flags)
        writer.write(capabilities)
        writer.write(membershipHead)
        return writer.bytes
    }

    /// What is signed: names the protocol, the mesh, the role and the static key, so that no signature fits elsewhere.
    /// `role`: 0 for the initiator, 1 for the responder.
    public func signedMessage(mesh: MeshID, role: UInt8, staticKey: Bytes32) -> [UInt8] {
        var writer = ByteWriter(reserving: 160)
        writer.write(bytes: "STARLING/1 noise-key\0".utf8)
        writer.write(mesh.value)
        writer.write(role)
        writer.write(staticKey)
        writer.write(bytes: signedPart)
        return writer.bytes
    }

    public var encoded: [UInt8] {
        var bytes = signedPart
        bytes += signature
        bytes.appendZeros(max(0, Self.byteCount - bytes.count))
        return bytes
    }

    /// Refuses another length, a byte that must be zero, and a version range that is upside down. Unknown flags and
    /// capabilities are kept and ignored.
    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        guard bytes.count == Self.byteCount else { throw bytes.count < Self.byteCount ? .truncated : .trailingBytes }
        var position = 0
        node = PeerID(try bytes.readBytes32(&position))
        incarnation = Incarnation(try bytes.readUInt64(&position))
        minimumVersion = try bytes.readUInt8(&position)
        maximumVersion = try bytes.readUInt8(&position)
        flags = try bytes.readUInt16(&position)
        capabilities = try bytes.readUInt32(&position)
        membershipHead = try bytes.readBytes16(&position)
        signature = try bytes.readBytes(&position, count: 64)
        guard bytes.isZero(in: position..<Self.byteCount), minimumVersion <= maximumVersion else {
            throw .invalidValue
        }
    }
}
