/// What `starling-simulator run` is asked for.
struct SimulatorOptions {
    static let standardFile = "Tests/SimulationTests/Scenarios.txt"

    enum Choice: Hashable {
        /// The seeds that the file lists.
        case listed
        /// One of them a scenario: the first listed.
        case first
        case seeds(ClosedRange<UInt64>)
        /// New ones, for so many seconds.
        case duration(Double)
    }

    var file = standardFile
    var choice: Choice?
    var scenario: String?
    var workers = 1
    var isJSON = false
    /// Print only what failed, and the total.
    var isQuiet = false

    /// `nil` for anything that is not exactly understood.
    init?(_ arguments: [String]) {
        var rest = arguments[...]
        while let word = rest.popFirst() {
            guard read(word, &rest) else { return nil }
        }
    }

    private mutating func read(_ word: String, _ rest: inout ArraySlice<String>) -> Bool {
        switch word {
        case "--json": isJSON = true
        case "--quiet": isQuiet = true
        case "--listed": return choose(.listed)
        case "--first": return choose(.first)
        case "--seed", "--seeds":
            guard let seeds = rest.popFirst().flatMap(ScenarioWords.seeds) else { return false }
            return choose(.seeds(seeds))
        case "--for":
            guard let seconds = rest.popFirst().flatMap(Self.duration) else { return false }
            return choose(.duration(seconds))
        case "--file":
            guard let path = rest.popFirst() else { return false }
            file = path
        case "--scenario":
            guard let name = rest.popFirst() else { return false }
            scenario = name
        case "--workers":
            guard let count = rest.popFirst().flatMap({ Int($0) }), (1...64).contains(count) else { return false }
            workers = count
        default: return false
        }
        return true
    }

    private mutating func choose(_ kind: Choice) -> Bool {
        defer { choice = kind }
        return choice == nil
    }

    private static func duration(_ text: String) -> Double? {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600]
        guard let last = text.last, let unit = units[last], let number = Double(text.dropLast()), number > 0,
            number < 1e7
        else { return nil }
        return number * unit
    }
}
