import MeshBase

/// Names for paths through a member, in the shape of addresses: what handshakes, path validation and queues know of a
/// path is its address, and so they need not know of relays.
///
/// Such an address lies in 100::/64, which discards all traffic (RFC 6666): it means something inside this process only,
/// is never dialable, never told, and whatever comes from there over the network is dropped. Bounded: the oldest route
/// that no link uses is forgotten.
struct RelayRoutes: Sendable {
    /// `peer` by way of `relay`.
    struct Route: Hashable, Sendable {
        var peer: PeerID
        var relay: PeerID
    }

    private var routes: [UInt64: Route] = [:]
    private var handles: [Route: UInt64] = [:]
    private var nextHandle: UInt64 = 1

    static let maximumRoutes = 1024
    /// The port is of no meaning.
    private static let port: UInt16 = 1

    /// The address of a route, the same every time it is asked for.
    mutating func address(of route: Route) -> SocketAddress {
        if let handle = handles[route] { return Self.address(handle) }
        if routes.count >= Self.maximumRoutes, let oldest = routes.keys.min(), let route = routes[oldest] {
            routes[oldest] = nil
            handles[route] = nil
        }
        let handle = nextHandle
        nextHandle += 1
        routes[handle] = route
        handles[route] = handle
        return Self.address(handle)
    }

    var isInUse: Bool { !routes.isEmpty }

    func knownAddress(of route: Route) -> SocketAddress? { handles[route].map(Self.address) }

    mutating func forget(_ address: SocketAddress) {
        guard let route = route(address) else { return }
        routes[address.words.low] = nil
        handles[route] = nil
    }

    /// The known ways to a peer, the newest first.
    func routes(to peer: PeerID) -> [(route: Route, address: SocketAddress)] {
        routes.filter { $0.value.peer == peer }.sorted { $0.key > $1.key }.map { ($0.value, Self.address($0.key)) }
    }

    /// `nil` for an address of the network, and for a route that was forgotten.
    func route(_ address: SocketAddress) -> Route? {
        address.isDiscardOnly ? routes[address.words.low] : nil
    }

    private static func address(_ handle: UInt64) -> SocketAddress {
        SocketAddress(family: .ipv6, high: SocketAddress.discardPrefix, low: handle, port: port)
    }
}
