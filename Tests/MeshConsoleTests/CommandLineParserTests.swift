import MeshBase
import Testing

@testable import MeshConsole

/// The outcome of a line of words, comparable in one expression.
private func parse(_ words: String..., isREPL: Bool = false) -> Result<Invocation, CommandFailure> {
    outcome(words, isREPL: isREPL)
}

private func outcome(_ words: [String], isREPL: Bool = false) -> Result<Invocation, CommandFailure> {
    do throws(CommandFailure) {
        return .success(try CommandLineParser(isREPL: isREPL).parse(words))
    } catch { return .failure(error) }
}

private func failure(_ words: [String], isREPL: Bool = false) -> CommandFailure? {
    if case .failure(let failure) = outcome(words, isREPL: isREPL) { failure } else { nil }
}

@Suite struct CommandLineParserTests {
    @Test func `a verb stands with its options in any order`() {
        let wanted = Invocation(
            verb: "journal add", options: ["note": "for tonight", "node": "ana", "json": true],
            arguments: ["a b.jpg", "меню ☕.pdf"])

        #expect(
            parse("-n", "ana", "journal", "add", "a b.jpg", "--note", "for tonight", "меню ☕.pdf", "--json")
                == .success(wanted))
        #expect(
            parse("journal", "--json", "add", "--note=for tonight", "-nana", "a b.jpg", "меню ☕.pdf")
                == .success(wanted))
    }

    @Test func `one word may be a verb and the beginning of another`() {
        #expect(parse("invite", "--qr").map(\.verb) == .success("invite"))
        #expect(
            parse("invite", "revoke", "3fa2") == .success(Invocation(verb: "invite revoke", arguments: ["3fa2"])))
        #expect(parse("demo").map(\.verb) == .success("demo"))
        #expect(parse("demo", "stop").map(\.verb) == .success("demo stop"))
        #expect(failure(["demo", "--nodes", "4", "stop"])?.message == "demo stop has no option “--nodes”")
    }

    @Test func `a word is not answered with another one that merely looks alike`() {
        #expect(failure(["egg"])?.hint == "starling help")
        #expect(failure(["snd"])?.hint == "did you mean starling send?")
        #expect(failure(["pers"])?.hint == "did you mean starling peers?")
    }

    @Test func `a mistake in a verb of many options is answered in one short line`() {
        #expect(failure(["join"])?.hint == "usage: starling join INVITE [options] · starling help join")
        #expect(failure(["why"])?.hint == "usage: starling why NAME")
    }

    @Test func `what no node can do stands in no help and no completion`() throws {
        let texts = [
            try HelpText().text(for: []), try HelpText().text(for: ["send"]), try HelpText().text(for: ["up"]),
            ManualPage.text(), CompletionScripts.text(shell: "bash") ?? "", CompletionScripts.text(shell: "fish") ?? "",
        ]
        for text in texts {
            for word in ["allow-faults", "  trace", "  fault"] {
                #expect(!text.contains(word), "\(word)")
            }
        }
        #expect(failure(["fault", "clear"], isREPL: true)?.code == "usage")
    }

    @Test func `a stream may begin now`() {
        #expect(parse("events", "--follow", "--since", "0").map { $0.options["since"] } == .success(0))
        #expect(failure(["invite", "--expires", "0"])?.code == "usage")
    }

    @Test(arguments: [
        ("30s", JSONValue.integer(30)), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("90", 90), ("500ms", 0.5),
        ("1.5m", 90),
    ])
    func `durations become seconds`(text: String, seconds: JSONValue) {
        #expect(parse("invite", "--expires", text).map { $0.options["expires"] } == .success(seconds))
    }

    @Test(arguments: [
        ("512", Int64(512)), ("64k", 64_000), ("1KiB", 1024), ("0.2MB", 200_000), ("0", 0),
    ])
    func `sizes become bytes`(text: String, bytes: Int64) {
        #expect(parse("send", "--size", text).map { $0.integer("size") } == .success(bytes))
    }

    @Test func `the host clock takes a negative offset and a rate`() {
        #expect(
            parse("up", "--host-clock", "-250000000,-15.5").map { $0.options["host-clock"] }
                == .success(["offsetNanoseconds": -250_000_000, "partsPerMillion": -15.5]))
    }

    @Test func `a dash alone and words behind two dashes are arguments`() {
        #expect(parse("send", "-").map(\.arguments) == .success(["-"]))
        #expect(parse("send", "--", "--to", isREPL: true).map(\.arguments) == .success(["--to"]))
    }

    @Test func `help wins over every mistake beside it`() {
        #expect(parse("journal", "add", "--help") == .success(Invocation(verb: "help", arguments: ["journal", "add"])))
        #expect(parse("--port", "x", "up", "-h").map(\.verb) == .success("help"))
        #expect(parse("--version").map(\.verb) == .success("version"))
    }

    // MARK: CLI-12

    @Test(arguments: [
        ("peeers", "did you mean starling peers?"), ("jurnal", "did you mean starling journal?"),
        ("stauts", "did you mean starling status?"), ("ls", "did you mean starling invite ls?"),
        ("xyzzy", "starling help"),
    ])
    func `CLI-12 a near-miss verb is refused with the near one`(word: String, hint: String) {
        #expect(failure([word])?.exit == .usage)
        #expect(failure([word])?.hint == hint)
    }

    @Test(arguments: [
        ["up", "--port"], ["up", "--port", "--ephemeral"], ["up", "--port", "0"], ["up", "--port", "70000"],
        ["up", "--port", "-1"], ["up", "--port", "nan"], ["up", "--port", "1e3"], ["up", "--port", "0x10"],
        ["up", "--port", "1", "--port", "2"], ["up", "--ephemeral=yes"], ["up", "--nmae", "x"], ["up", "extra"],
        ["status", "--timeout", "nan"], ["status", "--timeout", "inf"], ["status", "--timeout", "-5"],
        ["status", "--timeout", "0"], ["status", "--timeout", "1e99"], ["status", "--timeout", "1:99"],
        ["status", "--timeout", "99999999999999999999d"], ["invite", "--expires", ""], ["invite", "--expires", "s"],
        ["demo", "--nodes", "0"], ["demo", "--nodes", "17"], ["demo", "--nodes", "99999999999999999999"],
        ["journal"], ["journal", "get"], ["journal", "add"], ["journal", "list"], ["why"], ["join"], ["join", "hello"],
        ["up", "--host-clock", "1"], ["up", "--host-clock", "nan,0"], ["up", "--host-clock", "9223372036854775807,0"],
        ["up", "--host-clock", "0,inf"], ["up", "--host-clock", "0,1e9"], ["up", "--log", "messenger=loud"],
        ["up", "--log", "links=debug"],
        ["up", "--name", "../x"], ["up", "--name", "a/b"], ["up", "--name", ""], ["up", "--name", "a\u{1b}[2J"],
        ["up", "--name", String(repeating: "x", count: 65)], ["join", "starling:x", "--at", "host:0"],
        ["join", "starling:x", "--at", "host:70000"], ["join", "starling:x", "--at", ":1"], ["send"],
        ["send", "x", "--unreliable", "--ordered"], ["send", "x", "--repeat", "0"], ["send", "x", "--size", "1GB"],
        ["send", "x", "--size", "-1"], ["journal", "add", "a\u{0}b"], ["completions", "tcsh"], ["-z"], ["--frob"], [],
        ["inbox", "--to", "ana"], ["demo", "stpo"],
    ])
    func `CLI-12 a bad argument is a usage error with one line of cause and a hint`(words: [String]) throws {
        let refused = try #require(failure(words))

        #expect(refused.exit == .usage)
        #expect(refused.code == "usage")
        #expect(!refused.message.isEmpty && !refused.message.contains("\n"))
        #expect(!refused.hint.isEmpty)
    }

    @Test func `CLI-12 ten megabytes of argument are refused without repeating them`() {
        let bytes = [UInt8](repeating: UInt8(ascii: "a"), count: 10_000_000)

        let failure = #expect(throws: CommandFailure.self) {
            try CommandLineParser().parse([Array("send".utf8), bytes])
        }

        #expect(failure?.exit == .usage)
        #expect((failure?.message.utf8.count ?? .max) < 200)
    }

    @Test func `CLI-12 a long unknown word is shown shortened and escaped`() {
        let refused = failure(["\u{1b}]0;" + String(repeating: "x", count: 5000)])

        #expect(refused?.message.contains("\u{1b}") == false)
        #expect((refused?.message.count ?? .max) < 120)
    }

    @Test(arguments: [
        "a b عربي 你好 ☺.txt", "e\u{301}.txt", "\u{e9}.txt", "-leading dash.txt", "new\nline",
    ])
    func `CLI-11 any legal path arrives as it was typed, byte for byte`(path: String) throws {
        let words = ["journal", "add", "--", path].map { Array($0.utf8) }

        let invocation = try CommandLineParser().parse(words)

        #expect(invocation.argumentTexts.map { Array($0.utf8) } == [Array(path.utf8)])
    }

    @Test func `CLI-11 bytes that are not UTF-8 are an error that names the argument`() {
        let words = [Array("journal".utf8), Array("add".utf8), [0x61, 0xff, 0x62]]

        let failure = #expect(throws: CommandFailure.self) { try CommandLineParser().parse(words) }

        #expect(failure?.message == "argument 3 (“a\u{fffd}b”) is not UTF-8")
        #expect(failure?.exit == .usage)
    }

    @Test func `AB-85 a damaged invite is not repeated in the error`() {
        let long = failure(["join", "starling:" + String(repeating: "secret", count: 1000)])

        #expect(long?.message.contains("secret") == false)
        #expect(failure(["join", "sxarling:secret"])?.message.contains("secret") == false)
    }

    @Test func `verbs of the shell and of the REPL say where they belong`() {
        #expect(failure(["up"], isREPL: true)?.hint == "in a shell: starling up")
        #expect(failure(["quit"])?.exit == .usage)
        #expect(outcome(["peers"], isREPL: true) == .success(Invocation(verb: "peers")))
        #expect(failure(["peeers"], isREPL: true)?.hint == "did you mean peers?")
    }

    @Test func `an option of a verb before it says where to put it`() {
        #expect(failure(["--expires", "5m", "invite"])?.hint == "put it behind: starling VERB --expires")
    }
}

@Suite struct SuggestionTests {
    @Test func `swaps, gaps and doubles count as one slip`() {
        let slips = { (source: String, target: String) in
            Suggestion.slips(from: Array(source.utf8), to: Array(target.utf8))
        }

        #expect(slips("stauts", "status") == 1)
        #expect(slips("peeers", "peers") == 1)
        #expect(slips("lnks", "links") == 1)
        #expect(slips("", "abc") == 3)
    }

    @Test func `a beginning is completed and nonsense suggests nothing`() {
        #expect(Suggestion.nearest(to: "comp", among: ["clock", "completions"]) == "completions")
        #expect(Suggestion.nearest(to: "zzzz", among: ["clock", "completions"]) == nil)
        #expect(Suggestion.nearest(to: "", among: ["clock"]) == nil)
    }
}

@Suite struct LineTokenizerTests {
    @Test func `quotes and backslashes hold words together`() {
        let line = #"journal add "a b" c\ d 'e "f' """#

        #expect(LineTokenizer.split(line).words == ["journal", "add", "a b", "c d", "e \"f", ""])
    }

    @Test func `the open word and quote are told`() {
        let open = LineTokenizer.split(#"send "hel"#)

        #expect(open.words == ["send", "hel"])
        #expect(open.endsInWord)
        #expect(open.openQuote == "\"")
        #expect(open.lastWordStart == 5)
        #expect(!LineTokenizer.split("send ").endsInWord)
    }

    @Test(arguments: ["a b", "it's", "\"", "\\", "", "é\u{301}", "a\tb"])
    func `a quoted word splits back into itself`(word: String) {
        #expect(LineTokenizer.split(LineTokenizer.quoted(word)).words == [word])
    }
}
