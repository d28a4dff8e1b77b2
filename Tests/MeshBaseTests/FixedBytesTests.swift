import MeshBase
import Testing

@Suite struct FixedBytesTests {
    @Test func `thirty-two bytes go in and come out unchanged, by every way`() throws {
        let bytes = (0..<32).map { UInt8($0 * 7 + 1) }
        let value = try #require(Bytes32(bytes))
        #expect(value.bytes == bytes)
        #expect(value.withBytes { span in span.indices.map { span[$0] } } == bytes)
        #expect(Bytes32(bytes[...]) == value)
        let fromSpan = Bytes32(bytes.span)
        #expect(fromSpan == value)
        var appended: [UInt8] = [9]
        value.append(to: &appended)
        #expect(appended == [9] + bytes)
    }

    @Test func `sixteen bytes go in and come out unchanged, by every way`() throws {
        let bytes = (0..<16).map { UInt8(255 - $0) }
        let value = try #require(Bytes16(bytes))
        #expect(value.bytes == bytes)
        let fromSpan = Bytes16(bytes.span)
        #expect(fromSpan == value)
        var appended: [UInt8] = []
        value.append(to: &appended)
        #expect(appended == bytes)
    }

    @Test func `any other length is refused`() {
        for count in 0...64 {
            let bytes = [UInt8](repeating: 1, count: count)
            let spans = (Bytes16(bytes.span) == nil, Bytes32(bytes.span) == nil)
            #expect((Bytes16(bytes) == nil) == (count != 16))
            #expect((Bytes32(bytes) == nil) == (count != 32))
            #expect(spans == (count != 16, count != 32))
            #expect((PeerID(bytes: bytes) == nil) == (count != 32))
        }
    }

    @Test func `values are ordered as their bytes are`() throws {
        var bytes = [UInt8](repeating: 0x7f, count: 32)
        let middle = try #require(Bytes32(bytes))
        for index in bytes.indices {
            bytes[index] = 0x80
            let greater = try #require(Bytes32(bytes))
            bytes[index] = 0x7e
            let lesser = try #require(Bytes32(bytes))
            bytes[index] = 0x7f
            #expect(lesser < middle)
            #expect(middle < greater)
            #expect(greater != middle)
        }
        #expect(!(middle < middle))
        #expect(Bytes16.zero < (try #require(Bytes16([UInt8](repeating: 0, count: 15) + [1]))))
    }

    @Test func `an identifier is shown in full, and shortened for people`() throws {
        let id = RecordID(try #require(Bytes32((0..<32).map { UInt8($0) })))
        #expect(id.description == "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
        #expect(id.shortDescription == "00010203")
        #expect(SecretID(.zero).description == String(repeating: "0", count: 32))
    }
}

@Suite struct HexadecimalTests {
    @Test func `bytes go to text and back`() {
        let bytes = Array(UInt8.min...UInt8.max)
        let text = Hexadecimal.encode(bytes)
        #expect(text.hasPrefix("000102"))
        #expect(text.hasSuffix("fdfeff"))
        #expect(Hexadecimal.decode(text) == bytes)
        #expect(Hexadecimal.decode(text.uppercased()) == bytes)
        #expect(Hexadecimal.decode("") == [])
    }

    @Test func `an odd count and every other character are refused`() {
        #expect(Hexadecimal.decode("a") == nil)
        #expect(Hexadecimal.decode("abc") == nil)
        let digits = Set("0123456789abcdefABCDEF".utf8)
        for byte in UInt8.min...UInt8.max {
            let text = String(decoding: [byte, 0x30], as: UTF8.self)
            if byte < 0x80 { #expect((Hexadecimal.decode(text) != nil) == digits.contains(byte)) }
        }
        for text in ["0x00", "+1", " 1", "é", "１２", "-1"] { #expect(Hexadecimal.decode(text) == nil) }
    }
}

@Suite struct Base32Tests {
    @Test func `the examples of RFC 4648, without padding and in lower case`() {
        let examples = [
            "": "", "f": "my", "fo": "mzxq", "foo": "mzxw6", "foob": "mzxw6yq", "fooba": "mzxw6ytb",
            "foobar": "mzxw6ytboi",
        ]
        for (plain, text) in examples {
            #expect(Base32.encode(Array(plain.utf8)) == text)
            #expect(Base32.decode(text) == Array(plain.utf8))
            #expect(Base32.decode(text.uppercased()) == Array(plain.utf8))
        }
    }

    @Test func `every length goes to text and back`() {
        for count in 0...100 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 91 + 255) }
            let text = Base32.encode(bytes)
            #expect(text.utf8.count == (count * 8 + 4) / 5)
            #expect(Base32.decode(text) == bytes)
        }
    }

    @Test func `impossible lengths, left-over bits and foreign characters are refused`() {
        for text in [
            "a", "aaa", "aaaaaa", "mz", "mzxr", "mzxw7", "mzxw6yr", "my======", "m y", "0a", "1a", "8a", "é", "ａａ",
        ] {
            #expect(Base32.decode(text) == nil, "\(text)")
        }
    }

    @Test func `every byte string has one text`() {
        let alphabet = Array("abcdefghijklmnopqrstuvwxyz234567")
        var seen: Set<[UInt8]> = []
        for first in alphabet {
            for second in alphabet {
                guard let bytes = Base32.decode(String([first, second])) else { continue }
                #expect(seen.insert(bytes).inserted)
            }
        }
        #expect(seen.count == 256)
    }
}
