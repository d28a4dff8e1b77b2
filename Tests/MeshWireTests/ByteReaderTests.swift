import MeshBase
import MeshWire
import Testing

@Suite struct ByteReaderTests {
    @Test func `integers are little-endian and move the position`() throws {
        let bytes: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] + [UInt8](repeating: 0xff, count: 8)
        var position = 0
        let span = bytes.span
        let (first, second) = (try span.readUInt8(&position), try span.readUInt16(&position))
        let (third, fourth) = (try span.readUInt32(&position), try span.readUInt64(&position))
        let fifth = try span.readInt64(&position)
        let rest = span.remaining(position)

        #expect((first, second, third) == (1, 0x0302, 0x0706_0504))
        #expect((fourth, fifth) == (0x0f0e_0d0c_0b0a_0908, -1))
        #expect((position, rest) == (23, 0))
        try span.expectEnd(position)
    }

    @Test func `what is written is read back`() throws {
        var writer = ByteWriter(reserving: 64)
        writer.write(UInt8.max)
        writer.write(UInt16.max)
        writer.write(UInt32.max)
        writer.write(UInt64.max)
        writer.write(Int64.min)
        writer.write(zeros: 3)
        writer.write(sized: [7, 8])
        writer.write(text: "hé")
        let reader = Reader(writer.bytes)

        #expect(try reader.read { try $0.readUInt8(&$1) } == .max)
        #expect(try reader.read { try $0.readUInt16(&$1) } == .max)
        #expect(try reader.read { try $0.readUInt32(&$1) } == .max)
        #expect(try reader.read { try $0.readUInt64(&$1) } == .max)
        #expect(try reader.read { try $0.readInt64(&$1) } == .min)
        #expect(try reader.read { try $0.readBytes(&$1, count: 3) } == [0, 0, 0])
        #expect(try reader.read { try $0.readSizedBytes(&$1, maximum: 2) } == [7, 8])
        #expect(try reader.read { try $0.readText(&$1, maximum: 3) } == "hé")
        #expect(reader.isAtEnd)
        #expect(writer.count == writer.bytes.count)
        writer.removeAll()
        #expect(writer.bytes.isEmpty)
    }

    @Test func `AB-01 every field cut at every length is truncated, and nothing is consumed beyond the end`() {
        for count in 0..<40 {
            let bytes = [UInt8](repeating: 4, count: count)
            #expect(fails(bytes) { _ = try $0.readUInt8(&$1) } == (count < 1 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readUInt16(&$1) } == (count < 2 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readUInt32(&$1) } == (count < 4 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readUInt64(&$1) } == (count < 8 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readInt64(&$1) } == (count < 8 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readBytes16(&$1) } == (count < 16 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readBytes32(&$1) } == (count < 32 ? .truncated : nil))
            #expect(fails(bytes) { _ = try $0.readAddress(&$1) } == (count < 7 ? .truncated : nil))
        }
    }

    @Test func `AB-02 AB-19 every length that is not there is refused before anything is allocated`() {
        let lengths = [1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, Int(UInt32.max), .max, .max - 1, .min, -1]
        for length in lengths {
            #expect(fails([]) { _ = try $0.readBytes(&$1, count: length) } == .truncated)
            // A position that is not zero must not make the sum overflow.
            #expect(
                fails([1, 2, 3]) { span, position in
                    _ = try span.readUInt16(&position)
                    _ = try span.readBytes(&position, count: length == 1 ? 2 : length)
                } == .truncated)
        }
        for length: UInt16 in [1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff] {
            let bytes = [UInt8(length & 0xff), UInt8(length >> 8)]
            #expect(fails(bytes) { _ = try $0.readSizedBytes(&$1, maximum: .max) } == .truncated)
            #expect(fails(bytes) { _ = try $0.readText(&$1, maximum: .max) } == .truncated)
        }
    }

    @Test func `AB-09 AB-10 a sized field holds its limit and one byte less or more`() {
        for limit in [0, 1, 127, 128, 255, 256, 65_535] {
            for length in [limit - 1, limit, limit + 1] where (0...65_535).contains(length) {
                let bytes = [UInt8(length & 0xff), UInt8(length >> 8)] + [UInt8](repeating: 0x61, count: length)
                let expected: WireError? = length > limit ? .limitExceeded : nil
                #expect(fails(bytes) { _ = try $0.readSizedBytes(&$1, maximum: limit) } == expected)
                #expect(fails(bytes) { _ = try $0.readText(&$1, maximum: limit) } == expected)
                if length > 0 {
                    let cut = Array(bytes.dropLast())
                    #expect(
                        fails(cut) { _ = try $0.readSizedBytes(&$1, maximum: limit) } == (expected ?? .truncated))
                }
            }
        }
    }

    @Test func `addresses of both families survive, scopes do not travel`() throws {
        let addresses = ["192.0.2.1:47800", "0.0.0.0:0", "[2001:db8::1]:65535", "[::]:0"].compactMap {
            SocketAddress($0)
        }
        #expect(addresses.count == 4)
        for address in addresses {
            var writer = ByteWriter()
            writer.write(address.with(scope: 9))
            let reader = Reader(writer.bytes)
            #expect(try reader.read { try $0.readAddress(&$1) } == address)
            #expect(reader.isAtEnd)
        }
        var writer = ByteWriter()
        writer.write(SocketAddress.ipv4(192, 0, 2, 1, port: 0x1234))
        #expect(writer.bytes == [4, 192, 0, 2, 1, 0x34, 0x12])
    }

    @Test func `every address family but 4 and 6 is refused`() {
        for family in UInt8.min...UInt8.max {
            let bytes = [family] + [UInt8](repeating: 1, count: 18)
            let expected: WireError? = family == 4 || family == 6 ? nil : .invalidValue
            #expect(fails(bytes) { _ = try $0.readAddress(&$1) } == expected)
        }
    }

    @Test func `bytes left over are an error`() {
        #expect(
            fails([1, 2]) { span, position in
                _ = try span.readUInt8(&position)
                try span.expectEnd(position)
            } == .trailingBytes)
    }

    private func fails(_ bytes: [UInt8], _ read: (Span<UInt8>, inout Int) throws -> Void) -> WireError? {
        var position = 0
        defer { #expect(position <= bytes.count) }
        do {
            try read(bytes.span, &position)
            return nil
        } catch {
            return error as? WireError
        }
    }
}

/// Bytes with a position, since a span cannot be captured by the closures of `#expect`.
final class Reader {
    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    func read<Value>(_ body: (Span<UInt8>, inout Int) throws -> Value) throws -> Value {
        let bytes = bytes
        return try body(bytes.span, &position)
    }
}
