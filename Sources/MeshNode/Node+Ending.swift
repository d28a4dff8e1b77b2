import MeshBase
import MeshProtocol

/// How a node ends that did not choose to: removed from its mesh, or the mesh ended for everybody.
extension Node {
    func endAsRemoved(by remover: String?) async {
        let error = await removedError(by: remover)
        isInMesh = false
        endReason = error
        waiting.failAllOfTheMesh(error)
        lifecycle = .stopped
    }

    /// From now on nothing more is said in the mesh; what is here is still answered until the others know.
    func meshIsEnding(by member: String?) async {
        isMeshOver = member != nil
        endReason = if let member { await endedError(by: member) } else { nil }
    }

    func endWithMesh(by member: String) async {
        isInMesh = false
        endReason = await endedError(by: member)
        lifecycle = .stopped
    }

    private func removedError(by remover: String?) async -> NodeError {
        let mesh = await spokenLabel()
        let message =
            remover.map { "\(SafeText.escaped($0, limit: 64)) removed this node from \(mesh)" }
            ?? "whoever let this node into \(mesh) had been removed, so its admission counts no longer"
        return NodeError(
            "removed", message,
            hint: "what was fetched stays on this machine. To return, ask for a new invite and start anew: "
                + "starling join - --name OTHER", exit: 5)
    }

    private func endedError(by member: String) async -> NodeError {
        NodeError(
            "meshEnded", "\(SafeText.escaped(member, limit: 64)) ended \(await spokenLabel()) for everybody",
            hint: "found another: starling up --name OTHER", exit: 5)
    }

    private func spokenLabel() async -> String {
        "“\(SafeText.escaped(await session.current.label, limit: 64))”"
    }
}
