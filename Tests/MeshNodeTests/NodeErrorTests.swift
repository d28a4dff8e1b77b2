import MeshBase
import MeshSystem
import Testing

@testable import MeshNode

@Suite struct NodeErrorTests {
    private static let systemErrors: [SystemError] = [
        .portInUse(port: 47_800, holder: nil), .portForbidden(port: 80), .noFreePort(first: 1, last: 2),
        .addressUnavailable(SocketAddress("192.0.2.1:47800")!), .entropyUnavailable(errorNumber: 5),
        .socketPathTooLong(path: "/a", byteCount: 200, limit: 107), .socketInUse(path: "/a"),
        .socketForeign(path: "/a"), .socketAbsent(path: "/a"), .lineTooLong(limit: 5), .closed,
        .callFailed(call: "bind", errorNumber: 13),
    ]

    @Test(arguments: systemErrors)
    func `an error of the system reaches people in words, with something to do`(error: SystemError) {
        let shown = NodeError(error)

        for raw in ["errorNumber", "byteCount:", "path:", "socket(", "(port", error.code] {
            #expect(!shown.message.contains(raw) || raw == "closed", "\(raw)")
        }
        #expect(shown.message.contains(" "))
        #expect(!shown.hint.isEmpty)
        #expect([1, 7].contains(shown.exit))
    }

    @Test func `an address that is not here is named without its port`() {
        let error = NodeError(SystemError.addressUnavailable(SocketAddress("1.2.3.4:47800")!))

        #expect(error.message == "no interface of this machine has the address 1.2.3.4")
        #expect(error.code == "addressUnavailable")
    }

    @Test func `numbers of the C library are told as its words`() {
        let errors: [StorageError] = [
            .syncFailed(path: "/a", errorNumber: 5), .callFailed(call: "open", path: "/a", errorNumber: 5),
        ]
        for error in errors {
            #expect(NodeError(error).message.contains("Input/output error"))
            #expect(!NodeError(error).message.contains("errno"))
        }
    }

    @Test func `a missing folder is answered with how to make it`() {
        #expect(NodeError(StorageError.noDirectory(path: "/a/b/c")).hint == "mkdir -p /a/b/c")
    }
}
