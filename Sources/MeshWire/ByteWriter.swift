import MeshBase

/// Appends fields in the wire's byte order (little-endian) to a byte array whose capacity is reused.
public struct ByteWriter: Sendable {
    public private(set) var bytes: [UInt8]

    public init(reserving capacity: Int = 0) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    public var count: Int { bytes.count }

    public mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    public mutating func write(_ value: UInt8) { bytes.append(value) }
    public mutating func write(_ value: UInt16) { writeInteger(UInt64(value), byteCount: 2) }
    public mutating func write(_ value: UInt32) { writeInteger(UInt64(value), byteCount: 4) }
    public mutating func write(_ value: UInt64) { writeInteger(value, byteCount: 8) }
    public mutating func write(_ value: Int64) { writeInteger(UInt64(bitPattern: value), byteCount: 8) }

    private mutating func writeInteger(_ value: UInt64, byteCount: Int) {
        for offset in 0..<byteCount { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * offset))) }
    }

    /// A number in seven bits a byte, the least first, the top bit of each byte telling that another follows: 1 to 10
    /// bytes, as few as the number needs.
    public mutating func write(variable value: UInt64) { bytes.appendVariable(value) }

    public mutating func write(_ value: Bytes16) { value.append(to: &bytes) }
    public mutating func write(_ value: Bytes32) { value.append(to: &bytes) }
    public mutating func write(bytes value: some Collection<UInt8>) { bytes.append(contentsOf: value) }
    public mutating func write(zeros count: Int) { bytes.append(contentsOf: repeatElement(0, count: count)) }

    /// `u16 length | bytes`. The caller keeps `value` within the field's limit, at most 65,535 bytes.
    public mutating func write(sized value: some Collection<UInt8>) {
        precondition(value.count <= Int(UInt16.max), "a sized field holds at most 65,535 bytes")
        write(UInt16(value.count))
        bytes.append(contentsOf: value)
    }

    /// `u16 length | UTF-8`.
    public mutating func write(text value: String) { write(sized: Array(value.utf8)) }

    /// `family u8 (4 or 6) | 4 or 16 bytes | port u16`.
    public mutating func write(_ address: SocketAddress) {
        write(address.family.rawValue)
        write(bytes: address.addressBytes)
        write(address.port)
    }
}

extension [UInt8] {
    /// See `ByteWriter.write(variable:)`.
    public mutating func appendVariable(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }
}

/// A message with one byte form. `encode` and `init(decoding:)` are inverse; decoding refuses left-over bytes.
public protocol WireMessage: Hashable, Sendable {
    func encode(into writer: inout ByteWriter)
    init(decoding bytes: Span<UInt8>) throws(WireError)
}

extension WireMessage {
    /// The message's bytes. Allocates.
    public var encoded: [UInt8] {
        var writer = ByteWriter()
        encode(into: &writer)
        return writer.bytes
    }

    public init(decoding bytes: [UInt8]) throws(WireError) {
        try self.init(decoding: bytes.span)
    }
}
