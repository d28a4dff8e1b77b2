import MeshBase
import MeshWire

/// Where linked members see this node's datagrams come from, and what that says about the address translation between.
///
/// Every member is a mirror for every other. An observation counts while the link to its observer lives, and two
/// minutes longer: a translator forgets a mapping that carries nothing after as little as 30 s, but the mapping may be
/// kept alive by other links. What members say is a hint: it adds addresses to try, four at most, and never takes an
/// attempt away.
struct ReflectedAddresses: Sendable {
    private struct Observation: Sendable {
        var address: SocketAddress
        var at: HostTime
        /// `nil` while the link to the observer lives.
        var endsAt: HostTime?
    }

    private var observations: [PeerID: Observation] = [:]

    /// Told to others; the rest is only counted for the kind of mapping.
    static let maximumAddresses = 4
    static let afterlife = TimeSpan.seconds(120 as Int64)

    /// Takes what `observer` sees. True when that differs from what it saw before.
    mutating func note(_ address: SocketAddress, from observer: PeerID, at now: HostTime) -> Bool {
        let address = address.with(scope: 0)
        let isNews = observations[observer]?.address != address
        observations[observer] = Observation(address: address, at: isNews ? now : observations[observer]?.at ?? now)
        return isNews
    }

    mutating func linkLost(_ observer: PeerID, at now: HostTime) {
        observations[observer]?.endsAt = now + Self.afterlife
    }

    mutating func linkEstablished(_ observer: PeerID) { observations[observer]?.endsAt = nil }

    /// Addresses that were this machine's own until now: seen elsewhere, they are no translator's.
    mutating func forget(_ former: [SocketAddress]) {
        observations = observations.filter { !former.contains($0.value.address) }
    }

    /// True when something was forgotten.
    mutating func expire(at now: HostTime) -> Bool {
        let before = observations.count
        observations = observations.filter { !$0.value.endsAt.isDue(at: now) }
        return observations.count != before
    }

    var nextDeadline: HostTime? { observations.values.lazy.compactMap(\.endsAt).min() }

    /// Addresses beyond this machine's own at which others may reach it: those that most observers see first, then the
    /// newest.
    func addresses(besides local: [SocketAddress]) -> [SocketAddress] {
        var seen: [SocketAddress: (count: Int, at: HostTime)] = [:]
        for observation in observations.values where Self.isTranslated(observation.address, local: local) {
            let known = seen[observation.address]
            seen[observation.address] = ((known?.count ?? 0) + 1, max(known?.at ?? observation.at, observation.at))
        }
        let ordered = seen.sorted { left, right in
            (-left.value.count, -left.value.at.nanoseconds, left.key) < (
                -right.value.count, -right.value.at.nanoseconds, right.key
            )
        }
        return ordered.prefix(Self.maximumAddresses).map(\.key)
    }

    /// What the observations say of the translators around this node. Only observers that see one host are compared:
    /// those inside a network see other translators than those outside.
    func mapping(local: [SocketAddress]) -> AddressMapping {
        var ports: [SocketAddress: [UInt16]] = [:]
        var isSeenUntranslated = false
        for observation in observations.values {
            guard Self.isTranslated(observation.address, local: local) else {
                isSeenUntranslated = isSeenUntranslated || !observation.address.isLoopback
                continue
            }
            ports[observation.address.with(port: 1), default: []].append(observation.address.port)
        }
        if ports.isEmpty { return isSeenUntranslated ? .none : .unknown }
        if ports.values.contains(where: { Set($0).count > 1 }) { return .perDestination }
        return ports.values.contains { $0.count > 1 } ? .shared : .unknown
    }

    private static func isTranslated(_ address: SocketAddress, local: [SocketAddress]) -> Bool {
        guard address.isDialable, !address.isLoopback, !address.isLinkLocal else { return false }
        return !local.contains { $0.hasSameHost(as: address) && $0.port == address.port }
    }
}
