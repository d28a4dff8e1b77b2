import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

@Suite struct LinkAbuseTests {
    private let stranger = SocketAddress.ipv4(192, 0, 2, 9, port: 9)

    private func acknowledgement(_ link: SecureLink, _ ranges: [ClosedRange<UInt64>]) -> [UInt8] {
        var bytes: [UInt8] = []
        AcknowledgementFrame.append(
            keyIndex: link.generations[link.current].localIndex, delayMicroseconds: 0, ranges: ranges[...], to: &bytes)
        return bytes
    }

    @Test func `AB-22 data before the link exists is dropped and not kept`() {
        let pipe = LinkPipe.pair()
        for number in 0..<1000 as Range<UInt32> {
            var bytes: [UInt8] = []
            DataHeader(receiverIndex: number, counter: 0).encode(into: &bytes)
            #expect(pipe.inject(bytes + [UInt8](repeating: 1, count: 100), into: 1, from: stranger).isEmpty)
        }
        #expect(pipe.nodes[1].table.statistics.refusedIndex == 1000)
    }

    @Test func `AB-42 data in plain, under another key, without its tag or of another type is dropped`() throws {
        let pipe = LinkPipe.linkedPair()
        pipe.run(for: .seconds(1))
        var frames: [UInt8] = []
        MessageFrame.append(channel: 2, messageID: nil, payload: [1, 2, 3], to: &frames)
        let good = try pipe.forge(frames, from: 0, to: 1)
        let source = pipe.nodes[0].address

        var plain = Array(good.prefix(16)) + [UInt8](repeating: 0, count: 24) + frames
        pipe.inject(plain, into: 1, from: source)
        plain += [UInt8](repeating: 0, count: 16)
        pipe.inject(plain, into: 1, from: source)
        pipe.inject(Array(good.dropLast(16)), into: 1, from: source)
        for type in [0, 1, 2, 3, 5, 6] as [UInt8] {
            var changed = good
            changed[0] = type
            pipe.inject(changed, into: 1, from: source)
        }
        #expect(pipe.nodes[1].messages.isEmpty)
        #expect(pipe.nodes[1].lost.isEmpty)
        pipe.inject(good, into: 1, from: source)
        #expect(pipe.nodes[1].messages.count == 1)
    }

    @Test func `AB-43 AB-44 garbage and far counters do not move the replay window`() throws {
        let pipe = LinkPipe.linkedPair()
        let good = try pipe.forge([2, 0, 0], from: 0, to: 1)
        let heard = pipe.nodes[1].table.statistics(of: pipe.nodes[0].peerID)?.datagramsReceived
        for counter in [1 << 40, UInt64.max, ReplayWindow.counterLimit, 5] {
            for _ in 0..<50 {
                var forged = Array(good.prefix(8))
                forged.appendInteger(counter)
                forged += good.dropFirst(16)
                pipe.inject(forged, into: 1, from: pipe.nodes[0].address)
            }
        }
        #expect(pipe.nodes[1].table.statistics(of: pipe.nodes[0].peerID)?.datagramsReceived == heard)
        pipe.inject(good, into: 1, from: pipe.nodes[0].address)
        #expect(pipe.nodes[1].table.statistics(of: pipe.nodes[0].peerID)?.datagramsReceived == heard.map { $0 + 1 })
        pipe.inject(good, into: 1, from: pipe.nodes[0].address)
        #expect(pipe.nodes[1].table.statistics.refusedReplay >= 1)
    }

    @Test func `AB-46 old data and copied cookies from a new address move nothing`() throws {
        let pipe = LinkPipe.linkedPair()
        try pipe.send([1], from: 0, to: 1)
        let old = try pipe.forge([2, 0, 0], from: 0, to: 1)
        let newer = try pipe.forge([2, 0, 0], from: 0, to: 1)
        pipe.inject(newer, into: 1, from: pipe.nodes[0].address)
        pipe.inject(old, into: 1, from: stranger)
        pipe.inject(newer, into: 1, from: stranger)
        let cookie = CookieDatagram(
            receiverIndex: 1, nonce: [UInt8](repeating: 0, count: 24), sealedCookie: [UInt8](repeating: 0, count: 32))
        pipe.inject(cookie.encoded, into: 1, from: stranger)
        #expect(pipe.link(1, 0)?.path.address == pipe.nodes[0].address)
        #expect(pipe.link(1, 0)?.identity.address == pipe.nodes[0].address)
    }

    @Test func `AB-46 AB-65 a new address gets at most three times its bytes until it has answered, and is left again`()
        throws
    {
        let pipe = LinkPipe.linkedPair()
        pipe.run(for: .seconds(1))
        for _ in 0..<200 { try pipe.send([UInt8](repeating: 1, count: 1000), from: 1, to: 0) }
        let datagram = try pipe.forge([2, 0, 0], from: 0, to: 1)
        pipe.sent.removeAll()
        pipe.inject(datagram, into: 1, from: stranger)
        pipe.run(for: .seconds(2))
        let toStranger = pipe.sent.filter { $0.to == stranger }
        #expect(!toStranger.isEmpty)
        #expect(toStranger.map(\.bytes.count).reduce(0, +) <= 3 * datagram.count)
        pipe.run(for: .seconds(5))
        #expect(pipe.link(1, 0)?.path.address == pipe.nodes[0].address)
        #expect(pipe.nodes[1].moved.isEmpty)
        #expect(pipe.nodes[0].messages.count == 200)
    }

    @Test func `AB-56 forged closing, of any type and index, ends nothing`() throws {
        let pipe = LinkPipe.linkedPair()
        let index = try #require(pipe.link(1, 0)?.generations.first?.localIndex)
        for type in 0...255 as ClosedRange<UInt8> {
            for size in [16, 56, 64, 96, 352] {
                var bytes: [UInt8] = [type, 0, 0, 0]
                bytes.appendInteger(index)
                bytes += [UInt8](repeating: 0, count: max(0, size - 8))
                #expect(pipe.inject(bytes, into: 1, from: pipe.nodes[0].address).isEmpty)
            }
        }
        #expect(pipe.isLinked(1, 0))
        #expect(pipe.nodes[1].lost.isEmpty)
    }

    @Test func `AB-03 AB-06 an unknown frame below 0x80 closes the link, one above is skipped`() throws {
        for type in [0x09, 0x40, 0x7f, 0x80, 0xff] as [UInt8] {
            let pipe = LinkPipe.linkedPair()
            var frames: [UInt8] = [type, 1, 0, 9]
            MessageFrame.append(channel: 2, messageID: nil, payload: [1], to: &frames)
            pipe.inject(try pipe.forge(frames, from: 0, to: 1), into: 1, from: pipe.nodes[0].address)
            if type < 0x80 {
                #expect(pipe.nodes[1].lost.map(\.loss) == [.protocolViolation])
                pipe.run(for: .milliseconds(10))
                #expect(pipe.nodes[0].lost.map(\.loss) == [.closedByPeer])
            } else {
                #expect(pipe.nodes[1].messages.count == 1)
                #expect(pipe.nodes[1].table.statistics.skippedFrames == 1)
            }
        }
    }

    @Test func `AB-04 every frame in every state gives a decision and no trap`() throws {
        var fragment = LinkPipe.fragment(id: 3, slot: 0, total: 5, data: [1, 2, 3, 4, 5])
        fragment += fragment
        let close: [UInt8] = [3, 1, 0, 0]
        for frames in [close, close + close, [5, 8, 0, 1, 1, 1, 1, 1, 1, 1, 1], [6, 0, 0], fragment] {
            let pipe = LinkPipe.linkedPair()
            let bytes = try pipe.forge(frames, from: 0, to: 1)
            pipe.inject(bytes, into: 1, from: pipe.nodes[0].address)
            pipe.inject(bytes, into: 1, from: pipe.nodes[0].address)
            try pipe.send([1], from: 0, to: 1)
            pipe.run(for: .seconds(1))
            #expect(pipe.isLinked(1, 0) == (frames.first != 3))
        }
    }

    @Test func `AB-62 acknowledging what was never sent, skipped, or far ahead closes the link`() throws {
        for offset in [0, 1, 1000, 1 << 40] as [UInt64] {
            let pipe = LinkPipe.linkedPair()
            let link = try #require(pipe.link(0, 1))
            let next = try #require(pipe.link(1, 0).map { $0.generations[$0.current].nextCounter })
            let frames = acknowledgement(link, [(next + offset)...(next + offset)])
            pipe.inject(try pipe.forge(frames, from: 0, to: 1), into: 1, from: pipe.nodes[0].address)
            #expect(pipe.nodes[1].lost.map(\.loss) == [.protocolViolation])
        }
    }

    @Test func `AB-62 a skipped counter is a trap for whoever acknowledges it`() throws {
        var configuration = LinkConfiguration()
        configuration.counterSkipInterval = 8
        let pipe = LinkPipe.linkedPair(configuration: configuration)
        // Node 0 receives nothing, so it settles nothing itself.
        pipe.tap = { flight in flight.to == pipe.nodes[0].address ? nil : flight }
        for _ in 0..<100 { try pipe.send([1], from: 1, to: 0, priority: .command, reliable: false); pipe.flush(1) }
        let link = try #require(pipe.link(0, 1))
        let next = try #require(pipe.link(1, 0).map { $0.generations[$0.current].nextCounter })
        pipe.inject(
            try pipe.forge(acknowledgement(link, [0...(next - 1)]), from: 0, to: 1), into: 1,
            from: pipe.nodes[0].address)
        #expect(pipe.nodes[1].lost.map(\.loss) == [.protocolViolation])
    }

    @Test func `AB-31 AB-38 AB-30 floods of challenges and pings are answered by few datagrams`() throws {
        let pipe = LinkPipe.linkedPair()
        pipe.run(for: .seconds(1))
        var frames: [UInt8] = []
        for number in 0..<100 as Range<UInt64> {
            Frame.appendPathChallenge(number, to: &frames)
            Frame.appendPing(to: &frames)
        }
        pipe.sent.removeAll()
        pipe.inject(try pipe.forge(frames, from: 0, to: 1), into: 1, from: pipe.nodes[0].address)
        #expect(pipe.sent.count <= 9)
        #expect(pipe.nodes[1].table.statistics.ignoredPathChallenges == 92)
    }

    @Test func `AB-27 control frames by the thousand leave nothing behind`() throws {
        let pipe = LinkPipe.linkedPair()
        pipe.run(for: .seconds(1))
        for number in 0..<200 {
            let frames = LinkPipe.fragment(
                id: UInt64(number), slot: 3200, total: 262_144, data: [UInt8](repeating: 1, count: 1024))
            pipe.inject(try pipe.forge(frames + [2, 0, 0], from: 0, to: 1), into: 1, from: pipe.nodes[0].address)
        }
        let link = try #require(pipe.link(1, 0))
        #expect(link.reassembler.openCount == 64)
        #expect(link.pathResponses.isEmpty)
        #expect(link.generations[link.current].acknowledgements.ranges.count <= 64)
    }

    @Test func `AB-24 AB-25 contradicting fragments deliver nothing`() throws {
        let pipe = LinkPipe.linkedPair()
        let slot = [UInt8](repeating: 1, count: 1024)
        let frames =
            LinkPipe.fragment(id: 1, slot: 0, total: 2048, data: slot)
            + LinkPipe.fragment(id: 1, slot: 0, total: 2048, data: [UInt8](repeating: 2, count: 1024))
            + LinkPipe.fragment(id: 1, slot: 16, total: 2048, data: slot)
        pipe.inject(try pipe.forge(frames, from: 0, to: 1), into: 1, from: pipe.nodes[0].address)
        #expect(pipe.nodes[1].messages.isEmpty)
        #expect(pipe.nodes[1].table.statistics.refusedFragments == 1)
    }

    @Test func `AB-58 a message is the link's peer's, whatever its bytes say`() throws {
        let pipe = LinkPipe.linkedPair()
        try pipe.send(LinkPipe.identity(7).peerID.bytes, from: 0, to: 1)
        pipe.run(for: .seconds(1))
        #expect(pipe.nodes[1].messages.map(\.from) == [pipe.nodes[0].peerID])
    }

    @Test func `AB-70 the channel is inside the sealed bytes, and an unknown one delivers nothing`() throws {
        let pipe = LinkPipe.linkedPair()
        for channel in Channel.allCases { try pipe.send([channel.rawValue], from: 0, to: 1, channel: channel) }
        pipe.run(for: .seconds(1))
        #expect(pipe.nodes[1].messages.allSatisfy { $0.payload == [$0.channel.rawValue] })
        #expect(pipe.nodes[1].messages.count == 4)
        var frames: [UInt8] = []
        MessageFrame.append(channel: 99, messageID: nil, payload: [1], to: &frames)
        let forged = try pipe.forge(frames, from: 0, to: 1)
        for offset in 16..<forged.count {
            var changed = forged
            changed[offset] ^= 1
            pipe.inject(changed, into: 1, from: pipe.nodes[0].address)
        }
        pipe.inject(forged, into: 1, from: pipe.nodes[0].address)
        #expect(pipe.nodes[1].messages.count == 4)
        #expect(pipe.nodes[1].table.statistics.unknownChannels == 1)
    }

    @Test func `AB-90 padding is zero after long messages too`() throws {
        let pipe = LinkPipe.linkedPair()
        try pipe.send([UInt8](repeating: 0xee, count: 1000), from: 0, to: 1, reliable: false)
        pipe.flush(0)
        try pipe.send([0xaa], from: 0, to: 1, reliable: false)
        pipe.sent.removeAll()
        var receiver = pipe.nodes[1].table
        pipe.flush(0)
        let flight = try #require(pipe.sent.first)
        // Opened with the receiver's own keys, on a copy of it.
        let slot = try #require(receiver.slot(of: pipe.nodes[0].peerID))
        var link = try #require(receiver.links[slot])
        receiver.links[slot] = nil
        var bytes = flight.bytes
        let header = try DataHeader(decoding: bytes.span)
        var span = bytes.mutableSpan
        let opening = link.generations[link.current].open(&span, counter: header.counter)
        guard case .opened = opening else {
            Issue.record("did not open")
            return
        }
        let plain = Array(bytes[16..<(bytes.count - 16)])
        let end = try #require(plain.lastIndex(of: 0xaa))
        // Behind an unreliable message stands the PING that asks for its fate: one type byte and an empty body.
        let afterPing = end + 1 + FrameType.headerBytes
        #expect(Array(plain[(end + 1)..<afterPing]) == [FrameType.ping.rawValue, 0, 0])
        #expect(plain[afterPing...].allSatisfy { $0 == 0 })
        #expect(!plain.contains(0xee))
        #expect(plain.count.isMultiple(of: 16))
    }
}
