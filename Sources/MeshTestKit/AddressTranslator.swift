import MeshBase

/// An address translator (NAT) before one host: maps the host's socket to outer ports, and lets in only what its kind
/// allows. A mapping that carries nothing outward for a minute is forgotten.
public struct AddressTranslator: Sendable {
    public enum Kind: String, Sendable, CaseIterable {
        /// One outer port for a socket; everybody gets in by it.
        case fullCone
        /// One outer port; only hosts that were sent something get in.
        case addressRestricted
        /// One outer port; only sockets that were sent something get in.
        case portRestricted
        /// Another outer port for each destination, by which only that gets in.
        case symmetric
    }

    private struct Mapping: Sendable {
        var inner: SocketAddress
        /// `nil` but for the kind that maps each destination apart.
        var destination: SocketAddress?
        var lastSentAt: Int64
        /// Who was sent something, and when, nanoseconds.
        var permitted: [SocketAddress: Int64] = [:]
    }

    public let kind: Kind
    private let host: Int
    private var mappings: [UInt16: Mapping] = [:]
    private var nextPort: UInt16 = 20_000

    private static let life: Int64 = 60_000_000_000

    public init(kind: Kind, host: Int) {
        self.kind = kind
        self.host = host
    }

    /// What the host calls itself.
    public static func innerAddress(ofHost host: Int, port: UInt16) -> SocketAddress {
        .ipv4(192, 168, UInt8(truncatingIfNeeded: host + 1), 2, port: port)
    }

    /// Where a datagram comes from, as its destination sees it.
    mutating func outward(from inner: SocketAddress, to destination: SocketAddress, at now: Int64) -> SocketAddress {
        let apart = kind == .symmetric ? destination : nil
        let known = mappings.keys.sorted().first { port in
            guard let mapping = mappings[port] else { return false }
            return mapping.inner == inner && mapping.destination == apart && now - mapping.lastSentAt < Self.life
        }
        let port = known ?? freshPort()
        var mapping = mappings[port] ?? Mapping(inner: inner, destination: apart, lastSentAt: now)
        mapping.lastSentAt = now
        mapping.permitted[destination] = now
        mappings[port] = mapping
        return inner.with(port: port)
    }

    private mutating func freshPort() -> UInt16 {
        defer { nextPort &+= 1 }
        return nextPort
    }

    /// The host's own socket that a datagram is for; `nil` when it does not get in.
    func inward(from source: SocketAddress, to outer: SocketAddress, at now: Int64) -> SocketAddress? {
        guard let mapping = mappings[outer.port], now - mapping.lastSentAt < Self.life else { return nil }
        let isLetIn =
            switch kind {
            case .fullCone: true
            case .addressRestricted:
                mapping.permitted.contains {
                    $0.key.with(port: 1) == source.with(port: 1) && now - $0.value < Self.life
                }
            case .portRestricted, .symmetric: now - (mapping.permitted[source] ?? .min / 2) < Self.life
            }
        return isLetIn ? mapping.inner : nil
    }

    mutating func forget() { mappings.removeAll() }
}
