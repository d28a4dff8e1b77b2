/// Which seeds of which scenarios to run: lines `SCENARIO FIRST` or `SCENARIO FIRST-LAST`, `#` begins a comment.
public struct SeedList: Hashable, Sendable {
    public struct Entry: Hashable, Sendable {
        public var scenario: String
        public var seeds: ClosedRange<UInt64>
    }

    /// A line that does not read as a scenario and seeds.
    public struct Malformed: Error, Hashable, Sendable {
        public var line: Int
        public var text: String

        public init(line: Int, text: String) {
            self.line = line
            self.text = text
        }
    }

    /// Seeds in one range at most: a longer one is a slip of the hand.
    public static let maximumRange: UInt64 = 1_000_000

    public var entries: [Entry] = []

    public init(entries: [Entry]) { self.entries = entries }

    public init(text: String) throws(Malformed) {
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let content = line.prefix { $0 != "#" }
            let words = content.split { $0 == " " || $0 == "\t" || $0 == "\r" }
            if words.isEmpty { continue }
            guard words.count == 2, Scenario.named(String(words[0])) != nil, let seeds = Self.range(words[1]) else {
                throw Malformed(line: number + 1, text: String(line.prefix(80)))
            }
            entries.append(Entry(scenario: String(words[0]), seeds: seeds))
        }
    }

    private static func range(_ text: Substring) -> ClosedRange<UInt64>? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard let first = parts.first.flatMap({ UInt64($0) }) else { return nil }
        if parts.count == 1 { return first...first }
        guard parts.count == 2, let last = UInt64(parts[1]), last >= first, last - first < maximumRange else {
            return nil
        }
        return first...last
    }

    /// Every (scenario, seed), in order.
    public var runs: [(scenario: Scenario, seed: UInt64)] {
        entries.flatMap { entry -> [(scenario: Scenario, seed: UInt64)] in
            guard let scenario = Scenario.named(entry.scenario) else { return [] }
            return entry.seeds.map { (scenario, $0) }
        }
    }
}
