import Glibc
import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol

/// A command whose answer is looked for.
struct WaitingCommand {
    enum Kind {
        case send(String)
        case add(String)
    }

    var kind: Kind
    var host: Int
    var life: Int
    var reply: SimulatedReply
    /// True time by which it must be answered.
    var due: Int64
}

/// What members say and add, and whether they are answered.
extension SimulationRun {
    private static let sendTimeout = TimeSpan.seconds(60)
    /// `journal.add` answers when the file and its record are on the disk; a disk that fails makes it wait.
    private static let addTimeout = TimeSpan.seconds(60)

    static func logarithm(_ value: Double) -> Double { log(value) }

    func planTraffic(from start: Int64) {
        plan(.say, perMinute: scenario.traffic.messagesPerMinute, &trafficRandom)
        plan(.add, perMinute: scenario.traffic.filesPerMinute, &trafficRandom)
        agenda.add(.look, at: start + 1_000_000_000)
    }

    private func anyRunning() -> SimulatedNode? {
        let running = cluster.running
        return running.isEmpty ? nil : running[trafficRandom.below(running.count)]
    }

    func say() {
        guard let host = anyRunning() else { return }
        let padding = String(
            repeating: ".",
            count: trafficRandom.below(10) == 0 ? trafficRandom.below(20_000) : trafficRandom.below(200))
        let isReliable = trafficRandom.below(5) != 0
        let text = "\(InvariantMonitor.marker) \(host.name) says \(sentCount) \(padding)"
        cluster.monitor.willSend(text, from: host.index, number: sentCount, isReliable: isReliable)
        do {
            let reply = try cluster.request(
                [
                    "verb": "send", "text": .string(text), "timeoutSeconds": .number(Self.sendTimeout.seconds),
                    "mode": .string(isReliable ? "reliable" : "unreliable"),
                ], of: host.index)
            sentCount += 1
            // An unreliable message is answered when it is handed to the network, which promises nothing.
            wait(isReliable ? .send(text) : .send(""), host, reply, Self.sendTimeout)
        } catch {
            // A mailbox that is full refuses, and says so; nothing was sent.
        }
    }

    func add() {
        guard let host = anyRunning() else { return }
        let name = "file\(added.count)-\(host.name).bin"
        let bytes = trafficRandom.bytes(
            trafficRandom.below(4) == 0 ? trafficRandom.below(150_000) : trafficRandom.below(4_000))
        let path = "/files/\(name)"
        host.storage.putFile(bytes, at: path)
        added[name] = Digest.hash32(bytes)
        do {
            let reply = try cluster.request(["verb": "journal.add", "path": .string(path)], of: host.index)
            wait(.add(name), host, reply, Self.addTimeout)
        } catch {
            // As above.
        }
    }

    private func wait(
        _ kind: WaitingCommand.Kind, _ host: SimulatedNode, _ reply: SimulatedReply, _ timeout: TimeSpan
    ) {
        let due = cluster.time.now + (timeout + Self.answerMargin).nanoseconds
        waiting.append(
            WaitingCommand(kind: kind, host: host.index, life: host.startCount, reply: reply, due: due))
    }

    /// Looks which commands were answered, and which should have been. One whose process has ended is forgotten: its
    /// answer went with it.
    func watchCommands() {
        waiting.removeAll { command in
            let host = cluster.nodes[command.host]
            if command.reply.isFinished {
                settle(command)
                return true
            }
            guard host.startCount == command.life, host.isRunning else { return true }
            if cluster.time.now > command.due, !cluster.isFrozen(command.host) {
                cluster.monitor.violate(.answered, "\(host.name) did not answer a \(command.name) in time")
                return true
            }
            return false
        }
    }

    private func settle(_ command: WaitingCommand) {
        guard command.reply.errorCode == nil else { return }
        switch command.kind {
        case .add(let name): acknowledged[name] = cluster.meshOfHost(command.host)
        case .send(let text):
            let answer = command.reply.objects.last { $0["schema"]?.stringValue == "starling/send/1" }
            let names = answer?["recipients"]?.arrayValue?.compactMap(\.stringValue) ?? []
            if !text.isEmpty { cluster.monitor.answered(text, recipients: names.filter { $0.hasPrefix("node") }) }
        }
    }

    /// What was acknowledged as added is listed by everybody in the end.
    func checkAcknowledged(in view: ClusterView) {
        for node in view.nodes {
            let names = Set(node.snapshot.attachments.map(\.name))
            let missing = acknowledged.filter { $0.value == node.mesh && !names.contains($0.key) }.keys
                .filter { !lost.contains($0) }.sorted()
            if let first = missing.first {
                fail("\(node.name) lacks \(missing.count) files that were acknowledged as added, \(first) among them")
            }
        }
    }
}

extension WaitingCommand {
    fileprivate var name: String {
        switch kind {
        case .send: "send"
        case .add: "journal add"
        }
    }
}
