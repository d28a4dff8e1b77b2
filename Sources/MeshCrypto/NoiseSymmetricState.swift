import MeshBase

/// Chaining key, transcript hash and cipher of a running handshake (Noise revision 34, sections 5.1 and 5.2).
struct NoiseSymmetricState: Sendable {
    private var chainingKey: SecretBytes
    /// Hash of everything that was said so far: both sides hold the same one or nothing opens.
    private(set) var transcriptHash: [UInt8]
    private var cipherKey: SecretBytes?
    private var counter: UInt64 = 0

    init(protocolName: String) {
        let name = Array(protocolName.utf8)
        if name.count <= NoiseKeyDerivation.hashByteCount {
            transcriptHash = name + [UInt8](repeating: 0, count: NoiseKeyDerivation.hashByteCount - name.count)
        } else {
            transcriptHash = Sodium.genericHash(name.span, key: Span(), byteCount: NoiseKeyDerivation.hashByteCount)
        }
        chainingKey = SecretBytes(copying: transcriptHash)
    }

    var hasKey: Bool { cipherKey != nil }

    mutating func mixHash(_ bytes: Span<UInt8>) {
        let state = Sodium.HashState(key: Span(), byteCount: NoiseKeyDerivation.hashByteCount)
        state.update(transcriptHash.span)
        state.update(bytes)
        transcriptHash = state.finalizeSecret().revealed()
    }

    mutating func mixKey(_ input: Span<UInt8>) {
        let (next, key) = NoiseKeyDerivation.deriveTwo(chainingKey: chainingKey, input: input)
        chainingKey = next
        setCipherKey(key)
    }

    mutating func mixKeyAndHash(_ input: Span<UInt8>) {
        let (next, hashInput, key) = NoiseKeyDerivation.deriveThree(chainingKey: chainingKey, input: input)
        chainingKey = next
        hashInput.withBytes { mixHash($0) }
        setCipherKey(key)
    }

    /// Sealed under the transcript once there is a key, plain before.
    mutating func sealAndHash(_ plain: Span<UInt8>) throws(CryptoError) -> [UInt8] {
        var output = plain.copiedBytes
        if let cipherKey {
            let counter = try nextCounter()
            output = AuthenticatedCipher.seal(
                plain, associated: transcriptHash.span, counter: counter, key: cipherKey)
        }
        mixHash(output.span)
        return output
    }

    mutating func openAndHash(_ sealed: Span<UInt8>) throws(CryptoError) -> [UInt8] {
        var output = sealed.copiedBytes
        if let cipherKey {
            let counter = try nextCounter()
            output = try AuthenticatedCipher.open(
                sealed, associated: transcriptHash.span, counter: counter, key: cipherKey)
        }
        mixHash(sealed)
        return output
    }

    /// The two transport keys: from the initiator, and to it.
    func split() -> (fromInitiator: SecretBytes, fromResponder: SecretBytes) {
        let (first, second) = NoiseKeyDerivation.deriveTwo(chainingKey: chainingKey, input: Span())
        return (first.prefix(32), second.prefix(32))
    }

    /// Lets go of the keys; the transcript's hash stays.
    mutating func forgetKeys() {
        chainingKey = SecretBytes(copying: [])
        cipherKey = nil
    }

    private mutating func setCipherKey(_ key: SecretBytes) {
        cipherKey = key.prefix(32)
        counter = 0
    }

    /// 2⁶⁴−1 is reserved by Noise; no handshake comes near it.
    private mutating func nextCounter() throws(CryptoError) -> UInt64 {
        guard counter < .max else { throw .invalidState }
        defer { counter += 1 }
        return counter
    }
}

extension Span where Element == UInt8 {
    var copiedBytes: [UInt8] {
        unsafe withUnsafeBufferPointer { unsafe Array($0) }
    }
}
