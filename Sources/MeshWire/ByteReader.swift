import MeshBase

/// Reading integers and fields from untrusted bytes: every read is bounds-checked once, moves `position`, and throws
/// instead of trapping. All integers are little-endian. Nothing is allocated beyond the bytes that are really there.
///
/// An extension of `Span` with a position, and not a reader type: a type that stores a span needs lifetime
/// dependencies, which are still experimental in Swift 6.3.
extension Span where Element == UInt8 {
    /// Bytes not yet read.
    @inlinable
    public func remaining(_ position: Int) -> Int { count - position }

    @inlinable
    public func readUInt8(_ position: inout Int) throws(WireError) -> UInt8 {
        guard position < count else { throw .truncated }
        defer { position += 1 }
        return self[position]
    }

    @inlinable
    public func readUInt16(_ position: inout Int) throws(WireError) -> UInt16 {
        UInt16(truncatingIfNeeded: try readInteger(&position, byteCount: 2))
    }

    @inlinable
    public func readUInt32(_ position: inout Int) throws(WireError) -> UInt32 {
        UInt32(truncatingIfNeeded: try readInteger(&position, byteCount: 4))
    }

    @inlinable
    public func readUInt64(_ position: inout Int) throws(WireError) -> UInt64 {
        try readInteger(&position, byteCount: 8)
    }

    @inlinable
    public func readInt64(_ position: inout Int) throws(WireError) -> Int64 {
        Int64(bitPattern: try readInteger(&position, byteCount: 8))
    }

    /// A number as `ByteWriter.write(variable:)` writes it. Every number has one form: a longer one, and one beyond 64
    /// bits, is refused.
    @inlinable
    public func readVariable(_ position: inout Int) throws(WireError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while true {
            let byte = try readUInt8(&position)
            // The tenth byte holds the 64th bit alone.
            guard shift < 63 || byte <= 1 else { throw .invalidValue }
            value |= UInt64(byte & 0x7f) << shift
            guard byte & 0x80 != 0 else {
                guard byte != 0 || shift == 0 else { throw .invalidValue }
                return value
            }
            shift += 7
        }
    }

    /// How many of something follow, in one byte; refused beyond `maximum`, before anything is allocated.
    public func readCount8(_ position: inout Int, maximum: Int) throws(WireError) -> Int {
        let count = Int(try readUInt8(&position))
        guard count <= maximum else { throw .limitExceeded }
        return count
    }

    /// The same in two bytes.
    public func readCount16(_ position: inout Int, maximum: Int) throws(WireError) -> Int {
        let count = Int(try readUInt16(&position))
        guard count <= maximum else { throw .limitExceeded }
        return count
    }

    @inlinable
    func readInteger(_ position: inout Int, byteCount: Int) throws(WireError) -> UInt64 {
        guard count - position >= byteCount else { throw .truncated }
        var value: UInt64 = 0
        for offset in 0..<byteCount { value |= UInt64(self[position + offset]) << UInt64(8 * offset) }
        position += byteCount
        return value
    }

    /// The next `byteCount` bytes as an array. `byteCount` may come from the network: it is checked against what is
    /// really there before anything is allocated.
    public func readBytes(_ position: inout Int, count byteCount: Int) throws(WireError) -> [UInt8] {
        guard byteCount >= 0, count - position >= byteCount else { throw .truncated }
        let slice = extracting(position..<(position + byteCount))
        position += byteCount
        return [UInt8](copying: slice)
    }

    public func readBytes16(_ position: inout Int) throws(WireError) -> Bytes16 {
        guard count - position >= 16, let value = Bytes16(extracting(position..<(position + 16))) else {
            throw .truncated
        }
        position += 16
        return value
    }

    public func readBytes32(_ position: inout Int) throws(WireError) -> Bytes32 {
        guard count - position >= 32, let value = Bytes32(extracting(position..<(position + 32))) else {
            throw .truncated
        }
        position += 32
        return value
    }

    /// `u16 length | bytes`, refused beyond `maximum` bytes.
    public func readSizedBytes(_ position: inout Int, maximum: Int) throws(WireError) -> [UInt8] {
        let length = try readCount16(&position, maximum: maximum)
        return try readBytes(&position, count: length)
    }

    /// `u16 length | UTF-8`, refused beyond `maximum` bytes or when not valid UTF-8.
    public func readText(_ position: inout Int, maximum: Int) throws(WireError) -> String {
        let bytes = try readSizedBytes(&position, maximum: maximum)
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .invalidText }
        return text
    }

    /// An address: `family u8 (4 or 6) | 4 or 16 bytes | port u16`.
    public func readAddress(_ position: inout Int) throws(WireError) -> SocketAddress {
        guard let family = SocketAddress.Family(rawValue: try readUInt8(&position)) else { throw .invalidValue }
        let bytes = try readBytes(&position, count: family == .ipv4 ? 4 : 16)
        let port = try readUInt16(&position)
        guard let address = SocketAddress(family: family, address: bytes, port: port) else { throw .invalidValue }
        return address
    }

    /// Throws unless every byte was read.
    public func expectEnd(_ position: Int) throws(WireError) {
        guard position == count else { throw .trailingBytes }
    }
}

extension Array where Element == UInt8 {
    /// A copy of a span's bytes.
    public init(copying span: Span<UInt8>) {
        self = unsafe span.withUnsafeBufferPointer { unsafe Array($0) }
    }
}

extension Array {
    /// Adds one more of a list whose elements must rise strictly by `key`, which gives every list one byte form.
    mutating func append(rising element: Element, by key: (Element) -> some Comparable) throws(WireError) {
        if let last, key(element) <= key(last) { throw .invalidValue }
        append(element)
    }
}

extension Array where Element: Comparable {
    /// Adds one more of a list that must rise strictly.
    mutating func append(rising element: Element) throws(WireError) { try append(rising: element, by: \.self) }
}
