import MeshBase

/// An Ed25519 key pair: a node's lasting identity in one mesh. Signing takes the secret key alone, never a foreign
/// public key beside it (AB-53).
public final class SigningKeyPair: Sendable {
    /// The public key, which is the node's name.
    public let peerID: PeerID
    private let secretKey: SecretBytes

    /// `seed`: 32 random bytes.
    public init(seed: SecretBytes) {
        let pair = Sodium.signingPair(seed: seed)
        peerID = PeerID(Bytes32(pair.publicKey) ?? .zero)
        secretKey = pair.secretKey
    }

    /// The X25519 key pair that belongs to this one: what is sealed to the node's name alone is opened with it.
    /// Cost: 30 µs.
    var agreement: AgreementKeyPair { AgreementKeyPair(secret: Sodium.agreementSecret(ofSigningKey: secretKey)) }

    /// 64 bytes. Cost: 18 µs.
    public func sign(_ message: Span<UInt8>) -> [UInt8] {
        Sodium.sign(message, secretKey: secretKey)
    }
}

public enum Signature {
    public static let byteCount = 64

    /// libsodium's strict rule; a signature that is not 64 bytes is refused. Cost: 36 µs.
    public static func isValid(_ signature: Span<UInt8>, of message: Span<UInt8>, by signer: PeerID) -> Bool {
        Sodium.verify(signature: signature, message: message, publicKey: signer.bytes.span)
    }
}

/// An X25519 key pair, per process or per handshake.
public final class AgreementKeyPair: Sendable {
    public let publicKey: Bytes32
    let secret: SecretBytes

    /// `secret`: 32 random bytes; clamping is X25519's own.
    public init(secret: SecretBytes) {
        self.secret = secret
        publicKey = Bytes32(Sodium.publicAgreementKey(secret)) ?? .zero
    }

    /// The shared secret; throws `invalidPublicKey` for points of low order. Cost: 28 µs.
    public func agree(with publicKey: Bytes32) throws(CryptoError) -> SecretBytes {
        try Sodium.agree(secret, publicKey.bytes.span)
    }
}

/// A join or epoch secret and the keys that follow from it (context "MESHv1", see Docs/Protocol.md).
public struct GroupSecret: Sendable {
    public let secret: SecretBytes
    public let id: SecretID
    /// Noise's pre-shared key.
    public let presharedKey: SecretBytes
    /// Key of `mac1`: without it a responder sends nothing.
    public let mac1Key: SecretBytes
    /// Key under which cookies are sealed.
    public let cookieKey: SecretBytes
    /// Key of LAN beacons.
    public let discoveryKey: SecretBytes
    /// Key of record bodies.
    public let envelopeKey: SecretBytes

    /// `secret`: 32 random bytes.
    public init(secret: SecretBytes) {
        self.secret = secret
        id = SecretID(secret.withBytes { Digest.hash16($0) })
        presharedKey = Self.derive(secret, 1)
        mac1Key = Self.derive(secret, 2)
        cookieKey = Self.derive(secret, 3)
        discoveryKey = Self.derive(secret, 4)
        envelopeKey = Self.derive(secret, 5)
    }

    private static func derive(_ secret: SecretBytes, _ subkey: UInt64) -> SecretBytes {
        Sodium.derive(secret, subkey: subkey, context: "MESHv1\0\0", byteCount: 32)
    }
}
