import MeshBase

/// How a mesh gets a new epoch secret that a removed member cannot compute.
///
/// A fresh secret is sealed to each member's own key and hashed together with the secrets before it. So whoever lacks
/// any one of them lacks the result: two removals at once are merged by one more hash, and each of the removed lacks
/// the secret that the other's remover made.
public enum EpochSecret {
    /// BLAKE2b-256 of `"STARLING/1 epoch\0" ‖ mesh ‖ fresh 32 (zeros without) ‖ base secrets`. `bases` in rising order
    /// of their records.
    public static func combine(fresh: SecretBytes?, bases: [SecretBytes], mesh: MeshID) -> GroupSecret {
        let digest = Sodium.HashState(key: Span(), byteCount: 32)
        digest.update(Array("STARLING/1 epoch\0".utf8).span)
        digest.update(mesh.bytes.span)
        if let fresh {
            fresh.withBytes { digest.update($0) }
        } else {
            digest.update([UInt8](repeating: 0, count: 32).span)
        }
        for base in bases { base.withBytes { digest.update($0) } }
        return GroupSecret(secret: digest.finalizeSecret())
    }

    /// The fresh secret for one member: 48 bytes, XChaCha20-Poly1305 with a nonce of zeros under a key that is used
    /// once. Nil when the member's name is no usable key. Cost: 90 µs.
    public static func seal(
        _ fresh: SecretBytes, to recipient: PeerID, ephemeral: AgreementKeyPair, mesh: MeshID
    ) -> [UInt8]? {
        guard let publicKey = Sodium.agreementKey(ofSigningKey: recipient.bytes.span).flatMap({ Bytes32($0) }) else {
            return nil
        }
        do {
            let shared = try ephemeral.agree(with: publicKey)
            let key = boxKey(shared, ephemeral: ephemeral.publicKey, recipient: recipient, mesh: mesh)
            return try fresh.withBytes { fresh throws(CryptoError) in
                try AuthenticatedCipher.sealExtended(fresh, associated: Span(), nonce: zeroNonce.span, key: key)
            }
        } catch {
            // A key of low order: nobody can hold its secret.
            return nil
        }
    }

    /// What `seal` made for the owner of `own`; nil when it was made for somebody else or is damaged.
    public static func open(
        _ sealed: [UInt8], from ephemeral: Bytes32, as own: SigningKeyPair, mesh: MeshID
    ) -> SecretBytes? {
        do {
            let shared = try own.agreement.agree(with: ephemeral)
            let key = boxKey(shared, ephemeral: ephemeral, recipient: own.peerID, mesh: mesh)
            let fresh = try AuthenticatedCipher.openExtended(
                sealed.span, associated: Span(), nonce: zeroNonce.span, key: key)
            return fresh.count == 32 ? SecretBytes(copying: fresh) : nil
        } catch {
            return nil
        }
    }

    private static let zeroNonce = [UInt8](repeating: 0, count: AuthenticatedCipher.extendedNonceByteCount)

    private static func boxKey(
        _ shared: SecretBytes, ephemeral: Bytes32, recipient: PeerID, mesh: MeshID
    ) -> SecretBytes {
        let digest = Sodium.HashState(key: Span(), byteCount: 32)
        digest.update(Array("STARLING/1 epoch box\0".utf8).span)
        digest.update(mesh.bytes.span)
        digest.update(ephemeral.bytes.span)
        digest.update(recipient.bytes.span)
        shared.withBytes { digest.update($0) }
        return digest.finalizeSecret()
    }
}

/// The secret that two members share without anybody's help, from their lasting keys: under it they find each other
/// when a removal has changed the epoch secret while one of them was away.
public enum PairSecret {
    /// BLAKE2b-256 of `"STARLING/1 pair\0" ‖ mesh ‖ lesser PeerID ‖ greater PeerID ‖ X25519 of the keys that belong to
    /// them`. Nil when `peer` is no usable key. Cost: 100 µs.
    public static func between(_ own: SigningKeyPair, _ peer: PeerID, mesh: MeshID) -> GroupSecret? {
        guard let publicKey = Sodium.agreementKey(ofSigningKey: peer.bytes.span).flatMap({ Bytes32($0) }) else {
            return nil
        }
        let shared: SecretBytes
        // A key of low order: nobody can hold its secret.
        do { shared = try own.agreement.agree(with: publicKey) } catch { return nil }
        let digest = Sodium.HashState(key: Span(), byteCount: 32)
        digest.update(Array("STARLING/1 pair\0".utf8).span)
        digest.update(mesh.bytes.span)
        digest.update(min(own.peerID, peer).bytes.span)
        digest.update(max(own.peerID, peer).bytes.span)
        shared.withBytes { digest.update($0) }
        return GroupSecret(secret: digest.finalizeSecret())
    }
}
