import MeshBase

/// Bytes that must not leak: fixed at creation, outside Swift's copyable storage, wiped when the last reference goes.
///
/// A reference and not a `~Copyable` value, because keys stand in dictionaries; what must not be copied is the memory,
/// and there is one. It has no `==` and no description; compare with `matches`.
@safe public final class SecretBytes: @unchecked Sendable {
    // Sendable: `pointer` is written only inside `init`, before any other reference can exist, and wiped in `deinit`,
    // when none can.
    let pointer: UnsafeMutablePointer<UInt8>
    public let count: Int

    /// Allocates `count` zero bytes and lets `fill` write them.
    init(count: Int, fill: (UnsafeMutablePointer<UInt8>) -> Void) {
        self.count = count
        unsafe pointer = .allocate(capacity: max(count, 1))
        unsafe pointer.initialize(repeating: 0, count: max(count, 1))
        unsafe fill(pointer)
    }

    /// Copies `bytes`. The caller wipes its own copy where that matters.
    public convenience init(copying bytes: Span<UInt8>) {
        unsafe self.init(count: bytes.count) { pointer in
            unsafe bytes.withUnsafeBufferPointer { source in
                guard let base = source.baseAddress else { return }
                unsafe pointer.update(from: base, count: source.count)
            }
        }
    }

    public convenience init(copying bytes: [UInt8]) {
        self.init(copying: bytes.span)
    }

    deinit {
        unsafe Sodium.wipe(pointer, count: count)
        unsafe pointer.deallocate()
    }

    /// Lends the bytes; nothing may keep them.
    public func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let buffer = unsafe UnsafeBufferPointer(start: pointer, count: count)
        return try body(unsafe buffer.span)
    }

    /// A plain copy, for the one place that must write a secret down (the 0600 store, a ticket, a sealed message).
    public func revealed() -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: pointer, count: count))
    }

    /// The first `byteCount` bytes, at most all of them, as a secret of its own.
    func prefix(_ byteCount: Int) -> SecretBytes {
        withBytes { SecretBytes(copying: $0.extracting(first: byteCount)) }
    }

    /// Equality in constant time.
    public func matches(_ other: SecretBytes) -> Bool {
        withBytes { left in other.withBytes { right in Sodium.equal(left, right) } }
    }
}
