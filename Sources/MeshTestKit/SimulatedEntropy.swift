import MeshCrypto
import MeshSystem

/// Entropy from a seed: the same keys, nonces and incarnations in every run of one seed.
public final class SimulatedEntropy: EntropySource {
    private let stream: Lock<RandomStream>
    private let isBroken: Lock<Bool>

    public init(seed: UInt64) {
        stream = Lock(RandomStream(testSeed: seed))
        isBroken = Lock(false)
    }

    /// From now on the generator fails, as the kernel's may.
    public func fail() { isBroken.withLock { $0 = true } }

    public func fill(count: Int) throws(SystemError) -> SecretBytes {
        guard !isBroken.withLock({ $0 }) else { throw .entropyUnavailable(errorNumber: 5) }
        return stream.withLock { $0.secret(count: count) }
    }
}
