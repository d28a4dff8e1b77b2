/// A line being edited: text and a cursor between two graphemes of it.
///
/// The cursor is kept at a boundary of what a person sees as one character, whatever scalars arrive: an accent joins
/// the letter before it, a joiner glues two pictures into one.
struct EditBuffer: Hashable, Sendable {
    /// What stands before the cursor.
    private(set) var before = ""
    /// What stands behind it.
    private(set) var after = ""

    var text: String { before + after }
    var isEmpty: Bool { before.isEmpty && after.isEmpty }
    var byteCount: Int { before.utf8.count + after.utf8.count }

    init(_ text: String = "") {
        before = text
    }

    mutating func insert(_ scalar: Unicode.Scalar) {
        before.unicodeScalars.append(scalar)
        settle()
    }

    mutating func insert(_ text: String) {
        before += text
        settle()
    }

    /// Replaces the last `count` characters before the cursor.
    mutating func replace(last count: Int, with text: String) {
        before = String(before.dropLast(count))
        insert(text)
    }

    mutating func deleteLeft() {
        if !before.isEmpty { before.removeLast() }
        settle()
    }

    mutating func deleteRight() {
        if !after.isEmpty { after.removeFirst() }
        settle()
    }

    mutating func moveLeft() {
        if let character = before.popLast() { after.insert(character, at: after.startIndex) }
    }

    mutating func moveRight() {
        guard let character = after.first else { return }
        after.removeFirst()
        before.append(character)
    }

    mutating func moveToStart() {
        after = before + after
        before = ""
    }

    mutating func moveToEnd() {
        before += after
        after = ""
    }

    mutating func moveWordLeft() {
        let removed = Self.wordTail(of: before)
        before = String(before.dropLast(removed.count))
        after = removed + after
    }

    mutating func moveWordRight() {
        let taken = Self.wordHead(of: after)
        after = String(after.dropFirst(taken.count))
        before += taken
    }

    /// Each returns what it took, for yanking.
    mutating func deleteToEnd() -> String {
        defer { after = "" }
        return after
    }

    mutating func deleteToStart() -> String {
        defer { before = "" }
        return before
    }

    mutating func deleteWordLeft() -> String {
        let taken = Self.wordTail(of: before)
        before = String(before.dropLast(taken.count))
        settle()
        return taken
    }

    mutating func deleteWordRight() -> String {
        let taken = Self.wordHead(of: after)
        after = String(after.dropFirst(taken.count))
        settle()
        return taken
    }

    /// Puts the cursor behind the grapheme that both sides form together, if they do.
    private mutating func settle() {
        guard let last = before.last, let first = after.first else { return }
        let joined = String(last) + String(first)
        guard joined.count == 1 else { return }
        before.removeLast()
        after.removeFirst()
        before += joined
    }

    private static func wordTail(of text: String) -> String {
        var rest = Substring(text)
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        while let last = rest.last, !last.isWhitespace { rest.removeLast() }
        return String(text[rest.endIndex...])
    }

    private static func wordHead(of text: String) -> String {
        var rest = Substring(text)
        while let first = rest.first, first.isWhitespace { rest.removeFirst() }
        while let first = rest.first, !first.isWhitespace { rest.removeFirst() }
        return String(text[..<rest.startIndex])
    }
}
