import MeshBase

extension Rendering {
    /// A text of several lines stays one message to the eye: what follows its first line is set in, so that no line of
    /// it looks like somebody else's.
    func inbox(_ object: JSONValue) -> [String] {
        if let count = object["count"]?.integerValue {
            let size = Quantity.bytes(object["bytes"]?.numberValue ?? 0)
            let dropped = object["dropped"]?.integerValue ?? 0
            return ["\(count) messages, \(size)" + (dropped > 0 ? ", \(dropped) dropped" : "")]
        }
        let mode = object["mode"]?.stringValue
        let late = object["late"]?.boolValue == true ? ", late" : ""
        let mark =
            mode == nil || mode == "reliable" ? "" : style.apply(.faint, to: " (\(text(object["mode"]))\(late))")
        let body = object["text"]?.stringValue ?? ""
        let lines = body.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }.map { safe(String($0)) }
        let head = "\(style.apply(.name, to: text(object["from"])))\(mark): \(lines.first ?? "")"
        return [head] + lines.dropFirst().map { "  " + $0 }
    }

    func sent(_ object: JSONValue) -> String {
        let count = object["count"]?.integerValue ?? 1
        let recipients = object["recipients"]?.arrayValue ?? []
        let what = count == 1 ? "sent" : "sent \(count) times"
        return recipients.isEmpty
            ? "\(what); nobody is linked now, members get it when they are"
            : "\(what) to \(names(object["recipients"]))"
    }

    /// `12:03:07  ben is reachable  address 192.0.2.4:47800`
    func event(_ object: JSONValue) -> String {
        let kind = object["kind"]?.stringValue ?? "?"
        let node = object["node"]?.stringValue
        var line = "\(style.apply(.faint, to: time(object["at"])))  \(sentence(kind, about: node.map(safe)))"
        if case .object(let detail) = object["detail"] ?? .null {
            for member in detail {
                line += "  \(style.apply(.faint, to: safe(member.name))) \(shortened(text(member.value)))"
            }
        }
        return line
    }

    /// An id of 16 digits and more is for machines; its beginning is what people type.
    private func shortened(_ text: String) -> String {
        text.utf8.count >= 16 && text.allSatisfy(\.isHexDigit) ? String(text.prefix(8)) : text
    }

    private func sentence(_ kind: String, about node: String?) -> String {
        let (phrase, tone) = phrase(kind)
        let who = node.map { style.apply(.name, to: $0) + " " } ?? ""
        return who + style.apply(tone, to: safe(phrase))
    }

    /// The words for a kind of event; a kind from a newer node in words made of its name.
    func phrase(_ kind: String) -> (text: String, tone: Style.Tone) {
        Self.phrases[kind] ?? (Self.words(kind), .plain)
    }

    /// What each kind says behind the name it is about.
    private static let phrases: [String: (String, Style.Tone)] = [
        "meshFounded": ("founded the mesh", .good), "meshJoined": ("joined the mesh", .good),
        "joinFailed": ("could not join", .bad), "memberAdmitted": ("was admitted", .good),
        "memberAlive": ("is alive", .good), "memberSuspect": ("does not answer", .warning),
        "memberDead": ("is gone", .bad), "memberLeft": ("left", .plain), "memberReturned": ("is back", .good),
        "memberRemoved": ("was removed from the mesh", .warning), "meshEnded": ("ended the mesh", .warning),
        "secretRenewed": ("has a new group secret", .plain),
        "memberRenamed": ("has a new name", .plain), "memberRefused": ("was refused", .bad),
        "identityConflict": ("runs twice with one identity", .bad), "linkEstablished": ("is linked", .good),
        "linkLost": ("is not linked any more", .warning), "linkMoved": ("has a new address", .plain),
        "handshakeRefused": ("was refused a handshake", .warning),
        "versionMismatch": ("speaks another version", .bad), "inviteCreated": ("made an invite", .plain),
        "inviteRevoked": ("revoked an invite", .plain), "messageReceived": ("sent a message", .plain),
        "messageDropped": ("lost a message", .warning), "attachmentAdded": ("added an attachment", .plain),
        "attachmentComplete": ("attachment is complete here", .good),
        "attachmentRemoved": ("removed an attachment", .plain), "attachmentFailed": ("attachment failed", .bad),
        "attachmentWaiting": ("attachment waits for a holder", .warning),
        "chunkRejected": ("sent a damaged chunk", .bad), "storageFailed": ("storage failed", .bad),
        "storageRecovered": ("storage works again", .good), "clockSteady": ("clock is steady", .good),
        "clockStepped": ("clock was set", .warning), "clockMerged": ("clocks merged", .plain),
        "interfacesChanged": ("network interfaces changed", .plain), "suspended": ("was asleep", .warning),
        "limitReached": ("a limit was reached", .warning),
    ]

    /// `someNewKind` as `some new kind`.
    private static func words(_ kind: String) -> String {
        kind.reduce(into: "") { output, character in
            output += character.isUppercase ? " " + character.lowercased() : String(character)
        }
    }
}
