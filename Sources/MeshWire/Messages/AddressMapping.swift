/// How the address translators around a node map its one socket, as far as two or more observers could tell. Told in
/// the two lowest capability bits of its presence. For people and for the order of attempts; it never cancels one.
public enum AddressMapping: UInt32, Hashable, Sendable, CaseIterable {
    /// Fewer than two observers that could be compared.
    case unknown = 0
    /// Others see the node's own address.
    case none = 1
    /// One outer address whoever is spoken to: what one member sees, others can dial.
    case shared = 2
    /// Another outer port for each destination: what one member sees is of no use to others.
    case perDestination = 3

    static let mask: UInt32 = 3
}

extension PresenceRecord {
    /// What the node says of its own translators.
    public var mapping: AddressMapping {
        AddressMapping(rawValue: capabilities & AddressMapping.mask) ?? .unknown
    }
}

extension UInt32 {
    /// These capability bits with those of a mapping.
    public func with(_ mapping: AddressMapping) -> UInt32 { self & ~AddressMapping.mask | mapping.rawValue }
}
