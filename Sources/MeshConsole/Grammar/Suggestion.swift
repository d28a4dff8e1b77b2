/// The near word for a mistyped one.
public enum Suggestion {
    /// The candidate that is a completion of `word` or the fewest slips away from it; `nil` when none is near.
    public static func nearest(to word: String, among candidates: [String]) -> String? {
        let typed = Array(word.lowercased().utf8.prefix(64))
        guard !typed.isEmpty else { return nil }
        let limit = max(1, typed.count / 3)
        var best: (distance: Int, candidate: String)?
        for candidate in candidates {
            // One slip in three letters makes another word of most: there the first letter must be right.
            if typed.count <= 3, candidate.utf8.first != typed.first { continue }
            let distance = slips(from: typed, to: Array(candidate.utf8.prefix(64)))
            if distance <= limit, distance < best?.distance ?? .max { best = (distance, candidate) }
        }
        if let best { return best.candidate }
        guard typed.count >= 2 else { return nil }
        return candidates.first { Array($0.utf8.prefix(typed.count)) == typed }
    }

    /// Insertions, deletions, replacements and swaps of neighbours. Cost: product of the lengths.
    static func slips(from source: [UInt8], to target: [UInt8]) -> Int {
        var beforePrevious: [Int] = []
        var previous = Array(0...target.count)
        for (row, byte) in source.enumerated() {
            var current = [row + 1]
            for (column, other) in target.enumerated() {
                let replaced = previous[column] + (byte == other ? 0 : 1)
                var least = min(replaced, previous[column + 1] + 1, current[column] + 1)
                if row > 0, column > 0, byte == target[column - 1], source[row - 1] == other {
                    least = min(least, beforePrevious[column - 1] + 1)
                }
                current.append(least)
            }
            beforePrevious = previous
            previous = current
        }
        return previous[target.count]
    }
}
