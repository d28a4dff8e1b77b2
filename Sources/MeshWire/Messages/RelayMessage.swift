import MeshBase

/// Sealed datagrams of two members, carried by a third. Channel `relay`; first byte = kind. The bytes within are those
/// that would otherwise stand in a UDP datagram; the carrier cannot open them.
public enum RelayMessage: WireMessage {
    /// To the carrier: pass this on to `recipient`.
    case carry([UInt8], to: PeerID)
    /// From the carrier: `sender` gave it this.
    case carried([UInt8], from: PeerID)
    /// From the carrier: nothing goes to `recipient`.
    case notCarried(to: PeerID, Reason)

    public enum Reason: UInt8, Hashable, Sendable, CaseIterable {
        /// The carrier has no direct link to the recipient.
        case noLink = 1
        /// The carrier carries as many pairs as it is willing to.
        case noRoom = 2
    }

    /// Bytes before the datagram.
    public static let overhead = 33

    enum Kind: UInt8 {
        case carry = 1
        case carried = 2
        case notCarried = 3
    }
}

extension RelayMessage {
    public func encode(into writer: inout ByteWriter) {
        switch self {
        case .carry(let datagram, let recipient):
            writer.write(Kind.carry.rawValue)
            writer.write(recipient.value)
            writer.write(bytes: datagram)
        case .carried(let datagram, let sender):
            writer.write(Kind.carried.rawValue)
            writer.write(sender.value)
            writer.write(bytes: datagram)
        case .notCarried(let recipient, let reason):
            writer.write(Kind.notCarried.rawValue)
            writer.write(recipient.value)
            writer.write(reason.rawValue)
        }
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard let kind = Kind(rawValue: try bytes.readUInt8(&position)) else { throw .unknownType }
        let peer = PeerID(try bytes.readBytes32(&position))
        switch kind {
        case .carry: self = .carry(try Self.datagram(bytes, from: position), to: peer)
        case .carried: self = .carried(try Self.datagram(bytes, from: position), from: peer)
        case .notCarried:
            guard let reason = Reason(rawValue: try bytes.readUInt8(&position)) else { throw .invalidValue }
            try bytes.expectEnd(position)
            self = .notCarried(to: peer, reason)
        }
    }

    private static func datagram(_ bytes: Span<UInt8>, from position: Int) throws(WireError) -> [UInt8] {
        let count = bytes.count - position
        guard count >= WireLimits.leastDatagramBytes else { throw .truncated }
        guard count <= WireLimits.relayedDatagramBytes else { throw .limitExceeded }
        return [UInt8](copying: bytes.extracting(position..<bytes.count))
    }
}
