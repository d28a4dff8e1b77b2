import MeshBase

/// Words to invocation, by the table alone. Nothing here touches the machine: a refused line has changed nothing.
public struct CommandLineParser: Sendable {
    /// The largest single argument, the size of the largest message.
    public static let maximumArgumentBytes = 262_144
    /// More arguments than any shell line here needs.
    public static let maximumArgumentCount = 10_000

    let table: CommandTable
    let isREPL: Bool

    /// - Parameter isREPL: whether the line was typed at the REPL's prompt, which has a few other verbs.
    public init(table: CommandTable = .standard, isREPL: Bool = false) {
        self.table = table
        self.isREPL = isREPL
    }

    /// Parses the arguments as the system hands them over, after the program's name. Not UTF-8 is an error naming
    /// the argument: replaced characters would open another file than the one meant.
    public func parse(_ arguments: [[UInt8]]) throws(CommandFailure) -> Invocation {
        guard arguments.count <= Self.maximumArgumentCount else {
            throw usage("\(arguments.count) arguments are more than the \(Self.maximumArgumentCount) that are taken")
        }
        var words: [String] = []
        for (position, bytes) in arguments.enumerated() {
            guard bytes.count <= Self.maximumArgumentBytes else {
                throw usage(
                    "argument \(position + 1) has \(bytes.count) bytes; the limit is \(Self.maximumArgumentBytes)",
                    hint: "share long texts as a file: \(program)journal add FILE")
            }
            guard let word = String(validating: bytes, as: UTF8.self) else {
                let shown = Self.shown(String(decoding: bytes, as: UTF8.self))
                throw usage(
                    "argument \(position + 1) (\(shown)) is not UTF-8",
                    hint: "give the file a name in UTF-8 first, for example with mv")
            }
            words.append(word)
        }
        return try parse(words)
    }

    /// Parses words that are known to be text.
    public func parse(_ words: [String]) throws(CommandFailure) -> Invocation {
        if let topic = helpTopic(words) { return topic }
        var scan = Scan(table: table, isREPL: isREPL)
        var index = 0
        var onlyArguments = false
        while index < words.count {
            let word = words[index]
            index += 1
            if onlyArguments || word == "-" || !word.hasPrefix("-") {
                try accept(word, into: &scan)
            } else if word == "--" {
                onlyArguments = true
            } else if word.hasPrefix("--") {
                try acceptLong(word, words, &index, into: &scan)
            } else {
                try acceptShort(word, words, &index, into: &scan)
            }
        }
        return try finish(scan)
    }

    // MARK: Pieces

    /// What was understood so far.
    private struct Scan {
        let table: CommandTable
        let isREPL: Bool
        /// The first word when it is not a whole verb yet.
        var group: String?
        var verb: VerbSpecification?
        var arguments: [JSONValue] = []
        var options: [String: JSONValue] = [:]

        func option(long name: String) -> OptionSpecification? { known.first { $0.name == name } }
        func option(short name: Character) -> OptionSpecification? { known.first { $0.short == name } }
        var known: [OptionSpecification] { (verb?.options ?? []) + table.globalOptions }
    }

    /// `--help` and `--version` win over every mistake beside them.
    private func helpTopic(_ words: [String]) -> Invocation? {
        let before = words.prefix { $0 != "--" }
        let global = before.contains("--json") ? ["json": JSONValue.bool(true)] : [:]
        if before.contains("--help") || before.contains("-h") {
            let plain = before.filter { !$0.hasPrefix("-") }
            let two = plain.prefix(2).joined(separator: " ")
            let topic = table.verb(named: two) != nil ? Array(plain.prefix(2)) : Array(plain.prefix(1))
            return Invocation(verb: "help", options: global, arguments: topic.map(JSONValue.string))
        }
        if before.first == "--version" || (before.contains("--version") && before.allSatisfy { $0.hasPrefix("-") }) {
            return Invocation(verb: "version", options: global)
        }
        return nil
    }

    private func accept(_ word: String, into scan: inout Scan) throws(CommandFailure) {
        if scan.verb == nil, scan.group == nil {
            try acceptFirst(word, into: &scan)
        } else if scan.arguments.isEmpty, let group = scan.group ?? scan.verb?.name,
            let verb = table.verb(named: "\(group) \(word)")
        {
            scan.verb = verb
            scan.group = nil
        } else if let group = scan.group {
            throw unknownMember(word, of: group)
        } else if let verb = scan.verb {
            try acceptArgument(word, of: verb, into: &scan)
        }
    }

    private func acceptFirst(_ word: String, into scan: inout Scan) throws(CommandFailure) {
        let verb = table.verb(named: word)
        if let verb {
            guard verb.isTyped(inREPL: isREPL) else {
                let place = isREPL ? "the shell" : "the REPL"
                throw usage(
                    "\(word) belongs in \(place)", hint: isREPL ? "in a shell: starling \(word)" : "starling repl")
            }
            scan.verb = verb
        } else if !table.members(of: word).isEmpty {
            scan.group = word
        } else {
            throw unknownVerb(word)
        }
    }

    private func acceptArgument(
        _ word: String, of verb: VerbSpecification, into scan: inout Scan
    ) throws(CommandFailure) {
        let position = scan.arguments.count
        let specification: ArgumentSpecification
        if verb.arguments.indices.contains(position) {
            specification = verb.arguments[position]
        } else if let last = verb.arguments.last, last.repeats {
            specification = last
        } else {
            let members = table.members(of: verb.name).map { $0.name.dropFirst(verb.name.count + 1) }.map(String.init)
            if verb.arguments.isEmpty, let near = Suggestion.nearest(to: word, among: members) {
                throw usage(
                    "\(verb.name) has no \(Self.shown(word))", hint: "did you mean \(program)\(verb.name) \(near)?")
            }
            throw usage("\(Self.shown(word)) is more than \(verb.name) takes", hint: usageLine(verb))
        }
        scan.arguments.append(
            try value(word, kind: specification.kind, label: specification.name, hint: usageLine(verb)))
    }

    private func acceptLong(
        _ word: String, _ words: [String], _ index: inout Int, into scan: inout Scan
    ) throws(CommandFailure) {
        let body = word.dropFirst(2)
        let name = String(body.prefix { $0 != "=" })
        let attached = body.count > name.count ? String(body.dropFirst(name.count + 1)) : nil
        guard let option = scan.option(long: name) else { throw unknownOption("--" + name, scan) }
        try accept(option, shown: "--" + name, attached: attached, words, &index, into: &scan)
    }

    /// `-n ana`, `-nana`, `-fq`.
    private func acceptShort(
        _ word: String, _ words: [String], _ index: inout Int, into scan: inout Scan
    ) throws(CommandFailure) {
        var rest = word.dropFirst()
        while let letter = rest.popFirst() {
            guard let option = scan.option(short: letter) else { throw unknownOption("-\(letter)", scan) }
            if option.kind == nil {
                try accept(option, shown: "-\(letter)", attached: nil, words, &index, into: &scan)
            } else {
                let attached = rest.isEmpty ? nil : String(rest)
                return try accept(option, shown: "-\(letter)", attached: attached, words, &index, into: &scan)
            }
        }
    }

    private func accept(
        _ option: OptionSpecification, shown: String, attached: String?, _ words: [String], _ index: inout Int,
        into scan: inout Scan
    ) throws(CommandFailure) {
        let hint = scan.verb.map(usageLine) ?? "\(program)help"
        guard scan.options[option.name] == nil || option.repeats else {
            throw usage("\(shown) is given twice", hint: hint)
        }
        guard let kind = option.kind else {
            guard attached == nil else { throw usage("\(shown) takes no value", hint: hint) }
            scan.options[option.name] = true
            return
        }
        let text = attached ?? (words.indices.contains(index) && Self.isValue(words[index]) ? words[index] : nil)
        guard let text else { throw usage("\(shown) needs a value: \(option.valueName)", hint: hint) }
        if attached == nil { index += 1 }
        let value = try value(text, kind: kind, label: shown, hint: hint)
        if option.repeats {
            scan.options[option.name] = .array((scan.options[option.name]?.arrayValue ?? []) + [value])
        } else {
            scan.options[option.name] = value
        }
    }

    /// A word that may follow an option: everything but another option. `-5000,3` is a number.
    private static func isValue(_ word: String) -> Bool {
        guard word.hasPrefix("-"), word != "-" else { return true }
        guard let second = word.dropFirst().first else { return true }
        return second.isASCII && (second.isNumber || second == ".")
    }

    private func value(
        _ text: String, kind: ValueKind, label: String, hint: String
    ) throws(CommandFailure) -> JSONValue {
        switch kind.parse(text) {
        case .success(let value): return value
        case .failure(let invalid):
            // An invite is a secret, whole or in part: it is not repeated.
            let shown = kind == .invite ? "what was given" : Self.shown(text)
            throw usage("\(label): \(shown) is not valid: \(invalid.reason)", hint: hint)
        }
    }

    private func finish(_ scan: Scan) throws(CommandFailure) -> Invocation {
        if let group = scan.group {
            let members = table.members(of: group)
            throw usage(
                "\(group) needs a word more: \(members.map { $0.name.dropFirst(group.count + 1) }.joined(separator: ", "))",
                hint: "\(program)\(members.first?.name ?? group)")
        }
        guard let verb = scan.verb else {
            throw usage("no verb", hint: "\(program)help")
        }
        // Options of `invite` that came before `revoke`.
        for name in scan.options.keys.sorted() where scan.option(long: name) == nil {
            throw unknownOption("--" + name, scan)
        }
        let required = verb.arguments.filter(\.isRequired)
        guard scan.arguments.count >= required.count else {
            throw usage("\(verb.name) needs \(required[scan.arguments.count].name)", hint: usageLine(verb))
        }
        try checkTogether(verb, scan)
        return Invocation(verb: verb.name, options: scan.options, arguments: scan.arguments)
    }

    /// What no single value shows.
    private func checkTogether(_ verb: VerbSpecification, _ scan: Scan) throws(CommandFailure) {
        guard verb.name == "send" else { return }
        if scan.options["unreliable"] != nil, scan.options["ordered"] != nil {
            throw usage("--unreliable and --ordered exclude each other", hint: usageLine(verb))
        }
        if scan.options["ordered"] != nil, scan.options["to"] != nil {
            throw usage("--ordered goes to everybody, --to to some", hint: usageLine(verb))
        }
        if let deadline = scan.options["deadline"]?.numberValue {
            guard scan.options["unreliable"] != nil else {
                throw usage("--deadline goes with --unreliable", hint: usageLine(verb))
            }
            guard deadline <= 60 else { throw usage("--deadline is at most 60s", hint: usageLine(verb)) }
        }
        if scan.arguments.isEmpty, scan.options["size"] == nil {
            throw usage("send needs TEXT", hint: usageLine(verb))
        }
        if let size = scan.options["size"]?.integerValue, size > Int64(Self.maximumArgumentBytes) {
            throw usage(
                "--size: \(size) bytes are more than a message holds (\(Self.maximumArgumentBytes))",
                hint: usageLine(verb))
        }
    }

    // MARK: Refusals

    private var program: String { isREPL ? "" : "starling " }

    /// The grammar where it fits on a line; else its arguments, and where the rest stands.
    private func usageLine(_ verb: VerbSpecification) -> String {
        let whole = "usage: \(program)\(verb.usage)"
        guard whole.count > 100 else { return whole }
        let arguments = ([verb.name] + verb.arguments.map(\.usage)).joined(separator: " ")
        return "usage: \(program)\(arguments) [options] · \(program)help \(verb.name)"
    }

    private func usage(_ message: String, hint: String? = nil) -> CommandFailure {
        .usage(message, hint: hint ?? "\(program)help")
    }

    private func unknownVerb(_ word: String) -> CommandFailure {
        let words = table.firstWords(inREPL: isREPL)
        // `starling ls` means a verb of some group.
        let inGroup = table.verbs.first { $0.name.split(separator: " ").last.map(String.init) == word }?.name
        let near = inGroup ?? Suggestion.nearest(to: word, among: words)
        return usage(
            "there is no verb \(Self.shown(word))", hint: near.map { "did you mean \(program)\($0)?" })
    }

    private func unknownMember(_ word: String, of group: String) -> CommandFailure {
        let members = table.members(of: group).map { String($0.name.dropFirst(group.count + 1)) }
        let near = Suggestion.nearest(to: word, among: members)
        return usage(
            "\(group) has no \(Self.shown(word)), only \(members.joined(separator: ", "))",
            hint: near.map { "did you mean \(program)\(group) \($0)?" } ?? "\(program)help \(group)")
    }

    private func unknownOption(_ shown: String, _ scan: Scan) -> CommandFailure {
        let name = String(shown.drop { $0 == "-" })
        guard let verb = scan.verb else {
            if table.verbs.contains(where: { $0.options.contains { $0.name == name } }) {
                return usage("\(shown) stands before the verb", hint: "put it behind: \(program)VERB \(shown)")
            }
            return usage("there is no option \(Self.shown(shown))")
        }
        let near =
            shown.hasPrefix("--")
            ? Suggestion.nearest(to: name, among: scan.known.filter { !$0.isHidden }.map(\.name)) : nil
        return usage(
            "\(verb.name) has no option \(Self.shown(shown))",
            hint: near.map { "did you mean --\($0)?" } ?? usageLine(verb))
    }

    /// A word as it may be repeated on a screen: escaped, and not the whole of it when it is long.
    static func shown(_ word: String) -> String { "“" + SafeText.escaped(word, limit: 60) + "”" }
}
