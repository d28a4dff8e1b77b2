import MeshBase

/// The first byte of every datagram.
public enum DatagramType: UInt8, Sendable, Hashable, CaseIterable {
    /// INIT: first message of a handshake.
    case initiation = 1
    /// RESP: its answer.
    case response = 2
    /// FIN: last message of a handshake.
    case final = 3
    /// DATA: sealed frames.
    case data = 4
    /// COOKIE: prove your address first.
    case cookie = 5
}

/// INIT, RESP or FIN: 352 bytes, so that a reply is never larger than its request.
///
/// ```
/// INIT   1 | 3x0 | u32 sender_index | 8x0                        | 48 noise  | 256x0 | mac1 16 | mac2 16
/// RESP   2 | 3x0 | u32 sender_index | u32 receiver_index | 4x0   | 256 noise | 48x0  | mac1 16 | mac2 16
/// FIN    3 | 3x0 | u32 sender_index | u32 receiver_index | 4x0   | 224 noise | 80x0  | mac1 16 | mac2 16
/// ```
/// `mac1` covers the first 320 bytes, `mac2` the first 336. Docs/Protocol.md, "Handshake datagrams".
public struct HandshakeDatagram: Hashable, Sendable {
    public static let noiseOffset = 16
    public static let mac1Offset = 320
    public static let mac2Offset = 336

    public var type: DatagramType
    public var senderIndex: UInt32
    /// Zero in INIT.
    public var receiverIndex: UInt32
    public var noise: [UInt8]

    public init(type: DatagramType, senderIndex: UInt32, receiverIndex: UInt32, noise: [UInt8]) {
        self.type = type
        self.senderIndex = senderIndex
        self.receiverIndex = receiverIndex
        self.noise = noise
    }

    /// Bytes of Noise in each type; `nil` for the types that are not handshakes.
    public static func noiseByteCount(of type: DatagramType) -> Int? {
        switch type {
        case .initiation: 48
        case .response: 256
        case .final: 224
        case .data, .cookie: nil
        }
    }

    /// The 320 bytes before the MACs, with room for them.
    public var bytesBeforeMACs: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(WireLimits.handshakeDatagramBytes)
        bytes.append(type.rawValue)
        bytes.appendZeros(3)
        bytes.appendInteger(senderIndex)
        bytes.appendInteger(receiverIndex)
        bytes.appendZeros(4)
        bytes += noise
        bytes.appendZeros(max(0, Self.mac1Offset - bytes.count))
        return bytes
    }

    /// Checks length, type and every zero byte; the MACs are the caller's to check.
    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        guard bytes.count == WireLimits.handshakeDatagramBytes else { throw .truncated }
        guard let type = DatagramType(rawValue: bytes[0]), let noiseByteCount = Self.noiseByteCount(of: type) else {
            throw .unknownType
        }
        let noiseEnd = Self.noiseOffset + noiseByteCount
        guard bytes.isZero(in: 1..<4), bytes.isZero(in: (type == .initiation ? 8 : 12)..<Self.noiseOffset),
            bytes.isZero(in: noiseEnd..<Self.mac1Offset)
        else { throw .invalidValue }
        var position = 4
        self.type = type
        senderIndex = try bytes.readUInt32(&position)
        receiverIndex = try bytes.readUInt32(&position)
        position = Self.noiseOffset
        noise = try bytes.readBytes(&position, count: noiseByteCount)
    }
}

/// COOKIE, 64 bytes: `5 | 3x0 | u32 receiver_index | 24 nonce | 32 sealed cookie`.
///
/// Sealed with XChaCha20-Poly1305 under the secret's cookie key; associated data is `mac1` of the refused datagram.
public struct CookieDatagram: Hashable, Sendable {
    public static let byteCount = 64

    public var receiverIndex: UInt32
    public var nonce: [UInt8]
    public var sealedCookie: [UInt8]

    public init(receiverIndex: UInt32, nonce: [UInt8], sealedCookie: [UInt8]) {
        self.receiverIndex = receiverIndex
        self.nonce = nonce
        self.sealedCookie = sealedCookie
    }

    public var encoded: [UInt8] {
        var bytes: [UInt8] = [DatagramType.cookie.rawValue, 0, 0, 0]
        bytes.appendInteger(receiverIndex)
        bytes += nonce
        bytes += sealedCookie
        return bytes
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        guard bytes.count == Self.byteCount else { throw .truncated }
        guard bytes[0] == DatagramType.cookie.rawValue else { throw .unknownType }
        guard bytes.isZero(in: 1..<4) else { throw .invalidValue }
        var position = 4
        receiverIndex = try bytes.readUInt32(&position)
        nonce = try bytes.readBytes(&position, count: 24)
        sealedCookie = try bytes.readBytes(&position, count: 32)
    }
}

/// The readable part of DATA: `4 | 3x0 | u32 receiver_index | u64 counter`; authenticated with the sealed frames.
public struct DataHeader: Hashable, Sendable {
    /// Header, timing header and tag: nothing shorter is a DATA datagram.
    public static let minimumDatagramBytes =
        WireLimits.dataHeaderBytes + TimingHeader.byteCount + WireLimits.tagBytes

    public var receiverIndex: UInt32
    public var counter: UInt64

    public init(receiverIndex: UInt32, counter: UInt64) {
        self.receiverIndex = receiverIndex
        self.counter = counter
    }

    public func encode(into bytes: inout [UInt8]) {
        bytes.appendInteger(UInt32(DatagramType.data.rawValue))
        bytes.appendInteger(receiverIndex)
        bytes.appendInteger(counter)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        guard bytes.count >= Self.minimumDatagramBytes, bytes.count <= WireLimits.maximumDatagramBytes else {
            throw .truncated
        }
        guard bytes[0] == DatagramType.data.rawValue else { throw .unknownType }
        guard bytes.isZero(in: 1..<4) else { throw .invalidValue }
        var position = 4
        receiverIndex = try bytes.readUInt32(&position)
        counter = try bytes.readUInt64(&position)
    }
}
