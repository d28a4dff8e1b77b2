import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct SecretBytesTests {
    @Test func `a secret shows its bytes to those who ask and to nobody else`() {
        let secret = SecretBytes(copying: Array("correct horse battery".utf8))
        #expect(secret.revealed() == Array("correct horse battery".utf8))
        #expect(secret.withBytes { $0[0] } == UInt8(ascii: "c"))
        for text in ["\(secret)", String(describing: secret), String(reflecting: secret)] {
            #expect(!text.contains("horse"))
            #expect(!text.contains("99, 111"))
        }
        var dumped = ""
        dump(secret, to: &dumped)
        #expect(!dumped.contains("horse"))
    }

    @Test func `equal means every byte and the length`() {
        let bytes = sampleBytes(32)
        let secret = SecretBytes(copying: bytes)
        #expect(secret.matches(SecretBytes(copying: bytes)))
        for index in bytes.indices {
            var other = bytes
            other[index] ^= 0x80
            #expect(!secret.matches(SecretBytes(copying: other)))
        }
        #expect(!secret.matches(SecretBytes(copying: Array(bytes.dropLast()))))
        #expect(SecretBytes(copying: []).matches(SecretBytes(copying: [])))
    }

    @Test func `an empty secret is a secret`() {
        let secret = SecretBytes(copying: [])
        #expect(secret.count == 0)
        #expect(secret.revealed() == [])
        #expect(secret.prefix(4).count == 0)
    }

    @Test func `a prefix is a copy of its own`() {
        var prefix = SecretBytes(copying: [])
        do {
            let secret = sampleSecret(1)
            prefix = secret.prefix(3)
        }
        #expect(prefix.revealed() == [1, 2, 3])
    }
}
