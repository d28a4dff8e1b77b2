import MeshBase
import MeshProtocol
import Testing

@testable import MeshNode

/// What a failed join says to somebody who sees nothing else.
@Suite struct JoinReportTests {
    private let nobody = SocketAddress.ipv4(192, 0, 2, 7, port: 47_800)
    private let closed = SocketAddress.ipv4(192, 0, 2, 8, port: 47_800)
    private let silent = SocketAddress.ipv4(192, 0, 2, 9, port: 47_800)

    private func rows(_ statistics: SessionStatistics) -> [String] {
        let failure = JoinFailure.noAnswer(tried: [
            DialAttempt(address: nobody, outcome: .noAnswer), DialAttempt(address: closed, outcome: .portUnreachable),
            DialAttempt(address: silent, outcome: .noWelcome),
        ])
        let error = Node.explained(failure, discovery: Node.discoveryText(statistics, failure))
        return (error.json["tried"]?.arrayValue ?? []).map { row in
            ["what", "address", "result"].compactMap { row[$0]?.stringValue }.joined(separator: " ")
        }
    }

    @Test func `CLI-13 without multicast the report alone tells which step failed, and how`() {
        var statistics = SessionStatistics()
        statistics.beaconsSent = 12

        #expect(
            rows(statistics) == [
                "discovery local network asked 12 times: nobody answered; is multicast blocked? starling doctor",
                "handshake \(nobody) no answer", "handshake \(closed) nobody listens there",
                "handshake \(silent) answered, but let nobody in",
            ])
    }

    @Test func `CLI-13 discovery that is off, that heard strangers, or that worked, says so`() {
        var statistics = SessionStatistics()
        #expect(rows(statistics).first?.contains("switched off") == true)
        statistics.beaconsSent = 3
        statistics.beaconsForeign = 2
        #expect(rows(statistics).first?.contains("only other meshes") == true)
        statistics.beaconsHeard = 1
        #expect(rows(statistics).first?.contains("a member answered") == true)
    }
}
