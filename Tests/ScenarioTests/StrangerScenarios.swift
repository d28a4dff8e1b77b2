import Foundation
import Glibc
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Strangers {
        /// The 43 first datagrams of other protocols.
        private static func foreign() throws -> [[UInt8]] {
            let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Vectors/abuse/foreign_datagrams.json")
            let document = try #require(Document(String(contentsOf: file, encoding: .utf8)))
            return document["datagrams"].list.compactMap { datagram in
                var bytes: [UInt8] = []
                var digits = (datagram["hex"].text ?? "")[...]
                while !digits.isEmpty {
                    guard let byte = UInt8(digits.prefix(2), radix: 16) else { return nil }
                    bytes.append(byte)
                    digits = digits.dropFirst(2)
                }
                return bytes
            }
        }

        /// Random ones, half of them with the first bytes of our own types and the right length.
        private static func junk(_ count: Int) -> [[UInt8]] {
            var random = SystemRandomNumberGenerator()
            return (0..<count).map { number in
                let isOurs = number % 2 == 0
                let size = isOurs && number % 4 == 0 ? 352 : Int.random(in: 0...1_400, using: &random)
                var bytes = (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
                if isOurs, size >= 4 { bytes.replaceSubrange(0..<4, with: [UInt8.random(in: 1...5), 0, 0, 0]) }
                return bytes
            }
        }

        @Test func `strangers get nothing back, and the mesh does not notice them`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let datagrams = try Self.foreign() + Self.junk(2_000)
            #expect(datagrams.count == 2_043)

            let descriptor = try #require(Self.connectedSocket(port: nodes[0].port))
            defer { close(descriptor) }
            var answers = 0
            for (number, datagram) in datagrams.enumerated() {
                _ = unsafe datagram.withUnsafeBytes {
                    unsafe send(descriptor, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT))
                }
                if number % 50 == 0 { try await Task.sleep(for: .milliseconds(2)) }
            }
            try await Task.sleep(for: .milliseconds(500))
            var block = [UInt8](repeating: 0, count: 65_536)
            while unsafe recv(descriptor, &block, block.count, Int32(MSG_DONTWAIT)) >= 0 { answers += 1 }

            #expect(answers == 0)
            try await household.eventually("ben is alive for ana") {
                try await nodes[0].peerStates() == ["ben": "alive"]
            }
            #expect(try await nodes[0].ask("send", "still here").exit == 0)
            try await household.eventually("ben hears ana") { try await nodes[1].inboxTexts() == ["still here"] }
        }

        private static func connectedSocket(port: Int) -> Int32? {
            let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(UInt16(truncatingIfNeeded: port).bigEndian)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            let connected = unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            return connected == 0 ? descriptor : nil
        }
    }
}
