import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct DigestTests {
    @Test func `70 official BLAKE2b answers, at once and in pieces`() throws {
        let tests = try Vectors.load("blake2b/blake2b_kat.json", as: AnswerFile.self).tests
        #expect(tests.count == 70)

        for test in tests {
            let digest = Sodium.genericHash(test.in.bytes.span, key: test.key.bytes.span, byteCount: 64)
            #expect(digest == test.out.bytes)
            let state = Sodium.HashState(key: test.key.bytes.span, byteCount: 64)
            for byte in test.in.bytes { state.update([byte].span) }
            #expect(state.finalizeSecret().revealed() == test.out.bytes)
        }
    }

    @Test func `304 derived answers: digest lengths, key derivation, HMAC and Noise's HKDF`() throws {
        let tests = try Vectors.load("blake2b/derived_kat.json", as: DerivedFile.self).tests
        var counts: [String: Int] = [:]

        for test in tests {
            try expectAnswer(test)
            counts[test.type, default: 0] += 1
        }

        #expect(
            counts == ["generichash": 192, "kdf_derive_from_key": 36, "hmac_blake2b": 70, "noise_hkdf_blake2b": 6])
    }

    @Test func `the fixed-size digests agree with the general one`() {
        for count in [0, 1, 63, 64, 127, 128, 129, 1000] {
            let bytes = sampleBytes(count)
            let key = sampleSecret(1)
            #expect(Digest.hash32(bytes).bytes == Sodium.genericHash(bytes.span, key: Span(), byteCount: 32))
            #expect(Digest.hash16(bytes).bytes == Sodium.genericHash(bytes.span, key: Span(), byteCount: 16))
            let mac = key.withBytes { Sodium.genericHash(bytes.span, key: $0, byteCount: 16) }
            #expect(Digest.mac16(bytes.span, key: key).bytes == mac)
            #expect(isMAC(mac, of: bytes, key: key))
        }
    }

    @Test func `a MAC with a flipped bit, cut, longer or under another key is refused`() {
        let bytes = sampleBytes(100)
        let mac = Digest.mac16(bytes.span, key: sampleSecret(1)).bytes

        for bit in 0..<128 {
            var altered = mac
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!isMAC(altered, of: bytes, key: sampleSecret(1)))
        }
        for count in 0..<16 { #expect(!isMAC(Array(mac.prefix(count)), of: bytes, key: sampleSecret(1))) }
        #expect(!isMAC((mac + [0]), of: bytes, key: sampleSecret(1)))
        #expect(!isMAC(mac, of: bytes, key: sampleSecret(2)))
    }

    @Test func `a streaming digest does not depend on how the bytes are cut`() {
        let bytes = sampleBytes(777)
        let whole = StreamingDigest(key: sampleSecret(3))
        whole.update(bytes.span)
        let pieces = StreamingDigest(key: sampleSecret(3))
        for start in stride(from: 0, to: bytes.count, by: 50) {
            pieces.update(bytes.span.extracting(start..<min(start + 50, bytes.count)))
        }
        let plain = StreamingDigest()
        plain.update(bytes.span)

        let digest = whole.finalize()
        #expect(digest == pieces.finalize())
        #expect(plain.finalize() == Digest.hash32(bytes))
        #expect(digest != Digest.hash32(bytes))
    }

    // A span cannot be captured by the closures of `#expect`, hence this.
    private func isMAC(_ mac: [UInt8], of bytes: [UInt8], key: SecretBytes) -> Bool {
        Digest.verify(mac: mac.span, of: bytes.span, key: key)
    }

    private func expectAnswer(_ test: DerivedFile.Case) throws {
        let input = test.in?.bytes ?? []
        switch test.type {
        case "generichash":
            let (key, count) = (test.key?.bytes ?? [], test.outlen ?? 0)
            #expect(Sodium.genericHash(input.span, key: key.span, byteCount: count) == test.out?.bytes)
        case "hmac_blake2b":
            let key = try #require(test.key?.secret)
            #expect(NoiseKeyDerivation.authenticate(input.span, key: key).revealed() == test.out?.bytes)
        case "kdf_derive_from_key":
            let context: StaticString =
                test.ctx?.bytes == Array("MESHtest".utf8) ? "MESHtest" : "\0\0\0\0\0\0\0\0"
            let subkey = try #require(test.subkeyId.flatMap(UInt64.init))
            let derived = Sodium.derive(
                try #require(test.key?.secret), subkey: subkey, context: context, byteCount: test.outlen ?? 0)
            #expect(derived.revealed() == test.out?.bytes)
        case "noise_hkdf_blake2b":
            let (chainingKey, ikm) = (try #require(test.chainingKey?.secret), test.ikm?.bytes ?? [])
            let outputs = test.outputs?.map(\.bytes) ?? []
            if outputs.count == 2 {
                let two = NoiseKeyDerivation.deriveTwo(chainingKey: chainingKey, input: ikm.span)
                #expect([two.0.revealed(), two.1.revealed()] == outputs)
            } else {
                let three = NoiseKeyDerivation.deriveThree(chainingKey: chainingKey, input: ikm.span)
                #expect([three.0.revealed(), three.1.revealed(), three.2.revealed()] == outputs)
            }
        default:
            Issue.record("unknown type \(test.type)")
        }
    }

    struct AnswerFile: Decodable {
        struct Case: Decodable {
            let `in`: Hex
            let key: Hex
            let out: Hex
        }
        let tests: [Case]
    }

    struct DerivedFile: Decodable {
        struct Case: Decodable {
            let type: String
            let key: Hex?
            let `in`: Hex?
            let ctx: Hex?
            let subkeyId: String?
            let outlen: Int?
            let out: Hex?
            let chainingKey: Hex?
            let ikm: Hex?
            let outputs: [Hex]?
        }
        let tests: [Case]
    }
}
