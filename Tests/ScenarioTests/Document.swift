import Foundation

/// A JSON object that the command printed. Whatever is not there reads as `nil`.
struct Document {
    private let value: Any?

    private init(value: Any?) {
        self.value = value is NSNull ? nil : value
    }

    static var empty: Document { Document(value: nil) }

    /// `nil` when the line is not JSON.
    init?(_ line: String) {
        guard let value = try? JSONSerialization.jsonObject(with: Data(line.utf8)) else { return nil }
        self.init(value: value)
    }

    /// One object a line; lines that are none are left out.
    static func lines(_ text: String) -> [Document] {
        text.split(separator: "\n").compactMap { Document(String($0)) }
    }

    subscript(name: String) -> Document { Document(value: (value as? [String: Any])?[name]) }

    var text: String? { value as? String }
    var number: Double? { (value as? NSNumber)?.doubleValue }
    var integer: Int? { (value as? NSNumber)?.intValue }
    var isTrue: Bool { (value as? NSNumber)?.boolValue ?? false }
    var list: [Document] { (value as? [Any] ?? []).map(Document.init(value:)) }
    var isAbsent: Bool { value == nil }
}
