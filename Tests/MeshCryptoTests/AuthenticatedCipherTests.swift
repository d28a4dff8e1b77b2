import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct AuthenticatedCipherTests {
    @Test func `a datagram sealed in place opens in place under the same key and counter`() throws {
        for bodyByteCount in [0, 1, 15, 16, 64, 1200] {
            let plain = sampleBytes(16 + bodyByteCount) + [UInt8](repeating: 0, count: 16)
            var datagram = plain
            try seal(&datagram, counter: 7)
            #expect(datagram.prefix(16) == plain.prefix(16))
            if bodyByteCount > 0 { #expect(datagram[16..<(16 + bodyByteCount)] != plain[16..<(16 + bodyByteCount)]) }
            try open(&datagram, counter: 7)
            #expect(datagram.dropLast(16) == plain.dropLast(16))
        }
    }

    @Test func `a sealed datagram opens under no other counter or key, and stays as it was`() throws {
        var datagram = sampleBytes(100)
        try seal(&datagram, counter: 1)
        let sealed = datagram
        for counter in [0, 2, 1 << 32, UInt64.max] {
            #expect(throws: CryptoError.authenticationFailed) { try open(&datagram, counter: counter) }
        }
        #expect(throws: CryptoError.authenticationFailed) { try open(&datagram, counter: 1, key: sampleSecret(9)) }
        #expect(datagram == sealed)
    }

    @Test func `AB-42 every flipped bit of header, body and tag is refused`() throws {
        var datagram = sampleBytes(60)
        try seal(&datagram, counter: 3)
        for bit in 0..<(8 * datagram.count) {
            var altered = datagram
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            let before = altered
            #expect(throws: CryptoError.authenticationFailed) { try open(&altered, counter: 3) }
            #expect(altered == before)
        }
    }

    @Test func `a datagram too short for header and tag is refused, never read beyond its end`() {
        for count in 0..<32 {
            var datagram = sampleBytes(count)
            #expect(throws: CryptoError.invalidLength) { try seal(&datagram, counter: 0) }
            #expect(throws: CryptoError.invalidLength) { try open(&datagram, counter: 0) }
        }
    }

    @Test func `a key or nonce of another length is refused`() {
        let (short, nonce) = (SecretBytes(copying: sampleBytes(31)), sampleBytes(24))
        var datagram = sampleBytes(64)
        #expect(throws: CryptoError.invalidLength) { try seal(&datagram, counter: 0, key: short) }
        #expect(throws: CryptoError.invalidLength) { try open(&datagram, counter: 0, key: short) }
        for count in [0, 12, 23, 25] {
            let nonce = sampleBytes(count)
            #expect(throws: CryptoError.invalidLength) {
                try AuthenticatedCipher.sealExtended(
                    Span(), associated: Span(), nonce: nonce.span, key: sampleSecret(1))
            }
            #expect(throws: CryptoError.invalidLength) {
                try AuthenticatedCipher.openExtended(
                    sampleBytes(16).span, associated: Span(), nonce: nonce.span, key: sampleSecret(1))
            }
        }
        #expect(throws: CryptoError.invalidLength) {
            try AuthenticatedCipher.sealExtended(Span(), associated: Span(), nonce: nonce.span, key: short)
        }
    }

    @Test func `sealed bytes cut at every length are refused`() throws {
        let (plain, header, nonce) = (sampleBytes(40), sampleBytes(8), sampleBytes(24))
        let sealed = AuthenticatedCipher.seal(plain.span, associated: header.span, counter: 1, key: sampleSecret(1))
        let extended = try AuthenticatedCipher.sealExtended(
            plain.span, associated: header.span, nonce: nonce.span, key: sampleSecret(1))
        #expect((sealed.count, extended.count) == (56, 56))

        for count in 0..<56 {
            let (cut, extendedCut) = (Array(sealed.prefix(count)), Array(extended.prefix(count)))
            #expect(throws: CryptoError.self) {
                try AuthenticatedCipher.open(
                    cut.span, associated: header.span, counter: 1, key: sampleSecret(1))
            }
            #expect(throws: CryptoError.self) {
                try AuthenticatedCipher.openExtended(
                    extendedCut.span, associated: header.span, nonce: nonce.span, key: sampleSecret(1))
            }
        }
    }

    @Test func `AB-47 every counter has a nonce of its own`() {
        let counters: [UInt64] = [0, 1, 255, 256, 1 << 31, 1 << 32, (1 << 48) - 1, .max - 1, .max]
        let nonces = counters.map { counter in
            let nonce = AuthenticatedCipher.counterNonce(counter)
            return nonce.indices.map { nonce[$0] }
        }
        #expect(Set(nonces).count == counters.count)
        #expect(nonces[4] == [0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0])
    }

    // A span cannot be captured by the closures of `#expect`, hence these.

    private func seal(_ datagram: inout [UInt8], counter: UInt64, key: SecretBytes = sampleSecret(1))
        throws(CryptoError)
    {
        var span = datagram.mutableSpan
        try AuthenticatedCipher.sealDatagram(&span, headerByteCount: 16, counter: counter, key: key)
    }

    private func open(_ datagram: inout [UInt8], counter: UInt64, key: SecretBytes = sampleSecret(1))
        throws(CryptoError)
    {
        var span = datagram.mutableSpan
        try AuthenticatedCipher.openDatagram(&span, headerByteCount: 16, counter: counter, key: key)
    }
}
