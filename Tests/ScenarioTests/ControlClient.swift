import Foundation
import Glibc

/// Raw requests on a node's control socket, for what the command itself would never send.
enum ControlClient {
    /// Sends the bytes, ends its own side, and reads the answer until the node closes or `seconds` are over.
    static func exchange(_ bytes: [UInt8], socket path: String, seconds: Int = 5) -> [Document] {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { room in
            unsafe room.copyBytes(from: path.utf8.prefix(room.count - 1))
        }
        let connected = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { return [] }
        _ = unsafe bytes.withUnsafeBytes {
            unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        shutdown(descriptor, Int32(SHUT_WR))
        var answer: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe recv(descriptor, &block, block.count, 0)
            guard count > 0 else { break }
            answer += block.prefix(count)
        }
        return Document.lines(String(decoding: answer, as: UTF8.self))
    }

    static func exchange(_ line: String, socket path: String, seconds: Int = 5) -> [Document] {
        exchange(Array((line + "\n").utf8), socket: path, seconds: seconds)
    }
}

extension RunningNode {
    var socketPath: String { household.directory.appending(path: "run/starling/\(name).sock").path }

    func request(_ line: String) -> [Document] { ControlClient.exchange(line, socket: socketPath) }

    /// A counter of the node, by its name in `metrics`.
    func counter(_ name: String) -> Int {
        request(#"{"verb":"metrics"}"#).first?["counters"][name].integer ?? 0
    }
}
