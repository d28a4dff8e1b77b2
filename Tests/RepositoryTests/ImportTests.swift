import Foundation
import Testing

/// The arrows of Docs/Architecture.md. A target may import what is listed here and nothing else.
@Suite struct ImportTests {
    static let allowed: [String: Set<String>] = [
        "MeshBase": [],
        "MeshWire": ["MeshBase"],
        "MeshCrypto": ["MeshBase", "CSodium"],
        "MeshProtocol": ["MeshBase", "MeshWire", "MeshCrypto"],
        "MeshSystem": ["MeshBase", "MeshCrypto", "CMeshSystem", "CSQLite", "Glibc", "Synchronization"],
        "MeshNode": ["MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol", "MeshSystem", "Glibc"],
        "MeshConsole": ["MeshBase", "Glibc"],
        "MeshTestKit": [
            "MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol", "MeshSystem", "MeshNode", "Glibc", "Synchronization",
        ],
        "starling": ["MeshConsole", "MeshNode", "MeshSystem", "MeshBase", "CQRencode", "Glibc"],
        "starling-simulator": ["MeshTestKit", "MeshNode", "MeshBase", "Glibc"],
        "starling-benchmark": [
            "MeshTestKit", "MeshNode", "MeshProtocol", "MeshSystem", "MeshCrypto", "MeshWire", "MeshBase", "Glibc",
        ],
    ]

    @Test func `every import follows an arrow of the architecture`() throws {
        var violations: [String] = []
        var checked = 0
        for file in Repository.files(under: "Sources", withExtension: "swift") {
            let path = Repository.relativePath(file)
            let target = String(path.split(separator: "/")[1])
            let allowed = try #require(Self.allowed[target], "\(target) is missing from the list of arrows")
            for line in SourceLine.lines(of: try Repository.text(file)) {
                let words = line.code.split(separator: " ")
                guard let index = words.firstIndex(of: "import"), index < words.count - 1,
                    words[..<index].allSatisfy({
                        ["public", "internal", "private", "package", "@testable"].contains($0)
                    })
                else { continue }
                checked += 1
                let module = String(words[index + 1].split(separator: ".")[0])
                if !allowed.contains(module) { violations.append("\(path):\(line.number) imports \(module)") }
            }
        }

        #expect(checked > 100)
        #expect(violations == [])
    }

    /// What must not stand in a pure target, and what to write instead.
    static let banned: [(word: String, instead: String)] = [
        (" await ", "machines are synchronous; the shell awaits"),
        (" Task {", "machines start nothing; return an output"),
        (" Task.", "machines start nothing; return an output"),
        (" actor ", "actors live in MeshNode"),
        (".now", "take `now: HostTime` as a parameter"),
        (".random(", "draw from the machine's RandomStream"),
        (".shuffled()", "draw from the machine's RandomStream"),
        (".randomElement()", "draw from the machine's RandomStream"),
        (" Date(", "take `now: HostTime` as a parameter"),
        (" UUID(", "draw from the machine's RandomStream"),
        (" print(", "emit a ProtocolEvent"),
        (" fatalError(", "throw a typed error, or state the broken invariant with precondition"),
    ]

    @Test(arguments: ["MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol"])
    func `pure targets take time, bytes and randomness as inputs`(target: String) throws {
        var violations: [String] = []
        for file in Repository.files(under: "Sources/\(target)", withExtension: "swift") {
            for line in SourceLine.lines(of: try Repository.text(file)) {
                for rule in Self.banned where " \(line.code)".contains(rule.word) {
                    violations.append(
                        "\(Repository.relativePath(file)):\(line.number) has \"\(rule.word)\": \(rule.instead)")
                }
            }
        }

        #expect(violations == [])
    }

    /// Words that must not stand in the sources of what a running node is made of, and why.
    private static func violations(of words: [String], in targets: [String]) throws -> [String] {
        var output: [String] = []
        for target in targets {
            for ending in ["swift", "c", "h"] {
                for file in Repository.files(under: "Sources/\(target)", withExtension: ending) {
                    for line in SourceLine.lines(of: try Repository.text(file)) {
                        for word in words where " \(line.code)".contains(word) {
                            output.append("\(Repository.relativePath(file)):\(line.number) has \"\(word)\"")
                        }
                    }
                }
            }
        }
        return output
    }

    private static let nodeTargets = [
        "MeshBase", "MeshWire", "MeshCrypto", "MeshProtocol", "MeshSystem", "MeshNode", "CMeshSystem",
    ]

    @Test func `AB-88 nothing that a node runs can start a program or load code`() throws {
        let words = [
            "posix_spawn", "fork()", "vfork(", "clone(", "execv", "execl", "fexecve", "popen(", "system(\"", "dlopen(",
            "Process()",
        ]

        #expect(try Self.violations(of: words, in: Self.nodeTargets) == [])
    }

    @Test func `AB-89 a node opens datagram sockets and Unix sockets and no other`() throws {
        var streams: [String] = []
        for target in Self.nodeTargets {
            for ending in ["swift", "c", "h"] {
                for file in Repository.files(under: "Sources/\(target)", withExtension: ending) {
                    for line in SourceLine.lines(of: try Repository.text(file))
                    where line.code.contains(" socket(") && line.code.contains("SOCK_") {
                        let isDatagram = line.code.contains("SOCK_DGRAM") || line.code.contains("SOCK_RAW")
                        if !isDatagram { streams.append(line.code.trimmingCharacters(in: .whitespaces)) }
                    }
                }
            }
        }

        #expect(!streams.isEmpty)
        #expect(streams.allSatisfy { $0.contains("AF_UNIX") }, "\(streams)")
        #expect(try Self.violations(of: ["IPPROTO_TCP"], in: Self.nodeTargets) == [])
    }

    @Test func `MEM-13 a node looks no name up, and the command only what a person named`() throws {
        let words = ["getaddrinfo", "gethostby", "getnameinfo", "res_query", "res_search", "getservby"]

        #expect(try Self.violations(of: words, in: Self.nodeTargets + ["MeshConsole", "MeshTestKit"]) == [])
        let command = try Self.violations(
            of: ["getaddrinfo", "gethostby", "res_query", "res_search"], in: ["starling"])
        #expect(command.count == 1 && command[0].contains("StartCommand.swift"), "\(command)")
    }

    @Test func `unchecked promises to the compiler are explained where they stand`() throws {
        var violations: [String] = []
        for file in Repository.files(under: "Sources", withExtension: "swift") {
            let text = try Repository.text(file)
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            for (index, line) in lines.enumerated()
            where line.contains("@unchecked Sendable") || line.contains("nonisolated(unsafe)") {
                let near = lines[max(0, index - 8)...min(lines.count - 1, index + 8)]
                let isExplained = near.contains { $0.contains("//") && $0.contains("Sendable") }
                if !isExplained { violations.append("\(Repository.relativePath(file)):\(index + 1)") }
            }
        }

        #expect(violations == [], "say in a comment with the word Sendable why it holds")
    }
}
