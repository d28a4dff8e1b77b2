/// One thing a person did at the keyboard.
enum Key: Hashable, Sendable {
    case text(Unicode.Scalar)
    /// Bytes that are not UTF-8: refused, and said so.
    case invalid([UInt8])
    case enter, tab, backspace, delete
    case left, right, up, down, home, end, wordLeft, wordRight
    case deleteToEnd, deleteToStart, deleteWordLeft, deleteWordRight, yank
    case clearScreen, interrupt, endOfInput
    /// A line break inside a paste: never submits.
    case pastedBreak
}

/// Bytes of a terminal to keys: UTF-8 across any cut, escape sequences of a fixed greatest length, bracketed paste.
///
/// A value; nothing waits. A lone escape becomes part of the next key, as Alt does.
struct KeyDecoder: Sendable {
    private enum State: Hashable, Sendable {
        case ground
        /// Behind an escape byte.
        case escape
        /// Behind `ESC [` or `ESC O`, with the parameters so far.
        case sequence([UInt8])
        /// Inside a character of several bytes.
        case character([UInt8])
    }

    private var state = State.ground
    private var isPasting = false
    /// A carriage return was just pasted: a line feed behind it belongs to it.
    private var isBehindReturn = false
    /// Longer sequences are no keys; they are swallowed and forgotten.
    private static let maximumSequence = 32

    /// The keys that `byte` completes: none, one, or for a broken character the refusal and then what follows.
    mutating func receive(_ byte: UInt8) -> [Key] {
        switch state {
        case .ground: return ground(byte)
        case .escape: return escape(byte)
        case .sequence(let parameters): return sequence(byte, parameters)
        case .character(let bytes): return character(byte, bytes)
        }
    }

    private mutating func ground(_ byte: UInt8) -> [Key] {
        if byte == 0x1b {
            state = .escape
            return []
        }
        if byte < 0x20 || byte == 0x7f { return control(byte).map { [$0] } ?? [] }
        isBehindReturn = false
        if byte < 0x80 { return [.text(Unicode.Scalar(byte))] }
        guard Self.length(of: byte) != nil else { return [.invalid([byte])] }
        state = .character([byte])
        return []
    }

    private mutating func control(_ byte: UInt8) -> Key? {
        if isPasting {
            defer { isBehindReturn = byte == 0x0d }
            if byte == 0x0a, isBehindReturn { return nil }
            return byte == 0x0a || byte == 0x0d || byte == 0x09 ? .pastedBreak : nil
        }
        switch byte {
        case 0x01: return .home
        case 0x02: return .left
        case 0x03: return .interrupt
        case 0x04: return .endOfInput
        case 0x05: return .end
        case 0x06: return .right
        case 0x08, 0x7f: return .backspace
        case 0x09: return .tab
        case 0x0a, 0x0d: return .enter
        case 0x0b: return .deleteToEnd
        case 0x0c: return .clearScreen
        case 0x0e: return .down
        case 0x10: return .up
        case 0x15: return .deleteToStart
        case 0x17: return .deleteWordLeft
        case 0x19: return .yank
        default: return nil
        }
    }

    private mutating func escape(_ byte: UInt8) -> [Key] {
        state = .ground
        switch byte {
        case UInt8(ascii: "["), UInt8(ascii: "O"):
            state = .sequence([])
            return []
        case 0x1b:
            state = .escape
            return []
        case UInt8(ascii: "b"), UInt8(ascii: "B"): return [.wordLeft]
        case UInt8(ascii: "f"), UInt8(ascii: "F"): return [.wordRight]
        case UInt8(ascii: "d"), UInt8(ascii: "D"): return [.deleteWordRight]
        case 0x7f, 0x08: return [.deleteWordLeft]
        // Alt with a key that means nothing here.
        case 0x20..<0x7f: return []
        default: return ground(byte)
        }
    }

    private mutating func sequence(_ byte: UInt8, _ parameters: [UInt8]) -> [Key] {
        switch byte {
        case 0x40...0x7e:
            state = .ground
            return key(final: byte, parameters).map { [$0] } ?? []
        case 0x20..<0x40:
            state = parameters.count < Self.maximumSequence ? .sequence(parameters + [byte]) : .ground
            return []
        default:
            // No sequence holds such a byte: a person pressed something else meanwhile.
            state = .ground
            return ground(byte)
        }
    }

    private mutating func key(final: UInt8, _ parameters: [UInt8]) -> Key? {
        let numbers = parameters.split(separator: UInt8(ascii: ";")).map { String(decoding: $0, as: UTF8.self) }
        let isModified = numbers.count > 1
        switch final {
        case UInt8(ascii: "A"): return isPasting ? nil : .up
        case UInt8(ascii: "B"): return isPasting ? nil : .down
        case UInt8(ascii: "C"): return isPasting ? nil : isModified ? .wordRight : .right
        case UInt8(ascii: "D"): return isPasting ? nil : isModified ? .wordLeft : .left
        case UInt8(ascii: "H"): return isPasting ? nil : .home
        case UInt8(ascii: "F"): return isPasting ? nil : .end
        case UInt8(ascii: "~"): return tilde(numbers.first ?? "", isModified: isModified)
        default: return nil
        }
    }

    private mutating func tilde(_ number: String, isModified: Bool) -> Key? {
        switch number {
        case "200": isPasting = true
        case "201": isPasting = false
        default: break
        }
        guard !isPasting else { return nil }
        switch number {
        case "1", "7": return .home
        case "4", "8": return .end
        case "3": return isModified ? .deleteWordRight : .delete
        default: return nil
        }
    }

    // MARK: UTF-8

    private mutating func character(_ byte: UInt8, _ before: [UInt8]) -> [Key] {
        guard byte & 0xc0 == 0x80, let first = before.first, let length = Self.length(of: first) else {
            // The character was cut off; what cuts it off is looked at on its own.
            state = .ground
            return [.invalid(before)] + ground(byte)
        }
        let bytes = before + [byte]
        guard bytes.count == length else {
            state = .character(bytes)
            return []
        }
        state = .ground
        // Overlong forms, surrogates and values beyond U+10FFFF fail here.
        guard let scalar = String(validating: bytes, as: UTF8.self)?.unicodeScalars.first else {
            return [.invalid(bytes)]
        }
        // C1 controls are no text either.
        return (0x80..<0xa0).contains(scalar.value) ? [.invalid(bytes)] : [.text(scalar)]
    }

    private static func length(of byte: UInt8) -> Int? {
        switch byte {
        case 0xc2...0xdf: 2
        case 0xe0...0xef: 3
        case 0xf0...0xf4: 4
        default: nil
        }
    }
}
