/// An IPv4 or IPv6 address with its UDP port; IPv6 link-local addresses carry the interface index as scope.
///
/// Pure: parsing and printing of numeric forms only, never a name look-up.
public struct SocketAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
    public enum Family: UInt8, Sendable, Hashable {
        case ipv4 = 4
        case ipv6 = 6
    }

    public let family: Family
    /// 4 or 16 bytes in network order; IPv4 uses the first four.
    let storage: Bytes16
    public let port: UInt16
    /// Interface index of a link-local IPv6 address, else zero. Meaningful on this machine only.
    public let scope: UInt32

    /// `nil` unless the byte count fits the family.
    public init?(family: Family, address: some Collection<UInt8>, port: UInt16, scope: UInt32 = 0) {
        guard address.count == (family == .ipv4 ? 4 : 16) else { return nil }
        let padded = Array(address) + [UInt8](repeating: 0, count: 16 - address.count)
        guard let storage = Bytes16(padded) else { return nil }
        self.family = family
        self.storage = storage
        self.port = port
        self.scope = family == .ipv6 ? scope : 0
    }

    public static func ipv4(_ a: UInt8, _ b: UInt8, _ c: UInt8, _ d: UInt8, port: UInt16) -> SocketAddress {
        let word = UInt64(a) << 56 | UInt64(b) << 48 | UInt64(c) << 40 | UInt64(d) << 32
        return SocketAddress(family: .ipv4, storage: Bytes16(high: word, low: 0), port: port, scope: 0)
    }

    public static func loopback(port: UInt16) -> SocketAddress { .ipv4(127, 0, 0, 1, port: port) }

    private init(family: Family, storage: Bytes16, port: UInt16, scope: UInt32) {
        self.family = family
        self.storage = storage
        self.port = port
        self.scope = scope
    }

    /// From the address as two big-endian words, IPv4 in the upper half of `high`: the form in which system calls give
    /// addresses, without an array in between.
    public init(family: Family, high: UInt64, low: UInt64, port: UInt16, scope: UInt32 = 0) {
        let storage = family == .ipv4 ? Bytes16(high: (high >> 32) << 32, low: 0) : Bytes16(high: high, low: low)
        self.init(family: family, storage: storage, port: port, scope: family == .ipv6 ? scope : 0)
    }

    /// The address as two big-endian words, IPv4 in the upper half of the first.
    public var words: (high: UInt64, low: UInt64) { (storage.high, storage.low) }

    /// 4 or 16 bytes in network order.
    public var addressBytes: [UInt8] { family == .ipv4 ? Array(storage.bytes.prefix(4)) : storage.bytes }

    public func with(port: UInt16) -> SocketAddress {
        SocketAddress(family: family, storage: storage, port: port, scope: scope)
    }

    public func with(scope: UInt32) -> SocketAddress {
        SocketAddress(family: family, storage: storage, port: port, scope: family == .ipv6 ? scope : 0)
    }

    public var isLoopback: Bool {
        family == .ipv4 ? storage.high >> 56 == 127 : storage.high == 0 && storage.low == 1
    }

    /// 0.0.0.0 or ::, which is never advertised and never dialled.
    public var isUnspecified: Bool { storage == .zero }

    public var isLinkLocal: Bool {
        family == .ipv4 ? storage.high >> 48 == 0xa9fe : storage.high >> 54 == 0x3fa
    }

    public var isMulticast: Bool {
        family == .ipv4 ? storage.high >> 60 == 0xe : storage.high >> 56 == 0xff
    }

    /// The upper half of 100::/64, whose traffic every router discards (RFC 6666).
    public static let discardPrefix: UInt64 = 0x0100_0000_0000_0000

    /// In 100::/64: nobody's address. Used inside one process for paths that are no addresses of the network.
    public var isDiscardOnly: Bool { family == .ipv6 && storage.high == Self.discardPrefix }

    /// An address that can be one peer's own: not unspecified, not multicast, not broadcast, not discarded by every
    /// router, port not zero.
    public var isDialable: Bool {
        port != 0 && !isUnspecified && !isMulticast && !(family == .ipv4 && storage.high >> 32 == 0xffff_ffff)
            && !isDiscardOnly
    }

    /// The network an address belongs to, for rate limits: /24 of IPv4, /56 of IPv6.
    public var networkPrefix: UInt64 {
        family == .ipv4 ? storage.high >> 40 | 1 << 63 : storage.high >> 8
    }

    public static func < (left: SocketAddress, right: SocketAddress) -> Bool {
        (left.family.rawValue, left.storage, left.port, left.scope)
            < (right.family.rawValue, right.storage, right.port, right.scope)
    }

    public var description: String {
        family == .ipv4 ? "\(hostDescription):\(port)" : "[\(hostDescription)]:\(port)"
    }

    /// The address without its port, IPv6 in the shortest canonical form (RFC 5952).
    public var hostDescription: String {
        guard family == .ipv6 else { return addressBytes.map(String.init).joined(separator: ".") }
        let text = IPv6Text.format(storage.bytes)
        return scope == 0 ? text : "\(text)%\(scope)"
    }

    /// Reads `192.0.2.1:47800` or `[2001:db8::1]:47800`; without a port, `defaultPort`. `nil` for names and nonsense:
    /// no signs, no leading zeros in IPv4 (which elsewhere mean octal), no digits but ASCII's.
    public init?(_ text: some StringProtocol, defaultPort: UInt16 = 0) {
        var host = String(text)
        var port = defaultPort
        if host.hasPrefix("[") {
            guard let close = host.firstIndex(of: "]") else { return nil }
            let rest = host[host.index(after: close)...]
            if !rest.isEmpty {
                guard rest.first == ":", let parsed = parseDecimal(rest.dropFirst(), as: UInt16.self) else {
                    return nil
                }
                port = parsed
            }
            host = String(host[host.index(after: host.startIndex)..<close])
            guard host.contains(":") else { return nil }
        } else if host.filter({ $0 == ":" }).count == 1, let colon = host.firstIndex(of: ":") {
            guard let parsed = parseDecimal(host[host.index(after: colon)...], as: UInt16.self) else { return nil }
            port = parsed
            host = String(host[..<colon])
        }
        self.init(host: host, port: port)
    }

    private init?(host: String, port: UInt16) {
        if host.contains(":") {
            let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
            let scope = parts.count == 2 ? parseDecimal(parts[1], as: UInt32.self) : 0
            guard let scope, let bytes = IPv6Text.parse(parts[0]) else { return nil }
            self.init(family: .ipv6, address: bytes, port: port, scope: scope)
        } else {
            guard let bytes = parseIPv4(host) else { return nil }
            self.init(family: .ipv4, address: bytes, port: port)
        }
    }
}

/// ASCII digits only, at least one; `nil` beyond the type's range.
private func parseDecimal<Value: FixedWidthInteger>(_ text: some StringProtocol, as type: Value.Type) -> Value? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Value(text)
}

private func parseIPv4(_ text: some StringProtocol) -> [UInt8]? {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    let bytes = parts.compactMap { part in
        part.count > 1 && part.first == "0" ? nil : parseDecimal(part, as: UInt8.self)
    }
    return parts.count == 4 && bytes.count == 4 ? bytes : nil
}

/// Numeric IPv6 text, without the C library so that it works the same in every target.
enum IPv6Text {
    /// RFC 5952: lower case, the first longest run of two or more zero groups as "::", IPv4-mapped addresses dotted.
    static func format(_ bytes: [UInt8]) -> String {
        let groups = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
        if groups[..<5].allSatisfy({ $0 == 0 }), groups[5] == 0xffff {
            return "::ffff:" + bytes[12...].map(String.init).joined(separator: ".")
        }
        var best = 0..<0
        var start = 0
        while start < 8 {
            var end = start
            while end < 8, groups[end] == 0 { end += 1 }
            if end - start > best.count, end - start >= 2 { best = start..<end }
            start = max(end, start + 1)
        }
        let hexadecimal = { (range: Range<Int>) in groups[range].map { String($0, radix: 16) }.joined(separator: ":") }
        guard !best.isEmpty else { return hexadecimal(0..<8) }
        return hexadecimal(0..<best.lowerBound) + "::" + hexadecimal(best.upperBound..<8)
    }

    /// RFC 4291, section 2.2, in all its three forms.
    static func parse(_ text: some StringProtocol) -> [UInt8]? {
        let characters = String(text)
        guard let gap = characters.firstGap else {
            guard let groups = parseGroups(characters, mayEndInIPv4: true), groups.count == 8 else { return nil }
            return bytes(groups)
        }
        guard let head = parseGroups(gap.before, mayEndInIPv4: false),
            let tail = parseGroups(gap.after, mayEndInIPv4: true), head.count + tail.count <= 7
        else { return nil }
        return bytes(head + [UInt16](repeating: 0, count: 8 - head.count - tail.count) + tail)
    }

    private static func parseGroups(_ text: String, mayEndInIPv4: Bool) -> [UInt16]? {
        guard !text.isEmpty else { return [] }
        var parts = text.split(separator: ":", omittingEmptySubsequences: false)
        var dotted: [UInt16] = []
        if mayEndInIPv4, let last = parts.last, last.contains(".") {
            guard let bytes = parseIPv4(last) else { return nil }
            dotted = [UInt16(bytes[0]) << 8 | UInt16(bytes[1]), UInt16(bytes[2]) << 8 | UInt16(bytes[3])]
            parts.removeLast()
        }
        var output: [UInt16] = []
        for part in parts {
            guard (1...4).contains(part.utf8.count), part.allSatisfy(\.isHexDigit), let value = UInt16(part, radix: 16)
            else { return nil }
            output.append(value)
        }
        return output + dotted
    }

    private static func bytes(_ groups: [UInt16]) -> [UInt8] {
        groups.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
    }
}

extension String {
    /// What stands before and after the first "::".
    fileprivate var firstGap: (before: String, after: String)? {
        var previous: String.Index?
        for index in indices {
            if self[index] == ":", let earlier = previous, self[earlier] == ":" {
                return (String(self[..<earlier]), String(self[self.index(after: index)...]))
            }
            previous = index
        }
        return nil
    }
}
