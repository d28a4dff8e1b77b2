/// What could stand where the cursor is.
public struct Completion: Hashable, Sendable {
    /// Names that only a running node, or the file system, knows.
    public enum Source: String, Hashable, Sendable {
        case peers, attachments, invites, nodes, files, directories
    }

    /// Words from the table that fit, sorted.
    public var words: [String]
    /// Where more words come from.
    public var source: Source?
    /// What is typed of the word so far.
    public var prefix: String

    /// The completion of the last of `words` when `endsInWord`, else of the word that would follow.
    public static func find(
        words: [String], endsInWord: Bool, table: CommandTable = .standard, isREPL: Bool = true
    ) -> Completion {
        let before = endsInWord ? Array(words.dropLast()) : words
        let prefix = endsInWord ? words.last ?? "" : ""
        return Finder(table: table, isREPL: isREPL, before: before, prefix: prefix).find()
    }

    /// The longest text that all of `words` begin with.
    public static func commonPrefix(_ words: [String]) -> String {
        guard var common = words.first else { return "" }
        for word in words.dropFirst() {
            common = String(zip(common, word).prefix { $0.0 == $0.1 }.map(\.0))
        }
        return common
    }
}

private struct Finder {
    let table: CommandTable
    let isREPL: Bool
    let before: [String]
    let prefix: String

    func find() -> Completion {
        let scan = scan()
        if let kind = scan.pendingValue { return values(of: kind) }
        if prefix.hasPrefix("-") {
            let options = (scan.verb?.shownOptions ?? []) + table.globalOptions
            return matching(options.filter { $0.repeats || !scan.used.contains($0.name) }.map { "--" + $0.name })
        }
        guard let group = scan.group else { return matching(table.firstWords(inREPL: isREPL)) }
        var completion = Completion(words: [], source: nil, prefix: prefix)
        if scan.argumentCount == 0 {
            let members = table.members(of: group).map { String($0.name.dropFirst(group.count + 1)) }
            completion.words = matching(members).words
        }
        if let verb = scan.verb, verb.name != group || completion.words.isEmpty || prefix.isEmpty {
            let kind =
                verb.arguments.indices.contains(scan.argumentCount)
                ? verb.arguments[scan.argumentCount].kind
                : verb.arguments.last.flatMap { $0.repeats ? $0.kind : nil }
            if let kind {
                let more = values(of: kind)
                completion.words += more.words
                completion.source = more.source
            }
        }
        return completion
    }

    private struct Scan {
        var group: String?
        var verb: VerbSpecification?
        var argumentCount = 0
        var used: Set<String> = []
        var pendingValue: ValueKind?
    }

    /// Reads what stands before, as far as it makes sense; mistakes are the parser's to tell.
    private func scan() -> Scan {
        var scan = Scan()
        for word in before {
            if scan.pendingValue != nil {
                scan.pendingValue = nil
            } else if word.hasPrefix("-"), word != "-" {
                let options = (scan.verb?.options ?? []) + table.globalOptions
                let option = options.first { word == "--" + $0.name || ($0.short.map { word == "-\($0)" } ?? false) }
                if let option {
                    scan.used.insert(option.name)
                    scan.pendingValue = option.kind
                }
            } else if scan.group == nil {
                scan.group = word
                scan.verb = table.verb(named: word)
            } else if scan.argumentCount == 0, let group = scan.group, scan.verb?.name == group || scan.verb == nil,
                let verb = table.verb(named: "\(group) \(word)")
            {
                scan.verb = verb
                scan.group = verb.name
            } else {
                scan.argumentCount += 1
            }
        }
        return scan
    }

    private func matching(_ candidates: [String]) -> Completion {
        Completion(words: candidates.filter { $0.hasPrefix(prefix) }.sorted(), source: nil, prefix: prefix)
    }

    private func values(of kind: ValueKind) -> Completion {
        switch kind {
        case .peer: from(.peers)
        case .attachment: from(.attachments)
        case .inviteID: from(.invites)
        case .nodeName: from(.nodes)
        case .file: from(.files)
        case .directory: from(.directories)
        case .choice(let words): matching(words)
        case .verb: matching(table.firstWords(inREPL: isREPL))
        default: Completion(words: [], source: nil, prefix: prefix)
        }
    }

    private func from(_ source: Completion.Source) -> Completion {
        Completion(words: [], source: source, prefix: prefix)
    }
}
