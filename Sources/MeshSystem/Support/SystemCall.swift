import CMeshSystem

/// The result of a C function that returns a negative errno.
func checked(_ result: Int32, _ call: String) throws(SystemError) -> Int32 {
    guard result >= 0 else { throw .callFailed(call: call, errorNumber: -result) }
    return result
}

/// What a whole process of ours sets up once.
public enum ProcessSetup {
    /// Writing to a closed pipe or socket then fails with an error instead of ending the process.
    public static func ignoreBrokenPipes() { mesh_ignore_broken_pipes() }
}
