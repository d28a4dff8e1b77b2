import MeshBase

/// A line editor as a value: bytes of a terminal in, edits inside, bytes for the terminal out. It reads nothing,
/// writes nothing and waits for nothing.
///
/// It owns the rows from its prompt down. Text that arrives meanwhile goes through `print(above:)`, which takes the
/// rows away, prints, and draws them again: nothing else may write while the editor is active.
public struct LineEditor: Sendable {
    /// What came of some bytes, in order.
    public enum Effect: Hashable, Sendable {
        /// To be written to the terminal as it is.
        case output(String)
        /// A whole line; the editor is inactive until `activate`.
        case submit(String)
        /// Ctrl-C; the line was thrown away.
        case interrupt
        /// Ctrl-D on an empty line.
        case endOfInput
        /// Tab: call `complete` with what fits, then `receive` again; bytes behind the Tab wait for that.
        case complete
    }

    /// The longest line; more is refused with a bell.
    public static let maximumLineBytes = 262_144
    /// Bytes typed ahead while a command runs; more are dropped.
    public static let maximumTypeAhead = 65_536

    public private(set) var isActive = false
    public private(set) var history: History
    public var prompt: String

    private var buffer = EditBuffer()
    private var decoder = KeyDecoder()
    private var width: Int
    private var height: Int
    /// The row the cursor was left in, counted from the first row drawn; and what was drawn, to redraw after a resize.
    private var drawn: Drawn?
    private var yanked = ""
    /// Position in the history while going through it, and the line that was being typed.
    private var recall: (position: Int, typed: String)?
    private var typeAhead: [UInt8] = []
    private var wasTab = false

    private struct Drawn: Sendable {
        var cursorRow: Int
        var prompt: String
        var before: String
        var after: String
    }

    public init(prompt: String, width: Int, height: Int, history: History = History()) {
        self.prompt = prompt
        self.history = history
        // A terminal that says 0×0 does not know; 80×24 is what most were built for.
        self.width = width > 0 ? min(width, 10_000) : 80
        self.height = height > 0 ? min(height, 10_000) : 24
    }

    public var text: String { buffer.text }
    /// What stands before the cursor: what completion looks at.
    public var textBeforeCursor: String { buffer.before }

    // MARK: Life

    /// Shows the prompt, then takes what was typed ahead.
    public mutating func activate() -> [Effect] {
        guard !isActive else { return [] }
        isActive = true
        drawn = nil
        return [.output(redraw())] + receive([])
    }

    /// Takes the rows away and leaves the cursor where the prompt was; the line is kept for the next `activate`.
    public mutating func deactivate() -> String {
        guard isActive else { return "" }
        isActive = false
        return erase()
    }

    /// Takes bytes from the terminal, behind those that wait. Inactive: keeps them for later.
    public mutating func receive(_ bytes: [UInt8]) -> [Effect] {
        typeAhead += bytes.prefix(max(Self.maximumTypeAhead - typeAhead.count, 0))
        guard isActive else { return [] }
        let waiting = typeAhead
        typeAhead = []
        var effects: [Effect] = []
        var isChanged = false
        for (position, byte) in waiting.enumerated() {
            guard isActive, effects.last != .complete else {
                typeAhead = Array(waiting[position...])
                break
            }
            for key in decoder.receive(byte) {
                guard isActive else { break }
                let effect = apply(key)
                isChanged = isChanged || effect == nil
                effects += effect ?? []
            }
        }
        if isActive, isChanged, effects.last != .complete { effects.append(.output(redraw())) }
        return effects
    }

    /// The terminal has another size now; a zero changes nothing.
    public mutating func resize(width: Int, height: Int) -> String {
        let new = (width > 0 ? min(width, 10_000) : self.width, height > 0 ? min(height, 10_000) : self.height)
        guard new != (self.width, self.height) else { return "" }
        (self.width, self.height) = new
        guard isActive, let last = drawn else { return "" }
        // Terminals that wrap again moved our rows: count where the cursor is now by the new width.
        let moved = ScreenLayout(prompt: last.prompt, before: last.before, after: last.after, width: self.width)
        drawn?.cursorRow = moved.window(height: self.height).cursorRow
        return redraw()
    }

    /// What to write so that `lines` stand above the prompt and the line being typed is whole.
    public mutating func print(above lines: [String]) -> String {
        guard isActive else { return lines.map { $0 + "\r\n" }.joined() }
        let erased = erase()
        return erased + lines.map { $0 + "\r\n" }.joined() + redraw()
    }

    /// Completes the word of `count` characters before the cursor from `words`, or lists them when asked twice.
    public mutating func complete(last count: Int, with words: [String], suffix: String = " ") -> String {
        let common = words.count == 1 ? (words.first ?? "") + suffix : Completion.commonPrefix(words)
        if common.count > count {
            buffer.replace(last: count, with: common)
            wasTab = words.count > 1
            return redraw()
        }
        guard words.count > 1, wasTab else {
            wasTab = true
            return "\u{7}"
        }
        wasTab = false
        return print(above: Self.columns(words.map { SafeText.escaped($0) }, width: width))
    }

    // MARK: Keys

    /// `nil` when only the line changed, which one redraw at the end shows.
    private mutating func apply(_ key: Key) -> [Effect]? {
        if key != .tab { wasTab = false }
        switch key {
        case .text(let scalar): return insert(String(Character(scalar)), scalar: scalar)
        case .pastedBreak: return insert(" ", scalar: " ")
        case .invalid(let bytes): return [.output(print(above: [Self.refusal(bytes)]))]
        case .enter: return submit()
        case .tab: return [.output(redraw()), .complete]
        case .interrupt: return abandon()
        case .endOfInput:
            guard buffer.isEmpty else {
                buffer.deleteRight()
                return nil
            }
            return end()
        case .clearScreen:
            drawn = nil
            return [.output("\u{1b}[H\u{1b}[2J" + redraw())]
        case .up: recallOlder()
        case .down: recallNewer()
        default: edit(key)
        }
        return nil
    }

    private mutating func edit(_ key: Key) {
        switch key {
        case .backspace: buffer.deleteLeft()
        case .delete: buffer.deleteRight()
        case .left: buffer.moveLeft()
        case .right: buffer.moveRight()
        case .home: buffer.moveToStart()
        case .end: buffer.moveToEnd()
        case .wordLeft: buffer.moveWordLeft()
        case .wordRight: buffer.moveWordRight()
        case .deleteToEnd: yanked = buffer.deleteToEnd()
        case .deleteToStart: yanked = buffer.deleteToStart()
        case .deleteWordLeft: yanked = buffer.deleteWordLeft()
        case .deleteWordRight: yanked = buffer.deleteWordRight()
        case .yank:
            if buffer.byteCount + yanked.utf8.count <= Self.maximumLineBytes { buffer.insert(yanked) }
        default: break
        }
    }

    private mutating func insert(_ text: String, scalar: Unicode.Scalar) -> [Effect]? {
        guard buffer.byteCount + text.utf8.count <= Self.maximumLineBytes else { return [.output("\u{7}")] }
        buffer.insert(scalar)
        return nil
    }

    private static func refusal(_ bytes: [UInt8]) -> String {
        "input that is not UTF-8 was refused: " + bytes.map { "\\x" + Hexadecimal.encode([$0]) }.joined()
    }

    private mutating func submit() -> [Effect] {
        let line = buffer.text
        buffer.moveToEnd()
        let output = redraw() + "\r\n"
        finish()
        _ = history.add(line)
        return [.output(output), .submit(line)]
    }

    private mutating func abandon() -> [Effect] {
        buffer.moveToEnd()
        let output = redraw() + "^C\r\n"
        finish()
        return [.output(output), .interrupt]
    }

    private mutating func end() -> [Effect] {
        finish()
        return [.output("\r\n"), .endOfInput]
    }

    private mutating func finish() {
        buffer = EditBuffer()
        recall = nil
        drawn = nil
        isActive = false
    }

    // MARK: History

    private mutating func recallOlder() {
        let current = recall?.position ?? history.lines.count
        guard current > 0 else { return }
        recall = (current - 1, recall?.typed ?? buffer.text)
        buffer = EditBuffer(history.lines[current - 1])
    }

    private mutating func recallNewer() {
        guard let (position, typed) = recall else { return }
        if position + 1 < history.lines.count {
            recall = (position + 1, typed)
            buffer = EditBuffer(history.lines[position + 1])
        } else {
            recall = nil
            buffer = EditBuffer(typed)
        }
    }

    // MARK: Drawing

    /// Puts the cursor at the first cell of the rows drawn last and clears from there down.
    private mutating func erase() -> String {
        defer { drawn = nil }
        let up = (drawn?.cursorRow ?? 0) > 0 ? "\u{1b}[\(drawn?.cursorRow ?? 0)A" : ""
        return up + "\r\u{1b}[J"
    }

    private mutating func redraw() -> String {
        let layout = ScreenLayout(prompt: prompt, before: buffer.before, after: buffer.after, width: width)
        let (rows, cursorRow) = layout.window(height: height)
        // The terminal breaks full rows itself, so that they wrap again when it is resized.
        var output = erase()
        for (offset, row) in rows.enumerated() {
            output += row
            guard offset + 1 < rows.count else { continue }
            // Nothing follows to break a full last row: a blank does, and unlike a line feed wraps again later.
            if rows[rows.startIndex + offset + 1].isEmpty { output += " " }
        }
        let below = rows.count - 1 - cursorRow
        if below > 0 { output += "\u{1b}[\(below)A" }
        output += "\r"
        if layout.cursorColumn > 0 { output += "\u{1b}[\(layout.cursorColumn)C" }
        drawn = Drawn(cursorRow: cursorRow, prompt: prompt, before: buffer.before, after: buffer.after)
        return output
    }

    private static func columns(_ words: [String], width: Int) -> [String] {
        let shown = words.prefix(200)
        let cell = (shown.map { DisplayWidth.of($0) }.max() ?? 0) + 2
        let count = max(width / max(cell, 1), 1)
        var lines: [String] = []
        var line = ""
        for (position, word) in shown.enumerated() {
            line += DisplayWidth.padded(word, to: cell)
            if (position + 1) % count == 0 {
                lines.append(line)
                line = ""
            }
        }
        if !line.isEmpty { lines.append(line) }
        if words.count > shown.count { lines.append("… \(words.count - shown.count) more") }
        return lines
    }
}
