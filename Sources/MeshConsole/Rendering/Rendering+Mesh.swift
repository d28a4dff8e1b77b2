import MeshBase

extension Rendering {
    func status(_ object: JSONValue) -> [String] {
        let node = object["node"] ?? .null
        let uptime = node["uptimeSeconds"]?.numberValue.map { "up \(Quantity.duration(seconds: $0))" }
        let node1 = [
            style.apply(.name, to: text(node["name"])), "port \(text(node["port"]))", text(node["fingerprint"]),
            "pid \(text(node["pid"]))", uptime ?? "",
        ].filter { !$0.isEmpty }
        var lines = ["node     " + node1.joined(separator: "  ")]
        if let mesh = object["mesh"], mesh != .null {
            let count = mesh["memberCount"]?.integerValue ?? 0
            let state = mesh["hasLeft"]?.boolValue == true ? "left" : "\(count) \(count == 1 ? "member" : "members")"
            lines.append("mesh     \(text(mesh["label"], absent: "(no label)"))  \(state)")
        } else {
            lines.append("mesh     none")
        }
        if let session = object["session"], session != .null {
            let joined = session["participants"]?.arrayValue?.count ?? 0
            lines.append("session  \(text(session["activity"]?["title"]))  \(joined) joined")
        }
        if let journal = object["journal"], journal != .null {
            let count = journal["attachmentCount"]?.integerValue ?? 0
            let size = Quantity.bytes(journal["bytes"]?.numberValue ?? 0)
            lines.append("journal  \(count) \(count == 1 ? "attachment" : "attachments"), \(size)")
        }
        if let storage = object["storage"], storage != .null {
            lines.append("storage  \(text(storage["message"])); \(text(storage["hint"]))")
        }
        if let clock = object["clock"], clock != .null { lines.append("clock    " + clockSummary(clock)) }
        if let list = object["peers"]?.arrayValue, !list.isEmpty { lines += [""] + peers(list) }
        return lines
    }

    func clockSummary(_ clock: JSONValue) -> String {
        var parts = [text(clock["state"])]
        if let error = clock["errorNanoseconds"]?.numberValue {
            parts.append("±\(Quantity.decimal(error / 1e6, 3)) ms")
        } else {
            parts.append("± unknown")
        }
        if let rate = clock["ratePartsPerMillion"]?.numberValue {
            parts.append("rate \(rate < 0 ? "" : "+")\(Quantity.decimal(rate, 2)) ppm")
        }
        return parts.joined(separator: "  ")
    }

    func clock(_ object: JSONValue) -> [String] {
        let seconds = { (name: String) in
            object[name]?.integerValue.map { "\(Quantity.decimal(Double($0) / 1e9, 6)) s" } ?? "–"
        }
        return [
            "state      " + clockSummary(object), "mesh time  " + seconds("meshTimeNanoseconds"),
            "host time  " + seconds("hostTimeNanoseconds"), "epoch      " + text(object["epoch"]),
        ]
    }

    func tone(ofState state: String?) -> Style.Tone {
        switch state {
        case "alive", "joined", "steady": .good
        case "suspect", "holdover": .warning
        case "dead": .bad
        default: .plain
        }
    }

    func peers(_ list: [JSONValue]) -> [String] {
        guard !list.isEmpty else { return ["no peers yet; invite somebody with: starling invite"] }
        var table = TextTable(["NAME", "STATE", "PATH", "RTT", "CLOCK", "LOSS"], rightAligned: [3, 4, 5])
        for peer in list {
            let state = peer["state"]?.stringValue
            let path = peer["path"] ?? .null
            table.rows.append([
                .init(text(peer["name"]), .name), .init(text(peer["state"]), tone(ofState: state)),
                .init(way(path)),
                .init(peer["rttMicroseconds"]?.numberValue.map(Quantity.roundTrip) ?? "–"),
                .init(
                    peer["offsetMicroseconds"]?.numberValue.map {
                        Quantity.offset(microseconds: $0, error: peer["offsetErrorMicroseconds"]?.numberValue)
                    } ?? "–"),
                .init(peer["lossPercent"]?.numberValue.map(Quantity.percent) ?? "–"),
            ])
        }
        return table.lines(style, width: width)
    }

    /// `192.0.2.7:47800`, `relay via NAME`, or that others pass everything on.
    private func way(_ path: JSONValue) -> String {
        switch path["kind"]?.stringValue {
        case "relay": "relay via \(text(path["via"]))"
        case "relayed": "– (relayed)"
        default: text(path["address"])
        }
    }

    func membership(_ list: [JSONValue]) -> [String] {
        var table = TextTable(["NAME", "STATE", "ID", "ADMITTED BY"])
        for member in list {
            let state = member["state"]?.stringValue
            table.rows.append([
                .init(text(member["name"]), .name), .init(text(member["state"]), tone(ofState: state)),
                .init(shortID(member["id"], digits: 8)), .init(text(member["admittedBy"])),
            ])
        }
        let leftCount = list.count { $0["state"]?.stringValue == "left" }
        let lines = table.lines(style, width: width)
        guard leftCount > 0 else { return lines }
        return lines + ["\(list.count - leftCount) here; \(leftCount) left and may return"]
    }

    func links(_ object: JSONValue) -> [String] {
        let list = object["links"]?.arrayValue ?? []
        guard !list.isEmpty else { return ["no links"] }
        var table = TextTable(
            ["PEER", "ADDRESS", "RTT", "LOSS", "WINDOW", "PACING", "MTU", "GSO"], rightAligned: [2, 3, 4, 5, 6])
        for link in list {
            table.rows.append([
                .init(text(link["peer"]), .name),
                .init(link["via"]?.stringValue.map { "relay via \(safe($0))" } ?? text(link["address"])),
                .init(link["rttMicroseconds"]?.numberValue.map(Quantity.roundTrip) ?? "–"),
                .init(link["lossPercent"]?.numberValue.map(Quantity.percent) ?? "–"),
                .init(link["congestionWindowBytes"]?.numberValue.map(Quantity.bytes) ?? "–"),
                .init(link["pacingBytesPerSecond"]?.numberValue.map { Quantity.bytes($0) + "/s" } ?? "–"),
                .init(text(link["mtuBytes"])), .init(text(link["gso"])),
            ])
        }
        return table.lines(style, width: width) + carried(object["relaying"] ?? .null)
    }

    /// What this node carries for others, when it does.
    private func carried(_ relaying: JSONValue) -> [String] {
        guard let pairs = relaying["pairCount"]?.integerValue, pairs > 0 else { return [] }
        let amount = { (name: String) in relaying[name]?.numberValue.map(Quantity.bytes) ?? "–" }
        return [
            "carries \(pairs) of \(text(relaying["maximumPairs"])) pairs for others: \(amount("bytes")) so far, "
                + "at most \(amount("maximumBytesPerSecond"))/s, \(text(relaying["droppedDatagrams"])) datagrams dropped"
        ]
    }

    func nodes(_ list: [JSONValue]) -> [String] {
        guard !list.isEmpty else { return ["no node is running; start one with: starling up"] }
        var table = TextTable(["NAME", "PID", "PORT", "MEMBERS", "MESH"], rightAligned: [1, 2, 3])
        for node in list {
            table.rows.append([
                .init(text(node["name"]), .name), .init(text(node["pid"])), .init(text(node["port"])),
                .init(text(node["memberCount"])), .init(text(node["meshLabel"])),
            ])
        }
        return table.lines(style, width: width)
    }

    func session(_ session: JSONValue) -> [String] {
        guard session != .null else { return ["no activity"] }
        let activity = session["activity"] ?? .null
        let title = text(activity["title"] ?? activity["identifier"])
        var lines = ["\(style.apply(.strong, to: title))  \(text(session["state"]))"]
        for participant in session["participants"]?.arrayValue ?? [] {
            let own = participant["isLocal"]?.boolValue == true ? "  (this node)" : ""
            lines.append("  \(style.apply(.name, to: text(participant["name"])))\(own)")
        }
        return lines
    }

    /// The Prometheus text format: a type line, then the value; names in its alphabet.
    func metrics(_ object: JSONValue) -> [String] {
        [("counters", "counter"), ("gauges", "gauge")].flatMap { member, type -> [String] in
            guard case .object(let values)? = object[member] else { return [] }
            return values.flatMap { value -> [String] in
                guard value.value.numberValue != nil else { return [] }
                let name = "starling_" + Self.metricName(value.name)
                return ["# TYPE \(name) \(type)", "\(name) \(text(value.value))"]
            }
        }
    }

    /// `sentDatagrams` as `sent_datagrams`; whatever is not a letter or digit becomes a line.
    private static func metricName(_ name: String) -> String {
        name.reduce(into: "") { output, character in
            guard character.isASCII, character.isLetter || character.isNumber else {
                output += "_"
                return
            }
            output += (character.isUppercase && !output.isEmpty ? "_" : "") + character.lowercased()
        }
    }

    func why(_ object: JSONValue) -> [String] {
        let head = "\(style.apply(.name, to: text(object["name"])))  \(text(object["state"]))"
        var lines = ["\(head): \(text(object["summary"]))"]
        var table = TextTable(["AGO", "WHAT", "ADDRESS", "RESULT"], rightAligned: [0])
        for step in object["steps"]?.arrayValue ?? [] {
            table.rows.append([
                .init(step["secondsAgo"]?.numberValue.map { Quantity.duration(seconds: $0) } ?? "–"),
                .init(words(ofEvent: step["what"])), .init(text(step["address"])), .init(text(step["result"])),
            ])
        }
        if !table.rows.isEmpty { lines += table.lines(style, width: width) }
        var tried = TextTable(["AGO", "TRIED", "RESULT"], rightAligned: [0])
        for attempt in object["tried"]?.arrayValue ?? [] {
            tried.rows.append([
                .init(attempt["secondsAgo"]?.numberValue.map { Quantity.duration(seconds: $0) } ?? "–"),
                .init(text(attempt["address"])), .init(text(attempt["result"])),
            ])
        }
        return tried.rows.isEmpty ? lines : lines + tried.lines(style, width: width)
    }

    /// What an event says behind the name it is about; what was no event is plain words already.
    private func words(ofEvent value: JSONValue?) -> String {
        guard let kind = value?.stringValue, kind.utf8.allSatisfy({ $0 != 0x20 }) else { return text(value) }
        return safe(phrase(kind).text)
    }

    // MARK: Starting

    func ready(_ object: JSONValue) -> [String] {
        let name = style.apply(.name, to: text(object["name"]))
        let interfaces = object["interfaces"]?.arrayValue?.map { text($0) }.joined(separator: ", ") ?? ""
        let place = "on port \(text(object["port"]))" + (interfaces.isEmpty ? "" : " (\(interfaces))")
        let label = object["mesh"]?["label"]?.stringValue.map { " in “\(safe($0))”" } ?? ""
        let count = object["mesh"]?["memberCount"]?.integerValue ?? 1
        let fingerprint = object["fingerprint"]?.stringValue.map { "  \(style.apply(.faint, to: safe($0)))" } ?? ""
        let found = object["peersFound"]?.arrayValue?.map { text($0) } ?? []
        var lines = ["\(name) is up \(place)\(label).\(fingerprint)"]
        if !found.isEmpty { lines.append("linked with " + found.joined(separator: ", ")) }
        guard object["founded"]?.boolValue == true, let invite = object["invite"]?.stringValue else {
            lines.append(count <= 1 ? "nobody else yet; invite somebody with: starling invite" : "\(count) members")
            return lines
        }
        let validity = object["inviteExpiresInSeconds"]?.numberValue.map { ", valid \(Quantity.duration(seconds: $0))" }
        lines.append("nobody else yet. Invite\(validity ?? ""):")
        lines.append("  starling join \(safe(invite))")
        return lines
    }

    func demo(_ object: JSONValue) -> [String] {
        var table = TextTable(["NAME", "PORT", "FINGERPRINT"], rightAligned: [1])
        let list = object["nodes"]?.arrayValue ?? []
        for node in list {
            table.rows.append([
                .init(text(node["name"]), .name), .init(text(node["port"])), .init(text(node["fingerprint"])),
            ])
        }
        if object["stopped"]?.boolValue == true {
            return list.isEmpty
                ? ["no demo is running"] : ["stopped " + list.map { text($0["name"]) }.joined(separator: ", ")]
        }
        let links = object["linkCount"]?.integerValue ?? 0
        let state = object["alreadyRunning"]?.boolValue == true ? "demo is already running" : "mesh up"
        let seconds = object["seconds"]?.numberValue.map { ", \(Quantity.decimal($0, 2)) s" } ?? ""
        let first = text(list.first?["name"])
        let second = text((list.count > 1 ? list[1] : list.first)?["name"])
        return table.lines(style, width: width) + [
            "\(state): \(list.count) nodes, \(links) \(links == 1 ? "link" : "links"), encrypted\(seconds).",
            "next: starling -n \(first) status · starling repl \(second) · starling demo stop",
        ]
    }

    // MARK: This machine

    func doctor(_ object: JSONValue) -> [String] {
        var lines: [String] = []
        let checks = object["checks"]?.arrayValue ?? []
        let left = checks.map { DisplayWidth.of(text($0["name"])) }.max() ?? 0
        for check in checks {
            let result = check["result"]?.stringValue ?? "?"
            let tone: Style.Tone = result == "ok" ? .good : result == "warn" ? .warning : .bad
            let fix = check["fix"]?.stringValue.map { "   -> \(safe($0))" } ?? ""
            lines.append(
                style.apply(tone, to: DisplayWidth.padded(safe(result), to: 4)) + "  "
                    + DisplayWidth.padded(text(check["name"]), to: left) + "  " + text(check["message"]) + fix)
        }
        let warnings = checks.count { $0["result"]?.stringValue == "warn" }
        let failures = checks.count { $0["result"]?.stringValue == "fail" }
        let seconds = object["seconds"]?.numberValue.map { " (\(Quantity.decimal($0, 1)) s)" } ?? ""
        lines.append(
            "\(warnings) \(warnings == 1 ? "warning" : "warnings"), \(failures) "
                + "\(failures == 1 ? "failure" : "failures")\(seconds)")
        return lines
    }

    func config(_ object: JSONValue) -> [String] {
        let settings = object["settings"]?.arrayValue ?? []
        let hasOrigin = settings.contains { $0["origin"] != nil }
        var table = TextTable(hasOrigin ? ["SETTING", "VALUE", "FROM"] : ["SETTING", "VALUE"])
        for setting in settings {
            let row: [TextTable.Cell] = [.init(text(setting["name"])), .init(text(setting["value"]))]
            table.rows.append(hasOrigin ? row + [.init(text(setting["origin"]))] : row)
        }
        let problems = (object["problems"]?.arrayValue ?? []).map { problem in
            let line = problem["line"]?.integerValue.map { ", line \($0)" } ?? ""
            let mark = style.apply(.warning, to: "not used:")
            return "\(mark) \(text(problem["place"]))\(line): \(text(problem["message"]))"
        }
        return table.lines(style) + problems
    }
}
