import MeshBase

/// Ids as people see and type them: the shortest prefix of at least four digits that is unique in the set.
struct ShortIDs {
    private let sorted: [String]

    init(_ ids: [RecordID]) { sorted = ids.map(\.description).sorted() }

    func text(_ id: RecordID) -> String {
        let full = id.description
        var length = 4
        while length < full.count, sorted.contains(where: { $0 != full && $0.hasPrefix(full.prefix(length)) }) {
            length += 1
        }
        return String(full.prefix(length))
    }
}
