import MeshBase
import Testing

@testable import MeshCrypto

/// Both sides are played live, message by message, against the published bytes.
@Suite struct NoiseVectorTests {
    @Test func `the 59 handshakes of cacophony give the published bytes and hashes`() throws {
        let vectors = try Vectors.load("noise/cacophony_25519_chachapoly_blake2b.json", as: NoiseVectorFile.self)
            .vectors
        #expect(vectors.count == 59)
        for vector in vectors { try expectPublishedBytes(vector) }
        #expect(vectors.allSatisfy { $0.handshakeHash != nil })
    }

    @Test func `the 51 handshakes of snow give the published bytes`() throws {
        let vectors = try Vectors.load("noise/snow_25519_chachapoly_blake2b.json", as: NoiseVectorFile.self).vectors
        #expect(vectors.count == 51)
        for vector in vectors { try expectPublishedBytes(vector) }
    }

    @Test func `each of the 538 altered handshakes fails at the latest at the recorded step`() throws {
        let vectors = try Vectors.load("noise/cacophony_25519_chachapoly_blake2b.json", as: NoiseVectorFile.self)
            .vectors
        let cases = try Vectors.load("noise/negative_cases.json", as: NoiseNegativeFile.self).cases
        var refused = 0

        for negative in cases {
            let vector = try #require(vectors.first { $0.protocolName == negative.base })
            var conversation = try NoiseConversation(vector, altered: negative.op)
            let failure = conversation.failure()
            let step = try #require(failure, "\(negative.base) \(negative.op) passed unnoticed")
            #expect(step <= negative.expect.step, "\(negative.base) \(negative.op)")
            refused += 1
        }

        #expect(refused == 538)
    }

    @Test func `AB-50 every handshake with a low-order point is refused before its agreement is used`() throws {
        let vectors = try Vectors.load("noise/cacophony_25519_chachapoly_blake2b.json", as: NoiseVectorFile.self)
            .vectors
        let cases = try Vectors.load("noise/negative_cases.json", as: NoiseNegativeFile.self).cases
            .filter { $0.expect.why == "low-order" }
        #expect(cases.count == 182)

        for negative in cases {
            let vector = try #require(vectors.first { $0.protocolName == negative.base })
            var conversation = try NoiseConversation(vector, altered: negative.op)
            let failure = conversation.failure()
            #expect(failure != nil)
            #expect(conversation.error == .invalidPublicKey)
        }
    }

    @Test func `the mesh's own pattern is the table's XXpsk3`() {
        #expect(PatternTable.pattern(named: "XXpsk3") == HandshakePattern.mesh)
        #expect(HandshakePattern.mesh.protocolName == "Noise_XXpsk3_25519_ChaChaPoly_BLAKE2b")
    }

    private func expectPublishedBytes(_ vector: NoiseVector) throws {
        var conversation = try NoiseConversation(vector)
        let failure = conversation.failure()
        #expect(failure == nil, "\(vector.protocolName): \(String(describing: conversation.error))")
        #expect(conversation.ciphertexts == vector.messages.map(\.ciphertext.bytes), "\(vector.protocolName)")
        #expect(conversation.payloads == vector.messages.map(\.payload.bytes), "\(vector.protocolName)")
        #expect(conversation.initiator.handshakeHash == conversation.responder.handshakeHash)
        if let hash = vector.handshakeHash { #expect(conversation.initiator.handshakeHash == hash.bytes) }
    }
}

/// Initiator and responder of one vector, talking until the messages are used up or a step fails.
struct NoiseConversation {
    private(set) var initiator: NoiseHandshake
    private(set) var responder: NoiseHandshake
    private(set) var ciphertexts: [[UInt8]] = []
    private(set) var payloads: [[UInt8]] = []
    private(set) var error: CryptoError?
    private let vector: NoiseVector
    private let alteration: NoiseAlteration?
    private let isOneWay: Bool
    private var keys: (initiator: (SecretBytes, SecretBytes), responder: (SecretBytes, SecretBytes))?
    private var counters: [UInt64] = [0, 0]

    init(_ vector: NoiseVector, altered alteration: NoiseAlteration? = nil) throws {
        let name = String(vector.protocolName.split(separator: "_")[1])
        let pattern = try #require(PatternTable.pattern(named: name))
        self.vector = vector
        self.alteration = alteration
        isOneWay = pattern.messages.count == 1
        var responderPrologue = vector.respPrologue.bytes
        var responderKeys = (vector.respPsks ?? []).map(\.secret)
        if alteration?.type == "resp_prologue" { responderPrologue = alteration?.hex?.bytes ?? [] }
        if alteration?.type == "resp_psk", let hex = alteration?.hex { responderKeys[0] = hex.secret }
        initiator = NoiseHandshake(
            pattern: pattern, role: .initiator, prologue: vector.initPrologue.bytes,
            localStatic: vector.initStatic.map { AgreementKeyPair(secret: $0.secret) },
            localEphemeral: AgreementKeyPair(secret: vector.initEphemeral.secret),
            remoteStatic: vector.initRemoteStatic.flatMap { Bytes32($0.bytes) },
            presharedKeys: (vector.initPsks ?? []).map(\.secret))
        responder = NoiseHandshake(
            pattern: pattern, role: .responder, prologue: responderPrologue,
            localStatic: vector.respStatic.map { AgreementKeyPair(secret: $0.secret) },
            // The responder of a one-way pattern never sends: any ephemeral key will do.
            localEphemeral: AgreementKeyPair(secret: vector.respEphemeral?.secret ?? sampleSecret(9)),
            remoteStatic: vector.respRemoteStatic.flatMap { Bytes32($0.bytes) }, presharedKeys: responderKeys)
    }

    /// Plays the messages; the step that failed, or `nil`.
    mutating func failure() -> NoiseStep? {
        for index in vector.messages.indices {
            let initiatorSends = isOneWay || index.isMultiple(of: 2)
            var step = NoiseStep(message: index, isRead: false)
            do throws(CryptoError) {
                let message = try write(vector.messages[index].payload.bytes, byInitiator: initiatorSends)
                ciphertexts.append(message)
                step.isRead = true
                payloads.append(try read(altered(message, at: index), byInitiator: !initiatorSends))
            } catch {
                self.error = error
                return step
            }
        }
        return nil
    }

    private mutating func write(_ payload: [UInt8], byInitiator: Bool) throws(CryptoError) -> [UInt8] {
        if byInitiator ? !initiator.isComplete && keys == nil : !responder.isComplete && keys == nil {
            return byInitiator
                ? try initiator.writeMessage(payload: payload) : try responder.writeMessage(payload: payload)
        }
        try splitOnce()
        guard let keys else { throw .invalidState }
        let key = byInitiator ? keys.initiator.0 : keys.responder.0
        return AuthenticatedCipher.seal(
            payload.span, associated: Span(), counter: counters[byInitiator ? 0 : 1], key: key)
    }

    private mutating func read(_ message: [UInt8], byInitiator: Bool) throws(CryptoError) -> [UInt8] {
        guard let keys else {
            return byInitiator ? try initiator.readMessage(message) : try responder.readMessage(message)
        }
        let key = byInitiator ? keys.initiator.1 : keys.responder.1
        defer { counters[byInitiator ? 1 : 0] += 1 }
        return try AuthenticatedCipher.open(
            message.span, associated: Span(), counter: counters[byInitiator ? 1 : 0], key: key)
    }

    private mutating func splitOnce() throws(CryptoError) {
        guard keys == nil else { return }
        keys = (try initiator.split(), try responder.split())
    }

    private func altered(_ message: [UInt8], at index: Int) -> [UInt8] {
        guard let alteration, alteration.message == index else { return message }
        var output = message
        switch alteration.type {
        case "flip_bit": output[alteration.byte ?? 0] ^= 1 << UInt8(alteration.bit ?? 0)
        case "truncate_to": output = Array(message.prefix(alteration.length ?? 0))
        case "append": output += alteration.hex?.bytes ?? []
        case "replace_first_32": output.replaceSubrange(0..<32, with: alteration.hex?.bytes ?? [])
        default: break
        }
        return output
    }
}

/// A moment in a conversation: message by message, writing before reading.
struct NoiseStep: Comparable {
    var message: Int
    var isRead: Bool

    static func < (left: NoiseStep, right: NoiseStep) -> Bool {
        (left.message, left.isRead ? 1 : 0) < (right.message, right.isRead ? 1 : 0)
    }
}

struct NoiseVectorFile: Decodable {
    let vectors: [NoiseVector]
}

/// Names as in the files, in camel case.
struct NoiseVector: Decodable, Sendable {
    struct Message: Decodable, Sendable {
        let payload: Hex
        let ciphertext: Hex
    }

    let protocolName: String
    let initPrologue: Hex
    let initEphemeral: Hex
    let initStatic: Hex?
    let initRemoteStatic: Hex?
    let initPsks: [Hex]?
    let respPrologue: Hex
    let respEphemeral: Hex?
    let respStatic: Hex?
    let respRemoteStatic: Hex?
    let respPsks: [Hex]?
    let handshakeHash: Hex?
    let messages: [Message]
}

struct NoiseAlteration: Decodable, Sendable {
    let type: String
    let message: Int?
    let byte: Int?
    let bit: Int?
    let length: Int?
    let hex: Hex?
}

struct NoiseNegativeFile: Decodable {
    struct Case: Decodable {
        let base: String
        let op: NoiseAlteration
        let expect: Expectation
    }

    struct Expectation: Decodable {
        let atMessage: Int
        let when: String
        let why: String
        var step: NoiseStep { NoiseStep(message: atMessage, isRead: when == "read") }
    }

    let cases: [Case]
}
