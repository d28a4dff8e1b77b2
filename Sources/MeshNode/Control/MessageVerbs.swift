import MeshBase
import MeshProtocol
import MeshWire

enum SendVerb: ControlVerb {
    static let name = "send"
    static let maximumRepeat = 1_000_000

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        guard let text = call.text("text") else { throw .usage("send what?", hint: "starling send TEXT") }
        try node.requireMesh()
        let recipients = try recipients(call.texts("to"), on: node)
        let repetitions = call.integer("repeat") ?? 1
        guard (1...maximumRepeat).contains(repetitions) else {
            throw .usage("--repeat is 1 to \(maximumRepeat)", hint: "starling send TEXT --repeat 100")
        }
        let mode = try deliveryMode(call.text("mode") ?? "reliable")
        let span = try expiry(call, mode)
        guard mode != .ordered || recipients.isEmpty else {
            throw .usage("ordered messages go to everybody", hint: "starling send TEXT --ordered")
        }
        let payload = sized(Array(text.utf8), call.integer("sizeBytes"))
        guard payload.count <= WireLimits.maximumMessageBytes else {
            throw NodeError(CommandError.limitExceeded(limit: WireLimits.maximumMessageBytes, actual: payload.count))
        }
        let everyone = node.members.filter { !$0.isLocal && ($0.state == .alive || $0.state == .suspect) }.map(\.peer)
        let batch = SendBatch(
            payload: payload, recipients: recipients.isEmpty ? nil : recipients, mode: mode, expiry: span,
            names: (recipients.isEmpty ? everyone : recipients).map(node.name(of:)), total: repetitions,
            deadline: now + node.timeout(call), reply: call.reply)
        await SendBatch.begin(batch, on: node, at: now)
    }

    /// Names, or several in one text with commas between them; a name that has commas itself is taken whole.
    private static func recipients(_ texts: [String], on node: isolated Node) throws(NodeError) -> [PeerID] {
        var recipients: [PeerID] = []
        for text in texts {
            let isName = node.members.contains { !$0.isLocal && $0.name == text }
            let names = isName ? [text] : text.split(separator: ",").map(String.init)
            for name in names { recipients.append(try node.member(named: name).peer) }
        }
        return recipients
    }

    private static func expiry(_ call: ControlCall, _ mode: DeliveryMode) throws(NodeError) -> TimeSpan? {
        guard let seconds = call.number("deadlineSeconds") else { return nil }
        let hint = "starling send TEXT --unreliable --deadline 50ms"
        guard mode == .unreliable else { throw .usage("only unreliable messages have a deadline", hint: hint) }
        guard seconds > 0, seconds <= 60 else { throw .usage("a deadline is at most 60 s", hint: hint) }
        return .seconds(seconds)
    }

    private static func deliveryMode(_ text: String) throws(NodeError) -> DeliveryMode {
        switch text {
        case "reliable": return .reliable
        case "unreliable": return .unreliable
        case "ordered": return .ordered
        default: throw .usage("the mode is reliable, unreliable or ordered", hint: "starling send TEXT --ordered")
        }
    }

    private static func sized(_ bytes: [UInt8], _ size: Int?) -> [UInt8] {
        guard let size, size >= 0 else { return bytes }
        return Array(bytes.prefix(size)) + [UInt8](repeating: 0x2e, count: max(0, min(size, 1 << 20) - bytes.count))
    }
}

/// The messages of one `send`: at most `window` of them and `windowBytes` are under way, the next goes when one is
/// settled, so that a long batch fills no queue and the sender feels how fast the receivers are. One that finds a queue
/// full all the same waits. The node keeps the batch by its id meanwhile.
struct SendBatch: Sendable {
    static let window = 64
    /// A quarter of what the queue towards one member takes.
    static let windowBytes = 1 << 20
    /// A message that found a queue full, filled by others, is tried again after this.
    static let pause = TimeSpan.milliseconds(50)

    var payload: [UInt8]
    var recipients: [PeerID]?
    var mode: DeliveryMode
    var expiry: TimeSpan?
    var names: [String]
    var total: Int
    var deadline: HostTime
    var reply: ControlReply
    var started = 0
    var underWay = 0

    static func begin(_ batch: SendBatch, on node: isolated Node, at now: HostTime) async {
        let id = node.waiting.makeToken()
        node.sendBatches[id] = batch
        await advance(id, on: node, at: now)
    }

    private static func advance(_ id: CommandToken, on node: isolated Node, at now: HostTime) async {
        while let batch = node.sendBatches[id], batch.started < batch.total, batch.hasWindow, batch.reply.isOpen {
            node.sendBatches[id]?.started += 1
            node.sendBatches[id]?.underWay += 1
            guard await sendOne(batch, id, on: node, at: now) else { return }
        }
        guard let batch = node.sendBatches[id], batch.underWay == 0 else { return }
        node.sendBatches[id] = nil
        batch.reply.answer([
            "schema": "starling/send/1", "count": .integer(Int64(batch.total)),
            "bytes": .integer(Int64(batch.payload.count)), "recipients": .array(batch.names.map { .string($0) }),
        ])
    }

    private var hasWindow: Bool {
        underWay == 0 || underWay < Self.window && (underWay + 1) * payload.count <= Self.windowBytes
    }

    /// False when the message did not fit into a queue: it goes when another one is settled, or after a pause.
    private static func sendOne(
        _ batch: SendBatch, _ id: CommandToken, on node: isolated Node, at now: HostTime
    ) async -> Bool {
        let token = node.waiting.makeToken()
        let late = NodeError.timedOut(
            "not everybody has acknowledged the message in time; it is still being delivered",
            hint: "starling peers shows who is reachable · --timeout SECONDS waits longer")
        node.waiting.wait(for: token, until: batch.deadline, timeout: late) { result, node, now in
            node.sendBatches[id]?.underWay -= 1
            tell(result, batch.reply, on: node)
            await advance(id, on: node, at: now)
        }
        do throws(NodeError) {
            try await node.submitToGossip(
                .sendUserMessage(
                    payload: batch.payload, recipients: batch.recipients, mode: batch.mode, deadline: batch.expiry,
                    token: token), at: now)
        } catch {
            guard error.code == "queueFull", now < batch.deadline else {
                node.waiting.fail(token, error)
                return true
            }
            node.waiting.cancel(token)
            node.sendBatches[id]?.started -= 1
            node.sendBatches[id]?.underWay -= 1
            if batch.underWay == 0 { tryAgain(id, on: node, at: now) }
            return false
        }
        return true
    }

    private static func tryAgain(_ id: CommandToken, on node: isolated Node, at now: HostTime) {
        let token = node.waiting.makeToken()
        node.waiting.wait(for: token, until: now + pause, timeout: .timedOut("", hint: "")) { _, node, now in
            await advance(id, on: node, at: now)
        }
    }

    private static func tell(_ result: Result<Settlement, NodeError>, _ reply: ControlReply, on node: isolated Node) {
        switch result {
        case .failure(let error): reply.fail(error)
        case .success(.message(.failed(let failures))):
            let names = failures.map { "\(SafeText.escaped(node.name(of: $0.peer))) (\($0.reason.rawValue))" }
            reply.fail(
                NodeError(
                    "unreachable", "not delivered to \(names.joined(separator: ", "))", hint: "starling why NAME",
                    exit: 4))
        case .success: break
        }
    }
}

enum InboxVerb: ControlVerb {
    static let name = "inbox"

    static func perform(_ call: ControlCall, on node: isolated Node, at now: HostTime) async throws(NodeError) {
        if call.flag("count") {
            call.reply.send(Documents.count(node.messages))
            guard call.flag("follow") else { return call.reply.finish() }
            return try follow(&node.followers.counts, call.reply)
        }
        if call.request["backlog"]?.boolValue ?? true {
            for message in node.messages.messages { call.reply.send { Documents.message(message) } }
        }
        guard call.flag("follow") else { return call.reply.finish() }
        try follow(&node.followers.messages, call.reply)
    }
}
