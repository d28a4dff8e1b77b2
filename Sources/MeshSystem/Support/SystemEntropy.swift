import CMeshSystem
public import MeshCrypto

/// The kernel's generator through `getrandom`, which waits until it is seeded. Fails closed.
public struct SystemEntropy: EntropySource {
    public init() {}

    public func fill(count: Int) throws(SystemError) -> SecretBytes {
        precondition(count >= 0, "a count of bytes")
        var bytes = [UInt8](repeating: 0, count: count)
        let result = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard let start = buffer.baseAddress else { return Int32(0) }
            return unsafe mesh_random(start, buffer.count)
        }
        guard result == 0 else { throw .entropyUnavailable(errorNumber: -result) }
        let secret = SecretBytes(copying: bytes)
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            if let start = buffer.baseAddress { unsafe mesh_wipe(start, buffer.count) }
        }
        return secret
    }
}
