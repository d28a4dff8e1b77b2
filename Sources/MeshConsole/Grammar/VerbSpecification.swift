/// One verb of the command, in full: what parsing, `--help`, the manual page, completion and the REPL are made from.
public struct VerbSpecification: Hashable, Sendable {
    /// Where a verb may be typed.
    public enum Place: Hashable, Sendable {
        /// In the shell and in the REPL; a running node carries it out.
        case everywhere
        /// In the shell alone; the command itself carries it out.
        case shell
        /// In the REPL alone.
        case repl
    }

    /// One or two words: `peers`, `journal add`.
    public var name: String
    /// One line, lower case, no full stop.
    public var summary: String
    /// Whole sentences for `--help` and the manual, one a paragraph.
    public var details: [String]
    public var arguments: [ArgumentSpecification]
    public var options: [OptionSpecification]
    /// Real command lines with what they are for.
    public var examples: [Example]
    public var place: Place
    /// For the completion scripts: works, but no list shows it.
    public var isHidden: Bool

    init(
        _ name: String, _ summary: String, place: Place = .everywhere, details: [String] = [],
        arguments: [ArgumentSpecification] = [], options: [OptionSpecification] = [], examples: [Example],
        hidden: Bool = false
    ) {
        self.name = name
        self.summary = summary
        self.details = details
        self.arguments = arguments
        self.options = options
        self.examples = examples
        self.place = place
        isHidden = hidden
    }

    /// The first word of the name.
    public var group: String { name.split(separator: " ").first.map(String.init) ?? name }

    /// The options that help, the manual and completion show.
    var shownOptions: [OptionSpecification] { options.filter { !$0.isHidden } }

    /// `journal add FILE… [--note TEXT]`
    public var usage: String {
        let arguments = arguments.map(\.usage)
        let options = shownOptions.filter { !$0.isTestHook }.map { option in
            "[\(option.usage)]" + (option.repeats ? "…" : "")
        }
        return ([name] + arguments + options).joined(separator: " ")
    }
}

/// A real command line and what it is for.
public struct Example: Hashable, Sendable {
    public var command: String
    public var purpose: String

    init(_ command: String, _ purpose: String) {
        self.command = command
        self.purpose = purpose
    }
}

/// An argument by position.
public struct ArgumentSpecification: Hashable, Sendable {
    /// In capitals: `FILE`.
    public var name: String
    public var kind: ValueKind
    public var help: String
    public var isRequired: Bool
    /// Whether it takes all that follow; only the last argument may.
    public var repeats: Bool

    init(_ name: String, _ kind: ValueKind, _ help: String, required: Bool = true, repeats: Bool = false) {
        self.name = name
        self.kind = kind
        self.help = help
        isRequired = required
        self.repeats = repeats
    }

    var usage: String {
        let shown = repeats ? name + "…" : name
        return isRequired ? shown : "[\(shown)]"
    }
}

/// An option by name: a flag, or with a value.
public struct OptionSpecification: Hashable, Sendable {
    /// Without the dashes.
    public var name: String
    public var short: Character?
    /// `nil` for a flag.
    public var kind: ValueKind?
    /// In capitals, empty for a flag.
    public var valueName: String
    public var help: String
    /// Shown in help; applied by whoever reads the invocation.
    public var defaultText: String?
    public var repeats: Bool
    /// For measurements: documented in `--help`, left out of the one-line usage.
    public var isTestHook: Bool
    /// Understood, and shown nowhere: no node can do it yet.
    public var isHidden: Bool

    init(
        _ name: String, short: Character? = nil, _ kind: ValueKind? = nil, _ valueName: String = "", _ help: String,
        default defaultText: String? = nil, repeats: Bool = false, testHook: Bool = false,
        hidden: Bool = false
    ) {
        self.name = name
        self.short = short
        self.kind = kind
        self.valueName = valueName
        self.help = help
        self.defaultText = defaultText
        self.repeats = repeats
        isTestHook = testHook
        isHidden = hidden
    }

    var usage: String { kind == nil ? "--\(name)" : "--\(name) \(valueName)" }
}
