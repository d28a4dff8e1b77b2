/// A QR code as text: two modules a character, dark on light whatever the terminal's colours.
public enum QRText {
    /// - Parameter modules: rows of equal length, true is dark.
    public static func lines(modules: [[Bool]], style: Style) -> [String] {
        let quiet = 2
        let width = (modules.map(\.count).max() ?? 0) + 2 * quiet
        let light = [Bool](repeating: false, count: width)
        var rows = Array(repeating: light, count: quiet)
        for row in modules {
            let side = [Bool](repeating: false, count: quiet)
            rows.append(side + row + [Bool](repeating: false, count: width - quiet - row.count))
        }
        rows += Array(repeating: light, count: quiet)
        if !rows.count.isMultiple(of: 2) { rows.append(light) }
        return stride(from: 0, to: rows.count, by: 2).map { index in
            let text = zip(rows[index], rows[index + 1]).map { style.isColoured ? inked($0, $1) : lit($0, $1) }.joined()
            return style.isColoured ? "\u{1b}[30;107m\(text)\u{1b}[0m" : text
        }
    }

    /// With colours the terminal's ink is black on white: dark modules are blocks.
    private static func inked(_ upper: Bool, _ lower: Bool) -> String {
        upper ? (lower ? "█" : "▀") : (lower ? "▄" : " ")
    }

    /// Without, blocks are what lights up: on the usual dark background the light modules.
    private static func lit(_ upper: Bool, _ lower: Bool) -> String { inked(!upper, !lower) }
}
