import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// What a node tells the program around it: when it is ready, what happens, and how it ended.
extension Node {
    /// Every event as it happens. Call before `run`.
    nonisolated func announceEvents(to output: @escaping @Sendable (JSONValue) -> Void) {
        announcements.withLock { $0.events = output }
    }

    /// Once, when the node is in its mesh and has its catalogue, with the object `starling/up/1`. Call before `run`.
    nonisolated func announceReadiness(founded: Bool, to output: @escaping @Sendable (JSONValue) -> Void) {
        announcements.withLock {
            $0.ready = output
            $0.isFounding = founded
        }
    }

    struct Announcements: Sendable {
        var events: (@Sendable (JSONValue) -> Void)?
        var ready: (@Sendable (JSONValue) -> Void)?
        var isFounding = false
        var observer: (@Sendable (NodeObservation) -> Void)?
    }

    /// 0 after an orderly end; the reason when the node never got into its mesh, or had to stop.
    public var result: Result<Int32, NodeError> {
        if let endReason { return .failure(endReason) }
        return joinFailure.map { .failure(Self.explained($0, discovery: discoveryOutcome)) } ?? .success(0)
    }

    /// Tells readiness once the mesh is entered, and gives up a start whose join failed.
    func announceIfReady(at now: HostTime) async {
        if joinFailure != nil, lifecycle == .running { lifecycle = .stopped }
        guard isInMesh, durability.isOpen, areNamesKnown(at: now) else { return }
        let (ready, isFounding) = announcements.withLock { announcements in
            defer { announcements.ready = nil }
            return (announcements.ready, announcements.isFounding)
        }
        guard let ready else { return }
        // A founder's first invite was made with the mesh.
        let machine = await session.current
        let ticket = isFounding ? machine.invites.first?.ticket : nil
        ready(await readyObject(ticket: ticket))
    }

    /// Whether everybody met so far has said its name; a short while after the start it no longer matters.
    private func areNamesKnown(at now: HostTime) -> Bool {
        let patience = readyPatience ?? now + .milliseconds(500)
        readyPatience = patience
        return now >= patience || !members.contains { $0.state == .alive && $0.name.isEmpty }
    }

    private func readyObject(ticket: Ticket?) async -> JSONValue {
        let snapshot = await snapshot()
        let addresses = environment.transport.localAddresses()
        let others = snapshot.peers.filter { $0.member.state == .alive }.map { JSONValue.string($0.member.name) }
        return [
            "schema": "starling/up/1", "name": .string(configuration.name),
            "id": .string(identity.peerID.description),
            "fingerprint": .string(Fingerprint.words(of: identity.peerID)),
            "pid": .integer(Int64(Process.identifier)), "port": .integer(Int64(snapshot.port)),
            "addresses": .array(addresses.map { .string($0.description) }),
            "discovery": .bool(configuration.session.isDiscoveryEnabled),
            "mesh": [
                "id": .string(snapshot.meshID?.description ?? ""), "label": .string(snapshot.meshLabel),
                "memberCount": .integer(Int64(snapshot.presentMembers.count)),
            ],
            "founded": .bool(ticket != nil), "invite": ticket.map { .string($0.text) } ?? .null,
            "inviteExpiresInSeconds": nil, "peersFound": .array(others),
        ]
    }

    /// How the search of the local network ended, in words: the step of a join that leaves no address behind.
    static func discoveryText(_ statistics: SessionStatistics, _ failure: JoinFailure) -> String {
        if statistics.beaconsSent == 0 { return "not asked: discovery is switched off" }
        let asked = "asked \(statistics.beaconsSent) times"
        if statistics.beaconsHeard > 0 { return "\(asked): a member answered" }
        if statistics.beaconsForeign > 0 { return "\(asked): only other meshes were heard" }
        return "\(asked): nobody answered; is multicast blocked? starling doctor"
    }

    /// Every step that was tried, with what came of it, so that whoever reads it knows which one failed (CLI-13).
    static func explained(_ failure: JoinFailure, discovery: String?) -> NodeError {
        switch failure {
        case .noAnswer(let tried):
            var rows =
                discovery.map { text -> [JSONValue] in
                    [["address": "local network", "what": "discovery", "result": .string(text)]]
                } ?? []
            rows += tried.map { attempt -> JSONValue in
                [
                    "address": .string(attempt.address.description), "what": "handshake",
                    "result": .string(text(attempt.outcome)),
                ]
            }
            return NodeError(
                "unreachable",
                tried.isEmpty ? "nobody answered; the invite has no address to dial" : "nobody answered the invite",
                hint: "is the other node up? The invite may be expired or revoked; or name an address: --at HOST:PORT",
                exit: 4, facts: [.init("tried", .array(rows))])
        case .refused(.inviteVoid):
            return NodeError(
                "notMember", "the invite was revoked or has expired", hint: "ask for a new one: starling invite",
                exit: 5)
        case .refused(let refusal):
            return Self.explained(refusal)
        case .versionMismatch:
            return NodeError(
                "versionMismatch", "the mesh speaks another version of the protocol",
                hint: "use the same starling on all nodes", exit: 5)
        }
    }

    private static func explained(_ refusal: SessionMessage.Refusal) -> NodeError {
        switch refusal {
        case .meshFull:
            NodeError("notMember", "the mesh is full", hint: "ask its members to make room", exit: 5)
        case .removed:
            NodeError(
                "removed", "this node was removed from the mesh",
                hint: "ask for a new invite and start anew: starling join - --name OTHER", exit: 5)
        case .ended: NodeError("meshEnded", "the mesh has ended", hint: "starling up founds a new one", exit: 5)
        default:
            NodeError(
                "notMember", "the mesh did not accept what this node says of itself",
                hint: "use the same starling on all nodes, and give this one a name: --name NAME", exit: 5)
        }
    }

    private static func text(_ outcome: DialAttempt.Outcome) -> String {
        switch outcome {
        case .noAnswer: "no answer"
        case .portUnreachable: "nobody listens there"
        case .notDialable: "cannot be dialled"
        case .noWelcome: "answered, but let nobody in"
        }
    }
}
