import MeshBase
import MeshSystem
import Testing

@Suite struct LoggerTests {
    private final class Lines: Sendable {
        let all = Lock<[String]>([])
        var last: String { all.withLock { $0.last ?? "" } }
        var count: Int { all.withLock { $0.count } }
    }

    private func makeLogger(_ lines: Lines, level: LogLevel) -> Logger {
        Logger(level: level) { line in lines.all.withLock { $0.append(line) } }
    }

    @Test func `each area has its own level`() {
        let lines = Lines()
        let log = makeLogger(lines, level: .warning)

        #expect(log.configure("journal=debug,session=off") == nil)
        log.log(.debug, .journal, "asked")
        log.log(.error, .session, "silent")
        log.log(.info, .messenger, "below the standard level")

        #expect(lines.count == 1)
        #expect(lines.last.contains("debug journal asked"))
    }

    @Test func `a wrong level or area is named and changes nothing`() {
        let lines = Lines()
        let log = makeLogger(lines, level: .warning)

        #expect(log.configure("journal=loud")?.contains("trace") == true)
        #expect(log.configure("session=debug,jurnal=debug")?.contains("journal") == true)
        #expect(!log.isEnabled(.debug, .session))
    }

    @Test func `values cannot forge a line`() {
        let lines = Lines()
        let log = makeLogger(lines, level: .info)

        log.log(.info, .node, "joined", ["name": "eve\n2026 error node lost", "path": "a b\"c"])

        #expect(!lines.last.contains("\n"))
        #expect(lines.last.contains("name=\"eve\\u{a}2026 error node lost\" path=\"a b\\\"c\""))
    }

    @Test func `a file gets whole lines and is private`() throws {
        let directory = TemporaryDirectory()
        let log = try Logger(path: directory.file("log"), level: .info)

        log.log(.info, .storage, "one")
        log.log(.info, .storage, "two")

        let text = String(decoding: TestFile.read(directory.file("log")) ?? [], as: UTF8.self)
        #expect(text.split(separator: "\n").count == 2)
        #expect(text.hasSuffix(" info storage two\n"))
        #expect(TestFile.mode(directory.file("log")) == 0o600)
    }
}
