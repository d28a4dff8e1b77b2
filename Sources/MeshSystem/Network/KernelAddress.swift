import CMeshSystem
import MeshBase

extension SocketAddress {
    /// `nil` for families other than IPv4 and IPv6.
    init?(_ kernel: mesh_address) {
        guard let family = Family(rawValue: kernel.family) else { return nil }
        self.init(family: family, high: kernel.high, low: kernel.low, port: kernel.port, scope: kernel.scope)
    }

    var kernel: mesh_address {
        mesh_address(high: words.high, low: words.low, scope: scope, port: port, family: family.rawValue)
    }

    static func unspecified(_ family: Family, port: UInt16) -> SocketAddress {
        SocketAddress(family: family, high: 0, low: 0, port: port)
    }
}
