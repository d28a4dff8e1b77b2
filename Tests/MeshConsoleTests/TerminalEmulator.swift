@testable import MeshConsole

/// What a terminal would show: enough of one to judge the line editor by its picture. Wraps as xterm does (the last
/// cell is filled before the cursor moves on), and wraps again when it is resized, as tmux and most others do.
struct TerminalEmulator {
    private struct Row: Hashable {
        /// One entry a cell; the second cell of a wide character is `nil`.
        var cells: [Character?] = []
        /// Whether the text went on into the next row by itself.
        var goesOn = false
    }

    private(set) var width: Int
    private(set) var height: Int
    private var rows: [Row] = [Row()]
    private var row = 0
    private var column = 0
    private var escape: String?
    private(set) var bells = 0

    init(width: Int, height: Int) {
        self.width = width
        self.height = height
    }

    /// Every row from the first ever written, trailing spaces and rows removed.
    var lines: [String] {
        var output = rows.map { row in
            var text = row.cells.compactMap { $0 }.reduce(into: "") { $0.append($1) }
            while text.last == " " { text.removeLast() }
            return text
        }
        while output.last == "" { output.removeLast() }
        return output
    }

    /// The rows as one text, those that went on joined.
    var logicalLines: [String] {
        var output: [String] = []
        var goesOn = false
        for (row, line) in zip(rows, lines + Array(repeating: "", count: rows.count)) {
            if goesOn, let last = output.popLast() { output.append(last + line) } else { output.append(line) }
            goesOn = row.goesOn
        }
        while output.last == "" { output.removeLast() }
        return output
    }

    /// The cursor: row from the first ever written, and cell.
    var cursor: (row: Int, column: Int) { (row, min(column, width - 1)) }

    private var top: Int { max(rows.count - height, 0) }

    mutating func write(_ text: String) {
        // By scalar: a terminal gets bytes, not graphemes.
        for scalar in text.unicodeScalars { receive(scalar) }
    }

    private mutating func receive(_ scalar: Unicode.Scalar) {
        if let started = escape {
            let sequence = started + String(Character(scalar))
            let isFinal = scalar.properties.isAlphabetic
            escape = isFinal ? nil : sequence
            if isFinal { perform(sequence) }
            return
        }
        switch scalar.value {
        case 0x1b: escape = ""
        case 0x0d: column = 0
        case 0x0a: down()
        case 0x07: bells += 1
        case 0x00..<0x20: break
        default: put(scalar)
        }
    }

    private mutating func perform(_ sequence: String) {
        let count = Int(sequence.dropFirst().dropLast()) ?? 1
        switch sequence.last {
        case "A": row = max(row - count, top)
        case "C": column = min(column + count, width - 1)
        case "H": (row, column) = (top, 0)
        case "J":
            if sequence == "[2J" {
                for index in top..<rows.count { rows[index] = Row() }
            } else {
                rows[row].cells = Array(rows[row].cells.prefix(column))
                rows[row].goesOn = false
                for index in (row + 1)..<max(rows.count, row + 1) where index < rows.count { rows[index] = Row() }
            }
        default: break
        }
    }

    private mutating func down() {
        row += 1
        if row == rows.count { rows.append(Row()) }
    }

    private mutating func put(_ scalar: Unicode.Scalar) {
        // A scalar that joins the character before it changes that one.
        if let previous = rows[row].cells.prefix(column).lastIndex(where: { $0 != nil }),
            let before = rows[row].cells[previous]
        {
            let joined = String(before) + String(Character(scalar))
            if joined.count == 1, let character = joined.first {
                rows[row].cells[previous] = character
                let cells = DisplayWidth.of(character)
                if cells == 2, previous + 2 > column, previous + 2 <= width {
                    if rows[row].cells.count < previous + 2 { rows[row].cells.append(nil) }
                    column = previous + 2
                }
                return
            }
        }
        let cells = DisplayWidth.of(Character(scalar))
        if column + cells > width {
            rows[row].goesOn = true
            down()
            column = 0
        }
        while rows[row].cells.count < column + cells { rows[row].cells.append(" ") }
        rows[row].cells[column] = Character(scalar)
        if cells == 2 { rows[row].cells[column + 1] = nil }
        column += cells
    }

    /// Another size: rows that went on are joined and broken again, the cursor stays at its character.
    mutating func resize(width: Int, height: Int) {
        var output: [Row] = []
        var cursor: (row: Int, column: Int) = (0, 0)
        var index = 0
        while index < rows.count {
            var cells: [Character?] = []
            var offset: Int?
            var last = index
            while true {
                if last == row { offset = cells.count + column }
                cells += rows[last].cells
                guard rows[last].goesOn, last + 1 < rows.count else { break }
                last += 1
            }
            let broken = Self.break(cells, width: width)
            if let offset {
                let at = Self.position(offset, in: broken, width: width)
                cursor = (output.count + at.row, at.column)
            }
            output += broken
            index = last + 1
        }
        rows = output
        while rows.count <= cursor.row { rows.append(Row()) }
        (row, column) = cursor
        (self.width, self.height) = (width, height)
    }

    private static func `break`(_ cells: [Character?], width: Int) -> [Row] {
        var rows = [Row()]
        var index = 0
        while index < cells.count {
            let size = index + 1 < cells.count && cells[index + 1] == nil ? 2 : 1
            if rows[rows.count - 1].cells.count + size > width {
                rows[rows.count - 1].goesOn = true
                rows.append(Row())
            }
            rows[rows.count - 1].cells += cells[index..<index + size]
            index += size
        }
        return rows
    }

    private static func position(_ offset: Int, in rows: [Row], width: Int) -> (row: Int, column: Int) {
        var rest = offset
        for (index, row) in rows.enumerated() {
            if rest < row.cells.count || index == rows.count - 1 {
                return rest >= width ? (index + 1, rest - width) : (index, rest)
            }
            rest -= row.cells.count
        }
        return (0, rest)
    }
}
