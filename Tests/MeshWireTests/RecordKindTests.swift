import MeshBase
import MeshWire
import Testing

@Suite struct RecordKindTests {
    static let digest = Bytes32((0..<32).map { UInt8($0) }) ?? .zero
    static let secretID = SecretID(Bytes16((0..<16).map { UInt8(0xf0 + $0) }) ?? .zero)
    static let genesis = GenesisBody(nonce: digest, journalKey: .zero, label: "mésh")
    static let admit = AdmitBody(subject: PeerID(digest), secretID: secretID, name: "Zoë")
    static let invite = InviteBody(joinSecret: digest, lifetimeSeconds: 0x0102_0304_0506_0708)
    static let revoke = RevokeBody(secretID: secretID)
    static let added = AttachmentAddedBody(content: ContentID(digest), byteCount: .max, name: "a.mp4", note: "n")
    static let removed = AttachmentRemovedBody(attachment: RecordID(digest))

    @Test func `the bodies have the bytes of the specification`() {
        let (digest, secretID) = (Self.digest.bytes, Self.secretID.bytes)
        let zeros = [UInt8](repeating: 0, count: 32)
        #expect(Self.genesis.encoded == [1] + digest + zeros + [5, 0] + Array("mésh".utf8))
        #expect(Self.admit.encoded == [1] + digest + secretID + [4, 0] + Array("Zoë".utf8))
        #expect(Self.invite.encoded == [1] + digest + [8, 7, 6, 5, 4, 3, 2, 1])
        #expect(Self.revoke.encoded == [1] + secretID)
        #expect(
            Self.added.encoded == [1] + digest + [UInt8](repeating: 0xff, count: 8) + [5, 0] + Array("a.mp4".utf8)
                + [1, 0, 0x6e])
        #expect(Self.removed.encoded == [1] + digest)
    }

    @Test func `AB-08 each body is read back, and refused when cut, lengthened or of another version`() throws {
        try check(Self.genesis)
        try check(Self.admit)
        try check(Self.invite)
        try check(Self.revoke)
        try check(Self.added)
        try check(Self.removed)
    }

    @Test func `AB-09 texts hold their limit, and one byte more is refused`() throws {
        for count in [0, 63, 64, 65] {
            let text = String(repeating: "a", count: count)
            let isFine = count <= WireLimits.maximumNameBytes
            expectLimit(GenesisBody(nonce: .zero, journalKey: .zero, label: text), isFine: isFine)
            expectLimit(AdmitBody(subject: PeerID(.zero), secretID: Self.secretID, name: text), isFine: isFine)
        }
        for count in [1023, 1024, 1025] {
            let body = AttachmentAddedBody(
                content: ContentID(.zero), byteCount: 0, name: String(repeating: "a", count: count), note: "")
            expectLimit(body, isFine: count <= WireLimits.maximumAttachmentNameBytes)
        }
        for count in [4095, 4096, 4097] {
            let body = AttachmentAddedBody(
                content: ContentID(.zero), byteCount: 0, name: "", note: String(repeating: "a", count: count))
            expectLimit(body, isFine: count <= WireLimits.maximumNoteBytes)
        }
    }

    @Test func `text that is not UTF-8 is refused`() {
        var bytes = Self.admit.encoded
        bytes[bytes.count - 1] = 0xff
        #expect(throws: WireError.invalidText) { try AdmitBody(decoding: bytes) }
    }

    @Test func `the kinds keep their numbers`() {
        let kinds: [RecordKind] = [
            .genesis, .admit, .invite, .revoke, .remove, .epoch, .end, .attachmentAdded, .attachmentRemoved,
        ]
        #expect(kinds.map(\.rawValue) == [1, 2, 3, 4, 5, 6, 7, 16, 17])
    }

    private func check<Body: WireMessage>(_ body: Body) throws {
        let bytes = body.encoded
        #expect(try Body(decoding: bytes) == body)
        for count in 0..<bytes.count {
            #expect(throws: WireError.truncated) { try Body(decoding: Array(bytes.prefix(count))) }
        }
        #expect(throws: WireError.trailingBytes) { try Body(decoding: bytes + [0]) }
        // GENESIS alone has a second one.
        let known: Set<UInt8> = Body.self == GenesisBody.self ? [1, 2] : [1]
        for version in UInt8.min...UInt8.max where !known.contains(version) {
            #expect(throws: WireError.unsupportedVersion) { try Body(decoding: [version] + bytes.dropFirst()) }
        }
        expectOneForm(of: body)
    }

    /// A flipped bit gives an error or another value, whose bytes are exactly the flipped ones.
    private func expectOneForm<Body: WireMessage>(of body: Body) {
        let bytes = body.encoded
        for bit in 8..<(8 * bytes.count) {
            var altered = bytes
            altered[bit / 8] ^= 1 << UInt8(bit % 8)
            do {
                let other = try Body(decoding: altered)
                #expect(other != body)
                #expect(other.encoded == altered)
            } catch {
                #expect(error != .unsupportedVersion)
            }
        }
    }

    private func expectLimit<Body: WireMessage>(_ body: Body, isFine: Bool) {
        if isFine {
            #expect(throws: Never.self) { try Body(decoding: body.encoded) }
        } else {
            #expect(throws: WireError.limitExceeded) { try Body(decoding: body.encoded) }
        }
    }
}
