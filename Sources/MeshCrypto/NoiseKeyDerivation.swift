/// HMAC and HKDF over BLAKE2b-512 as Noise defines them (revision 34, section 4.3): libsodium has neither.
enum NoiseKeyDerivation {
    static let hashByteCount = 64
    private static let blockByteCount = 128

    /// HMAC-BLAKE2b (RFC 2104, block of 128 bytes) of two pieces one after the other.
    static func authenticate(_ first: Span<UInt8>, _ second: Span<UInt8> = Span(), key: SecretBytes) -> SecretBytes {
        let inner = Sodium.HashState(key: Span(), byteCount: hashByteCount)
        paddedKey(key, with: 0x36).withBytes { inner.update($0) }
        inner.update(first)
        inner.update(second)
        let outer = Sodium.HashState(key: Span(), byteCount: hashByteCount)
        paddedKey(key, with: 0x5c).withBytes { outer.update($0) }
        inner.finalizeSecret().withBytes { outer.update($0) }
        return outer.finalizeSecret()
    }

    /// Two keys of 64 bytes from a chaining key and an input.
    static func deriveTwo(chainingKey: SecretBytes, input: Span<UInt8>) -> (SecretBytes, SecretBytes) {
        let temporary = authenticate(input, key: chainingKey)
        let first = next(temporary, after: nil, counter: 1)
        return (first, next(temporary, after: first, counter: 2))
    }

    /// Three keys of 64 bytes from a chaining key and an input.
    static func deriveThree(chainingKey: SecretBytes, input: Span<UInt8>) -> (SecretBytes, SecretBytes, SecretBytes) {
        let temporary = authenticate(input, key: chainingKey)
        let first = next(temporary, after: nil, counter: 1)
        let second = next(temporary, after: first, counter: 2)
        return (first, second, next(temporary, after: second, counter: 3))
    }

    private static func next(_ key: SecretBytes, after previous: SecretBytes?, counter: UInt8) -> SecretBytes {
        let suffix: InlineArray<1, UInt8> = [counter]
        guard let previous else { return authenticate(suffix.span, key: key) }
        return previous.withBytes { authenticate($0, suffix.span, key: key) }
    }

    /// The key filled up with zeros to one block, every byte combined with `pad`; a longer key is hashed first.
    private static func paddedKey(_ key: SecretBytes, with pad: UInt8) -> SecretBytes {
        let key = key.count > blockByteCount ? hash(key) : key
        return key.withBytes { key in
            unsafe SecretBytes(count: blockByteCount) { output in
                for index in 0..<blockByteCount {
                    unsafe output[index] = (index < key.count ? key[index] : 0) ^ pad
                }
            }
        }
    }

    private static func hash(_ key: SecretBytes) -> SecretBytes {
        let state = Sodium.HashState(key: Span(), byteCount: hashByteCount)
        key.withBytes { state.update($0) }
        return state.finalizeSecret()
    }
}
