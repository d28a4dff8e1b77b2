import MeshBase
import MeshCrypto
import MeshWire

/// Cookies of a responder under load: a MAC of the source under a secret that changes every two minutes. Proves that
/// whoever asks receives at the address it asks from; costs no memory per source.
struct CookieMint: Sendable {
    private var key: SecretBytes
    private var previousKey: SecretBytes?
    private var madeAt: HostTime = .distantPast
    private let life: TimeSpan

    init(life: TimeSpan, random: inout RandomStream) {
        self.life = life
        key = random.secret()
    }

    private mutating func renew(at now: HostTime, random: inout RandomStream) {
        guard madeAt != .distantPast else {
            madeAt = now
            return
        }
        let age = now - madeAt
        guard age >= life else { return }
        previousKey = age < life * 2 ? key : nil
        key = random.secret()
        madeAt = now
    }

    private static func cookie(for source: SocketAddress, key: SecretBytes) -> Bytes16 {
        var writer = ByteWriter(reserving: 32)
        writer.write(source)
        writer.write(source.scope)
        return Digest.mac16(writer.bytes.span, key: key)
    }

    /// The COOKIE datagram that answers `datagram` from `source`.
    mutating func answer(
        to datagram: Span<UInt8>, senderIndex: UInt32, from source: SocketAddress, secret: GroupSecret,
        at now: HostTime,
        random: inout RandomStream
    ) -> [UInt8]? {
        renew(at: now, random: &random)
        let nonce = random.bytes(AuthenticatedCipher.extendedNonceByteCount)
        let cookie = Self.cookie(for: source, key: key).bytes
        do throws(CryptoError) {
            let sealed = try AuthenticatedCipher.sealExtended(
                cookie.span,
                associated: datagram.extracting(HandshakeDatagram.mac1Offset..<HandshakeDatagram.mac2Offset),
                nonce: nonce.span, key: secret.cookieKey)
            return CookieDatagram(receiverIndex: senderIndex, nonce: nonce, sealedCookie: sealed).encoded
        } catch {
            return nil
        }
    }

    /// Whether `mac2` of `datagram` was made with a cookie that `source` received in the last minutes.
    mutating func proves(
        _ datagram: Span<UInt8>, from source: SocketAddress, at now: HostTime, random: inout RandomStream
    ) -> Bool {
        renew(at: now, random: &random)
        let mac2 = datagram.extracting(HandshakeDatagram.mac2Offset..<datagram.count)
        let covered = datagram.extracting(0..<HandshakeDatagram.mac2Offset)
        for key in [key, previousKey] {
            guard let key else { continue }
            let cookie = SecretBytes(copying: Self.cookie(for: source, key: key).bytes)
            if Digest.verify(mac: mac2, of: covered, key: cookie) { return true }
        }
        return false
    }
}
