import MeshBase
import MeshConsole

/// `doctor --peer`: how a running node reaches a member, or what it tried.
struct PeerCheck {
    let command: CommandRun

    func checks(of peer: String) throws -> [JSONValue] {
        let name = try command.finder.pick(try command.settings()["node"]).nodeName
        let why = try answer(to: ["verb": "why", "name": .string(peer)], of: name)
        let links = try answer(to: ["verb": "links"], of: name)["links"]?.arrayValue ?? []
        return [presence(why), link(links.first { $0["peer"]?.stringValue == why["name"]?.stringValue }, why)]
            + (why["tried"]?.arrayValue ?? []).map(attempt)
    }

    private func answer(to request: JSONValue, of name: String) throws -> JSONValue {
        let connection = try command.finder.pick(name)
        guard connection.send(request) else { throw RequestCommand.lost(name) }
        switch connection.next(milliseconds: 2_000) {
        case .object(let object): return object
        case .failure(let failure): throw failure
        case .done, .timedOut: throw RequestCommand.silent(name)
        }
    }

    private func check(_ name: String, _ result: String, _ message: String, fix: String? = nil) -> JSONValue {
        let members: [JSONValue.Member] = [
            .init("name", .string(name)), .init("result", .string(result)), .init("message", .string(message)),
        ]
        return .object(members + (fix.map { [.init("fix", .string($0))] } ?? []))
    }

    private func presence(_ why: JSONValue) -> JSONValue {
        let message = why["summary"]?.stringValue ?? "unknown"
        switch why["state"]?.stringValue {
        case "alive": return check("peer", "ok", message)
        case "left": return check("peer", "warn", message, fix: "on its machine: starling up")
        case "suspect": return check("peer", "warn", message)
        default: return check("peer", "fail", message, fix: "on its machine: starling nodes, then starling doctor")
        }
    }

    private func link(_ link: JSONValue?, _ why: JSONValue) -> JSONValue {
        guard let link else {
            guard why["state"]?.stringValue != "left" else { return check("link", "ok", "none, and none is wanted") }
            let isRelayed = why["state"]?.stringValue == "alive"
            return check(
                "link", isRelayed ? "warn" : "fail", isRelayed ? "none; others pass everything on" : "none",
                fix: "let both machines hear each other: one network, udp/47800 open")
        }
        let roundTrip = link["rttMicroseconds"]?.numberValue.map(Quantity.roundTrip) ?? "unknown"
        let loss = link["lossPercent"]?.numberValue ?? 0
        let way =
            link["via"]?.stringValue.map { "through \(SafeText.escaped($0))" } ?? link["address"]?.stringValue ?? "–"
        let message =
            "\(way), round trip \(roundTrip), loss \(Quantity.percent(loss)), "
            + "datagrams of \(link["mtuBytes"]?.integerValue ?? 0) bytes"
        return loss >= 10
            ? check("link", "warn", message, fix: "a wire, or nearer to the access point")
            : check("link", "ok", message)
    }

    private func attempt(_ attempt: JSONValue) -> JSONValue {
        let result = attempt["result"]?.stringValue ?? "unknown"
        let ago = attempt["secondsAgo"]?.numberValue.map { ", \(Quantity.duration(seconds: $0)) ago" } ?? ""
        let message = "\(attempt["address"]?.stringValue ?? "–"): \(result)\(ago)"
        return check("tried", result == "answered" ? "ok" : "warn", message)
    }
}
