import MeshBase

/// ChaCha20-Poly1305 for datagrams, XChaCha20-Poly1305 for what is sealed once with a random nonce.
public enum AuthenticatedCipher {
    public static let tagByteCount = 16
    public static let extendedNonceByteCount = 24

    /// Seals a whole datagram in place: the first `headerByteCount` bytes are authenticated and stay readable, the last
    /// 16 receive the tag. The nonce is four zero bytes and the counter, little-endian: a counter is used once per key.
    public static func sealDatagram(
        _ datagram: inout MutableSpan<UInt8>, headerByteCount: Int, counter: UInt64, key: SecretBytes
    ) throws(CryptoError) {
        try Sodium.sealInPlace(&datagram, headerByteCount: headerByteCount, nonce: counterNonce(counter), key: key)
    }

    /// Opens what `sealDatagram` made; throws `authenticationFailed` and leaves the bytes as they were otherwise.
    public static func openDatagram(
        _ datagram: inout MutableSpan<UInt8>, headerByteCount: Int, counter: UInt64, key: SecretBytes
    ) throws(CryptoError) {
        try Sodium.openInPlace(&datagram, headerByteCount: headerByteCount, nonce: counterNonce(counter), key: key)
    }

    /// ChaCha20-Poly1305 as Noise uses it: result is ciphertext and tag.
    public static func seal(
        _ plain: Span<UInt8>, associated: Span<UInt8>, counter: UInt64, key: SecretBytes
    ) -> [UInt8] {
        Sodium.seal(plain, associated: associated, nonce: counterNonce(counter), key: key)
    }

    public static func open(
        _ sealed: Span<UInt8>, associated: Span<UInt8>, counter: UInt64, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        try Sodium.open(sealed, associated: associated, nonce: counterNonce(counter), key: key)
    }

    /// XChaCha20-Poly1305; `nonce` is 24 random bytes, never used twice with one key.
    public static func sealExtended(
        _ plain: Span<UInt8>, associated: Span<UInt8>, nonce: Span<UInt8>, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        try Sodium.sealExtended(plain, associated: associated, nonce: nonce, key: key)
    }

    public static func openExtended(
        _ sealed: Span<UInt8>, associated: Span<UInt8>, nonce: Span<UInt8>, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        try Sodium.openExtended(sealed, associated: associated, nonce: nonce, key: key)
    }

    static func counterNonce(_ counter: UInt64) -> InlineArray<12, UInt8> {
        var nonce = InlineArray<12, UInt8>(repeating: 0)
        for offset in 0..<8 { nonce[4 + offset] = UInt8(truncatingIfNeeded: counter >> UInt64(8 * offset)) }
        return nonce
    }
}
