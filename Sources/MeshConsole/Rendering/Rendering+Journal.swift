import MeshBase

extension Rendering {
    /// Answers that are one sentence or one small table.
    func answers(_ schema: String, _ object: JSONValue) -> [String] {
        switch schema {
        case "starling/journal.add/1": return [added(object)]
        case "starling/journal.ls/1": return attachments(object["attachments"]?.arrayValue ?? [])
        case "starling/journal.get/1": return [fetched(object)]
        case "starling/journal.wait/1":
            return ["\(text(object["name"])) is held by \(names(object["holders"]))"]
        case "starling/journal.rm/1": return ["removed \(shortID(object["id"])) \(text(object["name"]))"]
        case "starling/journal.verify/1": return verified(object["attachments"]?.arrayValue ?? [])
        case "starling/invite.ls/1": return invites(object["invites"]?.arrayValue ?? [])
        case "starling/invite.revoke/1": return ["revoked \(shortID(object["id"], digits: 8))"]
        case "starling/remove/1":
            return [
                "removed \(text(object["name"])); the group secret has changed",
                "invites made before are void; a new one: starling invite",
            ]
        case "starling/end/1": return ["ended “\(text(object["mesh"]))” for everybody; the nodes stop"]
        case "starling/leave/1": return ["left; the node stays up"]
        case "starling/down/1": return ["\(text(object["name"])) is stopping"]
        case "starling/log/1":
            return members(object["levels"] ?? .null)
        default: return members(object)
        }
    }

    private func added(_ object: JSONValue) -> String {
        let same = object["sameContentAs"]?.stringValue
        let size =
            same.map { "(same content as \(safe(String($0.prefix(4)))), stored once)" }
            ?? Quantity.bytes(object["bytes"]?.numberValue ?? 0)
        return "added \(style.apply(.strong, to: shortID(object["id"]))) \(text(object["name"])) \(size)"
    }

    private func attachments(_ list: [JSONValue]) -> [String] {
        guard !list.isEmpty else { return ["nothing shared yet; add a file with: starling journal add FILE"] }
        let ids = shortIDs(list.map { $0["id"]?.stringValue ?? "–" })
        let hasNotes = list.contains { !($0["note"]?.stringValue ?? "").isEmpty }
        var table = TextTable(
            ["ID", "NAME", "SIZE", "FROM", "HERE", "HOLDERS"] + (hasNotes ? ["NOTE"] : []), rightAligned: [2])
        for (id, attachment) in zip(ids, list) {
            let row: [TextTable.Cell] = [
                .init(id, .strong), .init(text(attachment["name"])),
                .init(Quantity.bytes(attachment["bytes"]?.numberValue ?? 0)), .init(text(attachment["addedBy"])),
                here(attachment), .init(names(attachment["holders"])),
            ]
            table.rows.append(hasNotes ? row + [.init(text(attachment["note"], absent: ""))] : row)
        }
        return table.lines(style, width: width)
    }

    private func here(_ attachment: JSONValue) -> TextTable.Cell {
        if attachment["present"]?.boolValue == true {
            return attachment["durable"]?.boolValue == false ? .init("saving", .warning) : .init("yes", .good)
        }
        let fraction = attachment["fraction"]?.numberValue ?? 0
        // 100 % is said only of what is complete.
        let percent = Int(min(max(fraction * 100, 0), 99))
        let isWaiting = attachment["holders"]?.arrayValue?.isEmpty ?? true
        let shown = fraction > 0 ? "\(percent)%" : "no"
        return .init(isWaiting ? "\(shown), no holder" : shown, isWaiting ? .warning : .plain)
    }

    private func fetched(_ object: JSONValue) -> String {
        let path = text(object["path"])
        if object["alreadyThere"]?.boolValue == true { return "already here, same content: \(path)" }
        let size = Quantity.bytes(object["bytes"]?.numberValue ?? 0)
        let sources = object["from"]?.arrayValue ?? []
        let from = sources.isEmpty ? "" : ", from " + names(object["from"])
        let seconds = object["seconds"]?.numberValue.map { ", \(Quantity.duration(seconds: $0))" } ?? ""
        return "\(text(object["name"])) \(size) verified\(from)\(seconds): \(path)"
    }

    /// What a person should know beside the result, for standard error: why a file is not called as its attachment is.
    public func remarks(_ object: JSONValue) -> [String] {
        guard object["schema"]?.stringValue == "starling/journal.get/1", object["alreadyThere"]?.boolValue != true,
            let change = object["nameChange"]?.stringValue
        else { return [] }
        let saved = safe(object["path"]?.stringValue?.split(separator: "/").last.map(String.init) ?? "–")
        let wanted = text(object["name"])
        switch change {
        case "numbered":
            return ["saved as “\(saved)”, because “\(wanted)” there differs; --force replaces what is there"]
        case "shortened": return ["saved as “\(saved)”, because the name is too long for a file"]
        case "madeSafe": return ["saved as “\(saved)”, because “\(wanted)” cannot be a file's name here"]
        default: return []
        }
    }

    private func verified(_ list: [JSONValue]) -> [String] {
        guard !list.isEmpty else { return ["nothing to verify"] }
        return list.map { attachment in
            let damaged = attachment["damagedChunks"]?.integerValue ?? 0
            let (result, rest) =
                switch attachment["ok"]?.boolValue {
                case true?: (style.apply(.good, to: "ok  "), "")
                case false?:
                    (
                        style.apply(.bad, to: "bad "),
                        ", \(damaged) damaged \(damaged == 1 ? "chunk" : "chunks"), being fetched again"
                    )
                case nil: (style.apply(.faint, to: "–   "), ", not whole here")
                }
            return "\(result)  \(shortID(attachment["id"])) \(text(attachment["name"]))\(rest)"
        }
    }

    private func invites(_ list: [JSONValue]) -> [String] {
        guard !list.isEmpty else { return ["no invite is good now; make one with: starling invite"] }
        var table = TextTable(["ID", "GOOD FOR", "MADE BY"])
        for invite in list {
            let left = invite["expiresInSeconds"]?.numberValue.map { Quantity.duration(seconds: $0) } ?? "ever"
            table.rows.append([
                .init(shortID(invite["id"], digits: 8), .strong), .init(left), .init(text(invite["createdBy"])),
            ])
        }
        return table.lines(style, width: width)
    }

    /// One line for a transfer under way, at most `width` cells, without a line break.
    public func progress(_ object: JSONValue) -> String {
        let done = object["doneBytes"]?.numberValue ?? 0
        let total = object["totalBytes"]?.numberValue ?? 0
        let rate = object["bytesPerSecond"]?.numberValue ?? 0
        let fraction = total > 0 ? min(max(done / total, 0), 1) : 0
        let filled = Int(fraction * 20)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 20 - filled)
        var line = "\(DisplayWidth.truncated(text(object["name"]), to: 24))  \(bar)  "
        line += "\(Int(fraction * 100)) %  "
        line += "\(Quantity.bytes(done)) of \(Quantity.bytes(total))"
        if rate > 0 {
            line += "  \(Quantity.bytes(rate))/s"
            if total > done { line += "  \(Quantity.countdown(seconds: (total - done) / rate)) left" }
        }
        let holders = object["holders"]?.arrayValue ?? []
        line += holders.isEmpty ? "  waiting for a holder" : "  from \(names(object["holders"]))"
        return width.map { DisplayWidth.truncated(line, to: max($0 - 1, 1)) } ?? line
    }
}
