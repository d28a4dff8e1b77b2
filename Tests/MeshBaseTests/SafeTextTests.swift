import Foundation
import MeshBase
import Testing

@Suite struct SafeTextTests {
    @Test func `AB-84 AB-86 ATT-05 of 515 hostile texts nothing reaches the screen but visible characters`() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: tests.appending(path: "Vectors/text/blns.json"))
        let texts = try JSONDecoder().decode([String].self, from: data)
        #expect(texts.count == 515)

        for text in texts {
            let shown = SafeText.escaped(text)
            for scalar in shown.unicodeScalars { #expect(!isHarmful(scalar), "U+\(String(scalar.value, radix: 16))") }
            #expect(shown.allSatisfy { $0.unicodeScalars.count <= 17 })
            #expect(SafeText.escaped(text, limit: 20).count <= 21)
        }
    }

    @Test func `AB-84 every control code and terminal sequence is written out`() {
        for value in Array(0..<0x20) + [0x7f] + Array(0x80..<0xa0) {
            guard let scalar = Unicode.Scalar(UInt32(value)) else { continue }
            #expect(SafeText.escaped("a\(scalar)b") == "a\\u{\(String(value, radix: 16))}b")
        }
        #expect(SafeText.escaped("\u{1b}[2J\u{7}") == "\\u{1b}[2J\\u{7}")
        #expect(SafeText.escaped("\u{1b}]0;title\u{9c}") == "\\u{1b}]0;title\\u{9c}")
    }

    @Test func `AB-86 line breaks of every kind are written out`() {
        #expect(SafeText.escaped("a\r\nb") == "a\\u{d}\\u{a}b")
        #expect(SafeText.escaped("a\nb\rc\0d") == "a\\u{a}b\\u{d}c\\u{0}d")
        #expect(SafeText.escaped("a\u{2028}b\u{2029}c\u{85}d\u{b}") == "a\\u{2028}b\\u{2029}c\\u{85}d\\u{b}")
    }

    @Test func `ATT-05 bidirectional overrides cannot turn a name round`() {
        #expect(SafeText.escaped("gpj\u{202e}exe.") == "gpj\\u{202e}exe.")
        for value: UInt32 in [0x200e, 0x200f, 0x061c, 0x202a, 0x202b, 0x202c, 0x202d, 0x2066, 0x2067, 0x2068, 0x2069] {
            let scalar = Unicode.Scalar(value) ?? " "
            #expect(SafeText.escaped("x\(scalar)y") == "x\\u{\(String(value, radix: 16))}y")
        }
    }

    @Test func `AB-84 what draws nothing is written out, wherever it stands`() {
        let invisible: [UInt32] = [
            0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0x00ad, 0x034f, 0x115f, 0x3164, 0xffa0, 0xfe0f, 0xfe00, 0x180b,
            0xe0100, 0xe0061, 0xe000, 0x10fffd, 0xffff,
        ]
        for value in invisible {
            let scalar = Unicode.Scalar(value) ?? " "
            for text in ["ad\(scalar)min", "\(scalar)admin", "admin\(scalar)"] {
                #expect(
                    SafeText.escaped(text).contains("\\u{\(String(value, radix: 16))}"), "\(String(value, radix: 16))")
            }
        }
    }

    @Test func `names of every script and pictures of several parts stay as they are`() {
        let names = [
            "Zoë", "Björk Guðmundsdóttir", "Владимир", "Ελένη", "山田太郎", "김민수", "شهاب", "מרים", "नेहा शर्मा", "ශ්‍රී", "ทดสอบ",
            "Nguyễn Văn Ế", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "1️⃣", "❤️", "👩🏽‍🚀", "a b", "„Anna“ – (2)",
        ]
        for name in names { #expect(SafeText.escaped(name) == name, "\(name)") }
    }

    @Test func `AB-84 styles and joiners are allowed only after what they change`() {
        #expect(SafeText.escaped("1\u{fe0f}") == "1\\u{fe0f}")
        #expect(SafeText.escaped("1\u{fe0f}\u{20e3}") == "1\u{fe0f}\u{20e3}")
        #expect(SafeText.escaped("a\u{fe0f}\u{200d}b") == "a\\u{fe0f}\\u{200d}b")
        #expect(SafeText.escaped("1\u{200d}2") == "1\\u{200d}2")
        #expect(SafeText.escaped("❤\u{fe0f}\u{fe0f}") == "❤\u{fe0f}\\u{fe0f}")
    }

    @Test func `a tower of marks is cut down`() {
        let tower = "Z" + String(repeating: "\u{0336}\u{0489}", count: 500) + "algo"
        let shown = SafeText.escaped(tower)
        #expect(shown.unicodeScalars.count < 30)
        #expect(shown.hasSuffix("…algo"))
    }

    @Test func `a limit holds for what is shown, and no escape is cut in half`() {
        #expect(SafeText.escaped("abcdef", limit: 6) == "abcdef")
        #expect(SafeText.escaped("abcdef", limit: 5) == "abcde…")
        #expect(SafeText.escaped("abcdef", limit: 0) == "…")
        #expect(SafeText.escaped("", limit: 0) == "")
        #expect(SafeText.escaped("a\u{1b}b", limit: 6) == "a…")
        #expect(SafeText.escaped("a\u{1b}b", limit: 7) == "a\\u{1b}…")
        #expect(SafeText.escaped(String(repeating: "\u{1b}", count: 100), limit: 30).count <= 31)
    }

    @Test func `AB-83 ATT-05 a name is shortened between characters, to bytes, and not to nothing`() {
        #expect(SafeText.shortened("abc", maximumBytes: 3) == "abc")
        #expect(SafeText.shortened("abcd", maximumBytes: 3) == "abc")
        #expect(SafeText.shortened("aéé", maximumBytes: 4) == "aé")
        #expect(SafeText.shortened("👩‍👩‍👧‍👦x", maximumBytes: 25) == "👩‍👩‍👧‍👦")
        #expect(SafeText.shortened("", maximumBytes: 4) == "")

        let tower = "Z" + String(repeating: "\u{0336}", count: 4096)
        let kept = SafeText.shortened(tower, maximumBytes: 64)
        #expect(kept.utf8.count <= 64)
        #expect(kept.utf8.first == UInt8(ascii: "Z"))
        for maximum in 0...64 {
            let text = SafeText.shortened("é👩‍👩‍👧‍👦" + tower, maximumBytes: maximum)
            #expect(text.utf8.count <= maximum)
            #expect(maximum < 2 || !text.isEmpty)
        }
    }

    private func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .privateUse, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator: true
        // Joiners within a picture are allowed; the other tests pin where.
        case .format: scalar.value != 0x200d
        default: false
        }
    }
}
