import MeshBase

/// Scenarios and the seeds they are run with, as they stand in a file: one word and its values a line, `#` begins a
/// comment, `scenario NAME` begins a scenario. The format is in Docs/Testing.md.
public struct ScenarioFile: Hashable, Sendable {
    public struct Entry: Hashable, Sendable {
        public var scenario: Scenario
        public var seeds: [ClosedRange<UInt64>]

        /// Every seed once, in order.
        public var allSeeds: [UInt64] {
            var seen: Set<UInt64> = []
            return seeds.flatMap { Array($0) }.filter { seen.insert($0).inserted }
        }
    }

    /// A line that does not read.
    public struct Malformed: Error, Hashable, Sendable, CustomStringConvertible {
        public var line: Int
        public var text: String

        public init(line: Int, text: String) {
            self.line = line
            self.text = text
        }

        public var description: String { "line \(line) is not understood: \(text)" }
    }

    /// Seeds in one range at most: a longer one is a slip of the hand.
    public static let maximumRange: UInt64 = 1_000_000

    public var entries: [Entry] = []

    public init(text: String) throws(Malformed) {
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let content = line.prefix { $0 != "#" }
            let words = content.split { $0 == " " || $0 == "\t" || $0 == "\r" }.map(String.init)
            guard let first = words.first else { continue }
            let rest = Array(words.dropFirst())
            guard read(first, rest) else { throw Malformed(line: number + 1, text: String(line.prefix(80))) }
        }
        for entry in entries where entry.seeds.isEmpty {
            throw Malformed(line: 0, text: "scenario \(entry.scenario.name) has no seeds")
        }
    }

    public func named(_ name: String) -> Scenario? { entries.first { $0.scenario.name == name }?.scenario }

    /// Every (scenario, seed), in order.
    public var runs: [(scenario: Scenario, seed: UInt64)] {
        entries.flatMap { entry in entry.allSeeds.map { (entry.scenario, $0) } }
    }

    // MARK: Reading

    private mutating func read(_ key: String, _ words: [String]) -> Bool {
        if key == "scenario" {
            guard words.count == 1, named(words[0]) == nil else { return false }
            entries.append(Entry(scenario: Scenario(name: words[0]), seeds: []))
            return true
        }
        guard !entries.isEmpty else { return false }
        let last = entries.count - 1
        if key == "seeds" {
            guard words.count == 1, let range = ScenarioWords.seeds(words[0]) else { return false }
            entries[last].seeds.append(range)
            return true
        }
        return Self.set(key, words, of: &entries[last].scenario)
    }

    private static func set(_ key: String, _ words: [String], of scenario: inout Scenario) -> Bool {
        switch key {
        case "about":
            scenario.summary = words.joined(separator: " ")
            return !words.isEmpty
        case "nodes":
            guard words.count == 1, let range = ScenarioWords.counts(words[0], within: 1...1_000) else { return false }
            scenario.nodeCounts = range
        case "meshes":
            guard words.count == 1, let count = Int(words[0]), (1...4).contains(count) else { return false }
            scenario.meshCount = count
        case "lasts":
            guard words.count == 1, let span = ScenarioWords.span(words[0]) else { return false }
            scenario.stormSpan = span
        case "path": return setPath(words, &scenario.conditions)
        case "traffic": return setTraffic(words, &scenario.traffic)
        case "limit": return setLimits(words, &scenario.limits)
        case "fault": return addFault(words, &scenario)
        case "at": return addScheduled(words, &scenario)
        case "hostile":
            let kinds = words.compactMap(HostileKind.init(rawValue:))
            guard !words.isEmpty, kinds.count == words.count else { return false }
            scenario.hostiles += kinds
        default: return false
        }
        return true
    }

    private static func setPath(_ words: [String], _ conditions: inout PathConditions) -> Bool {
        guard let pairs = ScenarioWords.pairs(words) else { return false }
        for (name, value) in pairs {
            switch (name, ScenarioWords.span(value), ScenarioWords.fraction(value)) {
            case ("delay", let span?, _): conditions.delay = span
            case ("jitter", let span?, _): conditions.jitter = span
            case ("loss", _, let fraction?): conditions.loss = fraction
            case ("duplicate", _, let fraction?): conditions.duplication = fraction
            case ("reorder", _, let fraction?): conditions.reordering = fraction
            case ("corrupt", _, let fraction?): conditions.corruption = fraction
            default: return false
            }
        }
        return true
    }

    private static func setTraffic(_ words: [String], _ traffic: inout Scenario.Traffic) -> Bool {
        guard let pairs = ScenarioWords.pairs(words) else { return false }
        for (name, value) in pairs {
            guard let rate = ScenarioWords.rate(value) else { return false }
            switch name {
            case "messages": traffic.messagesPerMinute = rate
            case "files": traffic.filesPerMinute = rate
            default: return false
            }
        }
        return true
    }

    private static func setLimits(_ words: [String], _ limits: inout Scenario.Limits) -> Bool {
        guard let pairs = ScenarioWords.pairs(words) else { return false }
        for (name, value) in pairs {
            switch (name, ScenarioWords.span(value), Int(value)) {
            case ("convergence", let span?, _): limits.convergence = span
            case ("notice", let span?, _): limits.notice = span
            case ("false-deaths", _, let count?) where count >= 0: limits.falseDeaths = count
            default: return false
            }
        }
        return true
    }

    /// `KIND RATE/min [for SPAN | SPAN-SPAN]`
    private static func addFault(_ words: [String], _ scenario: inout Scenario) -> Bool {
        guard words.count == 2 || words.count == 4, let hazard = Hazard(rawValue: words[0]),
            let rate = ScenarioWords.rate(words[1]), rate > 0
        else { return false }
        guard let span = span(words.dropFirst(2), of: hazard) else { return false }
        scenario.hazards.append(RecurringHazard(hazard, perMinute: rate, span: span))
        return true
    }

    /// `TIME KIND [COUNT] [for SPAN | SPAN-SPAN]`
    private static func addScheduled(_ words: [String], _ scenario: inout Scenario) -> Bool {
        guard words.count >= 2, let at = ScenarioWords.span(words[0]), let hazard = Hazard(rawValue: words[1]) else {
            return false
        }
        var rest = words.dropFirst(2)
        var count: Int?
        if let first = rest.first, let number = Int(first), number > 0 {
            count = number
            rest = rest.dropFirst()
        }
        guard rest.isEmpty || rest.count == 2, let span = span(rest, of: hazard) else { return false }
        scenario.schedule.append(ScheduledHazard(at: at, hazard, count: count, span: span))
        return true
    }

    private static func span(_ words: ArraySlice<String>, of hazard: Hazard) -> ClosedRange<TimeSpan>? {
        guard let first = words.first else { return hazard.standardSpan }
        guard first == "for", let text = words.last else { return nil }
        return ScenarioWords.spans(text)
    }
}

/// How single values of a scenario file are written.
enum ScenarioWords {
    /// `250ms`, `15s`, `10m`.
    static func span(_ text: some StringProtocol) -> TimeSpan? {
        for (unit, milliseconds) in [("ms", 1.0), ("s", 1_000), ("m", 60_000)] where text.hasSuffix(unit) {
            guard let number = Double(text.dropLast(unit.count)), number >= 0, number <= 86_400_000 else { return nil }
            return TimeSpan(nanoseconds: Int64(number * milliseconds * 1e6))
        }
        return nil
    }

    /// `5s` or `1s-5s`.
    static func spans(_ text: String) -> ClosedRange<TimeSpan>? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { span($0) }
        guard let first = parts.first ?? nil, let last = parts.last ?? nil, parts.count <= 2, first <= last else {
            return nil
        }
        return first...last
    }

    /// `6/min`, at most 600.
    static func rate(_ text: String) -> Double? {
        guard text.hasSuffix("/min"), let rate = Double(text.dropLast(4)), rate >= 0, rate <= 600 else { return nil }
        return rate
    }

    /// `0.3` or `30%`.
    static func fraction(_ text: String) -> Double? {
        let value = text.hasSuffix("%") ? Double(text.dropLast()).map { $0 / 100 } : Double(text)
        return value.flatMap { (0...1).contains($0) ? $0 : nil }
    }

    /// `5` or `3-6`.
    static func counts(_ text: String, within limits: ClosedRange<Int>) -> ClosedRange<Int>? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard let first = parts.first ?? nil, let last = parts.last ?? nil, parts.count <= 2, first <= last,
            limits.contains(first), limits.contains(last)
        else { return nil }
        return first...last
    }

    /// `17` or `1-160`.
    static func seeds(_ text: String) -> ClosedRange<UInt64>? {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0) }
        guard let first = parts.first ?? nil, let last = parts.last ?? nil, parts.count <= 2, first <= last,
            last - first < ScenarioFile.maximumRange
        else { return nil }
        return first...last
    }

    /// `name=value …`; at least one.
    static func pairs(_ words: [String]) -> [(String, String)]? {
        var pairs: [(String, String)] = []
        for word in words {
            let parts = word.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2 else { return nil }
            pairs.append((parts[0], parts[1]))
        }
        return pairs.isEmpty ? nil : pairs
    }
}
