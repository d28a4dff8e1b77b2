/// Why bytes from outside were refused. No case carries the bytes; none leaves half-decoded state behind.
public enum WireError: Error, Hashable, Sendable {
    /// The bytes ended before the field did.
    case truncated
    /// Bytes were left over after the last field.
    case trailingBytes
    /// A count, length or size is beyond the limit of its field.
    case limitExceeded
    /// A field has a value that its definition does not allow.
    case invalidValue
    /// A version this build does not speak.
    case unsupportedVersion
    /// A type below 0x80 that this build does not know.
    case unknownType
    /// Text that is not valid UTF-8.
    case invalidText
}
