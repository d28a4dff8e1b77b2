import MeshBase
import MeshCrypto
import MeshWire

/// Which addresses are told to others, and which of theirs are tried.
///
/// Loopback addresses mean "this machine" and nothing elsewhere. A node tells its loopback addresses only when it has
/// no others (it is bound to loopback), and tries a member's loopback addresses only when the member can be on this
/// machine: this node has no other addresses itself, or the record came over a link from this machine, or it names one
/// of this machine's own addresses. What a person typed or a ticket says is tried as it stands.
enum Paths {
    /// What goes into the presence record: dialable, without 0.0.0.0 and multicast, best first; at the end, with room
    /// kept for them, what other members see (`reflected`).
    static func advertised(_ local: [SocketAddress], reflected: [SocketAddress] = []) -> [SocketAddress] {
        let own = advertised(own: local)
        let outer = reflected.filter { !own.contains($0) }
        return Array(own.prefix(WireLimits.maximumPresenceAddresses - outer.count)) + outer
    }

    private static func advertised(own local: [SocketAddress]) -> [SocketAddress] {
        let dialable = unique(local.filter(\.isDialable))
        let remote = dialable.filter { !$0.isLoopback }
        let global = remote.filter { !$0.isLinkLocal }
        let best = !global.isEmpty ? global : !remote.isEmpty ? remote : dialable
        return Array(interleaved(best.map { $0.with(scope: 0) }).prefix(WireLimits.maximumPresenceAddresses))
    }

    /// The few of them that fit into a ticket, one that others see among them.
    static func forTicket(_ local: [SocketAddress], reflected: [SocketAddress] = []) -> [SocketAddress] {
        let outer = reflected.prefix(1)
        return Array(advertised(own: local).prefix(WireLimits.maximumTicketAddresses - outer.count)) + outer
    }

    /// Whether `address` is one of this machine's own.
    static func isThisHost(_ address: SocketAddress, local: [SocketAddress]) -> Bool {
        address.isLoopback || local.contains { $0.hasSameHost(as: address) }
    }

    /// Everything worth trying for one member, to be raced in one dial: where it was last linked from first.
    static func candidates(for entry: MemberList.Entry, local: [SocketAddress]) -> [SocketAddress] {
        let told = entry.presence?.addresses ?? []
        let hasOnlyLoopback = local.allSatisfy(\.isLoopback)
        let sharesHost =
            hasOnlyLoopback || entry.isToldFromThisHost
            || told.contains { address in !address.isLoopback && local.contains { $0.hasSameHost(as: address) } }
        let usable = told.filter { sharesHost || !$0.isLoopback }
        return dialable(entry.contacts + interleaved(usable, firstSixth: hasSixth(local)), local: local)
    }

    /// `addresses` without those nobody can answer at and those of this node; link-local ones once per interface.
    static func dialable(_ addresses: [SocketAddress], local: [SocketAddress]) -> [SocketAddress] {
        let scopes = linkLocalScopes(local)
        let ports = Set(local.map(\.port))
        var output: [SocketAddress] = []
        for address in addresses where address.isDialable {
            if local.contains(where: { $0.hasSameHost(as: address) && $0.port == address.port }) { continue }
            if address.isLoopback, ports.contains(address.port) { continue }
            if address.family == .ipv6, address.isLinkLocal, address.scope == 0 {
                output += scopes.map { address.with(scope: $0) }
            } else {
                output.append(address)
            }
        }
        return Array(unique(output).prefix(maximumCandidates))
    }

    static let maximumCandidates = 32

    /// Interfaces on which a link-local address can be tried; at most four.
    private static func linkLocalScopes(_ local: [SocketAddress]) -> [UInt32] {
        let scopes = Set(local.filter { $0.family == .ipv6 && $0.isLinkLocal && $0.scope != 0 }.map(\.scope))
        return Array(scopes.sorted().prefix(4))
    }

    /// IPv6 and IPv4 by turns, so that neither family starves the other, each in the order of its owner, who knows its
    /// interfaces. The first of a dial has a head start of 50 ms before the second: IPv6's, whose ways need no
    /// translators, unless this node has none itself.
    private static func interleaved(_ addresses: [SocketAddress], firstSixth: Bool = true) -> [SocketAddress] {
        let fourth = addresses.filter { $0.family == .ipv4 }
        let sixth = addresses.filter { $0.family == .ipv6 }
        let (first, second) = firstSixth ? (sixth, fourth) : (fourth, sixth)
        var output: [SocketAddress] = []
        for index in 0..<max(first.count, second.count) {
            if index < first.count { output.append(first[index]) }
            if index < second.count { output.append(second[index]) }
        }
        return output
    }

    /// This machine has an IPv6 address that others may answer to.
    private static func hasSixth(_ local: [SocketAddress]) -> Bool {
        local.contains { $0.family == .ipv6 && !$0.isLoopback && !$0.isLinkLocal }
    }

    private static func unique(_ addresses: [SocketAddress]) -> [SocketAddress] {
        var seen: Set<SocketAddress> = []
        return addresses.filter { seen.insert($0).inserted }
    }
}

extension SocketAddress {
    func hasSameHost(as other: SocketAddress) -> Bool {
        family == other.family && with(port: 0).with(scope: 0) == other.with(port: 0).with(scope: 0)
    }
}

/// When each member without a link is dialled next: every 2 s for half an hour, then every 30 s, for ever.
struct DialSchedule: Sendable {
    private struct Entry: Sendable {
        var nextAt: HostTime
        var lostSince: HostTime
    }

    private var entries: [PeerID: Entry] = [:]

    /// Starts trying `peer`; a schedule that runs already is only brought forward.
    mutating func start(_ peer: PeerID, at time: HostTime, lostSince: HostTime) {
        if let entry = entries[peer] {
            entries[peer]?.nextAt = min(entry.nextAt, time)
        } else {
            entries[peer] = Entry(nextAt: time, lostSince: lostSince)
        }
    }

    mutating func stop(_ peer: PeerID) { entries[peer] = nil }

    mutating func removeAll() { entries.removeAll() }

    func isRunning(_ peer: PeerID) -> Bool { entries[peer] != nil }

    /// Tries everybody at once, and eagerly again: the network has changed.
    mutating func bringForward(to now: HostTime) {
        for peer in entries.keys.sorted() { entries[peer] = Entry(nextAt: now, lostSince: now) }
    }

    /// Peers to dial now, ascending; each is scheduled for its next time.
    mutating func takeDue(
        at now: HostTime, configuration: SessionConfiguration, random: inout RandomStream
    ) -> [PeerID] {
        let due = entries.keys.filter { entries[$0]?.nextAt ?? .distantFuture <= now }.sorted()
        for peer in due {
            guard let entry = entries[peer] else { continue }
            let isEager = now - entry.lostSince < configuration.eagerRedialTime
            let interval = isEager ? configuration.redialInterval : configuration.slowRedialInterval
            entries[peer]?.nextAt = now + random.jittered(interval, spread: 0.1)
        }
        return due
    }

    /// Somebody was lost less than `span` ago.
    func hasLost(within span: TimeSpan, before now: HostTime) -> Bool {
        entries.values.contains { now - $0.lostSince < span }
    }

    var nextDeadline: HostTime? { entries.values.lazy.map(\.nextAt).min() }
}
