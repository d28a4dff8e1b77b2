import MeshBase
import MeshWire

/// The epoch secrets of a mesh and what each builds on: which ones nobody who was removed can know.
struct EpochTree: Hashable, Sendable {
    struct Epoch: Hashable, Sendable {
        let record: RecordID
        let secret: SecretID
        /// The removals whose subjects lack a part of this secret.
        let coverage: Set<RecordID>
    }

    /// In total order of their records, GENESIS first.
    private(set) var list: [Epoch] = []
    private var positions: [RecordID: Int] = [:]
    private var coverages: [SecretID: Set<RecordID>] = [:]
    /// Secrets that another one builds on.
    private var superseded: Set<SecretID> = []

    /// Beyond it nobody can be removed any more: a newcomer is given every secret.
    static let maximumEpochs = 240

    mutating func found(_ genesis: RecordID, secret: SecretID) {
        add(Epoch(record: genesis, secret: secret, coverage: []))
    }

    /// In total order: bases come before what builds on them.
    mutating func insert(_ record: RecordID, _ body: EpochBody) {
        var coverage = Set(body.removals)
        for base in body.bases {
            guard let position = positions[base] else { continue }
            superseded.insert(list[position].secret)
            coverage.formUnion(list[position].coverage)
        }
        add(Epoch(record: record, secret: body.secretID, coverage: coverage))
    }

    private mutating func add(_ epoch: Epoch) {
        guard positions[epoch.record] == nil else { return }
        positions[epoch.record] = list.count
        list.append(epoch)
        // Two merges of the same bases make one secret.
        coverages[epoch.secret] = (coverages[epoch.secret] ?? epoch.coverage).intersection(epoch.coverage)
    }

    func coverage(of secret: SecretID) -> Set<RecordID> { coverages[secret] ?? [] }

    /// Secrets that no other builds on: one, unless members made some without knowing of each other. Merges that several
    /// members made alike count once. In total order.
    var heads: [Epoch] {
        var seen: Set<SecretID> = []
        return list.filter { !superseded.contains($0.secret) && seen.insert($0.secret).inserted }
    }

    func epoch(_ record: RecordID) -> Epoch? { positions[record].map { list[$0] } }
}
