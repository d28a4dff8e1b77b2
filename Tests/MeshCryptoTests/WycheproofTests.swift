import MeshBase
import Testing

@testable import MeshCrypto

/// Project Wycheproof's cases through our own wrappers, each with the answer libsodium 1.0.18 gives.
@Suite struct WycheproofTests {
    @Test func `AB-50 518 X25519 agreements: right secrets, and none with a low-order point`() throws {
        let tests = try Vectors.load("wycheproof/x25519.json", as: File<Agreement>.self).tests
        #expect(tests.count == 518)
        var refused = 0

        for test in tests {
            let pair = AgreementKeyPair(secret: test.private.secret)
            let publicKey = try #require(Bytes32(test.public.bytes))
            if test.libsodium1018 == "ok" {
                #expect(try pair.agree(with: publicKey).revealed() == test.shared.bytes, "case \(test.tcId)")
            } else {
                #expect(throws: CryptoError.invalidPublicKey, "case \(test.tcId)") { try pair.agree(with: publicKey) }
                refused += 1
            }
        }

        #expect(refused == 31)
    }

    @Test func `316 ChaCha20-Poly1305 cases, whole and in place`() throws {
        let tests = try Vectors.load("wycheproof/chacha20_poly1305.json", as: File<Sealing>.self).tests
        #expect(tests.count == 316)

        for test in tests {
            let nonce = InlineArray<12, UInt8> { test.iv.bytes[$0] }
            let (key, sealed) = (test.key.secret, test.ct.bytes + test.tag.bytes)
            let opened = try? Sodium.open(sealed.span, associated: test.aad.bytes.span, nonce: nonce, key: key)
            var datagram = test.aad.bytes + sealed
            var span = datagram.mutableSpan
            let headerByteCount = test.aad.bytes.count
            if test.result == "valid" {
                #expect(opened == test.msg.bytes, "case \(test.tcId)")
                #expect(
                    Sodium.seal(test.msg.bytes.span, associated: test.aad.bytes.span, nonce: nonce, key: key) == sealed)
                try Sodium.openInPlace(&span, headerByteCount: headerByteCount, nonce: nonce, key: key)
                #expect(datagram.dropLast(16).elementsEqual(test.aad.bytes + test.msg.bytes))
                var again = datagram.mutableSpan
                try Sodium.sealInPlace(&again, headerByteCount: headerByteCount, nonce: nonce, key: key)
                #expect(datagram == test.aad.bytes + sealed)
            } else {
                #expect(opened == nil, "case \(test.tcId)")
                var failure: CryptoError?
                do { try Sodium.openInPlace(&span, headerByteCount: headerByteCount, nonce: nonce, key: key) } catch {
                    failure = error
                }
                #expect(failure == .authenticationFailed)
                #expect(datagram == test.aad.bytes + sealed, "bytes changed by a refused opening")
            }
        }
    }

    @Test func `306 XChaCha20-Poly1305 cases`() throws {
        let tests = try Vectors.load("wycheproof/xchacha20_poly1305.json", as: File<Sealing>.self).tests
        #expect(tests.count == 306)

        for test in tests {
            let (key, sealed) = (test.key.secret, test.ct.bytes + test.tag.bytes)
            let (associated, nonce) = (test.aad.bytes, test.iv.bytes)
            let opened = try? AuthenticatedCipher.openExtended(
                sealed.span, associated: associated.span, nonce: nonce.span, key: key)
            #expect(opened == (test.result == "valid" ? test.msg.bytes : nil), "case \(test.tcId)")
            if test.result == "valid" {
                let again = try AuthenticatedCipher.sealExtended(
                    test.msg.bytes.span, associated: associated.span, nonce: nonce.span, key: key)
                #expect(again == sealed, "case \(test.tcId)")
            }
        }
    }

    @Test func `AB-55 151 Ed25519 signatures under one rule`() throws {
        let tests = try Vectors.load("wycheproof/ed25519.json", as: File<Signing>.self).tests
        #expect(tests.count == 151)
        var valid = 0

        for test in tests {
            let signer = PeerID(try #require(Bytes32(test.pk.bytes)))
            let isValid = Signature.isValid(test.sig.bytes.span, of: test.msg.bytes.span, by: signer)
            #expect(isValid == (test.libsodium1018 == "ok"), "case \(test.tcId)")
            if isValid { valid += 1 }
        }

        #expect(valid == 88)
    }

    @Test func `AB-51 AB-55 of the 12 signatures on which libraries disagree only case 3 is accepted`() throws {
        let cases = try Vectors.load("ed25519/speccheck.json", as: SpecificationCheck.self).cases
        #expect(cases.count == 12)

        let accepted = try cases.filter { check in
            let signer = PeerID(try #require(Bytes32(check.pubKey.bytes)))
            return Signature.isValid(check.signature.bytes.span, of: check.message.bytes.span, by: signer)
        }

        #expect(accepted.map(\.id) == [3])
    }

    // Names as in the files, in camel case.

    struct File<Case: Decodable>: Decodable {
        let tests: [Case]
    }

    struct Agreement: Decodable {
        let tcId: Int
        let `public`: Hex
        let `private`: Hex
        let shared: Hex
        let libsodium1018: String
    }

    struct Sealing: Decodable {
        let tcId: Int
        let key: Hex
        let iv: Hex
        let aad: Hex
        let msg: Hex
        let ct: Hex
        let tag: Hex
        let result: String
    }

    struct Signing: Decodable {
        let tcId: Int
        let pk: Hex
        let msg: Hex
        let sig: Hex
        let libsodium1018: String
    }

    struct SpecificationCheck: Decodable {
        struct Case: Decodable {
            let id: Int
            let message: Hex
            let pubKey: Hex
            let signature: Hex
        }
        let cases: [Case]
    }
}
