import MeshBase

/// The types of frames. Unknown ones from 0x80 on are skipped by their length; unknown ones below close the link.
public enum FrameType: UInt8, Sendable, Hashable, CaseIterable {
    /// Zeros to the end of the datagram; the only frame without a length.
    case padding = 0
    case acknowledgement = 1
    case ping = 2
    case close = 3
    case pathChallenge = 4
    case pathResponse = 5
    case mtuProbe = 6
    case message = 7
    case fragment = 8

    /// `type u8 | length u16`.
    public static let headerBytes = 3
}

/// One part of a DATA plaintext: `u8 type | u16 length | body`. Payloads stay where they are: a frame names their place.
public enum Frame: Hashable, Sendable {
    case acknowledgement(AcknowledgementFrame)
    /// Asks for an acknowledgement and says nothing. Body empty.
    case ping
    /// Body `u8 code`: the link ends here.
    case close(UInt8)
    /// Body `u64`: answer with the same number, from where this arrived.
    case pathChallenge(UInt64)
    case pathResponse(UInt64)
    /// Body empty; the datagram is padded to the size that is tried.
    case mtuProbe
    case message(MessageFrame)
    case fragment(FragmentFrame)
    /// A type from 0x80 on that this build does not know.
    case unknown(UInt8)

    /// The frame at `position`, which moves behind it; `nil` at the end or at padding. Every call moves `position`
    /// forward by at least three bytes or ends. Throws `unknownType` for a type below 0x80 that is not defined.
    public static func next(in bytes: Span<UInt8>, at position: inout Int) throws(WireError) -> Frame? {
        guard position < bytes.count, bytes[position] != FrameType.padding.rawValue else {
            position = bytes.count
            return nil
        }
        let rawType = try bytes.readUInt8(&position)
        let length = Int(try bytes.readUInt16(&position))
        guard bytes.count - position >= length else { throw .truncated }
        let body = bytes.extracting(position..<(position + length))
        let bodyOffset = position
        position += length
        guard let type = FrameType(rawValue: rawType) else {
            guard rawType >= 0x80 else { throw .unknownType }
            return .unknown(rawType)
        }
        return try decode(type, body: body, bodyOffset: bodyOffset)
    }

    private static func decode(
        _ type: FrameType, body: Span<UInt8>, bodyOffset: Int
    ) throws(WireError) -> Frame {
        var position = 0
        let frame: Frame
        switch type {
        case .padding: throw .invalidValue
        case .acknowledgement: frame = .acknowledgement(try AcknowledgementFrame(decoding: body, at: &position))
        case .ping: frame = .ping
        case .close: frame = .close(try body.readUInt8(&position))
        case .pathChallenge: frame = .pathChallenge(try body.readUInt64(&position))
        case .pathResponse: frame = .pathResponse(try body.readUInt64(&position))
        case .mtuProbe: frame = .mtuProbe
        case .message: frame = .message(try MessageFrame(decoding: body, at: &position, bodyOffset: bodyOffset))
        case .fragment: frame = .fragment(try FragmentFrame(decoding: body, at: &position, bodyOffset: bodyOffset))
        }
        try body.expectEnd(position)
        return frame
    }

    // MARK: Writing

    public static func appendHeader(_ type: FrameType, length: Int, to bytes: inout [UInt8]) {
        bytes.append(type.rawValue)
        bytes.appendInteger(UInt16(truncatingIfNeeded: length))
    }

    public static func appendPing(to bytes: inout [UInt8]) { appendHeader(.ping, length: 0, to: &bytes) }

    public static func appendMTUProbe(to bytes: inout [UInt8]) { appendHeader(.mtuProbe, length: 0, to: &bytes) }

    public static func appendClose(_ code: UInt8, to bytes: inout [UInt8]) {
        appendHeader(.close, length: 1, to: &bytes)
        bytes.append(code)
    }

    public static func appendPathChallenge(_ number: UInt64, to bytes: inout [UInt8]) {
        appendHeader(.pathChallenge, length: 8, to: &bytes)
        bytes.appendInteger(number)
    }

    public static func appendPathResponse(_ number: UInt64, to bytes: inout [UInt8]) {
        appendHeader(.pathResponse, length: 8, to: &bytes)
        bytes.appendInteger(number)
    }
}
