import Testing

@testable import MeshConsole

/// An editor with a screen: what is typed, what is shown, what was submitted.
private struct Desk {
    var editor: LineEditor
    var screen: TerminalEmulator
    var submitted: [String] = []
    var effects: [LineEditor.Effect] = []

    init(width: Int = 40, height: Int = 10, prompt: String = "ben> ", history: [String] = []) {
        editor = LineEditor(prompt: prompt, width: width, height: height, history: History(lines: history))
        screen = TerminalEmulator(width: width, height: height)
        take(editor.activate())
    }

    mutating func type(_ text: String) { send(Array(text.utf8)) }

    mutating func send(_ bytes: [UInt8]) { take(editor.receive(bytes)) }

    mutating func print(_ line: String) { screen.write(editor.print(above: [line])) }

    mutating func resize(width: Int, height: Int) {
        screen.resize(width: width > 0 ? width : screen.width, height: height > 0 ? height : screen.height)
        screen.write(editor.resize(width: width, height: height))
    }

    private mutating func take(_ effects: [LineEditor.Effect]) {
        for effect in effects {
            self.effects.append(effect)
            switch effect {
            case .output(let text): screen.write(text)
            case .submit(let line):
                submitted.append(line)
                take(editor.activate())
            case .interrupt: take(editor.activate())
            case .endOfInput, .complete: break
            }
        }
    }
}

private enum Keys {
    static let left = "\u{1b}[D"
    static let right = "\u{1b}[C"
    static let up = "\u{1b}[A"
    static let down = "\u{1b}[B"
    static let wordLeft = "\u{1b}b"
    static let delete = "\u{1b}[3~"
    static let backspace = "\u{7f}"
    static let home = "\u{1}"
    static let end = "\u{5}"
}

@Suite struct LineEditorTests {
    @Test func `typing, moving, deleting and yanking make the line that is submitted`() {
        var desk = Desk()

        desk.type("peerx" + Keys.backspace + "s" + Keys.home + "x" + Keys.left + Keys.delete)
        #expect(desk.screen.lines == ["ben> peers"])
        desk.type(Keys.end + " --json" + Keys.wordLeft + "\u{b}" + Keys.home + "\u{19}" + "\r")

        #expect(desk.submitted == ["--jsonpeers "])
    }

    @Test func `words are deleted to the left and to the right`() {
        var desk = Desk()

        desk.type("one two three\u{17}" + Keys.home + "\u{1b}d\r")

        #expect(desk.submitted == [" two "])
    }

    @Test(arguments: ["\u{1b}OA", "\u{1b}[A", "\u{10}"])
    func `history is walked up and down and the line begun is not lost`(up: String) {
        var desk = Desk(history: ["first", "second"])

        desk.type("begun" + up + up + up)
        #expect(desk.screen.lines == ["ben> first"])
        desk.type(Keys.down + Keys.down + Keys.down)
        #expect(desk.screen.lines == ["ben> begun"])
        desk.type(up + "!\r")

        #expect(desk.submitted == ["second!"])
    }

    @Test func `Ctrl-C throws the line away and Ctrl-D ends only an empty one`() {
        var desk = Desk()

        desk.type("abc\u{3}" + "x" + Keys.left + "\u{4}")
        #expect(desk.effects.contains(.interrupt))
        #expect(!desk.effects.contains(.endOfInput))
        desk.type("\u{4}")

        #expect(desk.effects.last == .endOfInput)
        #expect(desk.screen.lines == ["ben> abc^C", "ben>"])
    }

    // MARK: CLI-04

    @Test func `CLI-04 lines that arrive while one types leave prompt and text whole`() {
        var desk = Desk(width: 30, height: 8)
        var typed = ""
        for number in 0..<200 {
            let letter = Character(Unicode.Scalar(UInt8(97 + number % 26)))
            desk.type(String(letter))
            typed.append(letter)
            if number % 17 == 16 {
                desk.type(Keys.backspace)
                typed.removeLast()
            }
            if number.isMultiple(of: 3) { desk.print("event \(number) " + String(repeating: "-", count: number % 50)) }
        }

        #expect(desk.screen.logicalLines.last == "ben> " + typed)
        #expect(desk.screen.logicalLines.count { $0.hasPrefix("event ") } == 67)
        #expect(desk.screen.logicalLines.count { $0.hasPrefix("ben> ") } == 1)
        desk.type("\r")
        #expect(desk.submitted == [typed])
    }

    @Test func `CLI-04 a line printed while the cursor is in the middle leaves it there`() {
        var desk = Desk(width: 12)

        desk.type("abcdefghijklmnop" + Keys.left + Keys.left + Keys.left)
        let before = desk.screen.cursor
        desk.print("event")

        #expect(desk.screen.cursor.row == before.row + 1)
        #expect(desk.screen.cursor.column == before.column)
        desk.type("X\r")
        #expect(desk.submitted == ["abcdefghijklmXnop"])
    }

    // MARK: CLI-05

    @Test func `CLI-05 a long line survives shrinking, growing, recall and an edit in the middle`() {
        let long = (0..<15).map { "word\($0)" }.joined(separator: " ")
        var desk = Desk(width: 80, height: 24)

        desk.type(long + "\r" + Keys.up)
        for (width, height) in [(20, 24), (33, 10), (0, 0), (100, 30), (20, 5), (80, 24)] {
            desk.resize(width: width, height: height)
            desk.type(Keys.left)
            #expect(desk.screen.logicalLines.last == "ben> " + long, "\(width)×\(height)")
        }
        desk.type("X" + Keys.end + "\r")

        #expect(desk.submitted.last == String(long.dropLast(6)) + "X" + long.suffix(6))
    }

    @Test func `CLI-05 a line that fills its row exactly puts the cursor into the next`() {
        var desk = Desk(width: 10)

        desk.type("abcde")
        #expect(desk.screen.cursor == (1, 0))
        desk.type("f" + Keys.left + Keys.left)
        #expect(desk.screen.cursor == (0, 9))
        desk.type(Keys.backspace)
        #expect(desk.screen.lines == ["ben> abcef"])
    }

    @Test func `CLI-05 a line taller than the screen shows the part around the cursor`() {
        var desk = Desk(width: 10, height: 3)

        desk.type(String(repeating: "abcdefghij", count: 6))
        #expect(desk.screen.lines.suffix(2) == ["fghij" + "abcde", "fghij"])
        desk.type(Keys.home)

        #expect(desk.screen.lines.suffix(3).first == "ben> abcde")
        desk.type("\r")
        #expect(desk.submitted == [String(repeating: "abcdefghij", count: 6)])
    }

    // MARK: CLI-06

    @Test(arguments: ["\u{e9}", "e\u{301}", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "你", "가", "ع", "न\u{93f}"])
    func `CLI-06 one backspace takes one character as people see it`(character: String) {
        var desk = Desk()

        desk.type("a" + character + "b" + Keys.left)
        let behind = desk.screen.cursor.column
        desk.type(Keys.left)
        #expect(behind - desk.screen.cursor.column == DisplayWidth.of(character))
        desk.type(Keys.right + Keys.backspace + "\r")

        #expect(desk.submitted == ["ab"])
    }

    @Test func `CLI-06 an accent typed into the middle joins the letter before it`() {
        var desk = Desk()

        desk.type("eb" + Keys.left + "\u{301}" + Keys.left + "x\r")

        #expect(desk.submitted == ["xe\u{301}b"])
    }

    @Test func `CLI-06 half a character is kept until the rest comes`() {
        var desk = Desk()
        let bytes = Array("😀".utf8)

        for byte in bytes { desk.send([byte]) }
        desk.type("\r")

        #expect(desk.submitted == ["😀"])
    }

    @Test(
        arguments: [
            ([0xff], #"\xff"#), ([0xc3, 0x28], #"\xc3"#), ([0xe2, 0x82, 0x28], #"\xe2\x82"#),
            ([0xed, 0xa0, 0x80], #"\xed\xa0\x80"#), ([0xf4, 0x90, 0x80, 0x80], #"\xf4\x90\x80\x80"#),
            ([0x80], #"\x80"#),
            ([0xc2, 0x9b], #"\xc2\x9b"#), ([0xc0, 0xaf], #"\xc0"#),
        ] as [([UInt8], String)])
    func `CLI-06 bytes that are not text are refused visibly and leave the line alone`(bytes: [UInt8], shown: String) {
        var desk = Desk(width: 60)

        desk.type("ab")
        desk.send(bytes)

        #expect(desk.screen.lines.first == "input that is not UTF-8 was refused: " + shown)
        #expect(desk.screen.lines.last?.hasPrefix("ben> ab") == true)
        #expect(desk.editor.text.unicodeScalars.allSatisfy { $0.value < 0x80 })
    }

    @Test func `CLI-06 wide characters at the edge of the screen move on whole`() {
        var desk = Desk(width: 10)

        desk.type("abcd你好")
        #expect(desk.screen.lines == ["ben> abcd", "你好"])
        #expect(desk.screen.cursor == (1, 4))
        desk.type(Keys.left + Keys.left)
        #expect(desk.screen.cursor == (1, 0))
    }

    @Test func `AB-86 overrides and control codes never reach the screen as such`() {
        var desk = Desk()

        desk.type("a\u{202e}b\u{200b}c")

        #expect(desk.screen.lines == [#"ben> a\u{202e}b\u{200b}c"#])
    }

    @Test func `a paste does not submit, and its line breaks become spaces`() {
        var desk = Desk()

        desk.type("\u{1b}[200~down\r\npeers\tx\u{1b}[A\u{3}\u{1b}[201~")
        #expect(desk.submitted.isEmpty)
        desk.type("\r")

        #expect(desk.submitted == ["down peers x"])
    }

    @Test func `sequences without an end or a meaning are swallowed`() {
        var desk = Desk()

        desk.type("a\u{1b}[" + String(repeating: "1;", count: 200) + "Zb\u{1b}[99~c\u{1b}xd\r")

        #expect(desk.submitted.count == 1)
        #expect(desk.submitted.first?.first == "a")
        #expect(desk.submitted.first?.hasSuffix("d") == true)
    }

    @Test func `lines typed ahead wait their turn`() {
        var desk = Desk()
        desk.screen.write(desk.editor.deactivate())

        desk.type("one\rtwo\r")
        #expect(desk.submitted.isEmpty)
        for effect in desk.editor.activate() {
            if case .submit(let line) = effect { desk.submitted.append(line) }
        }

        let second = desk.editor.activate()

        #expect(desk.submitted == ["one"])
        #expect(second.contains(.submit("two")))
    }

    @Test func `Tab completes what is common, then lists, and later bytes wait for it`() {
        var desk = Desk()

        desk.type("j\tX")
        #expect(desk.effects.last == .complete)
        desk.screen.write(desk.editor.complete(last: 1, with: ["journal", "join"]))
        desk.type("")
        #expect(desk.editor.text == "joX")

        desk.type(Keys.backspace + "\t")
        desk.screen.write(desk.editor.complete(last: 2, with: ["journal", "join"]))
        desk.type("\t")
        desk.screen.write(desk.editor.complete(last: 2, with: ["journal", "join"]))
        #expect(desk.screen.lines == ["journal  join", "ben> jo"])

        desk.screen.write(desk.editor.complete(last: 2, with: ["journal"]))
        #expect(desk.editor.text == "journal ")
    }

    @Test func `a line has a greatest length, and more only rings`() {
        var desk = Desk(width: 200, height: 5)
        desk.send([UInt8](repeating: 0x61, count: 60_000))
        #expect(desk.editor.text.utf8.count == 60_000)

        for _ in 0..<4 { desk.send(Array("\u{1}\u{b}\u{19}\u{19}".utf8)) }

        #expect(desk.editor.text.utf8.count <= LineEditor.maximumLineBytes)
    }

    /// Random keys, prints and sizes over seeds: the picture always equals the model.
    @Test(arguments: 0..<40)
    func `CLI-04 CLI-05 CLI-06 any mixture of keys, events and sizes shows the true line`(seed: UInt64) {
        var random = SplitMix(state: seed)
        var desk = Desk(width: 25, height: 12)
        let alphabet = ["a", "bc ", "你", "e\u{301}", "👩‍👩‍👧‍👦", "ع", "x y"]
        let keys = [
            Keys.left, Keys.right, Keys.home, Keys.end, Keys.backspace, Keys.delete, Keys.wordLeft, "\u{b}", "\u{19}",
        ]

        for step in 0..<60 {
            switch random.next() % 8 {
            case 0...3 where desk.editor.text.count < 40:
                desk.type(alphabet[Int(random.next() % UInt64(alphabet.count))])
            case 4...5: desk.type(keys[Int(random.next() % UInt64(keys.count))])
            case 6: desk.print("event \(step)")
            default: desk.resize(width: 12 + Int(random.next() % 40), height: 12)
            }
        }
        desk.type("\u{1}")

        let text = desk.editor.text
        var shown = desk.screen.logicalLines.suffix(
            from: desk.screen.logicalLines.lastIndex { $0.hasPrefix("ben>") } ?? 0
        )
        .joined()
        while shown.last == " " { shown.removeLast() }
        var wanted = "ben> " + text
        while wanted.last == " " { wanted.removeLast() }
        #expect(Self.withoutSpaces(shown) == Self.withoutSpaces(wanted), "seed \(seed)")
        #expect(desk.screen.logicalLines.count { $0.hasPrefix("ben>") } == 1, "seed \(seed)")
    }

    /// A wide character that did not fit leaves a blank cell, which is no part of the text.
    private static func withoutSpaces(_ text: String) -> String { text.filter { $0 != " " } }
}

/// Small and repeatable; randomness for tests only.
private struct SplitMix {
    var state: UInt64
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
        return word ^ word >> 31
    }
}

@Suite struct HistoryTests {
    @Test(arguments: [
        "", " begins with a space", "join starling:abc", "join STARLING:ABC", "a\u{1b}b", "a\nb",
        String(repeating: "x", count: 4_097),
    ])
    func `AB-85 secrets, control codes and data are not kept`(line: String) {
        var history = History()

        let isKept = history.add(line)

        #expect(!isKept)
        #expect(history.lines.isEmpty)
    }

    @Test func `a repeat in a row is kept once and the oldest make room`() {
        var history = History(lines: (0..<1_200).map { "line \($0)" })
        #expect(history.lines.count == History.maximumLines)
        #expect(history.lines.first == "line 200")

        let kept = [history.add("peers"), history.add("peers")]

        #expect(kept == [true, false])
        #expect(history.lines.count == History.maximumLines)
    }
}
