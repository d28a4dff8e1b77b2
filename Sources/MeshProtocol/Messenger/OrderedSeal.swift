import MeshBase
import MeshCrypto
import MeshWire

/// Makes ordered messages.
enum OrderedSeal {
    /// `nonce`: 24 fresh random bytes.
    static func seal(
        _ payload: [UInt8], sequence: UInt64, lamport: UInt64, mesh: MeshID, secret: GroupSecret, nonce: [UInt8],
        identity: NodeIdentity
    ) throws(CryptoError) -> OrderedMessage {
        var message = OrderedMessage(
            author: identity.peerID, incarnation: identity.incarnation, sequence: sequence, lamport: lamport,
            epoch: secret.id, nonce: nonce, sealed: [], signature: [])
        try message.seal(payload, mesh: mesh, secret: secret, signing: identity.signing)
        return message
    }
}
