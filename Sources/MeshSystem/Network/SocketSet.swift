import CMeshSystem
import Glibc
import MeshBase

/// One bound UDP socket.
struct BoundSocket {
    let descriptor: Int32
    /// What it is bound to, unspecified for all addresses of the family.
    let local: SocketAddress
    let sendsSegments: Bool
}

/// Opens a node's UDP sockets, all on one port: one per family, or one per address asked for.
enum SocketSet {
    /// Socket buffers, in bytes each way: 60 ms of 500 Mbit/s, so that a late turn loses nothing.
    static let bufferBytes: Int32 = 4 << 20

    static func open(_ options: TransportOptions) throws(SystemError) -> [BoundSocket] {
        if options.isPortExplicit || options.port == 0 { return try openExplicit(options) }
        let last = options.port.addingReportingOverflow(TransportOptions.portAttempts)
        let end = last.overflow ? UInt16.max : last.partialValue
        for port in options.port...end {
            switch attempt(options, port: port) {
            case .success(let sockets): return sockets
            case .failure(.portInUse): continue
            case .failure(let error): throw error
            }
        }
        throw .noFreePort(first: options.port, last: end)
    }

    private static func openExplicit(_ options: TransportOptions) throws(SystemError) -> [BoundSocket] {
        // A port the kernel chose for the first socket may be taken in the other family: then another.
        var attemptsLeft = options.port == 0 ? 16 : 1
        while true {
            attemptsLeft -= 1
            switch attempt(options, port: options.port) {
            case .success(let sockets): return sockets
            case .failure(.portInUse) where attemptsLeft > 0: continue
            case .failure(.portInUse(let port, _)):
                throw .portInUse(port: port, holder: PortHolder.find(port: port))
            case .failure(let error): throw error
            }
        }
    }

    /// All sockets on one port, or none.
    private static func attempt(_ options: TransportOptions, port: UInt16) -> Result<[BoundSocket], SystemError> {
        let isWildcard = options.bindAddresses.isEmpty
        let wanted = isWildcard ? [.unspecified(.ipv6, port: 0), .unspecified(.ipv4, port: 0)] : options.bindAddresses
        var sockets: [BoundSocket] = []
        var port = port
        var missingFamily: SystemError?
        for address in wanted {
            switch bind(address.with(port: port)) {
            case .success(let socket):
                sockets.append(socket)
                port = socket.local.port
            case .failure(.callFailed(_, let number)) where isWildcard && isMissingFamily(number):
                missingFamily = .callFailed(call: "socket", errorNumber: number)
            case .failure(let error):
                for socket in sockets { _ = mesh_close(socket.descriptor) }
                return .failure(error)
            }
        }
        if sockets.isEmpty { return .failure(missingFamily ?? .callFailed(call: "socket", errorNumber: EAFNOSUPPORT)) }
        return .success(sockets)
    }

    /// A machine without IPv6 (or IPv4) runs on the other alone.
    private static func isMissingFamily(_ number: Int32) -> Bool {
        number == EAFNOSUPPORT || number == EADDRNOTAVAIL
    }

    private static func bind(_ address: SocketAddress) -> Result<BoundSocket, SystemError> {
        var kernel = address.kernel
        var sendsSegments: Int32 = 0
        let descriptor = unsafe mesh_datagram_open(&kernel, bufferBytes, &sendsSegments)
        guard descriptor >= 0 else { return .failure(refusal(-descriptor, of: address)) }
        var local = mesh_address()
        _ = unsafe mesh_socket_address(descriptor, &local)
        let bound = SocketAddress(local) ?? address
        return .success(BoundSocket(descriptor: descriptor, local: bound, sendsSegments: sendsSegments != 0))
    }

    private static func refusal(_ number: Int32, of address: SocketAddress) -> SystemError {
        switch number {
        case EADDRINUSE: .portInUse(port: address.port, holder: nil)
        case EACCES where address.port != 0 && address.port < 1024: .portForbidden(port: address.port)
        case EADDRNOTAVAIL where !address.isUnspecified: .addressUnavailable(address)
        default: .callFailed(call: "bind", errorNumber: number)
        }
    }
}
