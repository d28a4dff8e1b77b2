/// Columns that line up by displayed cell.
public struct TextTable: Sendable {
    public struct Cell: Hashable, Sendable, ExpressibleByStringLiteral {
        public var text: String
        public var tone: Style.Tone
        public init(_ text: String, _ tone: Style.Tone = .plain) {
            self.text = text
            self.tone = tone
        }
        public init(stringLiteral value: String) { self.init(value) }
    }

    public var headers: [String]
    /// Columns whose text stands at the right edge: numbers.
    public var rightAligned: Set<Int>
    public var rows: [[Cell]] = []

    public init(_ headers: [String], rightAligned: Set<Int> = []) {
        self.headers = headers
        self.rightAligned = rightAligned
    }

    /// The lines, no wider than `width` cells where the last column can give way.
    public func lines(_ style: Style, width: Int? = nil) -> [String] {
        let widths = headers.indices.map { column in
            max(DisplayWidth.of(headers[column]), rows.map { cell($0, column).text }.map(DisplayWidth.of).max() ?? 0)
        }
        let fixed = widths.dropLast().reduce(0) { $0 + $1 + 2 }
        let last = width.map { max($0 - fixed, 8) } ?? .max
        let all = [headers.map { Cell($0, .faint) }] + rows
        return all.map { row in line(row, widths, last, style) }
    }

    private func line(_ row: [Cell], _ widths: [Int], _ last: Int, _ style: Style) -> String {
        var output = ""
        for column in headers.indices {
            let cell = cell(row, column)
            let isLast = column == headers.count - 1
            let text = isLast ? DisplayWidth.truncated(cell.text, to: last) : cell.text
            let padding = String(repeating: " ", count: max(widths[column] - DisplayWidth.of(text), 0))
            let toned = style.apply(cell.tone, to: text)
            if rightAligned.contains(column) {
                output += padding + toned
            } else {
                output += toned + (isLast ? "" : padding)
            }
            if !isLast { output += "  " }
        }
        while output.last == " " { output.removeLast() }
        return output
    }

    private func cell(_ row: [Cell], _ column: Int) -> Cell { row.indices.contains(column) ? row[column] : "" }
}
