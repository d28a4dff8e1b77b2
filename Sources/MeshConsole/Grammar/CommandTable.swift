/// Every verb and global option, once. The parser, `--help`, the manual page, the completions and the REPL read this.
public struct CommandTable: Sendable {
    public var verbs: [VerbSpecification]
    public var globalOptions: [OptionSpecification]

    public static let version = "0.1.0"

    /// The table of the command.
    public static let standard = CommandTable(
        verbs: nodeVerbs + meshVerbs + inspectionVerbs + messageVerbs + journalVerbs + toolVerbs,
        globalOptions: standardOptions)

    public func verb(named name: String) -> VerbSpecification? { verbs.first { $0.name == name } }

    /// The verbs of two words that begin with `group`.
    public func members(of group: String) -> [VerbSpecification] {
        verbs.filter { $0.group == group && $0.name != group }
    }

    /// First words, in order, each once; in the REPL without the shell's own and the reverse.
    public func firstWords(inREPL: Bool) -> [String] {
        var output: [String] = []
        for verb in verbs where verb.isTyped(inREPL: inREPL) && !verb.isHidden && !output.contains(verb.group) {
            output.append(verb.group)
        }
        return output
    }

    static let standardOptions: [OptionSpecification] = [
        OptionSpecification(
            "node", short: "n", .nodeName, "NAME", "the running node to ask", default: "the only running one"),
        OptionSpecification("json", nil, "", "print JSON, one object a line"),
        OptionSpecification("quiet", short: "q", nil, "", "no talk on standard error, only failures"),
        OptionSpecification("no-color", nil, "", "no colours, as NO_COLOR=1"),
        OptionSpecification(
            "log", .logLevels, "AREA=LEVEL,…", "what a node that starts here writes to its log; see help log"),
        OptionSpecification("timeout", .duration, "SECONDS", "how long to wait for an answer", default: "30"),
        OptionSpecification("yes", short: "y", nil, "", "answer yes to every question"),
        OptionSpecification("no-input", nil, "", "ask nothing; what would need an answer fails"),
        OptionSpecification("help", short: "h", nil, "", "examples and options of a verb"),
        OptionSpecification("version", nil, "", "the version"),
    ]
}

extension VerbSpecification {
    func isTyped(inREPL: Bool) -> Bool {
        switch place {
        case .everywhere: true
        case .shell: !inREPL
        case .repl: inREPL
        }
    }
}
