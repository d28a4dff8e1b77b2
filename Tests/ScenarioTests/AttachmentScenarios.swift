import Foundation
import Testing

extension Scenarios {
    @Suite(.timeLimit(.minutes(10))) struct Attachments {
        private func contentsFolder(_ node: RunningNode) -> URL {
            node.household.directory.appending(path: "state/starling/\(node.name)/contents")
        }

        /// Bytes on disk below a node's contents: a fetch's progress without asking the node.
        private func storedBytes(_ node: RunningNode) -> Int {
            let files = FileManager.default.enumerator(at: contentsFolder(node), includingPropertiesForKeys: nil)
            return (files?.allObjects ?? []).compactMap { $0 as? URL }.reduce(0) { sum, file in
                var information = stat()
                return unsafe stat(file.path, &information) == 0 ? sum + Int(information.st_blocks) * 512 : sum
            }
        }

        /// Waits, a millisecond at a time, until the node holds `bytes` of content.
        private func waitUntil(_ node: RunningNode, holds bytes: Int) async throws {
            let deadline = Deadline(20)
            while storedBytes(node) < bytes, !deadline.isOver { try await Task.sleep(for: .milliseconds(1)) }
        }

        private func contents(_ file: URL) throws -> Data { try Data(contentsOf: file) }

        /// Whether `node` gives out exactly the bytes of `source`.
        private func gives(_ node: RunningNode, _ source: URL) async throws -> Bool {
            let folder = node.household.outputDirectory.appending(path: node.name)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let outcome = try await node.ask(
                "journal", "get", source.lastPathComponent, "-o", folder.path, "--timeout", "15", seconds: 20)
            guard outcome.exit == 0, outcome.document["verified"].isTrue else {
                Issue.record("\(node.name): \(outcome)")
                return false
            }
            return try contents(folder.appending(path: source.lastPathComponent)) == contents(source)
        }

        @Test func `the adder dies while the second fetches; whoever waits says so, and a late third ends with all`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let film = try household.file("film.bin", bytes: 20 << 20)
            let nodes = try await household.mesh("ana", "ben")
            let (ana, ben) = (nodes[0], nodes[1])

            #expect(try await ana.ask("journal", "add", film.path, seconds: 30).document["durable"].isTrue)
            try await waitUntil(ben, holds: 5 << 20)
            try await ana.killAtOnce()
            let cyd = try await household.join("cyd", with: try await ben.invite())
            try await household.eventually("cyd knows of it") { try await !cyd.attachment("film.bin")["id"].isAbsent }

            if try await !ben.attachment("film.bin")["present"].isTrue {
                // Nobody has every chunk: said as it is, and nothing under the final name.
                let folder = household.outputDirectory
                let early = try await cyd.ask("journal", "get", "film.bin", "-o", folder.path, "--timeout", "1")
                #expect(early.exit == 4)
                #expect(early.failure["message"].text?.contains("waiting for a holder") == true, "\(early)")
                #expect(!FileManager.default.fileExists(atPath: folder.appending(path: "film.bin").path))
                _ = try await household.up("ana")
            }

            #expect(try await gives(ben, film))
            #expect(try await gives(cyd, film))
        }

        @Test func `ATT-12 a receiver killed at 40 percent goes on where it was`() async throws {
            let household = try Household()
            defer { household.end() }
            let size = 20 << 20
            let film = try household.file("film.bin", bytes: size)
            let nodes = try await household.mesh("ana", "ben")

            // The shell watches and kills: this test may wait behind others for its turn, and the fetch does not.
            let added = try await household.shell(
                """
                $STARLING journal add \(film.path) -n ana --json & adder=$!
                until [ "$(du -sk \(contentsFolder(nodes[1]).path) | cut -f 1)" -ge \(size * 2 / 5 / 1024) ]; do :; done
                kill -9 \(nodes[1].pid); wait $adder
                """, seconds: 30)
            #expect(added.exit == 0, "\(added)")
            try await nodes[1].killAtOnce()
            let held = storedBytes(nodes[1])
            let ben = try await household.up("ben")

            #expect(try await gives(ben, film))
            let fetchedAgain = ben.counter("journal.bytesReceived")
            #expect(held < size, "it was killed too late to show anything")
            // What was written is kept, but for what the catalogue had not noted yet when the process died.
            #expect(fetchedAgain <= size - held + (4 << 20), "held \(held), fetched \(fetchedAgain) of \(size)")
        }

        @Test func `a file added thrice is got by name, removed by id, and its folder is made`() async throws {
            let household = try Household()
            defer { household.end() }
            let file = try household.file("a.txt", bytes: 1_000)
            let ana = try await household.up("ana")
            for _ in 0..<3 { #expect(try await ana.ask("journal", "add", file.path).exit == 0) }
            let folder = household.outputDirectory.appending(path: "new")

            let got = try await ana.ask("journal", "get", "a.txt", "-o", folder.path)
            #expect(got.exit == 0, "\(got)")
            #expect(try contents(folder.appending(path: "a.txt")) == contents(file))
            let waited = try await ana.ask("journal", "wait", "a.txt", "--replicas", "9", "--timeout", "0.2")
            #expect(waited.failure["message"].text?.contains("held by 1 of 9") == true, "\(waited)")
            let removed = try await ana.ask("journal", "rm", "a.txt")
            #expect(removed.exit == 6)
            #expect(removed.failure["code"].text == "ambiguous")
            let values = try await ana.ask("complete", "attachments").document["values"].list
                .compactMap(\.["value"].text)
            #expect(values.first == "a.txt")
            #expect(values.count == 4)
        }

        @Test func `AB-79 verify finds a byte that changed on the disk, and the content is whole again`() async throws {
            let household = try Household()
            defer { household.end() }
            let film = try household.file("film.bin", bytes: 3 << 20)
            let nodes = try await household.mesh("ana", "ben")
            #expect(try await nodes[0].ask("journal", "add", film.path).exit == 0)
            #expect(try await nodes[1].ask("journal", "wait", "film.bin").exit == 0)
            let good = try await nodes[1].ask("journal", "verify")
            #expect(good.exit == 0, "\(good)")

            let folder = household.directory.appending(path: "state/starling/ben/contents").path
            let outcome = try await household.shell(
                "f=$(find '\(folder)' -type f | head -1); chmod u+w $f; printf X | dd of=$f bs=1 seek=70000 conv=notrunc"
            )
            #expect(outcome.exit == 0, "\(outcome)")
            let bad = try await nodes[1].ask("journal", "verify", "film.bin")

            #expect(bad.exit == 7)
            let answer = bad.documents.first { $0["schema"].text == "starling/journal.verify/1" }
            let found = answer?["attachments"].list.first
            #expect(found?["damagedChunks"].integer == 1, "\(bad)")
            try await household.eventually("ben has it whole again") {
                let isPresent = try await nodes[1].attachment("film.bin")["present"].isTrue
                return isPresent ? try await nodes[1].ask("journal", "verify").exit == 0 : false
            }
            #expect(try await gives(nodes[1], film))
        }

        @Test func `ATT-01 an empty file arrives empty`() async throws {
            let household = try Household()
            defer { household.end() }
            let empty = try household.file("empty.txt", bytes: 0)
            let nodes = try await household.mesh("ana", "ben")

            #expect(try await nodes[0].ask("journal", "add", empty.path).exit == 0)
            #expect(try await nodes[0].ask("journal", "add", empty.path).exit == 0)
            #expect(
                try await nodes[1].ask("journal", "get", "empty.txt", "-o", household.outputDirectory.path).exit != 1)
            try await household.eventually("both entries are there") {
                try await nodes[1].ask("journal", "ls").document["attachments"].list
                    .filter { $0["present"].isTrue && $0["bytes"].integer == 0 }.count == 2
            }
        }

        @Test func `ATT-19 one bad file of a batch is named with its path, and the rest arrive`() async throws {
            let household = try Household()
            defer { household.end() }
            let nodes = try await household.mesh("ana", "ben")
            let folder = household.directory.appending(path: "files").path
            try await household.shell(
                "cd \(folder) && for n in $(seq -w 150); do echo $n > small-$n.txt; done && mkfifo small-075.pipe")

            let added = try await household.shell("$STARLING journal add \(folder)/small-* -n ana --json", seconds: 40)

            #expect(added.exit == 2, "\(added)")
            #expect(added.documents.filter { $0["schema"].text == "starling/journal.add/1" }.count == 150)
            let failures = Document.lines(added.errorOutput)
            #expect(failures.count == 1)
            #expect(failures.first?["message"].text?.contains("small-075.pipe") == true, "\(added.errorOutput)")
            try await household.eventually("ben has all 150", within: 20) {
                try await nodes[1].ask("journal", "ls").document["attachments"].list
                    .filter { $0["present"].isTrue }.count == 150
            }
        }

        @Test func `ATT-18 what is no readable file is refused before a peer hears of it`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let folder = household.directory.appending(path: "files")
            try await household.shell("cd \(folder.path) && mkdir folder && mkfifo pipe && ln -s nowhere dangling")

            for name in ["folder", "pipe", "dangling", ".", "..", "missing"] {
                let refused = try await ana.ask("journal", "add", folder.path + "/" + name, seconds: 5)
                #expect([2, 6].contains(refused.exit), "\(name): \(refused)")
                #expect(refused.failure["hint"].text?.isEmpty == false)
            }
            let device = try await ana.ask("journal", "add", "/dev/zero", seconds: 5)
            #expect(device.exit == 2, "\(device)")
            #expect(try await ana.ask("journal", "ls").document["attachments"].list.isEmpty)
        }

        @Test func `ATT-22 a file that changes or vanishes while it is added is refused, or added as it was`()
            async throws
        {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let growing = try household.file("growing.bin", bytes: 8 << 20)
            let script = """
                (for i in $(seq 400); do head -c 4096 /dev/zero >> \(growing.path); sleep 0.005; done) & writer=$!
                $STARLING journal add \(growing.path) -n ana --json; code=$?; kill $writer; exit $code
                """
            let outcome = try await household.shell(script)
            let listed = try await ana.ask("journal", "ls").document["attachments"].list
            if outcome.exit == 0 {
                // Then it was one state of the file: what is served has the size and the hash that were announced.
                let bytes = try #require(listed.first?["bytes"].integer)
                let out = household.outputDirectory
                #expect(try await ana.ask("journal", "get", "growing.bin", "-o", out.path).document["verified"].isTrue)
                #expect(try contents(out.appending(path: "growing.bin")) == contents(growing).prefix(bytes))
            } else {
                #expect(outcome.failure["code"].text?.isEmpty == false, "\(outcome)")
                #expect(listed.isEmpty)
            }

            let vanishing = try household.file("vanishing.bin", bytes: 4 << 20)
            #expect(try await ana.ask("journal", "add", vanishing.path).exit == 0)
            try FileManager.default.removeItem(at: vanishing)
            let out = household.outputDirectory
            #expect(try await ana.ask("journal", "get", "vanishing.bin", "-o", out.path).document["verified"].isTrue)
        }

        @Test func `ATT-04 raw requests with dots and NUL in paths change nothing outside`() async throws {
            let household = try Household()
            defer { household.end() }
            let ana = try await household.up("ana")
            let file = try household.file("plain.txt", bytes: 100)

            let dotted = ana.request(
                #"{"verb":"journal.add","path":"\#(file.deletingLastPathComponent().path)/../files/./plain.txt"}"#)
            #expect(dotted.last?["schema"].text == "starling/done/1", "\(dotted)")
            for path in [#"/etc/host\u0000name"#, "", "relative", "/", "/..", #"\u0000"#] {
                let answer = ana.request(#"{"verb":"journal.add","path":"\#(path)"}"#).last
                #expect(answer?["schema"].text == "starling/error/1", "\(path): \(String(describing: answer))")
            }
            for directory in [#"/tmp\u0000/x"#, "relative", ""] {
                let answer = ana.request(#"{"verb":"journal.get","id":"plain.txt","directory":"\#(directory)"}"#).last
                #expect(answer?["schema"].text == "starling/error/1", "\(directory): \(String(describing: answer))")
            }
            let listed = try await ana.ask("journal", "ls").document["attachments"].list
            #expect(listed.compactMap(\.["name"].text) == ["plain.txt"])
        }
    }
}
