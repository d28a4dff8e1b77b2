import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct NoiseHandshakeTests {
    @Test func `both sides of a mesh handshake agree on keys, hash and each other`() throws {
        var (initiator, responder) = pair()

        try exchange(&initiator, &responder)
        let ours = try initiator.split()
        let theirs = try responder.split()

        #expect(ours.send.matches(theirs.receive))
        #expect(ours.receive.matches(theirs.send))
        #expect(!ours.send.matches(ours.receive))
        #expect(initiator.handshakeHash == responder.handshakeHash)
        #expect(initiator.handshakeHash.count == 64)
        #expect(initiator.remoteStatic == AgreementKeyPair(secret: sampleSecret(2)).publicKey)
        #expect(responder.remoteStatic == AgreementKeyPair(secret: sampleSecret(1)).publicKey)
        #expect(responder.remoteEphemeral == AgreementKeyPair(secret: sampleSecret(3)).publicKey)
    }

    @Test func `the messages have the sizes of the datagram layout`() throws {
        var (initiator, responder) = pair()
        let payload = [UInt8](repeating: 7, count: 160)

        let first = try initiator.writeMessage(payload: [])
        _ = try responder.readMessage(first)
        let second = try responder.writeMessage(payload: payload)
        #expect(try initiator.readMessage(second) == payload)
        let third = try initiator.writeMessage(payload: payload)
        #expect(try responder.readMessage(third) == payload)

        #expect((first.count, second.count, third.count) == (48, 256, 224))
    }

    @Test func `another group secret is refused at the last message`() throws {
        var (initiator, responder) = pair(responderSecret: 99)
        try advance(&initiator, &responder, to: 2)
        let last = try initiator.writeMessage(payload: [])
        #expect(throws: CryptoError.authenticationFailed) { try responder.readMessage(last) }
    }

    @Test func `another prologue is refused`() throws {
        var (initiator, responder) = pair(responderPrologue: [1])
        let first = try initiator.writeMessage(payload: [])
        #expect(throws: CryptoError.authenticationFailed) { try responder.readMessage(first) }
    }

    @Test func `a state that failed once is dead for good messages too`() throws {
        var (initiator, responder) = pair()
        let first = try initiator.writeMessage(payload: [])
        var forged = first
        forged[40] ^= 1

        #expect(throws: CryptoError.authenticationFailed) { try responder.readMessage(forged) }

        #expect(throws: CryptoError.invalidState) { try responder.readMessage(first) }
        #expect(throws: CryptoError.invalidState) { try responder.writeMessage(payload: []) }
        #expect(throws: CryptoError.invalidState) { try responder.split() }
        #expect(!responder.isOnTurn)
        #expect(!responder.isComplete)
    }

    @Test func `a message out of turn is refused`() throws {
        var (initiator, responder) = pair()
        #expect(initiator.isOnTurn)
        #expect(!responder.isOnTurn)
        #expect(throws: CryptoError.invalidState) { try responder.writeMessage(payload: []) }
        #expect(throws: CryptoError.invalidState) { try initiator.readMessage([]) }
    }

    @Test func `keys are handed out once, and not before the end`() throws {
        var (early, _) = pair()
        #expect(throws: CryptoError.invalidState) { try early.split() }

        var (initiator, responder) = pair()
        try exchange(&initiator, &responder)
        _ = try initiator.split()
        #expect(throws: CryptoError.invalidState) { try initiator.split() }
        #expect(throws: CryptoError.invalidState) { try initiator.writeMessage(payload: []) }
    }

    @Test func `every message cut at every length is refused, never a trap`() throws {
        for messageIndex in 0..<3 {
            let messages = try recorded()
            for length in 0..<messages[messageIndex].count {
                var (initiator, responder) = pair()
                try advance(&initiator, &responder, to: messageIndex)
                let cut = Array(messages[messageIndex].prefix(length))
                if messageIndex == 1 {
                    #expect(throws: CryptoError.self) { try initiator.readMessage(cut) }
                } else {
                    #expect(throws: CryptoError.self) { try responder.readMessage(cut) }
                }
            }
        }
    }

    @Test func `every flipped bit of every message is refused`() throws {
        let messages = try recorded()
        for messageIndex in 0..<3 {
            for bit in 0..<(8 * messages[messageIndex].count) {
                var (initiator, responder) = pair()
                try advance(&initiator, &responder, to: messageIndex)
                var altered = messages[messageIndex]
                altered[bit / 8] ^= 1 << UInt8(bit % 8)
                if messageIndex == 1 {
                    #expect(throws: CryptoError.self) { try initiator.readMessage(altered) }
                } else {
                    #expect(throws: CryptoError.self) { try responder.readMessage(altered) }
                }
            }
        }
    }

    @Test func `a message beyond 65,535 bytes is refused on both sides`() throws {
        var (initiator, responder) = pair()
        let overhead = 48
        let longest = [UInt8](repeating: 0, count: 65_535 - overhead)
        #expect(try responder.readMessage(try initiator.writeMessage(payload: longest)) == longest)

        var (writer, reader) = pair()
        #expect(throws: CryptoError.invalidLength) { try writer.writeMessage(payload: longest + [0]) }
        #expect(throws: CryptoError.invalidLength) { try reader.readMessage([UInt8](repeating: 0, count: 65_536)) }
    }

    @Test func `AB-49 an own ephemeral key that comes back is refused`() throws {
        // A reflected handshake, or two processes whose generator gives the same bytes.
        var (initiator, responder) = pair(responderEphemeral: 3)
        let first = try initiator.writeMessage(payload: [])
        #expect(throws: CryptoError.invalidPublicKey) { try responder.readMessage(first) }
    }

    @Test func `AB-47 one handshake never seals two messages under one key and nonce`() throws {
        // Same payload, same keys: a repeated nonce would give equal bytes in the two sealed payloads of one side.
        let messages = try recorded(payload: [UInt8](repeating: 0, count: 32))
        let tails = messages.map { Array($0.suffix(48)) }
        #expect(Set(tails).count == tails.count)
    }

    // MARK: Play

    private func pair(
        responderSecret: UInt8 = 5, responderPrologue: [UInt8] = Array("STARLING/1".utf8), responderEphemeral: UInt8 = 4
    ) -> (NoiseHandshake, NoiseHandshake) {
        let initiator = NoiseHandshake(
            role: .initiator, prologue: Array("STARLING/1".utf8),
            localStatic: AgreementKeyPair(secret: sampleSecret(1)),
            localEphemeral: AgreementKeyPair(secret: sampleSecret(3)), presharedKeys: [sampleSecret(5)])
        let responder = NoiseHandshake(
            role: .responder, prologue: responderPrologue, localStatic: AgreementKeyPair(secret: sampleSecret(2)),
            localEphemeral: AgreementKeyPair(secret: sampleSecret(responderEphemeral)),
            presharedKeys: [sampleSecret(responderSecret)])
        return (initiator, responder)
    }

    private func exchange(_ initiator: inout NoiseHandshake, _ responder: inout NoiseHandshake) throws {
        try advance(&initiator, &responder, to: 3)
    }

    private func advance(
        _ initiator: inout NoiseHandshake, _ responder: inout NoiseHandshake, to messageIndex: Int
    ) throws {
        if messageIndex > 0 { _ = try responder.readMessage(try initiator.writeMessage(payload: [])) }
        if messageIndex > 1 { _ = try initiator.readMessage(try responder.writeMessage(payload: [])) }
        if messageIndex > 2 { _ = try responder.readMessage(try initiator.writeMessage(payload: [])) }
        // The writer of the next message has sent it, so that the reader is really on turn.
        if messageIndex == 1 { _ = try responder.writeMessage(payload: []) }
    }

    private func recorded(payload: [UInt8] = []) throws -> [[UInt8]] {
        var (initiator, responder) = pair()
        let first = try initiator.writeMessage(payload: payload)
        _ = try responder.readMessage(first)
        let second = try responder.writeMessage(payload: payload)
        _ = try initiator.readMessage(second)
        return [first, second, try initiator.writeMessage(payload: payload)]
    }
}
