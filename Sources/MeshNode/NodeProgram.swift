import MeshBase

/// A node as a program: from its options to its exit code.
public enum NodeProgram {
    /// Runs a node until it is told to stop (`down` on the control socket) or its task is cancelled.
    ///
    /// `output` receives one `starling/up/1` object when the node is ready, then `starling/events/1` objects; or one
    /// `starling/error/1` object. Returns the exit code.
    public static func run(
        _ options: NodeOptions, output: @escaping @Sendable (JSONValue) -> Void
    ) async -> Int32 {
        output([
            "schema": "starling/error/1", "code": "failed",
            "message": "this build has no node in it yet", "hint": "build again when MeshNode has landed", "exit": 1,
        ])
        return 1
    }
}
