import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct KeyPairTests {
    @Test func `the first key and signature of RFC 8032`() throws {
        let seed = try #require(Hexadecimal.decode("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
        let pair = SigningKeyPair(seed: SecretBytes(copying: seed))

        #expect(pair.peerID.description == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
        let signature =
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0"
            + "595bbe24655141438e7a100b"
        let signed = pair.sign(Span())
        #expect(Hexadecimal.encode(signed) == signature)
    }

    @Test func `AB-52 a signature holds for its signer and its message alone`() {
        let (ours, theirs) = (SigningKeyPair(seed: sampleSecret(1)), SigningKeyPair(seed: sampleSecret(2)))
        let message = sampleBytes(50)
        let signature = ours.sign(message.span)

        #expect(isValid(signature, of: message, by: ours.peerID))
        #expect(!isValid(signature, of: message, by: theirs.peerID))
        #expect(!isValid(sampleBytes(64), of: message, by: ours.peerID))
        #expect(!isValid([UInt8](repeating: 0, count: 64), of: message, by: PeerID(.zero)))
        for bit in 0..<512 {
            var altered = signature
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!isValid(altered, of: message, by: ours.peerID))
        }
        for bit in 0..<400 {
            var altered = message
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!isValid(signature, of: altered, by: ours.peerID))
        }
    }

    @Test func `AB-54 a signature moved by the group order is refused, so none can be re-encoded`() throws {
        // S + L signs the same message wherever S is not checked to be below the order L.
        let pair = SigningKeyPair(seed: sampleSecret(1))
        let message = sampleBytes(10)
        var signature = pair.sign(message.span)
        let order = try #require(
            Hexadecimal.decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"))
        var carry = 0
        for index in 0..<32 {
            let sum = Int(signature[32 + index]) + Int(order[index]) + carry
            signature[32 + index] = UInt8(sum & 0xff)
            carry = sum >> 8
        }
        #expect(!isValid(signature, of: message, by: pair.peerID))
    }

    @Test func `a signature of any other length than 64 is refused`() {
        let pair = SigningKeyPair(seed: sampleSecret(1))
        let signature = pair.sign(Span())
        for count in 0..<64 { #expect(!isValid(Array(signature.prefix(count)), of: [], by: pair.peerID)) }
        #expect(!isValid((signature + [0]), of: [], by: pair.peerID))
    }

    @Test func `AB-53 signing takes a message and the pair's own key, nothing else`() {
        // The type of the only signing call: no public key can be passed beside the secret one.
        let sign: (SigningKeyPair) -> (Span<UInt8>) -> [UInt8] = { pair in { pair.sign($0) } }
        let (first, second) = (SigningKeyPair(seed: sampleSecret(1)), SigningKeyPair(seed: sampleSecret(1)))
        let signatures = (sign(first)(sampleBytes(5).span), sign(second)(sampleBytes(5).span))
        #expect(signatures.0 == signatures.1)
    }

    @Test func `two key pairs agree on one secret`() throws {
        let (first, second) = (AgreementKeyPair(secret: sampleSecret(1)), AgreementKeyPair(secret: sampleSecret(2)))
        let shared = try first.agree(with: second.publicKey)
        #expect(shared.matches(try second.agree(with: first.publicKey)))
        #expect(!shared.matches(try first.agree(with: first.publicKey)))
    }

    @Test func `the keys of a group secret differ from each other and from the secret`() {
        let group = GroupSecret(secret: sampleSecret(1))
        let keys = [
            group.secret, group.presharedKey, group.mac1Key, group.cookieKey, group.discoveryKey, group.envelopeKey,
        ]
        #expect(Set(keys.map { Hexadecimal.encode($0.revealed()) }).count == keys.count)
        #expect(group.id == SecretID(Digest.hash16(sampleBytes(32, from: 1))))
        #expect(group.envelopeKey.matches(GroupSecret(secret: sampleSecret(1)).envelopeKey))
        #expect(!group.envelopeKey.matches(GroupSecret(secret: sampleSecret(2)).envelopeKey))
    }

    // A span cannot be captured by the closures of `#expect`, hence this.
    private func isValid(_ signature: [UInt8], of message: [UInt8], by signer: PeerID) -> Bool {
        Signature.isValid(signature.span, of: message.span, by: signer)
    }
}
