import MeshBase
import MeshProtocol
import MeshWire

/// How a member is reached, in plain words and as JSON: for `why`, `peers`, `links` and `doctor`.
struct PathWords {
    let snapshot: NodeSnapshot
    let now: HostTime

    /// One or two sentences about the way to `peer`, without the name before them.
    func sentence(_ peer: NodeSnapshot.Peer) -> String? {
        guard let link = peer.link else { return nil }
        let roundTrip = link.smoothedRoundTrip.map { "\(Documents.rounded($0.milliseconds, 2)) ms" } ?? "unknown"
        let end = "since \(Int((now - link.establishedAt).seconds)) s, round trip \(roundTrip)"
        switch peer.path.kind {
        case .relayed(let relay):
            let direct = search(peer.path).map { "; \($0)" } ?? ""
            return "is reached through \(name(relay)), sealed from it, \(end)\(direct)"
        case .introduced(let helper):
            return
                "is reached directly at \(link.identity.address) \(end); both dialled at one instant, at the word of "
                + name(helper)
        case .direct, .none:
            return "is reached directly at \(link.identity.address) \(end)"
        }
    }

    /// What is being done to reach it directly; `nil` when nothing is.
    func search(_ path: PathReport) -> String? {
        guard let next = path.nextAttemptAt else { return nil }
        let wait = max(0, Int((next - now).seconds.rounded(.up)))
        let tries =
            path.punches == 0
            ? "nobody has brought the two together yet"
            : "dialled together with it \(path.punches) \(path.punches == 1 ? "time" : "times") in vain"
        let strangers = path.strangers.isEmpty ? "" : ", \(list(path.strangers)) cannot reach it either"
        return
            "\(tries)\(strangers), again in \(wait) s; address translation here: \(Self.words(path.ownMapping)), there: "
            + Self.words(path.theirMapping)
    }

    static func words(_ mapping: AddressMapping) -> String {
        switch mapping {
        case .unknown: "unknown"
        case .none: "none"
        case .shared: "one outer address"
        case .perDestination: "another outer port for each destination"
        }
    }

    /// `path` of `why`: the same for scripts.
    func document(_ path: PathReport) -> JSONValue {
        [
            "kind": .string(Self.kind(path.kind)), "via": via(path.kind).map { .string(name($0)) } ?? .null,
            "translationHere": .string(Self.word(path.ownMapping)),
            "translationThere": .string(Self.word(path.theirMapping)),
            "relays": .array(path.relays.map { .string(name($0)) }),
            "introducers": .array(path.introducers.map { .string(name($0)) }),
            "attempts": .integer(Int64(path.punches)),
            "nextAttemptSeconds": path.nextAttemptAt.map {
                .number(Documents.rounded(max(0, ($0 - now).seconds), 1))
            } ?? .null,
        ]
    }

    private static func word(_ mapping: AddressMapping) -> String {
        switch mapping {
        case .unknown: "unknown"
        case .none: "none"
        case .shared: "shared"
        case .perDestination: "perDestination"
        }
    }

    private static func kind(_ kind: PathReport.Kind) -> String {
        switch kind {
        case .none: "none"
        case .direct: "direct"
        case .introduced: "introduced"
        case .relayed: "relay"
        }
    }

    private func via(_ kind: PathReport.Kind) -> PeerID? {
        switch kind {
        case .none, .direct: nil
        case .introduced(let peer), .relayed(let peer): peer
        }
    }

    private func name(_ peer: PeerID) -> String { SafeText.escaped(snapshot.name(of: peer)) }

    private func list(_ peers: [PeerID]) -> String { peers.map(name).joined(separator: " and ") }
}
