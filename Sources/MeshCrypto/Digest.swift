import MeshBase

/// BLAKE2b, plain and keyed.
public enum Digest {
    /// BLAKE2b-256. Cost: 0.25 µs for 64 bytes, 1.25 ns a byte for long inputs; no allocation.
    public static func hash32(_ bytes: Span<UInt8>) -> Bytes32 {
        Sodium.genericHash32(bytes, key: Span())
    }

    public static func hash32(_ bytes: [UInt8]) -> Bytes32 { hash32(bytes.span) }

    /// BLAKE2b-128.
    public static func hash16(_ bytes: Span<UInt8>) -> Bytes16 {
        Sodium.genericHash16(bytes, key: Span())
    }

    public static func hash16(_ bytes: [UInt8]) -> Bytes16 { hash16(bytes.span) }

    /// Keyed BLAKE2b-128: the handshake's MACs.
    public static func mac16(_ bytes: Span<UInt8>, key: SecretBytes) -> Bytes16 {
        key.withBytes { key in Sodium.genericHash16(bytes, key: key) }
    }

    /// Whether `mac` is the keyed BLAKE2b-128 of `bytes`, compared in constant time.
    public static func verify(mac: Span<UInt8>, of bytes: Span<UInt8>, key: SecretBytes) -> Bool {
        key.withBytes { key in
            Sodium.verifyHash16(mac, of: bytes, key: key)
        }
    }
}

/// BLAKE2b-256 over bytes that come in pieces, keyed when a key is given. Not for sharing between threads.
public final class StreamingDigest {
    private let state: Sodium.HashState

    public init(key: SecretBytes? = nil) {
        if let key {
            state = key.withBytes { key in Sodium.HashState(key: key, byteCount: 32) }
        } else {
            state = Sodium.HashState(key: Span(), byteCount: 32)
        }
    }

    public func update(_ bytes: Span<UInt8>) { state.update(bytes) }

    /// Ends the digest; call once.
    public func finalize() -> Bytes32 { state.finalize32() }
}
