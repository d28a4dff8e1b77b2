import MeshBase
import Testing

/// The outcome of a parse, comparable in one expression.
private func outcome(_ text: String) -> Result<JSONValue, JSONError> {
    do throws(JSONError) { return .success(try JSONValue.parse(text)) } catch { return .failure(error) }
}

private func outcome(bytes: [UInt8]) -> Result<JSONValue, JSONError> {
    do throws(JSONError) { return .success(try JSONValue.parse(bytes)) } catch { return .failure(error) }
}

@Suite struct JSONTests {
    @Test func `every kind of value is read and members keep their order`() {
        let text = #" {"b":[1,-2.5,true,false,null,"x"],"a":{"":{}},"e":[]} "#

        #expect(
            outcome(text)
                == .success([
                    "b": [1, -2.5, true, false, nil, "x"], "a": ["": .object([])], "e": [],
                ]))
    }

    @Test func `whole numbers stay exact over the whole range of 64 bits`() {
        #expect(outcome("9223372036854775807") == .success(.integer(.max)))
        #expect(outcome("-9223372036854775808") == .success(.integer(.min)))
        #expect(outcome("9223372036854775808") == .failure(.numberOutOfRange(at: 0)))
        #expect(outcome("9007199254740993") == .success(.integer(9_007_199_254_740_993)))
    }

    @Test func `AB-05 a number no field can hold is an error and not a trap`() {
        #expect(outcome("1e400") == .failure(.numberOutOfRange(at: 0)))
        #expect(outcome("[-1e400]") == .failure(.numberOutOfRange(at: 1)))
        #expect(outcome("1.5").map(\.integerValue) == .success(nil))
        #expect(outcome("NaN") == .failure(.unexpectedByte(at: 0)))
        #expect(outcome("nul") == .failure(.unexpectedEnd))
        #expect(outcome("1e-400") == .success(.number(0)))
    }

    @Test func `AB-05 a hundred thousand open brackets are refused by depth`() {
        #expect(outcome(String(repeating: "[", count: 100_000)) == .failure(.tooDeep(limit: 16)))
        #expect(outcome(String(repeating: #"{"a":"#, count: 100_000)) == .failure(.tooDeep(limit: 16)))
    }

    @Test func `AB-15 nesting of sixteen is read and of seventeen refused`() {
        let nested = { (count: Int) in String(repeating: "[", count: count) + String(repeating: "]", count: count) }

        #expect(throws: Never.self) { try JSONValue.parse(nested(16)) }
        #expect(outcome(nested(17)) == .failure(.tooDeep(limit: 16)))
    }

    @Test(arguments: [
        "", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "'a'", "01", "1.", ".5", "+1", "-", "1e", "tru", "[1 2]",
        "{\"a\" 1}", "{\"a\":}", "\"", "\"\\x\"", "\"\\u12\"", "\"\n\"", "[1]]", "1 1", "\u{feff}1", "/*c*/1", "- 1",
        "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "Infinity", "[,1]", "{1:2}", "{\"a\":1 \"b\":2}",
    ])
    func `text that is not JSON is refused`(text: String) {
        #expect(throws: JSONError.self) { try JSONValue.parse(text) }
    }

    @Test func `every truncation of a document is refused`() {
        let bytes = Array(#"{"a":[1.5e3,"é😀\u00e9\n",{"b":true}],"c":null}"#.utf8)

        #expect(throws: Never.self) { try JSONValue.parse(bytes) }
        for count in 0..<bytes.count {
            #expect(throws: JSONError.self) { try JSONValue.parse(bytes.prefix(count)) }
        }
    }

    @Test func `bytes that are not UTF-8 are refused inside strings and outside`() {
        #expect(outcome(bytes: [0x22, 0xc3, 0x22]) == .failure(.invalidText(at: 0)))
        #expect(outcome(bytes: [0x22, 0xed, 0xa0, 0x80, 0x22]) == .failure(.invalidText(at: 0)))
        #expect(outcome(bytes: [0xff]) == .failure(.unexpectedByte(at: 0)))
    }

    @Test func `the byte limit holds to the byte`() {
        #expect(throws: Never.self) { try JSONValue.parse("[1]", byteLimit: 3) }
        #expect(throws: JSONError.tooLong(limit: 3)) { try JSONValue.parse("[1] ", byteLimit: 3) }
    }

    @Test func `escapes are read, surrogate pairs joined`() {
        #expect(outcome(#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#) == .success("\"\\/\u{8}\u{c}\n\r\té😀"))
    }

    @Test func `written text is one line whatever a string holds`() {
        let value: JSONValue = ["s": "a\n\r\t\u{0}\u{1b}[2J\u{7f}\u{85}\u{2028}\u{2029}\"\\é😀"]

        #expect(value.text == #"{"s":"a\n\r\t\u0000\u001b[2J\u007f\u0085\u2028\u2029\"\\é😀"}"#)
        #expect(outcome(value.text) == .success(value))
    }

    @Test func `ATT-05 marks that turn the direction of writing are escaped, and read back the same`() {
        for mark in [0x061c, 0x200e, 0x200f] + Array(0x202a...0x202e) + Array(0x2066...0x2069) as [UInt32] {
            guard let scalar = Unicode.Scalar(mark) else { continue }
            let value: JSONValue = .object([.init("a\(Character(scalar))", .string("b\(Character(scalar))gpj.exe"))])

            #expect(!value.text.unicodeScalars.contains(scalar))
            #expect(outcome(value.text) == .success(value))
        }
        let plain: JSONValue = "שלום عربي 👩‍👩‍👧"
        #expect(plain.text == "\"שלום عربي 👩‍👩‍👧\"", "letters and joiners stay readable")
    }

    @Test func `numbers are written so that they read back the same`() {
        for number in [0.25, -1e-7, 5e20, 1.0, .leastNonzeroMagnitude, .greatestFiniteMagnitude] {
            #expect(outcome(JSONValue.number(number).text) == .success(.number(number)))
        }
        #expect(JSONValue.number(.nan).text == "null")
        #expect(JSONValue.number(-.infinity).text == "null")
    }

    @Test func `the first of two members with one name is found`() {
        #expect(outcome(#"{"a":1,"a":2}"#).map { $0["a"] } == .success(1))
    }
}
