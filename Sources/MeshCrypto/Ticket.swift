import MeshBase

/// Why a text is not a usable invite. Nothing of the text is repeated.
public enum TicketError: Error, Hashable, Sendable {
    /// It does not begin with `starling:`: some other text.
    case notATicket
    /// Cut off, mistyped or altered: letters outside base32, too short, or the checksum does not fit.
    case damaged
    /// Undamaged, but of a version that this build does not know.
    case unsupportedVersion(UInt8)
    /// Undamaged, but it names an address nobody can have, or more than four.
    case invalidAddress
}

/// An invite: what a newcomer needs to find the mesh and to prove that it was let in.
///
/// ```
/// version u8 = 1 | flags u8 = 0 | mesh id 32 | join secret 32 | not after u64 | n u8 ≤ 4
///   | n × (family u8 4 or 6 | address 4 or 16 | port u16) | first 4 bytes of BLAKE2b-128 of all before
/// ```
/// Little-endian. As text: `starling:` and base32 without padding. Readers ignore unknown flags; whatever must not be
/// ignored raises the version. Whoever holds the text may enter: it is never logged, and its description hides it.
public struct Ticket: Sendable, CustomStringConvertible, CustomDebugStringConvertible {
    public static let scheme = "starling:"
    public static let maximumAddressCount = 4
    static let version: UInt8 = 1
    private static let checksumByteCount = 4
    /// Bytes of a ticket without addresses.
    private static let minimumByteCount = 1 + 1 + 32 + 32 + 8 + 1 + checksumByteCount
    /// Beyond this no text is looked at: room for four addresses many times over, and for later versions.
    private static let maximumTextByteCount = 4096

    public let meshID: MeshID
    /// 32 bytes.
    public let joinSecret: SecretBytes
    /// Seconds since 1970, zero for never. Advice for people only: no decision hangs on the wall clock.
    public let notAfterSeconds: UInt64
    /// Where members were when the ticket was made, at most four. A hint: discovery works without.
    public let addresses: [SocketAddress]

    /// `joinSecret`: 32 random bytes. Of `addresses` the first four that can be dialled are kept; an interface scope
    /// is left out, since it means nothing elsewhere.
    public init(meshID: MeshID, joinSecret: SecretBytes, notAfterSeconds: UInt64 = 0, addresses: [SocketAddress] = []) {
        precondition(joinSecret.count == 32, "a join secret has 32 bytes")
        self.meshID = meshID
        self.joinSecret = joinSecret
        self.notAfterSeconds = notAfterSeconds
        self.addresses = addresses.filter(\.isDialable).prefix(Self.maximumAddressCount).map { $0.with(scope: 0) }
    }

    /// Reads the text in either case; spaces and line breaks anywhere in it do no harm.
    public init(text: String) throws(TicketError) {
        let compact = text.utf8.filter { !Self.isSpace($0) }
        let scheme = Array(Self.scheme.utf8)
        guard compact.count >= scheme.count, zip(compact, scheme).allSatisfy({ Self.lowercased($0) == $1 }) else {
            throw .notATicket
        }
        guard compact.count <= Self.maximumTextByteCount else { throw .damaged }
        let letters = String(decoding: compact.dropFirst(scheme.count), as: UTF8.self)
        guard let bytes = Base32.decode(letters) else { throw .damaged }
        try self.init(bytes: bytes)
    }

    /// Which secret it carries, without revealing it.
    public var secretID: SecretID { SecretID(joinSecret.withBytes { Digest.hash16($0) }) }

    /// The lower-case form, to copy and paste. Reveals the secret.
    public var text: String { Self.scheme + Base32.encode(encodedBytes) }

    /// The same in upper case: a QR code holds it in its compact alphanumeric mode. Reveals the secret.
    public var upperCaseText: String { text.uppercased() }

    public var description: String { "Ticket(mesh \(meshID.shortDescription), \(addresses.count) addresses)" }
    public var debugDescription: String { description }

    // MARK: Bytes

    var encodedBytes: [UInt8] {
        var output: [UInt8] = [Self.version, 0]
        output += meshID.bytes
        joinSecret.withBytes { secret in for index in secret.indices { output.append(secret[index]) } }
        for offset in 0..<8 { output.append(UInt8(truncatingIfNeeded: notAfterSeconds >> UInt64(8 * offset))) }
        output.append(UInt8(addresses.count))
        for address in addresses {
            output.append(address.family.rawValue)
            output += address.addressBytes
            output += [UInt8(address.port & 0xff), UInt8(address.port >> 8)]
        }
        return output + Self.checksum(output[...])
    }

    init(bytes: [UInt8]) throws(TicketError) {
        // The checksum stands last in every version, so damage is told from novelty before anything else is read.
        guard bytes.count > Self.checksumByteCount + 1 else { throw .damaged }
        let content = bytes.dropLast(Self.checksumByteCount)
        guard Self.checksum(content).elementsEqual(bytes.suffix(Self.checksumByteCount)) else { throw .damaged }
        guard bytes[0] == Self.version else { throw .unsupportedVersion(bytes[0]) }
        guard bytes.count >= Self.minimumByteCount, let mesh = MeshID(bytes: content[2..<34]) else { throw .damaged }
        meshID = mesh
        joinSecret = SecretBytes(copying: Array(content[34..<66]))
        notAfterSeconds = (0..<8).reduce(0) { $0 | UInt64(content[66 + $1]) << UInt64(8 * $1) }
        addresses = try Self.readAddresses(content[75...], count: Int(content[74]))
    }

    private static func readAddresses(
        _ bytes: ArraySlice<UInt8>, count: Int
    ) throws(TicketError) -> [SocketAddress] {
        guard count <= maximumAddressCount else { throw .invalidAddress }
        var rest = bytes
        var output: [SocketAddress] = []
        for _ in 0..<count {
            guard let family = rest.popFirst().flatMap(SocketAddress.Family.init) else { throw .invalidAddress }
            let byteCount = family == .ipv4 ? 4 : 16
            guard rest.count >= byteCount + 2 else { throw .damaged }
            let host = rest.prefix(byteCount)
            let portBytes = Array(rest.dropFirst(byteCount).prefix(2))
            rest = rest.dropFirst(byteCount + 2)
            let port = UInt16(portBytes[0]) | UInt16(portBytes[1]) << 8
            guard let address = SocketAddress(family: family, address: host, port: port), address.isDialable else {
                throw .invalidAddress
            }
            output.append(address)
        }
        guard rest.isEmpty else { throw .damaged }
        return output
    }

    private static func checksum(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        Array(Digest.hash16(Array(bytes)).bytes.prefix(checksumByteCount))
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0d).contains(byte) }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5a).contains(byte) ? byte | 0x20 : byte }
}
