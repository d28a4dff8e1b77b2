import MeshBase

/// One side of a Noise handshake, `Noise_*_25519_ChaChaPoly_BLAKE2b` (Noise Protocol Framework, revision 34).
///
/// A pure value: keys come in, messages come out. It has one owner; going on with two copies would seal different
/// bytes under one nonce. After any error it is dead: every later call throws `invalidState`, and the keys are gone.
/// Cost of a whole XXpsk3 handshake: 0.24 ms a side.
public struct NoiseHandshake: Sendable {
    public enum Role: Hashable, Sendable {
        case initiator, responder
    }

    private enum Phase {
        case running, finished, dead
    }

    /// The longest message Noise allows.
    public static let maximumMessageByteCount = 65_535

    public let role: Role
    private let pattern: HandshakePattern
    private let localStatic: AgreementKeyPair?
    private let localEphemeral: AgreementKeyPair
    private var presharedKeys: ArraySlice<SecretBytes>
    private var symmetric: NoiseSymmetricState
    private var phase = Phase.running
    private var messageIndex = 0

    /// The peer's static public key, as soon as it is known. Proven when the handshake is complete, not before.
    public private(set) var remoteStatic: Bytes32?
    /// The peer's ephemeral public key, as soon as it has come.
    public private(set) var remoteEphemeral: Bytes32?

    /// - Parameters:
    ///   - prologue: what both sides must agree on beforehand; not sent.
    ///   - localStatic: needed where the pattern sends or knows this side's static key.
    ///   - localEphemeral: made from fresh random bytes for this handshake alone.
    ///   - remoteStatic: needed where the pattern knows it beforehand; else it is ignored.
    ///   - presharedKeys: 32 bytes each, one for each "psk" of the pattern.
    public init(
        pattern: HandshakePattern = .mesh, role: Role, prologue: [UInt8], localStatic: AgreementKeyPair?,
        localEphemeral: AgreementKeyPair, remoteStatic: Bytes32? = nil, presharedKeys: [SecretBytes]
    ) {
        precondition(presharedKeys.count == pattern.presharedKeyCount, "one pre-shared key for each of the pattern")
        precondition(presharedKeys.allSatisfy { $0.count == 32 }, "a pre-shared key has 32 bytes")
        self.pattern = pattern
        self.role = role
        self.localStatic = localStatic
        self.localEphemeral = localEphemeral
        self.presharedKeys = presharedKeys[...]
        symmetric = NoiseSymmetricState(protocolName: pattern.protocolName)
        symmetric.mixHash(prologue.span)
        let remoteIsKnown = role == .initiator ? pattern.responderKeyIsKnown : pattern.initiatorKeyIsKnown
        self.remoteStatic = remoteIsKnown ? remoteStatic : nil
        mixKnownKeys()
    }

    /// Whether all messages of the pattern have passed.
    public var isComplete: Bool { phase == .running && messageIndex == pattern.messages.count }

    /// Whether this side sends the next message.
    public var isOnTurn: Bool {
        phase == .running && messageIndex < pattern.messages.count
            && (role == .initiator) == messageIndex.isMultiple(of: 2)
    }

    /// 64 bytes that name this handshake and no other; equal on both sides. Meaningful once it is complete.
    public var handshakeHash: [UInt8] { symmetric.transcriptHash }

    /// The next message. Throws `invalidState` out of turn, `invalidLength` beyond 65,535 bytes, `invalidPublicKey`
    /// where the peer's key is of low order.
    public mutating func writeMessage(payload: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard isOnTurn else { throw fail(.invalidState) }
        do throws(CryptoError) {
            var output: [UInt8] = []
            for token in pattern.messages[messageIndex] { try write(token, to: &output) }
            output += try symmetric.sealAndHash(payload.span)
            guard output.count <= Self.maximumMessageByteCount else { throw .invalidLength }
            messageIndex += 1
            return output
        } catch {
            throw fail(error)
        }
    }

    /// The payload of the peer's next message. Throws `authenticationFailed` for anything forged, cut or made under
    /// another secret or prologue, `invalidPublicKey` for low order, `invalidLength`, `invalidState`.
    public mutating func readMessage(_ message: [UInt8]) throws(CryptoError) -> [UInt8] {
        guard phase == .running, messageIndex < pattern.messages.count, !isOnTurn else { throw fail(.invalidState) }
        do throws(CryptoError) {
            guard message.count <= Self.maximumMessageByteCount else { throw .invalidLength }
            var position = 0
            for token in pattern.messages[messageIndex] { try read(token, from: message.span, at: &position) }
            let payload = try symmetric.openAndHash(message.span.extracting(position..<message.count))
            messageIndex += 1
            return payload
        } catch {
            throw fail(error)
        }
    }

    /// The two transport keys of 32 bytes; works once, when the handshake is complete.
    public mutating func split() throws(CryptoError) -> (send: SecretBytes, receive: SecretBytes) {
        guard isComplete else { throw fail(.invalidState) }
        let keys = symmetric.split()
        phase = .finished
        symmetric.forgetKeys()
        return role == .initiator
            ? (send: keys.fromInitiator, receive: keys.fromResponder)
            : (send: keys.fromResponder, receive: keys.fromInitiator)
    }

    // MARK: Steps

    private mutating func mixKnownKeys() {
        let initiatorKey = role == .initiator ? localStatic?.publicKey : remoteStatic
        let responderKey = role == .initiator ? remoteStatic : localStatic?.publicKey
        if pattern.initiatorKeyIsKnown { mixHash(initiatorKey) }
        if pattern.responderKeyIsKnown { mixHash(responderKey) }
    }

    private mutating func mixHash(_ key: Bytes32?) {
        guard let key else { preconditionFailure("the pattern knows a static key that was not given") }
        symmetric.mixHash(key.bytes.span)
    }

    private mutating func write(_ token: HandshakePattern.Token, to output: inout [UInt8]) throws(CryptoError) {
        switch token {
        case .ephemeral:
            output += localEphemeral.publicKey.bytes
            mixEphemeral(localEphemeral.publicKey)
        case .fixed:
            guard let localStatic else { preconditionFailure("the pattern sends a static key that was not given") }
            output += try symmetric.sealAndHash(localStatic.publicKey.bytes.span)
        default:
            try mixSecret(token)
        }
    }

    private mutating func read(
        _ token: HandshakePattern.Token, from message: Span<UInt8>, at position: inout Int
    ) throws(CryptoError) {
        switch token {
        case .ephemeral:
            let field = try readField(from: message, at: &position, byteCount: 32)
            guard let key = Bytes32(field) else { throw .invalidLength }
            // A key of our own that comes back is an echo, or a generator that repeats (AB-49).
            guard key != localEphemeral.publicKey else { throw .invalidPublicKey }
            remoteEphemeral = key
            mixEphemeral(key)
        case .fixed:
            let byteCount = symmetric.hasKey ? 32 + AuthenticatedCipher.tagByteCount : 32
            let field = try readField(from: message, at: &position, byteCount: byteCount)
            remoteStatic = Bytes32(try symmetric.openAndHash(field.span))
        default:
            try mixSecret(token)
        }
    }

    private func readField(
        from message: Span<UInt8>, at position: inout Int, byteCount: Int
    ) throws(CryptoError) -> [UInt8] {
        guard message.count - position >= byteCount else { throw .invalidLength }
        defer { position += byteCount }
        return message.extracting(position..<(position + byteCount)).copiedBytes
    }

    private mutating func mixEphemeral(_ key: Bytes32) {
        symmetric.mixHash(key.bytes.span)
        // Section 9.2: with pre-shared keys the ephemeral key randomises the cipher as well.
        if pattern.presharedKeyCount > 0 { symmetric.mixKey(key.bytes.span) }
    }

    private mutating func mixSecret(_ token: HandshakePattern.Token) throws(CryptoError) {
        switch token {
        case .ephemeralEphemeral: try mixAgreement(localEphemeral, remoteEphemeral)
        case .fixedFixed: try mixAgreement(localStatic, remoteStatic)
        case .ephemeralFixed where role == .initiator: try mixAgreement(localEphemeral, remoteStatic)
        case .ephemeralFixed: try mixAgreement(localStatic, remoteEphemeral)
        case .fixedEphemeral where role == .initiator: try mixAgreement(localStatic, remoteEphemeral)
        case .fixedEphemeral: try mixAgreement(localEphemeral, remoteStatic)
        case .presharedKey:
            guard let key = presharedKeys.popFirst() else { throw .invalidState }
            key.withBytes { symmetric.mixKeyAndHash($0) }
        case .ephemeral, .fixed:
            preconditionFailure("a key token is written or read, not mixed")
        }
    }

    private mutating func mixAgreement(_ local: AgreementKeyPair?, _ remote: Bytes32?) throws(CryptoError) {
        guard let local, let remote else { preconditionFailure("the pattern mixes a key that was not given") }
        try local.agree(with: remote).withBytes { symmetric.mixKey($0) }
    }

    private mutating func fail(_ error: CryptoError) -> CryptoError {
        phase = .dead
        presharedKeys = []
        symmetric.forgetKeys()
        return error
    }
}
