/// A message that fits in one datagram: `channel u8 | flags u8 | message id u64 (reliable ones only) | payload`.
public struct MessageFrame: Hashable, Sendable {
    /// Flag bit 0: retransmitted until acknowledged; carries an id.
    public static let reliableFlag: UInt8 = 1

    public var channel: UInt8
    /// `nil` when the message is not reliable.
    public var messageID: UInt64?
    /// Where the payload stands in the plaintext.
    public var payload: Range<Int>

    init(decoding body: Span<UInt8>, at position: inout Int, bodyOffset: Int) throws(WireError) {
        channel = try body.readUInt8(&position)
        let flags = try body.readUInt8(&position)
        guard flags & ~Self.reliableFlag == 0 else { throw .invalidValue }
        messageID = flags & Self.reliableFlag != 0 ? try body.readUInt64(&position) : nil
        payload = (bodyOffset + position)..<(bodyOffset + body.count)
        position = body.count
    }

    /// Bytes before the payload, frame header included.
    public static func overhead(isReliable: Bool) -> Int { FrameType.headerBytes + (isReliable ? 10 : 2) }

    /// The caller keeps the frame within 65,535 bytes.
    public static func append(channel: UInt8, messageID: UInt64?, payload: [UInt8], to bytes: inout [UInt8]) {
        Frame.appendHeader(.message, length: payload.count + (messageID == nil ? 2 : 10), to: &bytes)
        bytes.append(channel)
        bytes.append(messageID == nil ? 0 : reliableFlag)
        if let messageID { bytes.appendInteger(messageID) }
        bytes.append(contentsOf: payload)
    }
}

/// A part of a message: `message id u64 | first slot u16 | total u32 | channel u8 | flags u8 | data`.
///
/// The data are consecutive slots of 1,024 bytes from `firstSlot` on; only the message's last slot may be shorter.
public struct FragmentFrame: Hashable, Sendable {
    public static let fixedBytes = 16
    public static let overhead = FrameType.headerBytes + fixedBytes

    public var messageID: UInt64
    public var firstSlot: Int
    public var totalBytes: Int
    public var channel: UInt8
    public var isReliable: Bool
    /// Where the data stand in the plaintext.
    public var payload: Range<Int>

    /// First byte of the data within the message.
    public var offset: Int { firstSlot * WireLimits.fragmentSlotBytes }

    /// Refuses an empty message or fragment, a message beyond the limit, data that reach beyond the message, and data
    /// that end inside a slot which is not the last (AB-23, AB-25).
    init(decoding body: Span<UInt8>, at position: inout Int, bodyOffset: Int) throws(WireError) {
        messageID = try body.readUInt64(&position)
        firstSlot = Int(try body.readUInt16(&position))
        let total = try body.readUInt32(&position)
        channel = try body.readUInt8(&position)
        let flags = try body.readUInt8(&position)
        guard flags & ~MessageFrame.reliableFlag == 0 else { throw .invalidValue }
        isReliable = flags & MessageFrame.reliableFlag != 0
        guard total >= 1, total <= UInt32(WireLimits.maximumLinkMessageBytes) else { throw .limitExceeded }
        totalBytes = Int(total)
        payload = (bodyOffset + position)..<(bodyOffset + body.count)
        position = body.count
        let end = firstSlot * WireLimits.fragmentSlotBytes + payload.count
        guard !payload.isEmpty, end <= totalBytes else { throw .limitExceeded }
        guard end == totalBytes || payload.count.isMultiple(of: WireLimits.fragmentSlotBytes) else {
            throw .invalidValue
        }
    }

    public static func append(
        messageID: UInt64, firstSlot: Int, totalBytes: Int, channel: UInt8, isReliable: Bool, data: ArraySlice<UInt8>,
        to bytes: inout [UInt8]
    ) {
        Frame.appendHeader(.fragment, length: data.count + fixedBytes, to: &bytes)
        bytes.appendInteger(messageID)
        bytes.appendInteger(UInt16(truncatingIfNeeded: firstSlot))
        bytes.appendInteger(UInt32(truncatingIfNeeded: totalBytes))
        bytes.append(channel)
        bytes.append(isReliable ? MessageFrame.reliableFlag : 0)
        bytes.append(contentsOf: data)
    }
}
