/// Bytes to lines: bounded, across any cut.
public struct LineFramer: Sendable {
    /// The longest line; its excess is dropped and the line reported as too long.
    public let limit: Int
    private var pending: [UInt8] = []
    private var isDropping = false

    public enum Line: Hashable, Sendable {
        case bytes([UInt8])
        /// Longer than the limit.
        case tooLong
    }

    public init(limit: Int) {
        self.limit = limit
    }

    /// The lines that `bytes` complete, without their line feeds.
    public mutating func receive(_ bytes: some Sequence<UInt8>) -> [Line] {
        var lines: [Line] = []
        for byte in bytes {
            if byte == 0x0a {
                lines.append(isDropping ? .tooLong : .bytes(pending))
                pending.removeAll(keepingCapacity: true)
                isDropping = false
            } else if pending.count >= limit {
                isDropping = true
            } else {
                pending.append(byte)
            }
        }
        return lines
    }

    /// What stands behind the last line feed at the end of input.
    public mutating func finish() -> Line? {
        defer {
            pending = []
            isDropping = false
        }
        if isDropping { return .tooLong }
        return pending.isEmpty ? nil : .bytes(pending)
    }
}
