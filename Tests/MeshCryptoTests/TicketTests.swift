import MeshBase
import Testing

@testable import MeshCrypto

@Suite struct TicketTests {
    let mesh = MeshID(Digest.hash32(Array("mesh".utf8)))
    let addresses: [SocketAddress] = [
        .ipv4(192, 0, 2, 7, port: 47800), SocketAddress("[2001:db8::7]:47801") ?? .loopback(port: 1),
    ]

    @Test func `a ticket's bytes are those of the specification`() {
        let ticket = Ticket(
            meshID: mesh, joinSecret: sampleSecret(1), notAfterSeconds: 0x0102_0304_0506_0708, addresses: addresses)
        var expected: [UInt8] = [1, 0] + mesh.bytes + sampleBytes(32, from: 1) + [8, 7, 6, 5, 4, 3, 2, 1, 2]
        expected += [4, 192, 0, 2, 7, 0xb8, 0xba]
        expected += [6, 0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [7, 0xb9, 0xba]
        expected += Digest.hash16(expected).bytes.prefix(4)

        #expect(ticket.encodedBytes == expected)
        #expect(ticket.text == "starling:" + Base32.encode(expected))
        #expect(ticket.text == ticket.text.lowercased())
        #expect(ticket.upperCaseText.hasPrefix("STARLING:AE"))
    }

    @Test func `a ticket read back is the same, from either case and from mixed case`() throws {
        for addresses in [[], addresses, Array(repeating: addresses[1], count: 4)] {
            let ticket = Ticket(meshID: mesh, joinSecret: sampleSecret(1), notAfterSeconds: .max, addresses: addresses)
            let mixed = String(ticket.text.enumerated().map { $0.isMultiple(of: 3) ? Character($1.uppercased()) : $1 })
            for text in [ticket.text, ticket.upperCaseText, mixed] {
                let read = try Ticket(text: text)
                #expect(read.meshID == mesh)
                #expect(read.joinSecret.matches(sampleSecret(1)))
                #expect(read.notAfterSeconds == .max)
                #expect(read.addresses == addresses)
                #expect(read.secretID == GroupSecret(secret: sampleSecret(1)).id)
                #expect(read.text == ticket.text)
            }
        }
    }

    @Test func `a pasted ticket may be wrapped, indented and surrounded by blank lines`() throws {
        let text = sample.text
        let wrapped = text.enumerated().map { $0.isMultiple(of: 40) ? "\r\n\t \($1)" : "\($1)" }.joined()
        #expect(try Ticket(text: "\n\n  " + wrapped + " \r\n").text == text)
    }

    @Test func `a ticket cut off after any character is damaged, or no ticket at all`() {
        let text = sample.text
        for count in 0..<text.count {
            let expected: TicketError = count < Ticket.scheme.count ? .notATicket : .damaged
            #expect(throws: expected) { try Ticket(text: String(text.prefix(count))) }
        }
    }

    @Test func `a ticket with one or more characters too many is damaged`() {
        for letter in "a27zA" {
            for count in 1...8 {
                #expect(throws: TicketError.damaged) {
                    try Ticket(text: sample.text + String(repeating: letter, count: count))
                }
            }
        }
    }

    @Test func `every flipped bit of the text is refused, unless it only changes a letter's case`() throws {
        let text = sample.text
        var changesOfCase = 0
        for (index, byte) in text.utf8.enumerated() {
            for bit in 0..<7 {
                var altered = Array(text.utf8)
                altered[index] ^= 1 << UInt8(bit)
                let alteredText = String(decoding: altered, as: UTF8.self)
                if alteredText.lowercased() == text, byte != altered[index] {
                    #expect(try Ticket(text: alteredText).text == text)
                    changesOfCase += 1
                } else {
                    #expect(throws: TicketError.self) { try Ticket(text: alteredText) }
                }
            }
        }
        #expect(changesOfCase > 50)
    }

    @Test func `two swapped characters are noticed`() {
        let text = Array(sample.text)
        for index in Ticket.scheme.count..<(text.count - 1) where text[index] != text[index + 1] {
            var altered = text
            altered.swapAt(index, index + 1)
            #expect(throws: TicketError.damaged) { try Ticket(text: String(altered)) }
        }
    }

    @Test func `other text is told apart from a damaged ticket`() {
        for text in [
            "", " ", "hello", "https://example.org", "starling", "starlin:abc", "sparrow:abc", "ｓtarling:aa", "🐦",
        ] {
            #expect(throws: TicketError.notATicket, "\(text)") { try Ticket(text: text) }
        }
        for text in ["starling:", "starling:0189", "starling:ab=", "starling:äöü", "starling://aa", "Starling: \0"] {
            #expect(throws: TicketError.damaged, "\(text)") { try Ticket(text: text) }
        }
    }

    @Test func `a newer version is told apart from damage`() {
        var bytes = Array(sample.encodedBytes.dropLast(4))
        bytes[0] = 2
        #expect(throws: TicketError.unsupportedVersion(2)) { try Ticket(text: text(checksummed: bytes)) }
        #expect(throws: TicketError.unsupportedVersion(9)) { try Ticket(text: text(checksummed: [9, 1, 2, 3])) }
        bytes[0] = 0
        #expect(throws: TicketError.unsupportedVersion(0)) { try Ticket(text: text(checksummed: bytes)) }
    }

    @Test func `unknown flags are ignored`() throws {
        var bytes = Array(sample.encodedBytes.dropLast(4))
        bytes[1] = 0xff
        #expect(try Ticket(text: text(checksummed: bytes)).text == sample.text)
    }

    @Test func `AB-09 AB-10 every address count with too few or too many bytes is refused`() {
        let head = Array(sample.encodedBytes.prefix(74))
        for count in UInt8.min...UInt8.max {
            for tail in [
                [4], [4, 1, 2, 3, 4], [4, 1, 2, 3, 4, 5], [5, 1, 2, 3, 4, 5, 6], [UInt8](repeating: 6, count: 18),
            ] {
                #expect(throws: TicketError.self) { try Ticket(text: text(checksummed: head + [count] + tail)) }
            }
            if count > 0 { #expect(throws: TicketError.self) { try Ticket(text: text(checksummed: head + [count])) } }
        }
        let five: [UInt8] = (0..<5).flatMap { (host: UInt8) -> [UInt8] in [4, 10, 0, 0, host, 1, 1] }
        #expect(throws: TicketError.invalidAddress) { try Ticket(text: text(checksummed: head + [5] + five)) }
    }

    @Test func `AB-64 MEM-07 an address nobody can have is refused when read and left out when written`() {
        let head = Array(sample.encodedBytes.prefix(74))
        let hosts: [[UInt8]] = [[0, 0, 0, 0], [224, 0, 0, 1], [255, 255, 255, 255]]
        for host in hosts {
            #expect(throws: TicketError.invalidAddress) {
                try Ticket(text: text(checksummed: head + [1, 4] + host + [1, 1]))
            }
        }
        #expect(throws: TicketError.invalidAddress) {
            try Ticket(text: text(checksummed: head + [1, 4, 192, 0, 2, 1, 0, 0]))
        }
        let unusable: [SocketAddress] = [.ipv4(0, 0, 0, 0, port: 5), .ipv4(192, 0, 2, 1, port: 0)]
        let ticket = Ticket(meshID: mesh, joinSecret: sampleSecret(1), addresses: unusable + addresses)
        #expect(ticket.addresses == addresses)
    }

    @Test func `at most four addresses are kept, without this machine's interface numbers`() {
        let local = SocketAddress("[fe80::1%3]:47800") ?? .loopback(port: 1)
        let ticket = Ticket(meshID: mesh, joinSecret: sampleSecret(1), addresses: Array(repeating: local, count: 9))
        #expect(ticket.addresses.count == 4)
        #expect(ticket.addresses.allSatisfy { $0.scope == 0 })
    }

    @Test func `a text of a megabyte is refused like a short one`() {
        #expect(throws: TicketError.damaged) {
            try Ticket(text: "starling:" + String(repeating: "a", count: 1 << 20))
        }
        #expect(throws: TicketError.notATicket) { try Ticket(text: String(repeating: "a", count: 1 << 20)) }
    }

    @Test func `AB-85 a ticket does not show its secret where it is printed`() {
        let ticket = sample
        let secret = Base32.encode(sampleBytes(32, from: 1)).dropFirst(4).prefix(8)
        var dumped = ""
        dump(ticket, to: &dumped)
        for text in ["\(ticket)", String(reflecting: ticket), dumped] {
            #expect(!text.contains("starling:"))
            #expect(!text.contains(secret))
            #expect(!text.contains(Hexadecimal.encode(sampleBytes(8, from: 1))))
        }
        #expect("\(ticket)".contains(mesh.shortDescription))
    }

    private var sample: Ticket { Ticket(meshID: mesh, joinSecret: sampleSecret(1), addresses: addresses) }

    private func text(checksummed bytes: [UInt8]) -> String {
        "starling:" + Base32.encode(bytes + Digest.hash16(bytes).bytes.prefix(4))
    }
}
