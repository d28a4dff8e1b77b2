import MeshBase

/// What `--help` and `help` print: examples first, then what everything means.
public struct HelpText: Sendable {
    let table: CommandTable
    let isREPL: Bool

    public init(table: CommandTable = .standard, isREPL: Bool = false) {
        self.table = table
        self.isREPL = isREPL
    }

    /// The text for a topic: nothing, a verb, or the first word of several verbs.
    public func text(for topic: [String]) throws(CommandFailure) -> String {
        let name = topic.joined(separator: " ")
        if name.isEmpty { return overview }
        let verbs = table.verbs.filter { $0.name == name || (topic.count == 1 && $0.group == name) }
        guard let first = verbs.first else {
            let near = Suggestion.nearest(to: name, among: table.verbs.map(\.name))
            throw .usage(
                "there is no verb \(CommandLineParser.shown(name))",
                hint: near.map { "did you mean \(program)help \($0)?" } ?? "\(program)help")
        }
        return verbs.count == 1 ? page(first) : group(verbs)
    }

    private var program: String { isREPL ? "" : "starling " }

    private func command(_ example: Example) -> String {
        isREPL && example.command.hasPrefix("starling ") ? String(example.command.dropFirst(9)) : example.command
    }

    // MARK: One verb

    private func page(_ verb: VerbSpecification) -> String {
        var lines = ["\(program)\(verb.usage)", "  \(verb.summary)", "", "Examples:"]
        for example in verb.examples {
            lines.append("  \(command(example))")
            lines.append("      \(example.purpose)")
        }
        for paragraph in verb.details { lines += [""] + Self.wrapped(paragraph, width: 78) }
        if !verb.arguments.isEmpty {
            lines += ["", "Arguments:"]
            lines += Self.columns(verb.arguments.map { ($0.name, $0.help) })
        }
        if !verb.shownOptions.isEmpty {
            lines += ["", "Options:"]
            lines += Self.columns(verb.shownOptions.map(Self.row))
        }
        lines += ["", "Options of every verb: \(program)help"]
        return lines.joined(separator: "\n") + "\n"
    }

    /// Several verbs of one word: the examples of all, then their usage.
    private func group(_ verbs: [VerbSpecification]) -> String {
        var lines = ["Examples:"]
        for example in verbs.compactMap(\.examples.first) {
            lines.append("  \(command(example))")
            lines.append("      \(example.purpose)")
        }
        lines += ["", "Verbs:"]
        lines += verbs.flatMap { ["  \(program)\($0.usage)", "      \($0.summary)"] }
        lines += ["", "More about one: \(program)help \(verbs.last?.name ?? "")"]
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: All verbs

    private static let firstSteps = [
        ("starling demo", "three nodes of this machine in one mesh"),
        ("starling up", "start a node; prints an invite"),
        ("starling join starling:…", "join with somebody's invite"),
        ("starling journal add holiday.jpg", "share a file with everybody"),
        ("starling peers", "who is there"),
        ("starling repl", "look around in a running node"),
    ]

    private var overview: String {
        var lines: [String] = []
        if !isREPL {
            lines += ["starling: a mesh of your own machines and friends. No server, no account.", "", "Examples:"]
            lines += Self.columns(Self.firstSteps.map { ($0.0, $0.1) })
            lines.append("")
        }
        lines.append("Verbs:")
        let shown = table.verbs.filter { $0.isTyped(inREPL: isREPL) && !$0.isHidden }
        lines += Self.columns(shown.map { ($0.name, $0.summary) })
        if !isREPL {
            lines += ["", "Options of every verb:"]
            lines += Self.columns(table.globalOptions.map(Self.row))
            lines += [
                "", "Exit codes: 0 done · 1 failed · 2 usage · 3 no such node · 4 unreachable or timed out · 5 refused",
                "6 not found · 7 storage · 130 interrupted",
            ]
        }
        lines += ["", "More about one verb: \(program)help VERB"]
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: Layout

    static func row(_ option: OptionSpecification) -> (String, String) {
        let short = option.short.map { "-\($0), " } ?? ""
        let standard = option.defaultText.map { " (default: \($0))" } ?? ""
        return (short + option.usage, option.help + standard + (option.repeats ? "; may be repeated" : ""))
    }

    /// Two columns, the second wrapped and hanging.
    static func columns(_ rows: [(String, String)], width: Int = 100) -> [String] {
        let left = min(rows.map { DisplayWidth.of($0.0) }.max() ?? 0, 34)
        var lines: [String] = []
        for (term, meaning) in rows {
            let wrapped = wrapped(meaning, width: max(width - left - 4, 20))
            let indent = String(repeating: " ", count: left + 4)
            if DisplayWidth.of(term) > left {
                lines.append("  \(term)")
                lines += wrapped.map { indent + $0 }
            } else {
                let padding = String(repeating: " ", count: left - DisplayWidth.of(term))
                lines.append("  \(term)\(padding)  \(wrapped.first ?? "")")
                lines += wrapped.dropFirst().map { indent + $0 }
            }
        }
        return lines
    }

    static func wrapped(_ text: String, width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty, DisplayWidth.of(line) + 1 + DisplayWidth.of(String(word)) > width {
                lines.append(line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return line.isEmpty ? lines : lines + [line]
    }
}
