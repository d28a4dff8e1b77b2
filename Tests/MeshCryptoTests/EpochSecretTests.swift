import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct EpochSecretTests {
    private let mesh = MeshID(Bytes32([UInt8](repeating: 9, count: 32))!)
    private func key(_ number: UInt8) -> SigningKeyPair {
        SigningKeyPair(seed: SecretBytes(copying: [UInt8](repeating: number, count: 32)))
    }
    private func secret(_ number: UInt8) -> SecretBytes { SecretBytes(copying: [UInt8](repeating: number, count: 32)) }

    @Test func `what is sealed to a member only that member opens`() throws {
        let ephemeral = AgreementKeyPair(secret: secret(1))
        let sealed = try #require(EpochSecret.seal(secret(7), to: key(2).peerID, ephemeral: ephemeral, mesh: mesh))
        #expect(sealed.count == 48)
        let opened = EpochSecret.open(sealed, from: ephemeral.publicKey, as: key(2), mesh: mesh)
        #expect(opened?.matches(secret(7)) == true)
        #expect(EpochSecret.open(sealed, from: ephemeral.publicKey, as: key(3), mesh: mesh) == nil)
        #expect(EpochSecret.open(sealed, from: ephemeral.publicKey, as: key(2), mesh: MeshID(.zero)) == nil)
        for position in sealed.indices {
            var damaged = sealed
            damaged[position] ^= 1
            #expect(EpochSecret.open(damaged, from: ephemeral.publicKey, as: key(2), mesh: mesh) == nil)
        }
    }

    @Test func `AB-50 a name that is no point of the right order gets nothing, and its box opens nothing`() {
        let ephemeral = AgreementKeyPair(secret: secret(1))
        for name in [Bytes32.zero, Bytes32([1] + [UInt8](repeating: 0, count: 31))!] {
            #expect(EpochSecret.seal(secret(7), to: PeerID(name), ephemeral: ephemeral, mesh: mesh) == nil)
            #expect(PairSecret.between(key(1), PeerID(name), mesh: mesh) == nil)
        }
        #expect(EpochSecret.open([UInt8](repeating: 0, count: 48), from: .zero, as: key(2), mesh: mesh) == nil)
    }

    @Test func `a secret follows from its fresh part and from every base, in their order`() {
        let combined = EpochSecret.combine(fresh: secret(1), bases: [secret(2), secret(3)], mesh: mesh)
        #expect(combined.id == EpochSecret.combine(fresh: secret(1), bases: [secret(2), secret(3)], mesh: mesh).id)
        let others = [
            EpochSecret.combine(fresh: secret(4), bases: [secret(2), secret(3)], mesh: mesh),
            EpochSecret.combine(fresh: nil, bases: [secret(2), secret(3)], mesh: mesh),
            EpochSecret.combine(fresh: secret(1), bases: [secret(3), secret(2)], mesh: mesh),
            EpochSecret.combine(fresh: secret(1), bases: [secret(2)], mesh: mesh),
            EpochSecret.combine(fresh: secret(1), bases: [secret(2), secret(3)], mesh: MeshID(.zero)),
        ]
        #expect(others.allSatisfy { $0.id != combined.id })
    }

    @Test func `two members share a secret that nobody else computes`() throws {
        let one = try #require(PairSecret.between(key(1), key(2).peerID, mesh: mesh))
        let other = try #require(PairSecret.between(key(2), key(1).peerID, mesh: mesh))
        #expect(one.id == other.id)
        #expect(PairSecret.between(key(1), key(3).peerID, mesh: mesh)?.id != one.id)
        #expect(PairSecret.between(key(1), key(2).peerID, mesh: MeshID(.zero))?.id != one.id)
    }
}
