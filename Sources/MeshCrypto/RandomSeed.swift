/// The self-check of the random source at start (AB-49): a device whose generator hands out zeros or repeats itself
/// must not start, because every key would be known.
public enum RandomSeed {
    /// Two seeds drawn one after the other. Throws `unavailable` unless each has 32 bytes, is not one byte repeated,
    /// does not repeat its first half, and differs from the other. A sound source fails this once in 2¹²⁷ starts.
    public static func validate(_ first: SecretBytes, _ second: SecretBytes) throws(CryptoError) {
        guard isPlausible(first), isPlausible(second), !first.matches(second) else { throw .unavailable }
    }

    private static func isPlausible(_ seed: SecretBytes) -> Bool {
        guard seed.count == 32 else { return false }
        return seed.withBytes { bytes in
            var halvesDiffer = false
            for index in 0..<16 where bytes[index] != bytes[16 + index] { halvesDiffer = true }
            return halvesDiffer
        }
    }
}
