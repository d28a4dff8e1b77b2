import MeshBase
import MeshProtocol
import Testing

@testable import MeshNode

@Suite struct DialLogTests {
    private let peer = PeerID(Bytes32([UInt8](repeating: 1, count: 32)) ?? .zero)
    private let start = HostTime(nanoseconds: 1_000)

    private func address(_ number: Int) throws -> SocketAddress {
        try #require(SocketAddress("192.0.2.\(number):47800"))
    }

    private func request(_ addresses: [SocketAddress], to peer: PeerID?) -> DialRequest {
        DialRequest(addresses: addresses, secretID: SecretID(.zero), expectedPeer: peer)
    }

    private func link(at address: SocketAddress) -> LinkIdentity {
        LinkIdentity(
            peer: peer, incarnation: Incarnation(1), secretID: SecretID(.zero), role: .initiator, address: address,
            membershipHead: .zero)
    }

    @Test func `a way through a member is one of what was tried`() throws {
        var log = DialLog()
        let relay = PeerID(Bytes32([UInt8](repeating: 2, count: 32)) ?? .zero)
        var dial = request([], to: peer)
        dial.relays = [relay]
        log.began(dial, at: start)
        var carried = link(at: try address(9))
        carried.relay = relay
        log.answered(carried, at: start + .milliseconds(3))
        #expect(log.attempts(of: peer).map(\.way) == [.relay(relay)])
        #expect(log.attempts(of: peer).map(\.outcome) == [.answered])
    }

    @Test func `each address is kept once, with what came of it last`() throws {
        var log = DialLog()
        let dial = request([try address(1), try address(2)], to: peer)

        log.began(dial, at: start)
        #expect(log.attempts(of: peer).map(\.outcome) == [.underWay, .underWay])
        log.unreachable(try address(2), at: start + .milliseconds(1))
        log.failed(dial, .noAnswer, at: start + .milliseconds(2))
        log.answered(link(at: try address(3)), at: start + .milliseconds(3))

        let attempts = log.attempts(of: peer)
        #expect(attempts.map(\.way) == [try address(3), try address(1), try address(2)].map(DialLog.Way.address))
        #expect(attempts.map(\.outcome) == [.answered, .noAnswer, .nobodyListens])
    }

    @Test func `neither many addresses nor a dial of nobody in particular make it grow`() throws {
        var log = DialLog()

        for number in 1...100 { log.began(request([try address(number)], to: peer), at: start) }
        log.began(request([try address(7)], to: nil), at: start)

        #expect(log.attempts(of: peer).count == DialLog.maximumAddresses)
        #expect(log.attempts(of: peer).first?.way == .address(try address(100)))
    }
}

@Suite struct KnownNamesTests {
    private func peer(_ number: UInt8) -> PeerID { PeerID(Bytes32([UInt8](repeating: number, count: 32)) ?? .zero) }

    @Test func `names come back from their bytes, whatever stands in them`() {
        var names = KnownNames()

        let news = [
            names.learn("a\"\u{1b}名", of: peer(1)), names.learn("ben", of: peer(2)), names.learn("ben", of: peer(2)),
            names.learn("", of: peer(2)),
        ]

        #expect(news == [true, true, false, false])

        #expect(KnownNames(decoding: names.encoded) == names)
        #expect(names[peer(2)] == "ben")
    }

    @Test(arguments: ["", "[]", "{\"zz\":\"ana\"}", "{\"00\":1}", "{"])
    func `damaged bytes are no names`(text: String) {
        #expect(KnownNames(decoding: Array(text.utf8)).names.isEmpty)
    }
}
