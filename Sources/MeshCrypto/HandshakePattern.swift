/// A Noise handshake pattern (Noise Protocol Framework, revision 34, section 7): who sends which key when, and which
/// keys are mixed.
public struct HandshakePattern: Hashable, Sendable {
    public enum Token: Hashable, Sendable {
        /// The sender's ephemeral or static public key.
        case ephemeral, fixed
        /// Agreements: the initiator's key first, the responder's second.
        case ephemeralEphemeral, ephemeralFixed, fixedEphemeral, fixedFixed
        /// The next pre-shared key.
        case presharedKey
    }

    /// Name with modifiers, "XXpsk3".
    public let name: String
    /// Static keys known beforehand, mixed into the hash in this order.
    let initiatorKeyIsKnown: Bool
    let responderKeyIsKnown: Bool
    /// Alternating, the initiator's first.
    let messages: [[Token]]

    init(
        name: String, initiatorKeyIsKnown: Bool = false, responderKeyIsKnown: Bool = false, messages: [[Token]]
    ) {
        self.name = name
        self.initiatorKeyIsKnown = initiatorKeyIsKnown
        self.responderKeyIsKnown = responderKeyIsKnown
        self.messages = messages
    }

    /// XXpsk3, the only pattern Starling speaks: nobody's key is known beforehand, identities travel encrypted, and
    /// both sides prove the group secret.
    public static let mesh = HandshakePattern(
        name: "XXpsk3",
        messages: [
            [.ephemeral],
            [.ephemeral, .ephemeralEphemeral, .fixed, .ephemeralFixed],
            [.fixed, .fixedEphemeral, .presharedKey],
        ])

    /// The whole protocol's name, which the handshake hash begins with.
    public var protocolName: String { "Noise_\(name)_25519_ChaChaPoly_BLAKE2b" }

    var presharedKeyCount: Int {
        messages.reduce(0) { count, tokens in count + tokens.count { $0 == .presharedKey } }
    }
}
