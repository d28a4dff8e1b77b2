import MeshBase
import Testing

@Suite struct SocketAddressTests {
    @Test func `numeric addresses are read and shown in their canonical form`() throws {
        let forms = [
            "192.0.2.1:47800": "192.0.2.1:47800", "0.0.0.0:1": "0.0.0.0:1",
            "255.255.255.255:65535": "255.255.255.255:65535",
            "[2001:db8::1]:47800": "[2001:db8::1]:47800", "[::]:5": "[::]:5", "[::1]:5": "[::1]:5",
            "[2001:DB8:0:0:0:0:0:1]:5": "[2001:db8::1]:5", "[1:2:3:4:5:6:7::]:5": "[1:2:3:4:5:6:7:0]:5",
            "[1:0:0:4:0:0:0:8]:5": "[1:0:0:4::8]:5", "[0:0:3:4:5:6:0:0]:5": "[::3:4:5:6:0:0]:5",
            "[1:0:3:4:5:6:7:8]:5": "[1:0:3:4:5:6:7:8]:5", "[fe80::1%7]:5": "[fe80::1%7]:5",
            "[::ffff:192.0.2.1]:5": "[::ffff:192.0.2.1]:5", "[::ffff:c000:201]:5": "[::ffff:192.0.2.1]:5",
            "[64:ff9b::192.0.2.33]:5": "[64:ff9b::c000:221]:5", "[1:2:3:4:5:6:1.2.3.4]:5": "[1:2:3:4:5:6:102:304]:5",
        ]
        for (text, canonical) in forms {
            let address = try #require(SocketAddress(text), "\(text)")
            #expect(address.description == canonical)
            #expect(SocketAddress(address.description) == address)
        }
    }

    @Test func `without a port the default holds`() {
        #expect(SocketAddress("192.0.2.1", defaultPort: 9) == .ipv4(192, 0, 2, 1, port: 9))
        #expect(SocketAddress("[::1]", defaultPort: 9)?.port == 9)
        #expect(SocketAddress("::1", defaultPort: 9)?.port == 9)
        #expect(SocketAddress("fe80::1%3", defaultPort: 9)?.scope == 3)
    }

    @Test(arguments: [
        "", ":", "::", ":5", "localhost", "localhost:80", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.-4", "1.2.3.+4",
        "1..3.4", "01.2.3.4", "1.2.3.004", "0x1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:+5", "1.2.3.4:-1",
        "1.2.3.4: 5",
        "1.2.3.4:5:6", " 1.2.3.4", "1.2.3.4 ", "１.2.3.4", "1.2.3.٤", "[1.2.3.4]:5", "[", "[]", "[]:5", "[::1", "[::1]5",
        "[::1]:",
        "[::1]:65536", "[::1]:+5", "[:::]:5", "[::1::]:5", "[1:2:3:4:5:6:7:8:9]:5", "[1:2:3:4:5:6:7]:5",
        "[1:2:3:4:5:6:7:8::]:5", "[12345::]:5", "[g::]:5", "[-1::]:5", "[+1::]:5", "[ａ::]:5", "[fe80::1%]:5",
        "[fe80::1%eth0]:5",
        "[fe80::1%+3]:5", "[fe80::1%4294967296]:5", "[::1.2.3]:5", "[1.2.3.4::]:5", "[::1.2.3.4:5]:5", "[::1.2.3.04]:5",
    ])
    func `nonsense is not an address`(text: String) {
        // "::" alone is the unspecified address without a port, which is an address.
        #expect((SocketAddress(text) == nil) == (text != "::"))
    }

    @Test func `a hundred random addresses survive the way to text and back`() throws {
        var state: UInt64 = 1
        for _ in 0..<100 {
            let bytes = (0..<16).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                // Many zeros, so that runs of them occur.
                return state >> 62 == 0 ? UInt8(truncatingIfNeeded: state >> 40) : 0
            }
            let address = try #require(SocketAddress(family: .ipv6, address: bytes, port: 4, scope: 0))
            #expect(SocketAddress(address.description) == address, "\(address)")
            #expect(address.addressBytes == bytes)
        }
    }

    @Test func `the byte count must fit the family`() {
        for count in 0...17 {
            let bytes = [UInt8](repeating: 1, count: count)
            #expect((SocketAddress(family: .ipv4, address: bytes, port: 1) == nil) == (count != 4))
            #expect((SocketAddress(family: .ipv6, address: bytes, port: 1) == nil) == (count != 16))
        }
    }

    @Test func `AB-64 MEM-07 only an address that one peer can have is dialled`() throws {
        let cases = [
            ("192.0.2.1:5", true), ("127.0.0.1:5", true), ("[::1]:5", true), ("[fe80::1%2]:5", true),
            ("169.254.1.1:5", true),
            ("0.0.0.0:5", false), ("[::]:5", false), ("224.0.0.251:5", false), ("239.255.83.84:5", false),
            ("[ff02::5354]:5", false), ("255.255.255.255:5", false), ("192.0.2.1:0", false),
        ]
        for (text, isDialable) in cases {
            #expect(try #require(SocketAddress(text)).isDialable == isDialable, "\(text)")
        }
    }

    @Test func `loopback, link-local and multicast are recognised`() throws {
        let address = { (text: String) in try #require(SocketAddress(text)) }
        #expect(try address("127.9.9.9:1").isLoopback)
        #expect(try address("[::1]:1").isLoopback)
        #expect(try !address("[::2]:1").isLoopback)
        #expect(try address("169.254.0.1:1").isLinkLocal)
        #expect(try address("[fe80::1]:1").isLinkLocal)
        #expect(try address("[febf::1]:1").isLinkLocal)
        #expect(try !address("[fec0::1]:1").isLinkLocal)
        #expect(try !address("169.253.0.1:1").isLinkLocal)
        #expect(try address("[ff02::1]:1").isMulticast)
        #expect(try address("239.1.1.1:1").isMulticast)
        #expect(try !address("240.1.1.1:1").isMulticast)
    }

    @Test func `rate limits see /24 of IPv4 and /56 of IPv6`() throws {
        let prefix = { (text: String) in try #require(SocketAddress(text)).networkPrefix }
        #expect(try prefix("192.0.2.1:1") == prefix("192.0.2.200:9"))
        #expect(try prefix("192.0.2.1:1") != prefix("192.0.3.1:1"))
        #expect(try prefix("[2001:db8:1:ff01::1]:1") == prefix("[2001:db8:1:ffff::9]:1"))
        #expect(try prefix("[2001:db8:1:ff01::1]:1") != prefix("[2001:db8:1:fe01::1]:1"))
        #expect(try prefix("0.0.2.1:1") != prefix("[::2]:1"))
    }

    @Test func `a scope is kept for IPv6 alone`() {
        #expect(SocketAddress.loopback(port: 1).with(scope: 5).scope == 0)
        #expect(SocketAddress("[fe80::1]:1")?.with(scope: 5).description == "[fe80::1%5]:1")
        #expect(SocketAddress.loopback(port: 1).with(port: 9).port == 9)
    }

    @Test func `addresses are ordered by family, bytes, port and scope`() throws {
        let ordered = ["1.2.3.4:9", "1.2.3.5:1", "1.2.3.5:2", "200.0.0.1:1", "[::1]:1", "[fe80::1]:1", "[fe80::1%2]:1"]
        let addresses = try ordered.map { try #require(SocketAddress($0)) }
        #expect(addresses.reversed().sorted() == addresses)
    }
}
