import MeshBase

/// One command line, understood and checked.
public struct Invocation: Hashable, Sendable {
    /// As in the table: `journal add`.
    public var verb: String
    /// Values by option name; a flag is `true`, an option that repeats an array.
    public var options: [String: JSONValue]
    /// Checked values in order.
    public var arguments: [JSONValue]

    public init(verb: String, options: [String: JSONValue] = [:], arguments: [JSONValue] = []) {
        self.verb = verb
        self.options = options
        self.arguments = arguments
    }

    public func flag(_ name: String) -> Bool { options[name]?.boolValue ?? false }
    public func text(_ name: String) -> String? { options[name]?.stringValue }
    public func integer(_ name: String) -> Int64? { options[name]?.integerValue }
    public func number(_ name: String) -> Double? { options[name]?.numberValue }
    public func texts(_ name: String) -> [String] { options[name]?.arrayValue?.compactMap(\.stringValue) ?? [] }
    /// The argument at `position` as text.
    public func argument(_ position: Int) -> String? {
        arguments.indices.contains(position) ? arguments[position].stringValue : nil
    }
    public var argumentTexts: [String] { arguments.compactMap(\.stringValue) }
}
