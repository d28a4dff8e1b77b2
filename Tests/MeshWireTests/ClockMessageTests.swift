import MeshBase
import MeshWire
import Testing

private let report = ClockMessage.report(
    ClockReport(
        epoch: ClockEpoch(birth: 2, id: 0x1122_3344_5566_7788), isJoining: true, wantedAnswers: 20,
        host: HostTime(nanoseconds: 1), mesh: MeshTime(nanoseconds: -2), ratePartsPerTrillion: -3,
        uncertaintyNanoseconds: 4))
private let reportBytes: [UInt8] =
    [1, 2, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 1, 20] + [1, 0, 0, 0, 0, 0, 0, 0]
    + [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff] + [0xfd, 0xff, 0xff, 0xff] + [4, 0, 0, 0]

private let merge = ClockMessage.merge(
    ClockMerge(
        losing: ClockEpoch(birth: 1, id: 5), winning: ClockEpoch(birth: 2, id: 1),
        switchAt: MeshTime(nanoseconds: 256), shift: TimeSpan(nanoseconds: -1)))
private let mergeBytes: [UInt8] =
    [2, 1, 5, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0] + [0, 1, 0, 0, 0, 0, 0, 0]
    + [UInt8](repeating: 0xff, count: 8)

struct ClockMessageTests {
    @Test(arguments: [(report, reportBytes), (merge, mergeBytes)])
    func `a clock message has exactly these bytes`(message: ClockMessage, bytes: [UInt8]) throws {
        #expect(message.encoded == bytes)
        #expect(try ClockMessage(decoding: bytes) == message)
    }

    @Test(arguments: [reportBytes, mergeBytes])
    func `a clock message cut short or too long is refused`(bytes: [UInt8]) {
        for length in 0..<bytes.count {
            #expect(throws: WireError.truncated) { try ClockMessage(decoding: Array(bytes.prefix(length))) }
        }
        #expect(throws: WireError.trailingBytes) { try ClockMessage(decoding: bytes + [0]) }
    }

    @Test(arguments: [reportBytes, mergeBytes])
    func `a flipped bit makes another message or an error, never a trap`(bytes: [UInt8]) throws {
        for bit in 0..<(bytes.count * 8) {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            guard let message = try? ClockMessage(decoding: flipped) else { continue }
            if case .unknown = message { continue }
            #expect(message.encoded == flipped)
        }
    }

    @Test func `kinds from 0x80 on are skipped, lower ones refused`() throws {
        #expect(try ClockMessage(decoding: [0x80, 9, 9]) == .unknown(kind: 0x80))
        #expect(throws: WireError.unknownType) { try ClockMessage(decoding: [0x7f, 9, 9]) }
        #expect(throws: WireError.unknownType) { try ClockMessage(decoding: [0]) }
    }

    /// The limit of each field and one beyond it.
    @Test func `AB-16 times and rates beyond their limits are refused`() throws {
        func decoded(_ change: (inout ClockReport) -> Void) throws -> ClockMessage {
            guard case .report(var inner) = report else { return report }
            change(&inner)
            return try ClockMessage(decoding: ClockMessage.report(inner).encoded)
        }
        let limit = ClockMessage.maximumMeshNanoseconds

        for mesh in [limit, -limit] { _ = try decoded { $0.mesh = MeshTime(nanoseconds: mesh) } }
        for mesh in [limit + 1, -limit - 1, .max, .min] {
            #expect(throws: WireError.invalidValue) { try decoded { $0.mesh = MeshTime(nanoseconds: mesh) } }
        }
        for rate in [Int32(300_000_000), -300_000_000] { _ = try decoded { $0.ratePartsPerTrillion = rate } }
        for rate in [Int32(300_000_001), -300_000_001, .max, .min] {
            #expect(throws: WireError.invalidValue) { try decoded { $0.ratePartsPerTrillion = rate } }
        }
        #expect(throws: WireError.invalidValue) { try decoded { $0.wantedAnswers = 21 } }
        #expect(throws: WireError.invalidValue) { try decoded { $0.epoch = ClockEpoch(birth: 3, id: 1) } }
        #expect(throws: WireError.invalidValue) { try decoded { $0.epoch = ClockEpoch(birth: 0, id: 1) } }
        for host in [Int64.min, .max] { _ = try decoded { $0.host = HostTime(nanoseconds: host) } }
    }

    @Test func `a merge that does not go to a greater epoch is refused`() {
        var backwards = ClockMerge(
            losing: ClockEpoch(birth: 2, id: 1), winning: ClockEpoch(birth: 1, id: 5),
            switchAt: MeshTime(nanoseconds: 0), shift: .zero)
        #expect(throws: WireError.invalidValue) { try ClockMessage(decoding: ClockMessage.merge(backwards).encoded) }
        backwards.winning = backwards.losing
        #expect(throws: WireError.invalidValue) { try ClockMessage(decoding: ClockMessage.merge(backwards).encoded) }
    }
}
