import MeshWire

/// Sizes of plaintexts on the wire, so that a listener learns a class and not a length.
///
/// Steps of 16 below 128 bytes, then 256, 512, 1024, then a full datagram of the base size; beyond it, whole slots of
/// 1,024 bytes, because filling up a 64 KiB datagram would cost more than it hides.
enum PaddingPolicy {
    /// Bytes of plaintext in a full datagram of `datagramBytes`.
    static func capacity(of datagramBytes: Int) -> Int {
        datagramBytes - WireLimits.dataHeaderBytes - WireLimits.tagBytes
    }

    /// The size to fill up to, at least `plainBytes` and at most `capacity`.
    static func paddedBytes(_ plainBytes: Int, capacity: Int) -> Int {
        guard plainBytes < capacity else { return plainBytes }
        return min(step(for: plainBytes), capacity)
    }

    private static func step(for plainBytes: Int) -> Int {
        if plainBytes <= 128 { return (plainBytes + 15) / 16 * 16 }
        if plainBytes <= 256 { return 256 }
        if plainBytes <= 512 { return 512 }
        if plainBytes <= 1024 { return 1024 }
        let base = capacity(of: WireLimits.baseDatagramBytes)
        if plainBytes <= base { return base }
        return (plainBytes - base + 1023) / 1024 * 1024 + base
    }
}
