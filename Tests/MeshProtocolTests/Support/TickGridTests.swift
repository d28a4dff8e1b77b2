import MeshBase
import Testing

@testable import MeshProtocol

@Suite struct TickGridTests {
    private let interval = TimeSpan.milliseconds(250)

    private func peer(_ number: UInt8) -> PeerID { PeerID(Bytes32([UInt8](repeating: number, count: 32)) ?? .zero) }

    private func ticks(_ count: Int, of peer: PeerID, from start: HostTime) -> [HostTime] {
        let grid = TickGrid(of: peer, interval: interval)
        var output: [HostTime] = []
        while output.count < count { output.append(grid.next(after: output.last ?? start)) }
        return output
    }

    @Test func `ticks come about every interval, each moved by at most a tenth, and none is left out`() {
        let ticks = ticks(10_000, of: peer(1), from: HostTime(nanoseconds: -5_000_000_000))
        let gaps = zip(ticks.dropFirst(), ticks).map { ($0 - $1).nanoseconds }
        #expect(gaps.allSatisfy { (225_000_000...275_000_000).contains($0) })
        let span = (ticks[9_999] - ticks[0]).nanoseconds
        #expect(abs(span - 9_999 * 250_000_000) <= 25_000_000)
        #expect(Set(gaps).count > 9_000)
    }

    @Test func `whoever asks in between is told the same tick`() {
        let grid = TickGrid(of: peer(2), interval: interval)
        var time = HostTime(nanoseconds: 123_456_789)
        for _ in 0..<1_000 {
            let tick = grid.next(after: time)
            #expect(tick > time)
            #expect(grid.next(after: HostTime(nanoseconds: tick.nanoseconds - 1)) == tick)
            time = tick
        }
    }

    @Test func `two nodes do not tick together`() {
        let first = ticks(1_000, of: peer(1), from: .zero)
        let second = ticks(1_000, of: peer(2), from: .zero)
        let near = zip(first, second).count { abs(($0 - $1).nanoseconds) < 1_000_000 }
        #expect(near < 150)
    }

    @Test func `the ends of the range are no trap`() {
        let grid = TickGrid(of: peer(3), interval: interval)
        #expect(grid.next(after: .distantPast) > .distantPast)
        #expect(grid.next(after: .distantFuture) == .distantFuture)
    }
}
