import MeshBase
import Testing

@testable import MeshConsole

private func lines(_ object: JSONValue, width: Int? = nil) -> [String] { Rendering(width: width).lines(object) }

@Suite struct RenderingTests {
    @Test func `peers stand in a table with round trip, offset and error`() {
        let object: JSONValue = [
            "schema": "starling/peers/1",
            "peers": [
                [
                    "name": "ben", "id": "00", "state": "alive",
                    "path": ["address": "127.0.0.1:47801", "kind": "direct"],
                    "rttMicroseconds": 112, "offsetMicroseconds": 12_410.4, "offsetErrorMicroseconds": 180,
                    "lossPercent": 0, "sentBytes": 1, "receivedBytes": 1,
                ],
                [
                    "name": "名前☕", "id": "01", "state": "dead", "path": nil, "rttMicroseconds": nil,
                    "offsetMicroseconds": nil, "offsetErrorMicroseconds": nil, "lossPercent": 2.34,
                ],
            ],
        ]

        #expect(
            lines(object) == [
                "NAME    STATE  PATH                 RTT            CLOCK   LOSS",
                "ben     alive  127.0.0.1:47801  0.11 ms  +12.41 ±0.18 ms    0 %",
                "名前☕  dead   –                      –                –  2.3 %",
            ])
    }

    @Test func `attachments show the shortest prefixes that differ, and honest fractions`() {
        let object: JSONValue = [
            "schema": "starling/journal.ls/1",
            "attachments": [
                [
                    "id": "7c1e00aa", "name": "holiday.jpg", "bytes": 4_100_000, "addedBy": "ana",
                    "note": "for tonight",
                    "present": true, "fraction": 1, "holders": ["ana", "ben"], "durable": true,
                ],
                [
                    "id": "7c1e01bb", "name": "меню ☕.pdf", "bytes": 220_000, "addedBy": "ana", "note": nil,
                    "present": false, "fraction": 0.9999, "holders": [], "durable": false,
                ],
            ],
        ]

        #expect(
            lines(object) == [
                "ID      NAME           SIZE  FROM  HERE            HOLDERS  NOTE",
                "7c1e00  holiday.jpg  4.1 MB  ana   yes             ana ben  for tonight",
                "7c1e01  меню ☕.pdf  220 kB  ana   99%, no holder  –",
            ])
    }

    @Test func `AB-84 nothing from outside reaches the screen unescaped, in any field of any object`() {
        let evil: JSONValue = "\u{1b}]0;x\u{7}\u{9b}2J\r\n\u{202e}\u{200b}"
        let schemas = [
            "status", "peers", "members", "links", "clock", "nodes", "why", "events", "inbox", "send", "invite",
            "journal.add", "journal.ls", "journal.get", "journal.wait", "journal.rm", "journal.verify", "invite.ls",
            "invite.revoke", "down", "up", "demo", "session", "metrics", "doctor", "config", "complete", "log",
            "notice", "unheard-of",
        ]
        let names = [
            "name", "id", "state", "address", "kind", "summary", "what", "result", "path", "peer", "label",
            "fingerprint", "addedBy", "admittedBy", "note", "message", "fix", "origin", "value", "from", "text",
            "area", "at", "node", "place", "epoch", "mode", "invite", "meshLabel", "links\u{1b}[2J", "gso", "pid",
            "port",
            "mtuBytes", "createdBy", "sameContentAs",
        ]
        let lists = [
            "peers", "members", "links", "nodes", "attachments", "invites", "checks", "settings", "values", "steps",
            "holders", "recipients", "tried", "problems", "interfaces", "peersFound",
        ]
        let inner = names.map { JSONValue.Member($0, evil) }

        for schema in schemas {
            var members = [JSONValue.Member("schema", .string("starling/\(schema)/1"))] + inner
            for name in lists { members.append(.init(name, [.object(inner), evil])) }
            for name in ["mesh", "clock", "journal", "session", "detail", "levels"] {
                members.append(.init(name, .object(inner)))
            }
            for line in lines(.object(members)) { #expect(SafeText.escaped(line) == line, "\(schema)") }
        }
    }

    @Test func `a message of several lines keeps them, and none looks like another message`() {
        let object: JSONValue = ["schema": "starling/inbox/1", "from": "ben", "text": "one\r\ntwo\nana: three\u{7}"]

        #expect(lines(object) == ["ben: one", "  two", "  ana: three\\u{7}"])
    }

    @Test func `a file that could not keep its name says so, and why`() {
        func remark(_ change: String?, there: Bool = false) -> [String] {
            Rendering().remarks([
                "schema": "starling/journal.get/1", "name": "f.txt", "path": "/o/f (2).txt",
                "alreadyThere": .bool(there),
                "nameChange": change.map { .string($0) } ?? .null,
            ])
        }

        #expect(
            remark("numbered") == [
                "saved as “f (2).txt”, because “f.txt” there differs; --force replaces what is there"
            ])
        #expect(remark("shortened") == ["saved as “f (2).txt”, because the name is too long for a file"])
        #expect(remark(nil).isEmpty)
        #expect(remark("numbered", there: true).isEmpty)
    }

    @Test func `what is not known is said to be unknown`() {
        let object: JSONValue = ["schema": "starling/clock/1", "state": "joining", "errorNanoseconds": nil]

        #expect(lines(object).first == "state      joining  ± unknown")
    }

    @Test func `members that left are counted apart`() {
        let object: JSONValue = [
            "schema": "starling/members/1",
            "members": [["name": "ana", "state": "left", "id": "0102030405"], ["name": "ben", "state": "alive"]],
        ]

        #expect(lines(object).last == "1 here; 1 left and may return")
    }

    @Test func `why tells in words what happened, and each address that was tried`() {
        let object: JSONValue = [
            "schema": "starling/why/1", "name": "cyd", "state": "dead", "summary": "cyd does not answer",
            "steps": [["secondsAgo": 3, "what": "memberDead", "address": nil, "result": "silent"]],
            "tried": [["secondsAgo": 1, "address": "192.0.2.4:47800", "result": "no answer"]],
        ]

        #expect(
            lines(object) == [
                "cyd  dead: cyd does not answer", "  AGO  WHAT     ADDRESS  RESULT", "3.0 s  is gone  –        silent",
                "  AGO  TRIED            RESULT", "1.0 s  192.0.2.4:47800  no answer",
            ])
    }

    @Test func `a setting that cannot be used is shown below those in force`() {
        let object: JSONValue = [
            "schema": "starling/config/1", "settings": [["name": "node", "value": "ana", "origin": "default"]],
            "problems": [["place": "/h/config.json", "line": 3, "message": "it ends too early"]],
        ]

        #expect(lines(object).last == "not used: /h/config.json, line 3: it ends too early")
    }

    @Test func `a failure names the cause, what was tried, and the next thing to type`() {
        let failure = CommandFailure(
            json: [
                "schema": "starling/error/1", "code": "unreachable", "message": "nobody answered in 3 s",
                "hint": "starling join - --at 192.0.2.14:47800", "exit": 4,
                "tried": [["what": "dialled", "address": "192.0.2.9:47800", "result": "no answer"]],
            ])

        #expect(
            failure.map { Rendering().lines($0) } == [
                "error: nobody answered in 3 s", "  tried  dialled  192.0.2.9:47800  no answer",
                "hint:  starling join - --at 192.0.2.14:47800",
            ])
        #expect(failure?.exit == .unreachable)
    }

    @Test func `an error object can never claim success`() {
        #expect(CommandFailure(json: ["schema": "starling/error/1", "exit": 0])?.exit == .failed)
        #expect(CommandFailure(json: ["schema": "starling/error/1", "exit": 99])?.exit == .failed)
        #expect(CommandFailure(json: ["schema": "starling/done/1"]) == nil)
    }

    @Test func `events read as sentences, unknown kinds as words`() {
        let event: JSONValue = [
            "schema": "starling/events/1", "at": "2026-11-30T12:03:07.125Z", "lamport": 4, "kind": "linkEstablished",
            "node": "ben", "detail": ["address": "192.0.2.4:47800", "id": "00112233445566778899aabb"],
        ]

        #expect(lines(event) == ["12:03:07  ben is linked  address 192.0.2.4:47800  id 00112233"])
        #expect(lines(["schema": "starling/events/1", "kind": "somethingNew"]) == ["–  something new"])
    }

    @Test func `metrics alone are Prometheus text`() {
        let object: JSONValue = [
            "schema": "starling/metrics/1", "counters": ["links.sentDatagrams": 12], "gauges": ["roundTrip": 0.5],
        ]

        #expect(
            lines(object) == [
                "# TYPE starling_links_sent_datagrams counter", "starling_links_sent_datagrams 12",
                "# TYPE starling_round_trip gauge", "starling_round_trip 0.5",
            ])
    }

    @Test func `a session shows its state and participants`() {
        let object: JSONValue = [
            "schema": "starling/session/1",
            "session": [
                "activity": ["title": "film night"], "state": "joined",
                "participants": [["name": "ana", "isLocal": true], ["name": "ben", "isLocal": false]],
            ],
        ]

        #expect(lines(object) == ["film night  joined", "  ana  (this node)", "  ben"])
        #expect(lines(["schema": "starling/session/1", "session": nil]) == ["no activity"])
    }

    @Test func `progress fits the terminal and never breaks a line`() {
        let object: JSONValue = [
            "schema": "starling/progress/1", "verb": "journal.get", "name": "a\nb.bin", "doneBytes": 2_500_000,
            "totalBytes": 4_100_000, "bytesPerSecond": 800_000, "holders": ["ana", "cyd"],
        ]

        #expect(
            Rendering().progress(object)
                == #"a\u{a}b.bin  ████████████░░░░░░░░  60 %  2.5 MB of 4.1 MB  800 kB/s  0:02 left  from ana cyd"#)
        for width in 1...80 { #expect(DisplayWidth.of(Rendering(width: width).progress(object)) <= max(width - 1, 1)) }
    }

    @Test func `a first start shows the invite and how to use it`() {
        let object: JSONValue = [
            "schema": "starling/up/1", "name": "kitchen", "port": 47_800, "interfaces": ["eth0", "wlan0"],
            "mesh": ["id": "00", "label": "film night", "memberCount": 1], "founded": true, "invite": "starling:abc",
            "inviteExpiresInSeconds": 600,
        ]

        #expect(
            lines(object) == [
                "kitchen is up on port 47800 (eth0, wlan0) in “film night”.", "nobody else yet. Invite, valid 10 min:",
                "  starling join starling:abc",
            ])
    }

    @Test func `the demo ends with its count, time, and what to try`() {
        let object: JSONValue = [
            "schema": "starling/demo/1",
            "nodes": [
                ["name": "ana", "port": 47_801, "fingerprint": "amber canoe seven"],
                ["name": "ben", "port": 47_802, "fingerprint": "copper owl two"],
            ], "linkCount": 1, "seconds": 0.312,
        ]

        #expect(
            lines(object).suffix(2) == [
                "mesh up: 2 nodes, 1 link, encrypted, 0.31 s.",
                "next: starling -n ana status · starling repl ben · starling demo stop",
            ])
    }

    @Test func `colour needs a terminal and nobody who refuses it`() {
        let decide = { (isTerminal: Bool, option: Bool, environment: [String: String]) in
            Style.decide(isTerminal: isTerminal, noColorOption: option) { environment[$0] }.isColoured
        }

        #expect(decide(true, false, ["TERM": "xterm"]))
        #expect(!decide(false, false, ["TERM": "xterm"]))
        #expect(!decide(true, true, [:]))
        #expect(!decide(true, false, ["NO_COLOR": "1"]))
        #expect(decide(true, false, ["NO_COLOR": ""]))
        #expect(!decide(true, false, ["TERM": "dumb"]))
    }
}

@Suite struct DisplayWidthTests {
    @Test(arguments: [
        ("abc", 3), ("é", 1), ("e\u{301}", 1), ("你好", 4), ("☕", 2), ("👩‍👩‍👧‍👦", 2), ("🇩🇪", 2), ("❤️", 2), ("❤", 1), ("👍🏽", 2),
        ("ｱ", 1), ("Ａ", 2), ("가", 2), ("\u{1100}\u{1161}\u{11a8}", 2), ("עברית", 5), ("\u{200b}", 0), ("", 0),
        ("a\u{300}\u{301}\u{302}", 1), ("…", 1), ("█", 1), ("±", 1), ("\u{3000}", 2),
    ])
    func `text is as wide as a terminal draws it`(text: String, width: Int) {
        #expect(DisplayWidth.of(text) == width)
    }

    @Test func `cutting never splits a character nor exceeds the width`() {
        #expect(DisplayWidth.truncated("你好世界", to: 5) == "你好…")
        #expect(DisplayWidth.truncated("你好世界", to: 4) == "你…")
        #expect(DisplayWidth.truncated("👩‍👩‍👧‍👦xy", to: 2) == "…")
        #expect(DisplayWidth.truncated("abc", to: 0) == "")
        #expect(DisplayWidth.padded("你", to: 4) == "你  ")
    }
}

@Suite struct QuantityTests {
    @Test(arguments: [
        (0.0, "0 B"), (17, "17 B"), (999, "999 B"), (1000, "1.0 kB"), (220_000, "220 kB"), (999_600, "1.0 MB"),
        (4_100_000, "4.1 MB"), (1e20, "100000 PB"), (.infinity, "?"),
    ])
    func `sizes are short`(bytes: Double, text: String) { #expect(Quantity.bytes(bytes) == text) }

    @Test(arguments: [
        (0.0004, "0.4 ms"), (0.05, "50 ms"), (0.1, "0.1 s"), (8, "8.0 s"), (12, "12 s"), (360, "6 min"),
        (10_800, "3 h"), (200_000, "2 d"), (.nan, "?"),
    ])
    func `durations are short`(seconds: Double, text: String) { #expect(Quantity.duration(seconds: seconds) == text) }

    @Test func `offsets carry their sign and error`() {
        #expect(Quantity.offset(microseconds: 12_410, error: 180) == "+12.41 ±0.18 ms")
        #expect(Quantity.offset(microseconds: -3100, error: nil) == "-3.10 ms")
        #expect(Quantity.offset(microseconds: -0.001, error: 0) == "0.00 ±0.00 ms")
    }

    @Test func `AB-05 extreme numbers are shown and never trap`() {
        for value in [Double.greatestFiniteMagnitude, -.greatestFiniteMagnitude, .leastNonzeroMagnitude, 9.3e18, -0.0] {
            for digits in 0...6 { #expect(!Quantity.decimal(value, digits).isEmpty) }
            #expect(!Quantity.bytes(value).isEmpty && !Quantity.duration(seconds: value).isEmpty)
            #expect(!Quantity.roundTrip(microseconds: value).isEmpty && !Quantity.countdown(seconds: value).isEmpty)
        }
    }
}

@Suite struct ControlRequestTests {
    private let here = ControlRequest.Surroundings(
        currentDirectory: "/work/x", homeDirectory: "/home/ana", input: "typed")

    private func requests(_ words: String...) throws -> [String]? {
        ControlRequest.make(try CommandLineParser(isREPL: true).parse(words), here)?.map(\.text)
    }

    @Test func `each file is one request with its absolute path`() throws {
        #expect(
            try requests("journal", "add", "a b", "/c", "--note", "n", "--timeout", "5") == [
                #"{"verb":"journal.add","path":"/work/x/a b","note":"n","timeoutSeconds":5}"#,
                #"{"verb":"journal.add","path":"/c","note":"n","timeoutSeconds":5}"#,
            ])
        #expect(
            try requests("journal", "get", "7c1e", "-o", "~/y") == [
                #"{"verb":"journal.get","id":"7c1e","directory":"/home/ana/y","force":false,"timeoutSeconds":30}"#
            ])
        #expect(
            try requests("journal", "get", "7c1e") == [
                #"{"verb":"journal.get","id":"7c1e","directory":"/work/x","force":false,"timeoutSeconds":30}"#
            ])
    }

    @Test func `messages carry their mode, and a dash takes standard input`() throws {
        #expect(
            try requests("send", "-", "--to", "ben", "--unreliable", "--repeat", "3", "--size", "1k") == [
                #"{"verb":"send","text":"typed","to":["ben"],"mode":"unreliable","repeat":3,"sizeBytes":1000}"#
            ])
        #expect(
            try requests("inbox", "--count") == [#"{"verb":"inbox","follow":false,"backlog":true,"count":true}"#])
    }

    @Test func `what is not said is left to the node`() throws {
        #expect(try requests("events") == [#"{"verb":"events","follow":false}"#])
        #expect(try requests("events", "--since", "5m") == [#"{"verb":"events","follow":false,"sinceSeconds":300}"#])
        #expect(try requests("invite") == [#"{"verb":"invite"}"#])
        #expect(
            try requests("journal", "wait", "7c1e", "--replicas", "3") == [
                #"{"verb":"journal.wait","id":"7c1e","replicas":3,"timeoutSeconds":30}"#
            ])
        #expect(try requests("help") == nil)
    }
}
