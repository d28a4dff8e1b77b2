/// Colours, or none. The only place where escape sequences of our own are made for results.
public struct Style: Hashable, Sendable {
    public enum Tone: Hashable, Sendable {
        case plain, strong, faint, good, warning, bad, name
    }

    public var isColoured: Bool

    public init(isColoured: Bool) {
        self.isColoured = isColoured
    }

    public static let plain = Style(isColoured: false)

    /// Whether to colour: on a terminal that can, unless a person said no (https://no-color.org: set and not empty).
    public static func decide(
        isTerminal: Bool, noColorOption: Bool, environment: (String) -> String?
    ) -> Style {
        let refused = noColorOption || !(environment("NO_COLOR") ?? "").isEmpty || environment("TERM") == "dumb"
        return Style(isColoured: isTerminal && !refused)
    }

    public func apply(_ tone: Tone, to text: String) -> String {
        guard isColoured, tone != .plain, !text.isEmpty else { return text }
        let code =
            switch tone {
            case .plain: "0"
            case .strong: "1"
            case .faint: "2"
            case .good: "32"
            case .warning: "33"
            case .bad: "31"
            case .name: "36"
            }
        return "\u{1b}[\(code)m\(text)\u{1b}[0m"
    }
}
