import MeshBase

/// Where a terminal of some width puts each character of a line that is longer than it is wide.
struct ScreenLayout: Hashable, Sendable {
    /// The text of each row as shown.
    var rows: [String]
    var cursorRow: Int
    var cursorColumn: Int

    /// Lays out `prompt`, `before` and `after`; the cursor stands between the last two.
    ///
    /// A wide character that does not fit into the last cell goes to the next row, as terminals do. A cursor behind
    /// the last cell of a row stands at the start of the next one.
    init(prompt: String, before: String, after: String, width: Int) {
        var builder = Builder(width: max(width, 2))
        builder.append(prompt)
        builder.append(before)
        builder.breakIfFull()
        (cursorRow, cursorColumn) = (builder.rows.count - 1, builder.column)
        builder.append(after)
        rows = builder.rows
        // The character behind the cursor may be too wide for the rest of the row; the cursor goes with it.
        if let next = after.first {
            let cells = DisplayWidth.of(Builder.shown(next))
            if cursorColumn + cells > max(width, 2), cursorRow + 1 < rows.count {
                cursorRow += 1
                cursorColumn = 0
            }
        }
    }

    private struct Builder {
        let width: Int
        var rows = [""]
        var column = 0

        init(width: Int) { self.width = width }

        mutating func append(_ text: String) {
            for character in text {
                // An escape longer than the row is broken like text.
                for part in Self.shown(character) {
                    let cells = DisplayWidth.of(part)
                    if column + cells > width { newRow() }
                    rows[rows.count - 1].append(part)
                    column += cells
                }
            }
        }

        mutating func breakIfFull() {
            if column >= width { newRow() }
        }

        private mutating func newRow() {
            rows.append("")
            column = 0
        }

        /// Overrides and other invisible characters that were typed or pasted are written out.
        static func shown(_ character: Character) -> String { SafeText.escaped(String(character)) }
    }

    /// The rows that fit a screen of `height` rows, chosen so that the cursor is among them.
    func window(height: Int) -> (rows: ArraySlice<String>, cursorRow: Int) {
        let limit = max(height, 1)
        guard rows.count > limit else { return (rows[...], cursorRow) }
        let top = min(max(cursorRow - limit + 1, 0), rows.count - limit)
        return (rows[top..<top + limit], cursorRow - top)
    }
}
