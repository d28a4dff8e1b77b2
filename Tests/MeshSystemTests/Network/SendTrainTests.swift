import MeshBase
import Testing

@testable import MeshSystem

@Suite struct SendTrainTests {
    private func datagrams(_ sizes: [Int], _ ports: [UInt16]? = nil) -> [TransportDatagram] {
        sizes.enumerated().map { position, size in
            TransportDatagram(
                bytes: [UInt8](repeating: 0, count: size), destination: .loopback(port: ports?[position] ?? 1))
        }
    }

    private func trains(_ datagrams: [TransportDatagram], segmenting: Bool = true) -> [SendTrain] {
        var trains: [SendTrain] = []
        var position = 0
        while position < datagrams.count {
            let train = SendTrain.next(in: datagrams, from: position, segmenting: segmenting)
            trains.append(train)
            position = train.range.upperBound
        }
        return trains
    }

    @Test func `equal sizes ride together and a shorter one ends the train`() {
        let result = trains(datagrams([100, 100, 40, 100, 100]))

        #expect(result.map(\.range) == [0..<3, 3..<5])
        #expect(result.map(\.byteCount) == [240, 200])
        #expect(result.map(\.segment) == [100, 100])
    }

    @Test func `a longer one and an empty one start anew`() {
        #expect(trains(datagrams([100, 101, 0, 101])).map(\.range) == [0..<1, 1..<2, 2..<3, 3..<4])
    }

    @Test func `another destination starts anew`() {
        #expect(trains(datagrams([9, 9, 9], [1, 2, 2])).map(\.range) == [0..<1, 1..<3])
    }

    @Test func `a train keeps to 64 segments and 65,000 bytes`() {
        #expect(trains(datagrams([Int](repeating: 10, count: 130))).map(\.range.count) == [64, 64, 2])
        #expect(trains(datagrams([Int](repeating: 1200, count: 60))).map(\.range.count) == [54, 6])
    }

    @Test func `without segmentation each goes alone`() {
        let result = trains(datagrams([5, 5, 5]), segmenting: false)

        #expect(result.map(\.range.count) == [1, 1, 1])
        #expect(result.map(\.segment) == [0, 0, 0])
    }

    @Test func `a receive stamp that makes no sense counts as now`() {
        #expect(ReceiveRing.lag(stamp: 1000, now: 1700) == 700)
        #expect(ReceiveRing.lag(stamp: 0, now: 1700) == 0)
        #expect(ReceiveRing.lag(stamp: 2000, now: 1700) == 0)
        #expect(ReceiveRing.lag(stamp: 1, now: .max) == 0)
        #expect(ReceiveRing.lag(stamp: .min, now: .max) == 0)
    }
}
