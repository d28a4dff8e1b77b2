import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// Something that must hold of a cluster, with the sentence that its check proves.
public struct Invariant: Sendable {
    /// When it must hold.
    public enum Kind: Hashable, Sendable {
        /// At every instant, whatever the network does.
        case always
        /// Some time after the last fault.
        case eventually
    }

    public var name: String
    public var kind: Kind
    /// What is proven when the check finds nothing.
    public var sentence: String
    /// Violations in words; empty when it holds.
    public var check: @Sendable (ClusterView) -> [String]
}

/// A cluster at one instant, as its nodes and disks show it, beside what was really done.
public struct ClusterView: Sendable {
    public struct NodeView: Sendable {
        public var name: String
        /// Which of several meshes it belongs to.
        public var mesh: Int
        public var snapshot: NodeSnapshot
        /// Digest of each attachment's bytes as they are on this node's disk, by the attachment's record; of complete
        /// ones only.
        public var attachmentHashes: [RecordID: Bytes32]
        /// The mesh clock at the instant of the view, and its stated error.
        public var meshTime: MeshTime
    }

    /// Nodes that run, in order.
    public var nodes: [NodeView]
    /// Digests of the files that were really added, by name.
    public var added: [String: Bytes32]
    public var spinCount: UInt64
    /// Members that are no nodes of the cluster: hostile ones. Nobody need agree on whether they are alive.
    public var foreign: Set<PeerID>
    /// Attachments of which no whole copy exists any more.
    public var lost: Set<String> = []
    /// Whether the bytes on the disks were looked at.
    public var hasHashes: Bool

    /// Looks at a cluster. Costs a few milliseconds, without `hashes` a tenth of it; no simulated time passes.
    public init(_ cluster: Cluster, added: [String: Bytes32] = [:], hashes hasHashes: Bool = true) {
        self.added = added
        self.hasHashes = hasHashes
        spinCount = cluster.spinCount
        foreign = cluster.foreignMembers
        nodes = cluster.running.compactMap { host in
            guard let snapshot = cluster.snapshot(of: host.index) else { return nil }
            return NodeView(
                name: host.name, mesh: cluster.meshOfHost(host.index), snapshot: snapshot,
                attachmentHashes: hasHashes ? Self.hashes(snapshot.attachments, on: host.storage) : [:],
                meshTime: snapshot.meshTime)
        }
    }

    /// The nodes of each mesh, which are compared with one another.
    var meshes: [[NodeView]] {
        Dictionary(grouping: nodes, by: \.mesh).sorted { $0.key < $1.key }.map(\.value)
    }

    private static func hashes(_ attachments: [AttachmentSummary], on storage: SimulatedStorage) -> [RecordID: Bytes32]
    {
        var hashes: [RecordID: Bytes32] = [:]
        for attachment in attachments {
            guard let bytes = storage.completeBytes(of: attachment.content) else { continue }
            hashes[attachment.id] = Digest.hash32(bytes)
        }
        return hashes
    }
}

extension SimulatedStorage {
    /// The bytes of a content that is complete here, without injected faults.
    func completeBytes(of id: ContentID) -> [UInt8]? {
        let earlier = faults
        defer { faults = earlier }
        faults.readFailure = 0
        do {
            guard let content = try contents().first(where: { $0.id == id && $0.isComplete }) else { return nil }
            var bytes: [UInt8] = []
            for index in content.leaves.indices { bytes += try readChunk(id: id, index: UInt64(index)) }
            return bytes
        } catch {
            return nil
        }
    }
}

/// What every scenario is checked against.
public enum Invariants {
    /// Those that need a look at the whole cluster. `EventInvariant` has the others.
    public static let all: [Invariant] = [
        noSpinning, attachmentsAreGenuine, equalSetsEqualState, equalMembers, equalRecords, equalAttachments,
        clocksAgree,
    ]

    public static let noSpinning = Invariant(
        name: "no spinning", kind: .always,
        sentence: "A node comes to rest at every instant: no deadline is left in the past."
    ) { view in view.spinCount == 0 ? [] : ["nodes spun at \(view.spinCount) instants"] }

    public static let attachmentsAreGenuine = Invariant(
        name: "genuine attachments", kind: .always,
        sentence: "An attachment shown as complete has on every disk exactly the bytes that its adder's file had."
    ) { view in
        guard view.hasHashes else { return [] }
        return view.nodes.flatMap { node in
            node.snapshot.attachments.compactMap { attachment -> String? in
                guard attachment.isPresent, let expected = view.added[attachment.name] else { return nil }
                let isGenuine = node.attachmentHashes[attachment.id] == expected
                return isGenuine ? nil : "\(node.name) holds other bytes of \(attachment.name)"
            }
        }
    }

    public static let equalSetsEqualState = Invariant(
        name: "equal sets, equal state", kind: .always,
        sentence: "Nodes that hold the same records list the same attachments and have admitted the same members."
    ) { view in
        Dictionary(grouping: view.nodes, by: \.snapshot.recordsHead).values.flatMap { nodes -> [String] in
            let lists = Set(nodes.map { Set($0.snapshot.attachments.map(\.id)) })
            let names = nodes.map(\.name).sorted().joined(separator: " ")
            return lists.count <= 1 ? [] : ["\(names) hold the same records and list different attachments"]
        }
    }

    public static let equalMembers = Invariant(
        name: "equal member lists", kind: .eventually,
        sentence: "All running nodes list the same members in the same states, and one another as alive."
    ) { view in
        view.meshes.flatMap { nodes -> [String] in
            let alive = Set(nodes.map(\.snapshot.id))
            let first = nodes.first.map { Set($0.snapshot.members.map(\.peer)) } ?? []
            return nodes.flatMap { node -> [String] in
                let shown = Set(node.snapshot.members.filter { $0.state == .alive }.map(\.peer))
                let ids = Set(node.snapshot.members.map(\.peer))
                var violations: [String] = []
                if shown.subtracting(view.foreign) != alive {
                    violations.append("\(node.name) shows \(shown.count) of \(alive.count) alive")
                }
                if ids != first { violations.append("\(node.name) lists \(ids.count) members, others \(first.count)") }
                return violations
            }
        }
    }

    public static let equalRecords = Invariant(
        name: "equal record sets", kind: .eventually, sentence: "All running nodes hold the same signed records."
    ) { view in
        view.meshes.flatMap { nodes -> [String] in
            let heads = Set(nodes.map(\.snapshot.recordsHead))
            let counts = nodes.map { "\($0.name) \($0.snapshot.recordCount)" }.joined(separator: ", ")
            return heads.count <= 1 ? [] : ["record sets differ: \(counts)"]
        }
    }

    public static let equalAttachments = Invariant(
        name: "equal attachment hashes", kind: .eventually,
        sentence: "All running nodes list the same attachments, and hold the same bytes of each."
    ) { view in
        view.meshes.flatMap { nodes -> [String] in
            let lists = Set(nodes.map { Set($0.snapshot.attachments.map(\.id)) })
            var violations = lists.count <= 1 ? [] : ["attachment lists differ"]
            for node in nodes {
                let missing = node.snapshot.attachments.count { !$0.isPresent && !view.lost.contains($0.name) }
                if missing > 0 { violations.append("\(node.name) lacks \(missing) attachments") }
            }
            guard violations.isEmpty, view.hasHashes else { return violations }
            return Set(nodes.map(\.attachmentHashes)).count > 1 ? ["attachment hashes differ"] : []
        }
    }

    public static let clocksAgree = Invariant(
        name: "clocks agree", kind: .eventually,
        sentence: "All running nodes follow one mesh clock, and differ by no more than the errors they state."
    ) { view in view.meshes.flatMap(clockViolations) }

    private static func clockViolations(_ nodes: [ClusterView.NodeView]) -> [String] {
        guard Set(nodes.map(\.snapshot.clock.epoch)).count <= 1 else { return ["more than one clock epoch"] }
        var violations: [String] = []
        for node in nodes where node.snapshot.clock.state != .steady {
            violations.append("\(node.name)'s clock is \(node.snapshot.clock.state.rawValue)")
        }
        for (place, left) in nodes.enumerated() {
            for right in nodes.dropFirst(place + 1) {
                let difference = left.meshTime.since(right.meshTime).nanoseconds.magnitude
                let stated = (left.snapshot.clock.error + right.snapshot.clock.error).nanoseconds
                if difference > UInt64(max(0, stated)) {
                    violations.append("\(left.name) and \(right.name) are \(difference) ns apart, stated \(stated)")
                }
            }
        }
        return violations
    }

    /// Violations of the invariants of a kind, each with the invariant's name.
    public static func violations(_ kind: Invariant.Kind, in view: ClusterView) -> [String] {
        all.filter { $0.kind == kind }.flatMap { invariant in
            invariant.check(view).map { "\(invariant.name): \($0)" }
        }
    }
}
