/// Completion scripts of three shells, written from the table. Names that only a node knows come from
/// `starling complete`, which answers nothing when no node runs.
public enum CompletionScripts {
    public static func text(shell: String, table: CommandTable = .standard) -> String? {
        switch shell {
        case "bash": bash(table)
        case "zsh": zsh(table)
        case "fish": fish(table)
        default: nil
        }
    }

    private static func shown(_ table: CommandTable) -> [VerbSpecification] {
        table.verbs.filter { $0.isTyped(inREPL: false) && !$0.isHidden }
    }

    private static func optionWords(_ options: [OptionSpecification]) -> String {
        options.map { "--" + $0.name }.joined(separator: " ")
    }

    /// The patterns of options that take a value, `-n|--node|--timeout`.
    private static func valuePattern(_ options: [OptionSpecification]) -> String {
        options.filter { $0.kind != nil }.flatMap { option in
            (option.short.map { ["-\($0)"] } ?? []) + ["--" + option.name]
        }.joined(separator: "|")
    }

    /// What a shell runs to list values of a kind: words, a live list, files or directories.
    private enum Values {
        case words(String)
        case live(String)
        case files
        case directories
        case nothing

        init(_ kind: ValueKind, verbs: [String]) {
            switch kind {
            case .peer: self = .live("peers")
            case .attachment: self = .live("attachments")
            case .inviteID: self = .live("invites")
            case .nodeName: self = .live("nodes")
            case .file: self = .files
            case .directory: self = .directories
            case .choice(let words): self = .words(words.joined(separator: " "))
            case .verb: self = .words(verbs.joined(separator: " "))
            default: self = .nothing
            }
        }
    }

    // MARK: bash and zsh

    /// The part both shells share: finds the verb among the words before the cursor.
    private static func verbLoop(_ table: CommandTable, words: String, count: String, first: Int) -> String {
        let pairs = shown(table).map(\.name).filter { $0.contains(" ") }.map { "\"\($0)\"" }.joined(separator: "|")
        return """
                local verb="" word i
                for ((i = \(first); i < \(count); i++)); do
                    word="${\(words)[i]}"
                    case "$word" in
                        \(valuePattern(table.globalOptions))) ((i++)); continue ;;
                        -*) continue ;;
                    esac
                    if [[ -z "$verb" ]]; then
                        verb="$word"
                    else
                        case "$verb $word" in \(pairs)) verb="$verb $word" ;; esac
                        break
                    fi
                done

            """
    }

    /// The branches `verb:previous word` and `verb`, with `line` turning values into shell.
    private static func branches(_ table: CommandTable, line: (Values) -> String) -> String {
        let verbs = shown(table)
        let names = table.firstWords(inREPL: false)
        var output = "    case \"$verb:$prev\" in\n"
        for option in table.globalOptions { output += branch(option, verb: "*", names, line) }
        for verb in verbs {
            for option in verb.shownOptions { output += branch(option, verb: "\"\(verb.name)\"", names, line) }
        }
        output += "    esac\n    case \"$verb\" in\n"
        output += "        \"\") \(line(.words(names.joined(separator: " "))));;\n"
        for group in names {
            let members = table.members(of: group).map { String($0.name.dropFirst(group.count + 1)) }
            if !members.isEmpty, table.verb(named: group) == nil {
                output += "        \(group)) \(line(.words(members.joined(separator: " "))));;\n"
            }
        }
        for verb in verbs {
            let members = table.members(of: verb.name).map { String($0.name.dropFirst(verb.name.count + 1)) }
            let options = optionWords(verb.shownOptions + table.globalOptions)
            let values =
                verb.arguments.first.map { Values($0.kind, verbs: names) }
                ?? (members.isEmpty ? .nothing : .words(members.joined(separator: " ")))
            output += "        \"\(verb.name)\")\n            if [[ \"$cur\" == -* ]]; then "
            output += "\(line(.words(options))); else \(line(values)); fi;;\n"
        }
        return output + "    esac\n"
    }

    private static func branch(
        _ option: OptionSpecification, verb: String, _ names: [String], _ line: (Values) -> String
    ) -> String {
        guard let kind = option.kind else { return "" }
        let patterns = ["\(verb):--\(option.name)"] + (option.short.map { ["\(verb):-\($0)"] } ?? [])
        return "        \(patterns.joined(separator: "|"))) \(line(Values(kind, verbs: names))); return;;\n"
    }

    private static func bash(_ table: CommandTable) -> String {
        let line = { (values: Values) -> String in
            switch values {
            case .words(let words): "COMPREPLY=($(compgen -W \"\(words)\" -- \"$cur\"))"
            case .live(let kind): "_starling_live \(kind)"
            case .files: "COMPREPLY=($(compgen -f -- \"$cur\")); compopt -o filenames"
            case .directories: "COMPREPLY=($(compgen -d -- \"$cur\")); compopt -o filenames"
            case .nothing: "COMPREPLY=()"
            }
        }
        return "# bash completion for starling; made by `starling completions bash`\n" + bashLive + "_starling() {\n"
            + "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
            + verbLoop(table, words: "COMP_WORDS", count: "COMP_CWORD", first: 1) + branches(table, line: line)
            + "}\ncomplete -F _starling starling\n"
    }

    /// Live names come from other people: `compgen -W` would run a name such as `$(…)`, so they are only compared, and
    /// quoted before they reach the line.
    private static let bashLive = """
        _starling_live() {
            local name quoted
            COMPREPLY=()
            while IFS= read -r name; do
                printf -v quoted %q "$name"
                [[ "$name" == "$cur"* ]] && COMPREPLY+=("$quoted")
            done < <(starling complete "$1" 2>/dev/null)
        }

        """

    private static func zsh(_ table: CommandTable) -> String {
        let line = { (values: Values) -> String in
            switch values {
            case .words(let words): "compadd -- \(words)"
            case .live(let kind): "compadd -- ${(f)\"$(starling complete \(kind) 2>/dev/null)\"}"
            case .files: "_files"
            case .directories: "_files -/"
            case .nothing: ":"
            }
        }
        return "#compdef starling\n# zsh completion for starling; made by `starling completions zsh`\n_starling() {\n"
            + "    local cur=\"${words[CURRENT]}\" prev=\"${words[CURRENT-1]}\"\n"
            + verbLoop(table, words: "words", count: "CURRENT", first: 2) + branches(table, line: line)
            + "}\ncompdef _starling starling\n"
    }

    // MARK: fish

    private static func fish(_ table: CommandTable) -> String {
        let pairs = shown(table).map(\.name).filter { $0.contains(" ") }.map { "'\($0)'" }.joined(separator: " ")
        let flags = valuePattern(table.globalOptions).split(separator: "|").joined(separator: " ")
        var lines = [
            "# fish completion for starling; made by `starling completions fish`",
            "function __starling_verb",
            "    set -l verb ''",
            "    set -l skip 0",
            "    for word in (commandline -opc)[2..-1]",
            "        if test $skip = 1; set skip 0; continue; end",
            "        if contains -- $word \(flags); set skip 1; continue; end",
            "        if string match -q -- '-*' $word; continue; end",
            "        if test -z \"$verb\"; set verb $word; continue; end",
            "        if contains -- \"$verb $word\" \(pairs); set verb \"$verb $word\"; end",
            "        break",
            "    end",
            "    test \"$verb\" = \"$argv[1]\"",
            "end",
            "complete -c starling -f",
        ]
        for option in table.globalOptions { lines.append(fishOption(option, condition: nil, table)) }
        for name in table.firstWords(inREPL: false) {
            let summary = table.verb(named: name)?.summary ?? "several verbs"
            lines.append("complete -c starling -n \"__starling_verb ''\" -a \(name) -d \(fishQuoted(summary))")
        }
        for verb in shown(table) { lines += fishVerb(verb, table) }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func fishVerb(_ verb: VerbSpecification, _ table: CommandTable) -> [String] {
        let condition = "__starling_verb '\(verb.name)'"
        var lines: [String] = []
        if verb.name != verb.group {
            let member = verb.name.dropFirst(verb.group.count + 1)
            lines.append(
                "complete -c starling -n \"__starling_verb '\(verb.group)'\" -a \(member) -d \(fishQuoted(verb.summary))"
            )
        }
        if let argument = verb.arguments.first {
            let values = fishValues(Values(argument.kind, verbs: table.firstWords(inREPL: false)))
            if !values.isEmpty { lines.append("complete -c starling -n \"\(condition)\" \(values)") }
        }
        return lines + verb.shownOptions.map { fishOption($0, condition: condition, table) }
    }

    private static func fishOption(_ option: OptionSpecification, condition: String?, _ table: CommandTable) -> String {
        var line = "complete -c starling"
        if let condition { line += " -n \"\(condition)\"" }
        if let short = option.short { line += " -s \(short)" }
        line += " -l \(option.name) -d \(fishQuoted(option.help))"
        guard let kind = option.kind else { return line }
        return line + " -r " + fishValues(Values(kind, verbs: table.firstWords(inREPL: false)))
    }

    private static func fishValues(_ values: Values) -> String {
        switch values {
        case .words(let words): "-a \"\(words)\""
        case .live(let kind): "-a \"(starling complete \(kind) 2>/dev/null)\""
        case .files: "-F"
        case .directories: "-a \"(__fish_complete_directories)\""
        case .nothing: ""
        }
    }

    private static func fishQuoted(_ text: String) -> String {
        "'" + text.flatMap { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) } + "'"
    }
}
