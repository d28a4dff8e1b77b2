import MeshBase
import Testing

@testable import MeshConsole

@Suite struct HelpTests {
    private let table = CommandTable.standard

    @Test func `every verb has a page that begins with examples`() throws {
        for verb in table.verbs {
            #expect((2...3).contains(verb.examples.count), "\(verb.name)")
            let words = verb.name.split(separator: " ").map(String.init)
            let text = try HelpText(table: table).text(for: words)
            let examples = try #require(text.firstRange(of: "Examples:")?.lowerBound, "\(verb.name)")
            for part in ["Arguments:", "Options:"] {
                if let other = text.firstRange(of: part)?.lowerBound { #expect(examples < other, "\(verb.name)") }
            }
            for option in verb.shownOptions where table.members(of: verb.name).isEmpty {
                #expect(text.contains("--" + option.name), "\(verb.name) \(option.name)")
            }
        }
    }

    @Test func `every example is a line that the parser takes`() {
        var count = 0
        for example in table.verbs.flatMap(\.examples) {
            for part in example.command.split(whereSeparator: { "|<>".contains($0) }).map(String.init) {
                let isShell = example.command.contains("starling ")
                guard let words = Self.words(of: part, isShell: isShell) else { continue }
                count += 1
                #expect(throws: Never.self, "\(example.command)") {
                    try CommandLineParser(table: table, isREPL: !isShell).parse(words)
                }
            }
        }
        #expect(count > 70)
    }

    /// The words behind `starling` in one part of a pipeline; of a REPL line all; `nil` for other programs.
    private static func words(of part: String, isShell: Bool) -> [String]? {
        var words = LineTokenizer.split(part).words
        if let start = words.lastIndex(of: "starling") {
            words.removeSubrange(...start)
        } else if isShell {
            return nil
        }
        return words
    }

    @Test func `the overview lists every verb and option, examples first`() throws {
        let text = try HelpText(table: table).text(for: [])

        for verb in table.verbs where verb.place != .repl && !verb.isHidden { #expect(text.contains("  \(verb.name)")) }
        for option in table.globalOptions { #expect(text.contains("--" + option.name)) }
        let examples = try #require(text.firstRange(of: "Examples:"))
        let verbs = try #require(text.firstRange(of: "Verbs:"))
        #expect(examples.lowerBound < verbs.lowerBound)
    }

    @Test func `help for a word of several verbs shows them all`() throws {
        let text = try HelpText(table: table).text(for: ["journal"])

        for verb in table.members(of: "journal") { #expect(text.contains("starling \(verb.usage)")) }
    }

    @Test func `help for a near-miss suggests the near one`() {
        #expect(throws: CommandFailure.usage("there is no verb “peer”", hint: "did you mean starling help peers?")) {
            try HelpText().text(for: ["peer"])
        }
    }

    @Test func `the manual has every verb and no accidental request`() {
        let text = ManualPage.text(table)

        for verb in table.verbs where !verb.isHidden { #expect(text.contains(".SS " + ManualPage.escaped(verb.name))) }
        for line in text.split(separator: "\n") where line.hasPrefix(".") {
            #expect(
                [".TH", ".SH", ".SS", ".PP", ".TP", ".B ", ".nf", ".fi"].contains { line.hasPrefix($0) }, "\(line)")
        }
        #expect(ManualPage.escaped(".x\\-") == "\\&.x\\e\\-")
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func `the completion script of each shell knows every verb and option`(shell: String) throws {
        let text = try #require(CompletionScripts.text(shell: shell, table: table))

        for verb in table.verbs where verb.place != .repl && !verb.isHidden {
            #expect(text.contains(verb.name), "\(verb.name)")
            for option in verb.shownOptions { #expect(text.contains(option.name), "\(verb.name) \(option.name)") }
        }
        // bash runs what `compgen -W` is given; names of other people must never get there.
        #expect(!text.contains("-W \"$("))
    }
}

@Suite struct CompletionTests {
    private func complete(_ line: String) -> Completion {
        let split = LineTokenizer.split(line)
        return Completion.find(words: split.words, endsInWord: split.endsInWord)
    }

    @Test func `the first word completes verbs of the REPL`() {
        #expect(complete("pe").words == ["peers"])
        #expect(complete("j").words == ["journal"])
        #expect(complete("up").words == [])
        #expect(complete("").words.contains("quit"))
    }

    @Test func `the second word completes the verbs of a group`() {
        #expect(complete("journal ").words == ["add", "get", "ls", "rm", "verify", "wait"])
        #expect(complete("journal r").words == ["rm"])
        #expect(complete("invite r").words == ["revoke"])
    }

    @Test func `options complete, each once`() {
        #expect(complete("events --f").words == ["--follow"])
        #expect(complete("events --follow --f").words == [])
        #expect(complete("send --to ben --t").words == ["--timeout", "--to"])
    }

    @Test(arguments: [
        ("why ", Completion.Source.peers), ("send --to b", .peers), ("journal get ", .attachments),
        ("journal rm 7", .attachments), ("invite revoke ", .invites), ("journal add x ", .files),
        ("journal get 7c1e -o ", .directories), ("-n ", .nodes),
    ])
    func `names come from where they are known`(line: String, source: Completion.Source) {
        #expect(complete(line).source == source)
    }

    @Test func `the common beginning is found by character`() {
        #expect(Completion.commonPrefix(["journal", "join"]) == "jo")
        #expect(Completion.commonPrefix(["e\u{301}a", "e"]) == "")
        #expect(Completion.commonPrefix([]) == "")
    }
}
