import MeshBase
import MeshWire
import Testing

@Suite struct FrameTests {
    private func frames(_ bytes: [UInt8]) throws(WireError) -> [Frame] {
        var position = 0
        var frames: [Frame] = []
        while let frame = try Frame.next(in: bytes.span, at: &position) { frames.append(frame) }
        return frames
    }

    private static let samples: [[UInt8]] = [
        {
            var bytes: [UInt8] = []
            AcknowledgementFrame.append(
                keyIndex: 0x0102_0304, delayMicroseconds: 5, ranges: [90...100, 70...80, 3...3], to: &bytes)
            return bytes
        }(),
        [2, 0, 0],
        [3, 1, 0, 7],
        [4, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8],
        [5, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8],
        [6, 0, 0],
        {
            var bytes: [UInt8] = []
            MessageFrame.append(channel: 2, messageID: 0x0807_0605_0403_0201, payload: [9, 9], to: &bytes)
            return bytes
        }(),
        {
            var bytes: [UInt8] = []
            FragmentFrame.append(
                messageID: 5, firstSlot: 1, totalBytes: 70, channel: 3, isReliable: true, data: [1, 2, 3, 4, 5, 6],
                to: &bytes)
            return bytes
        }(),
    ]

    @Test func `frames have these bytes`() throws {
        #expect(
            Self.samples[0] == [
                1, 37, 0, 4, 3, 2, 1, 5, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0, 3, 11, 0, 0, 0, 9, 0, 0, 0, 11, 0, 0, 0, 66,
                0, 0, 0, 1, 0, 0, 0,
            ])
        #expect(Self.samples[6] == [7, 12, 0, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9])
        #expect(
            Self.samples[7] == [
                8, 22, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 70, 0, 0, 0, 3, 1, 1, 2, 3, 4, 5, 6,
            ])
        var control: [UInt8] = []
        Frame.appendPing(to: &control)
        Frame.appendClose(7, to: &control)
        Frame.appendPathChallenge(0x0807_0605_0403_0201, to: &control)
        Frame.appendPathResponse(0x0807_0605_0403_0201, to: &control)
        Frame.appendMTUProbe(to: &control)
        #expect(control == Array(Self.samples[1...5].joined()))
    }

    @Test func `all frames of one datagram are read back in order and padding ends them`() throws {
        let bytes = Array(Self.samples.joined()) + [0, 0, 0, 0]

        let read = try frames(bytes)

        #expect(read.count == Self.samples.count)
        guard case .acknowledgement(let acknowledgement) = read[0], case .message(let message) = read[6],
            case .fragment(let fragment) = read[7]
        else {
            Issue.record("frames of another kind")
            return
        }
        #expect(acknowledgement.ranges == [90...100, 70...80, 3...3])
        #expect(Array(bytes[message.payload]) == [9, 9])
        #expect(Array(bytes[fragment.payload]) == [1, 2, 3, 4, 5, 6])
        #expect(fragment.offset == 64)
    }

    @Test func `AB-03 AB-06 unknown frames from 0x80 on are skipped by length, those below are errors`() throws {
        for type in 9...255 as ClosedRange<UInt8> {
            let bytes = [2, 0, 0, type, 2, 0, 0xff, 0xff, 2, 0, 0]
            if type >= 0x80 {
                #expect(try frames(bytes) == [.ping, .unknown(type), .ping])
            } else {
                #expect(throws: WireError.unknownType) { try frames(bytes) }
            }
        }
    }

    @Test func `AB-08 a frame whose body is shorter or longer than its type wants is an error`() {
        for sample in Self.samples {
            let body = sample.count - 3
            for length in 0..<body {
                var cut = Array(sample.prefix(3 + length))
                cut[1] = UInt8(length)
                let isVariable = sample[0] == 7 && length >= 10
                // A fragment may lose bytes of its data only in whole slots, so every cut is an error.
                if isVariable {
                    #expect(throws: Never.self) { try frames(cut) }
                } else {
                    #expect(throws: WireError.self) { try frames(cut) }
                }
            }
            guard sample[0] != 7, sample[0] != 8 else { continue }
            var long = sample + [0]
            long[1] = UInt8(body + 1)
            #expect(throws: WireError.self) { try frames(long) }
        }
    }

    @Test func `AB-01 AB-40 no bytes of any type and length trap or stand still`() {
        for type in 0...255 as ClosedRange<UInt8> {
            for count in 0...96 {
                var bytes = [UInt8](repeating: 0, count: count)
                if count > 0 { bytes[0] = type }
                #expect(everyStepMoves(in: bytes), "type \(type), \(count) bytes")
                // None of these is whole: the shortest handshake datagram is longer, and no cookie is of this size.
                #expect(throws: WireError.self) { try HandshakeDatagram(decoding: bytes.span) }
                if (try? DataHeader(decoding: bytes.span)) != nil {
                    #expect(type == DatagramType.data.rawValue && count >= WireLimits.dataHeaderBytes)
                }
                if (try? CookieDatagram(decoding: bytes.span)) != nil {
                    #expect(type == DatagramType.cookie.rawValue && count == CookieDatagram.byteCount)
                }
            }
        }
    }

    /// Whether reading frame after frame moves on by a header at least each time, never past the end, until the end or
    /// an error.
    private func everyStepMoves(in bytes: [UInt8]) -> Bool {
        var position = 0
        while true {
            let before = position
            guard let frame = try? Frame.next(in: bytes.span, at: &position) else { return position <= bytes.count }
            guard position >= before + FrameType.headerBytes, position <= bytes.count else { return false }
            if let payload = payload(of: frame), !(before..<position).contains(payload) { return false }
        }
    }

    /// Where the payload of a frame stands; it must lie within the frame.
    private func payload(of frame: Frame) -> Range<Int>? {
        switch frame {
        case .message(let message): message.payload
        case .fragment(let fragment): fragment.payload
        default: nil
        }
    }

    @Test func `AB-02 extreme values in every field give frames within the datagram or a typed error`() {
        let extremes: [UInt8] = [0, 1, 0x7f, 0x80, 0xff]
        var refused = 0
        for sample in Self.samples {
            for width in [1, 2, 4, 8] {
                for offset in 0..<sample.count where offset + width <= sample.count {
                    for value in extremes {
                        var bytes = sample
                        for index in offset..<(offset + width) { bytes[index] = value }
                        #expect(everyStepMoves(in: bytes), "\(bytes)")
                        do throws(WireError) { _ = try frames(bytes) } catch { refused += 1 }
                    }
                }
            }
            // A length beyond the end is refused whatever the type.
            var long = sample
            (long[1], long[2]) = (0xff, 0xff)
            #expect(throws: WireError.truncated) { try frames(long) }
        }
        #expect(refused > 500)
    }

    @Test func `an acknowledgement with ranges that overlap, touch or run below zero is an error`() throws {
        func acknowledgement(largest: UInt8, _ tail: [UInt32], count: UInt8) -> [UInt8] {
            var body: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, largest, 0, 0, 0, 0, 0, 0, 0, count]
            for value in tail { body.appendInteger(value) }
            return [1, UInt8(body.count), 0] + body
        }

        #expect(throws: Never.self) { try frames(acknowledgement(largest: 10, [11], count: 1)) }
        #expect(throws: WireError.invalidValue) { try frames(acknowledgement(largest: 10, [12], count: 1)) }
        #expect(throws: WireError.invalidValue) { try frames(acknowledgement(largest: 10, [0], count: 1)) }
        #expect(throws: WireError.invalidValue) { try frames(acknowledgement(largest: 10, [1, 0, 1], count: 2)) }
        #expect(throws: WireError.invalidValue) { try frames(acknowledgement(largest: 10, [1, 10, 1], count: 2)) }
        #expect(throws: Never.self) { try frames(acknowledgement(largest: 10, [1, 9, 1], count: 2)) }
        #expect(throws: WireError.limitExceeded) { try frames(acknowledgement(largest: 10, [], count: 0)) }
        #expect(throws: WireError.limitExceeded) { try frames(acknowledgement(largest: 10, [1], count: 65)) }
    }

    @Test func `AB-23 fragments without data and messages without bytes are errors`() {
        func fragment(total: UInt32, slot: UInt16, data: Int) -> [UInt8] {
            var body: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 0]
            body.appendInteger(slot)
            body.appendInteger(total)
            body += [1, 1] + [UInt8](repeating: 5, count: data)
            var bytes: [UInt8] = [8]
            bytes.appendInteger(UInt16(body.count))
            return bytes + body
        }

        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 0, slot: 0, data: 0)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 5, slot: 0, data: 0)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 0, slot: 0, data: 5)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 5, slot: 1, data: 1)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 1024, slot: 0, data: 1025)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: 1024, slot: 65535, data: 1)) }
        #expect(throws: WireError.invalidValue) { try frames(fragment(total: 3000, slot: 0, data: 1000)) }
        #expect(throws: Never.self) { try frames(fragment(total: 3000, slot: 16, data: 1976)) }
        let limit = UInt32(WireLimits.maximumLinkMessageBytes)
        #expect(throws: Never.self) { try frames(fragment(total: limit, slot: 0, data: 1024)) }
        #expect(throws: WireError.limitExceeded) { try frames(fragment(total: limit + 1, slot: 0, data: 1024)) }
    }
}

@Suite struct DatagramTests {
    @Test(arguments: [DatagramType.initiation, .response, .final])
    func `handshake datagrams have 352 bytes and every reserved one is checked`(type: DatagramType) throws {
        let noiseBytes = try #require(HandshakeDatagram.noiseByteCount(of: type))
        let datagram = HandshakeDatagram(
            type: type, senderIndex: 0x0403_0201, receiverIndex: type == .initiation ? 0 : 9,
            noise: [UInt8](repeating: 0xaa, count: noiseBytes))
        let bytes = datagram.bytesBeforeMACs + [UInt8](repeating: 0xbb, count: 32)

        #expect(bytes.count == 352)
        #expect(Array(bytes.prefix(8)) == [type.rawValue, 0, 0, 0, 1, 2, 3, 4])
        #expect(try HandshakeDatagram(decoding: bytes.span) == datagram)
        let reserved = Array(1..<4) + Array((type == .initiation ? 8 : 12)..<16) + Array((16 + noiseBytes)..<320)
        for offset in reserved {
            var changed = bytes
            changed[offset] = 1
            #expect(throws: WireError.invalidValue) { try HandshakeDatagram(decoding: changed.span) }
        }
        for count in 0..<352 {
            #expect(throws: WireError.truncated) { try HandshakeDatagram(decoding: Array(bytes.prefix(count)).span) }
        }
        #expect(throws: WireError.truncated) { try HandshakeDatagram(decoding: (bytes + [0]).span) }
    }

    @Test func `the header of DATA and the timing header have these bytes`() throws {
        var bytes: [UInt8] = []
        DataHeader(receiverIndex: 0x0403_0201, counter: 0x0807_0605_0403_0201).encode(into: &bytes)
        let header = TimingHeader(sendTime: 1, echoSendTime: -1, hold: 2, previousLateness: TimingHeader.unknown)
        header.encode(into: &bytes)

        #expect(Array(bytes.prefix(16)) == [4, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8])
        #expect(
            Array(bytes.suffix(24))
                == [1, 0, 0, 0, 0, 0, 0, 0] + [UInt8](repeating: 255, count: 8) + [2, 0, 0, 0, 255, 255, 255, 255])
        var position = 16
        #expect(try TimingHeader(decoding: bytes.span, at: &position) == header)
        bytes += [UInt8](repeating: 0, count: 16)
        #expect(try DataHeader(decoding: bytes.span).counter == 0x0807_0605_0403_0201)
        #expect(throws: WireError.truncated) { try DataHeader(decoding: Array(bytes.dropLast()).span) }
    }

    @Test func `a time field says unknown beyond four seconds and below zero`() {
        #expect(TimingHeader.field(.nanoseconds(5)) == 5)
        #expect(TimingHeader.field(.nanoseconds(-1)) == TimingHeader.unknown)
        #expect(TimingHeader.field(.nanoseconds(Int64(UInt32.max))) == TimingHeader.unknown)
        #expect(TimingHeader.field(.seconds(100)) == TimingHeader.unknown)
    }

    @Test func `AB-07 AB-11 a payload cut anywhere, its versions included, or out of its ranges is refused`() throws {
        let payload = HandshakePayload(
            node: PeerID(.zero), incarnation: Incarnation(7), minimumVersion: 1, maximumVersion: 2, flags: 0xfffe,
            capabilities: 0xffff_ffff, membershipHead: .zero, signature: [UInt8](repeating: 3, count: 64))
        let bytes = payload.encoded

        #expect(bytes.count == 160)
        #expect(try HandshakePayload(decoding: bytes.span) == payload)
        for count in 0..<160 {
            #expect(throws: WireError.truncated) { try HandshakePayload(decoding: Array(bytes.prefix(count)).span) }
        }
        #expect(throws: WireError.trailingBytes) { try HandshakePayload(decoding: (bytes + [0]).span) }
        var upsideDown = bytes
        upsideDown[40] = 3
        #expect(throws: WireError.invalidValue) { try HandshakePayload(decoding: upsideDown.span) }
        for offset in 128..<160 {
            var changed = bytes
            changed[offset] = 1
            #expect(throws: WireError.invalidValue) { try HandshakePayload(decoding: changed.span) }
        }
    }

    @Test func `AB-14 flags and capabilities that nobody defined are read and kept, and of a message refused`() throws {
        for bit in 0..<32 {
            let payload = HandshakePayload(
                node: PeerID(.zero), incarnation: Incarnation(7), minimumVersion: 1, maximumVersion: 1,
                flags: bit < 16 ? 1 << UInt16(bit) : 0, capabilities: 1 << UInt32(bit), membershipHead: .zero,
                signature: [UInt8](repeating: 3, count: 64))
            #expect(try HandshakePayload(decoding: payload.encoded.span) == payload)
        }
        for bit in 1..<8 {
            var bytes: [UInt8] = []
            MessageFrame.append(channel: 2, messageID: nil, payload: [1], to: &bytes)
            bytes[4] = 1 << UInt8(bit)
            var position = 0
            #expect(throws: WireError.invalidValue) { try Frame.next(in: bytes.span, at: &position) }
        }
    }

    @Test func `a cookie has 64 bytes`() throws {
        let cookie = CookieDatagram(
            receiverIndex: 1, nonce: [UInt8](repeating: 2, count: 24), sealedCookie: [UInt8](repeating: 3, count: 32))

        #expect(cookie.encoded.count == 64)
        #expect(try CookieDatagram(decoding: cookie.encoded.span) == cookie)
        #expect(throws: WireError.truncated) { try CookieDatagram(decoding: Array(cookie.encoded.dropLast()).span) }
    }
}
