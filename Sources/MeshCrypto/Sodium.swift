import CSodium
import MeshBase

// The only file that calls libsodium. Every length is checked here and every return value; the rest of the module sees
// spans and typed errors. Swift arrays are never handed to C longer than one call.

/// Why a cryptographic operation was refused. Never says more than the caller may tell a stranger.
public enum CryptoError: Error, Hashable, Sendable {
    /// libsodium could not be initialised, or its generator failed its self-test. Nothing may run.
    case unavailable
    /// A key, nonce, tag or signature of the wrong length.
    case invalidLength
    /// A tag, MAC or signature does not match.
    case authenticationFailed
    /// A public key of low order: the agreement would be all zeros.
    case invalidPublicKey
    /// A message out of turn, or a counter that is used up.
    case invalidState
}

enum Sodium {
    /// `sodium_init` once per process; thread-safe by Swift's lazy initialisation.
    static let isReady: Bool = sodium_init() >= 0

    static func requireReady() {
        precondition(isReady, "libsodium could not be initialised")
    }

    // MARK: Hashing

    /// BLAKE2b of 16 to 64 bytes over `input`, keyed when `key` is not empty (16 to 64 bytes).
    static func genericHash(_ input: Span<UInt8>, key: Span<UInt8>, byteCount: Int) -> [UInt8] {
        requireReady()
        precondition((16...64).contains(byteCount) && (key.isEmpty || (16...64).contains(key.count)), "BLAKE2b sizes")
        var output = [UInt8](repeating: 0, count: byteCount)
        let result = unsafe input.withUnsafeBufferPointer { input in
            unsafe key.withUnsafeBufferPointer { key in
                unsafe output.withUnsafeMutableBufferPointer { output in
                    unsafe crypto_generichash(
                        output.baseAddress!, output.count, input.baseAddress, UInt64(input.count), key.baseAddress,
                        key.count)
                }
            }
        }
        precondition(result == 0, "crypto_generichash refused checked arguments")
        return output
    }

    /// BLAKE2b-256 of `input`, keyed when `key` is not empty. Allocates nothing.
    static func genericHash32(_ input: Span<UInt8>, key: Span<UInt8>) -> Bytes32 {
        var output = InlineArray<32, UInt8>(repeating: 0)
        var outputSpan = output.mutableSpan
        genericHash(input, key: key, into: &outputSpan)
        return Bytes32(output.span) ?? .zero
    }

    /// BLAKE2b-128 of `input`, keyed when `key` is not empty. Allocates nothing.
    static func genericHash16(_ input: Span<UInt8>, key: Span<UInt8>) -> Bytes16 {
        var output = InlineArray<16, UInt8>(repeating: 0)
        var outputSpan = output.mutableSpan
        genericHash(input, key: key, into: &outputSpan)
        return Bytes16(output.span) ?? .zero
    }

    /// Whether `mac` is the keyed BLAKE2b-128 of `input`, in constant time.
    static func verifyHash16(_ mac: Span<UInt8>, of input: Span<UInt8>, key: Span<UInt8>) -> Bool {
        var output = InlineArray<16, UInt8>(repeating: 0)
        var outputSpan = output.mutableSpan
        genericHash(input, key: key, into: &outputSpan)
        return equal(output.span, mac)
    }

    private static func genericHash(_ input: Span<UInt8>, key: Span<UInt8>, into output: inout MutableSpan<UInt8>) {
        requireReady()
        precondition(key.isEmpty || (16...64).contains(key.count), "a BLAKE2b key has 16 to 64 bytes")
        let result = unsafe input.withUnsafeBufferPointer { input in
            unsafe key.withUnsafeBufferPointer { key in
                unsafe output.withUnsafeMutableBufferPointer { output in
                    unsafe crypto_generichash(
                        output.baseAddress!, output.count, input.baseAddress, UInt64(input.count), key.baseAddress,
                        key.count)
                }
            }
        }
        precondition(result == 0, "crypto_generichash refused checked arguments")
    }

    /// BLAKE2b-256 of three pieces one after the other under a 32-byte key. Allocates nothing: the state is on the stack.
    static func keyedHash32(
        key: Bytes32, _ first: Span<UInt8>, _ second: Span<UInt8>, _ third: Span<UInt8>
    ) -> Bytes32 {
        requireReady()
        var output = InlineArray<32, UInt8>(repeating: 0)
        var outputSpan = output.mutableSpan
        unsafe withUnsafeTemporaryAllocation(byteCount: hashStateByteCount, alignment: 64) { memory in
            guard let state = memory.baseAddress else { preconditionFailure("no memory for a hash state") }
            defer { unsafe sodium_memzero(state, hashStateByteCount) }
            var result = key.withBytes { key in
                unsafe key.withUnsafeBufferPointer { key in
                    unsafe crypto_generichash_init(OpaquePointer(state), key.baseAddress, key.count, 32)
                }
            }
            unsafe result |= updateHash(state, first)
            unsafe result |= updateHash(state, second)
            unsafe result |= updateHash(state, third)
            unsafe outputSpan.withUnsafeMutableBufferPointer { output in
                result |= unsafe crypto_generichash_final(OpaquePointer(state), output.baseAddress!, 32)
            }
            precondition(result == 0, "BLAKE2b refused checked arguments")
        }
        return Bytes32(output.span) ?? .zero
    }

    private static func updateHash(_ state: UnsafeMutableRawPointer, _ input: Span<UInt8>) -> Int32 {
        unsafe input.withUnsafeBufferPointer { input in
            unsafe crypto_generichash_update(OpaquePointer(state), input.baseAddress, UInt64(input.count))
        }
    }

    private static let hashStateByteCount = crypto_generichash_statebytes()

    /// A BLAKE2b state on 64-byte-aligned memory: Swift does not import the C struct.
    @safe final class HashState {
        private let state: UnsafeMutableRawPointer
        private let byteCount: Int

        init(key: Span<UInt8>, byteCount: Int) {
            requireReady()
            precondition(
                (16...64).contains(byteCount) && (key.isEmpty || (16...64).contains(key.count)), "BLAKE2b sizes")
            self.byteCount = byteCount
            unsafe state = .allocate(byteCount: hashStateByteCount, alignment: 64)
            restart(key: key)
        }

        deinit {
            unsafe sodium_memzero(state, hashStateByteCount)
            unsafe state.deallocate()
        }

        /// Forgets what was hashed and begins anew.
        func restart(key: Span<UInt8>) {
            let result = unsafe key.withUnsafeBufferPointer { key in
                unsafe crypto_generichash_init(OpaquePointer(state), key.baseAddress, key.count, byteCount)
            }
            precondition(result == 0, "crypto_generichash_init refused checked arguments")
        }

        func update(_ input: Span<UInt8>) {
            let result = unsafe updateHash(state, input)
            precondition(result == 0, "crypto_generichash_update refused checked arguments")
        }

        /// For states of 32 bytes only.
        func finalize32() -> Bytes32 {
            precondition(byteCount == 32, "this hash has another length")
            var output = InlineArray<32, UInt8>(repeating: 0)
            var outputSpan = output.mutableSpan
            unsafe outputSpan.withUnsafeMutableBufferPointer { unsafe finalize(into: $0.baseAddress!) }
            return Bytes32(output.span) ?? .zero
        }

        /// A digest that is itself a key.
        func finalizeSecret() -> SecretBytes {
            unsafe SecretBytes(count: byteCount) { unsafe finalize(into: $0) }
        }

        private func finalize(into output: UnsafeMutablePointer<UInt8>) {
            let result = unsafe crypto_generichash_final(OpaquePointer(state), output, byteCount)
            precondition(result == 0, "crypto_generichash_final refused checked arguments")
        }
    }

    // MARK: Sealing

    /// ChaCha20-Poly1305 (IETF) in place: the last 16 bytes of `datagram` receive the tag, the first `headerByteCount`
    /// bytes are authenticated and stay readable.
    static func sealInPlace(
        _ datagram: inout MutableSpan<UInt8>, headerByteCount: Int, nonce: InlineArray<12, UInt8>, key: SecretBytes
    ) throws(CryptoError) {
        guard headerByteCount >= 0, datagram.count >= headerByteCount + 16, key.count == 32 else {
            throw .invalidLength
        }
        let result = unsafe datagram.withUnsafeMutableBufferPointer { datagram -> Int32 in
            guard let base = datagram.baseAddress else { return -1 }
            let body = unsafe base + headerByteCount
            let bodyByteCount = datagram.count - headerByteCount - 16
            return unsafe nonce.span.withUnsafeBufferPointer { nonce in
                unsafe crypto_aead_chacha20poly1305_ietf_encrypt_detached(
                    body, body + bodyByteCount, nil, body, UInt64(bodyByteCount), base, UInt64(headerByteCount), nil,
                    nonce.baseAddress!, key.pointer)
            }
        }
        guard result == 0 else { throw .invalidLength }
    }

    /// The inverse; on failure the body's bytes are unchanged ciphertext, so that another key can be tried.
    ///
    /// In two calls, tag then key stream, because libsodium's one call wipes the body when the tag is wrong. Each does
    /// what the one call does inside, at the same cost.
    static func openInPlace(
        _ datagram: inout MutableSpan<UInt8>, headerByteCount: Int, nonce: InlineArray<12, UInt8>, key: SecretBytes
    ) throws(CryptoError) {
        guard headerByteCount >= 0, datagram.count >= headerByteCount + 16, key.count == 32 else {
            throw .invalidLength
        }
        let result = unsafe datagram.withUnsafeMutableBufferPointer { datagram -> Int32 in
            guard let base = datagram.baseAddress else { return -1 }
            let body = unsafe base + headerByteCount
            let bodyByteCount = datagram.count - headerByteCount - 16
            return unsafe nonce.span.withUnsafeBufferPointer { nonce in
                let verdict = unsafe crypto_aead_chacha20poly1305_ietf_decrypt_detached(
                    nil, nil, body, UInt64(bodyByteCount), body + bodyByteCount, base, UInt64(headerByteCount),
                    nonce.baseAddress!, key.pointer)
                guard verdict == 0 else { return verdict }
                return unsafe crypto_stream_chacha20_ietf_xor_ic(
                    body, body, UInt64(bodyByteCount), nonce.baseAddress!, 1, key.pointer)
            }
        }
        guard result == 0 else { throw .authenticationFailed }
    }

    /// ChaCha20-Poly1305 (IETF), plain in, sealed with tag out.
    static func seal(
        _ plain: Span<UInt8>, associated: Span<UInt8>, nonce: InlineArray<12, UInt8>, key: SecretBytes
    ) -> [UInt8] {
        precondition(key.count == 32, "a cipher key has 32 bytes")
        var output = [UInt8](repeating: 0, count: plain.count + 16)
        let result = unsafe plain.withUnsafeBufferPointer { plain in
            unsafe associated.withUnsafeBufferPointer { associated in
                unsafe nonce.span.withUnsafeBufferPointer { nonce in
                    unsafe output.withUnsafeMutableBufferPointer { output in
                        unsafe crypto_aead_chacha20poly1305_ietf_encrypt(
                            output.baseAddress!, nil, plain.baseAddress, UInt64(plain.count), associated.baseAddress,
                            UInt64(associated.count), nil, nonce.baseAddress!, key.pointer)
                    }
                }
            }
        }
        precondition(result == 0, "sealing checked arguments failed")
        return output
    }

    static func open(
        _ sealed: Span<UInt8>, associated: Span<UInt8>, nonce: InlineArray<12, UInt8>, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        guard sealed.count >= 16, key.count == 32 else { throw .invalidLength }
        // One spare byte: an empty result still needs an address that is not null.
        var output = [UInt8](repeating: 0, count: sealed.count - 16 + 1)
        let result = unsafe sealed.withUnsafeBufferPointer { sealed in
            unsafe associated.withUnsafeBufferPointer { associated in
                unsafe nonce.span.withUnsafeBufferPointer { nonce in
                    unsafe output.withUnsafeMutableBufferPointer { output in
                        unsafe crypto_aead_chacha20poly1305_ietf_decrypt(
                            output.baseAddress, nil, nil, sealed.baseAddress!, UInt64(sealed.count),
                            associated.baseAddress, UInt64(associated.count), nonce.baseAddress!, key.pointer)
                    }
                }
            }
        }
        guard result == 0 else { throw .authenticationFailed }
        output.removeLast()
        return output
    }

    /// XChaCha20-Poly1305 with a random 24-byte nonce given by the caller.
    static func sealExtended(
        _ plain: Span<UInt8>, associated: Span<UInt8>, nonce: Span<UInt8>, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        guard nonce.count == 24, key.count == 32 else { throw .invalidLength }
        var output = [UInt8](repeating: 0, count: plain.count + 16)
        let result = unsafe plain.withUnsafeBufferPointer { plain in
            unsafe associated.withUnsafeBufferPointer { associated in
                unsafe nonce.withUnsafeBufferPointer { nonce in
                    unsafe output.withUnsafeMutableBufferPointer { output in
                        unsafe crypto_aead_xchacha20poly1305_ietf_encrypt(
                            output.baseAddress!, nil, plain.baseAddress, UInt64(plain.count), associated.baseAddress,
                            UInt64(associated.count), nil, nonce.baseAddress!, key.pointer)
                    }
                }
            }
        }
        guard result == 0 else { throw .invalidLength }
        return output
    }

    static func openExtended(
        _ sealed: Span<UInt8>, associated: Span<UInt8>, nonce: Span<UInt8>, key: SecretBytes
    ) throws(CryptoError) -> [UInt8] {
        guard sealed.count >= 16, nonce.count == 24, key.count == 32 else { throw .invalidLength }
        var output = [UInt8](repeating: 0, count: sealed.count - 16 + 1)
        let result = unsafe sealed.withUnsafeBufferPointer { sealed in
            unsafe associated.withUnsafeBufferPointer { associated in
                unsafe nonce.withUnsafeBufferPointer { nonce in
                    unsafe output.withUnsafeMutableBufferPointer { output in
                        unsafe crypto_aead_xchacha20poly1305_ietf_decrypt(
                            output.baseAddress, nil, nil, sealed.baseAddress!, UInt64(sealed.count),
                            associated.baseAddress, UInt64(associated.count), nonce.baseAddress!, key.pointer)
                    }
                }
            }
        }
        guard result == 0 else { throw .authenticationFailed }
        output.removeLast()
        return output
    }

    // MARK: Agreement and signatures

    static func publicAgreementKey(_ secret: SecretBytes) -> [UInt8] {
        requireReady()
        precondition(secret.count == 32, "an agreement key has 32 bytes")
        var output = [UInt8](repeating: 0, count: 32)
        let result = unsafe output.withUnsafeMutableBufferPointer { output in
            unsafe crypto_scalarmult_base(output.baseAddress!, secret.pointer)
        }
        precondition(result == 0, "crypto_scalarmult_base failed")
        return output
    }

    /// Throws `invalidPublicKey` for the points of low order (AB-50).
    static func agree(_ secret: SecretBytes, _ publicKey: Span<UInt8>) throws(CryptoError) -> SecretBytes {
        requireReady()
        guard secret.count == 32, publicKey.count == 32 else { throw .invalidLength }
        var result: Int32 = -1
        let shared = unsafe SecretBytes(count: 32) { output in
            unsafe publicKey.withUnsafeBufferPointer { publicKey in
                result = unsafe crypto_scalarmult(output, secret.pointer, publicKey.baseAddress!)
            }
        }
        guard result == 0 else { throw .invalidPublicKey }
        return shared
    }

    static func signingPair(seed: SecretBytes) -> (publicKey: [UInt8], secretKey: SecretBytes) {
        requireReady()
        precondition(seed.count == 32, "a signing seed has 32 bytes")
        var publicKey = [UInt8](repeating: 0, count: 32)
        var result: Int32 = -1
        let secretKey = unsafe SecretBytes(count: 64) { output in
            unsafe publicKey.withUnsafeMutableBufferPointer { publicKey in
                result = unsafe crypto_sign_seed_keypair(publicKey.baseAddress!, output, seed.pointer)
            }
        }
        precondition(result == 0, "crypto_sign_seed_keypair failed")
        return (publicKey, secretKey)
    }

    /// The X25519 key that belongs to an Ed25519 public key; nil for what is no point of the right order.
    static func agreementKey(ofSigningKey publicKey: Span<UInt8>) -> [UInt8]? {
        requireReady()
        guard publicKey.count == 32 else { return nil }
        var output = [UInt8](repeating: 0, count: 32)
        let result = unsafe publicKey.withUnsafeBufferPointer { publicKey in
            unsafe output.withUnsafeMutableBufferPointer { output in
                unsafe crypto_sign_ed25519_pk_to_curve25519(output.baseAddress!, publicKey.baseAddress!)
            }
        }
        return result == 0 ? output : nil
    }

    /// The X25519 secret that belongs to an Ed25519 secret key of 64 bytes.
    static func agreementSecret(ofSigningKey secretKey: SecretBytes) -> SecretBytes {
        requireReady()
        precondition(secretKey.count == 64, "an Ed25519 secret key has 64 bytes")
        var result: Int32 = -1
        let output = unsafe SecretBytes(count: 32) { output in
            result = unsafe crypto_sign_ed25519_sk_to_curve25519(output, secretKey.pointer)
        }
        precondition(result == 0, "crypto_sign_ed25519_sk_to_curve25519 failed")
        return output
    }

    static func sign(_ message: Span<UInt8>, secretKey: SecretBytes) -> [UInt8] {
        precondition(secretKey.count == 64, "an Ed25519 secret key has 64 bytes")
        var output = [UInt8](repeating: 0, count: 64)
        let result = unsafe message.withUnsafeBufferPointer { message in
            unsafe output.withUnsafeMutableBufferPointer { output in
                unsafe crypto_sign_detached(
                    output.baseAddress!, nil, message.baseAddress, UInt64(message.count), secretKey.pointer)
            }
        }
        precondition(result == 0, "crypto_sign_detached failed")
        return output
    }

    /// libsodium's strict rule, which the specification adopts for every platform (AB-55).
    static func verify(signature: Span<UInt8>, message: Span<UInt8>, publicKey: Span<UInt8>) -> Bool {
        requireReady()
        guard signature.count == 64, publicKey.count == 32 else { return false }
        return unsafe signature.withUnsafeBufferPointer { signature in
            unsafe message.withUnsafeBufferPointer { message in
                unsafe publicKey.withUnsafeBufferPointer { publicKey in
                    unsafe crypto_sign_verify_detached(
                        signature.baseAddress!, message.baseAddress, UInt64(message.count), publicKey.baseAddress!) == 0
                }
            }
        }
    }

    // MARK: Derivation, randomness, comparison

    static func derive(_ secret: SecretBytes, subkey: UInt64, context: StaticString, byteCount: Int) -> SecretBytes {
        requireReady()
        precondition(secret.count == 32 && (16...64).contains(byteCount), "key derivation sizes")
        precondition(context.utf8CodeUnitCount == 8, "a derivation context has 8 bytes")
        var result: Int32 = -1
        let output = unsafe SecretBytes(count: byteCount) { output in
            context.withUTF8Buffer { context in
                unsafe context.withMemoryRebound(to: CChar.self) { context in
                    result = unsafe crypto_kdf_derive_from_key(
                        output, byteCount, subkey, context.baseAddress!, secret.pointer)
                }
            }
        }
        precondition(result == 0, "crypto_kdf_derive_from_key failed")
        return output
    }

    /// `byteCount` bytes of ChaCha20 keystream under a 32-byte seed: the same seed gives the same bytes.
    static func deterministicBytes(_ output: UnsafeMutablePointer<UInt8>, count: Int, seed: SecretBytes) {
        requireReady()
        precondition(seed.count == 32, "a generator seed has 32 bytes")
        unsafe randombytes_buf_deterministic(output, count, seed.pointer)
    }

    /// Compares without leaking where the difference is.
    static func equal(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return unsafe left.withUnsafeBufferPointer { left in
            unsafe right.withUnsafeBufferPointer { right in
                guard let first = left.baseAddress, let second = right.baseAddress else { return true }
                return unsafe sodium_memcmp(first, second, left.count) == 0
            }
        }
    }

    static func wipe(_ pointer: UnsafeMutablePointer<UInt8>, count: Int) {
        unsafe sodium_memzero(pointer, count)
    }
}
