import MeshBase
import MeshCrypto
import MeshProtocol
import MeshWire

/// Coordinators on virtual time, joined by paths with chosen delays, each with a host clock of its own offset and
/// rate. Datagrams carry the timing header of the link layer, so machines get samples as in a node. Truth is known:
/// all clocks are functions of one time line.
final class ClockSimulation {
    struct Path: Sendable {
        /// One-way delay in seconds, drawn per datagram.
        var delay: @Sendable (inout RandomStream) -> Double
        var loss = 0.0
        /// Deliver only at multiples of this many seconds (a radio that sleeps); zero = at once.
        var burst = 0.0
    }

    struct Node {
        var machine: CoordinatorStateMachine
        var id: PeerID
        /// Host clock = offset + true time × (1 + rate), nanoseconds.
        var offset: Int64
        var rate: Double
        var isUp = false
        var heard: [Int: (number: Int, sent: HostTime, received: HostTime)] = [:]
        var events: [ProtocolEvent] = []
    }

    private enum Happening {
        case datagram(
            number: Int, to: Int, from: Int, sent: HostTime, echo: HostTime?, hold: TimeSpan, message: ClockMessage?)
        case keepAlive(from: Int, to: Int)
    }

    private(set) var now = 0.0
    var nodes: [Node] = []
    var path: (Int, Int) -> Path
    var keepAlive = 0.25
    /// What a node does to messages before they leave: a liar's hook.
    var distort: (Int, ClockMessage) -> ClockMessage = { $1 }
    private(set) var links: Set<[Int]> = []
    private var queue: [(time: Double, order: Int, what: Happening)] = []
    private var counter = 0
    private var random: RandomStream

    init(
        seed: UInt64, count: Int, offset: (Int) -> Int64, ppm: (Int) -> Double, path: @escaping (Int, Int) -> Path,
        configuration: CoordinatorConfiguration = CoordinatorConfiguration()
    ) {
        self.path = path
        random = RandomStream(testSeed: seed)
        for index in 0..<count {
            let signing = SigningKeyPair(seed: random.secret())
            let identity = NodeIdentity(signing: signing, incarnation: Incarnation(random.uint64()))
            let machine = CoordinatorStateMachine(
                identity: identity, configuration: configuration, random: random.split())
            nodes.append(
                Node(machine: machine, id: signing.peerID, offset: offset(index), rate: ppm(index) * 1e-6))
        }
    }

    func host(_ index: Int) -> HostTime { host(index, at: now) }

    func host(_ index: Int, at time: Double) -> HostTime {
        let elapsed = Int64((time * 1e9).rounded()) + Int64((time * 1e9 * nodes[index].rate).rounded())
        return HostTime(nanoseconds: nodes[index].offset + elapsed)
    }

    private func trueTime(_ index: Int, of host: HostTime) -> Double {
        Double(host.nanoseconds - nodes[index].offset) / 1e9 / (1 + nodes[index].rate)
    }

    func submit(_ command: CoordinatorCommand, to index: Int) {
        var outbox = Outbox<CoordinatorOutput>()
        try? nodes[index].machine.submit(command, at: host(index), into: &outbox)
        perform(outbox, of: index)
    }

    func found(_ index: Int) {
        nodes[index].isUp = true
        submit(.found, to: index)
    }

    /// Starts joining and links to every node that is up, or to those named.
    func join(_ index: Int, linkingTo others: [Int]? = nil) {
        nodes[index].isUp = true
        submit(.joinStarted, to: index)
        for other in others ?? nodes.indices.filter({ $0 != index && nodes[$0].isUp }) { link(index, other) }
    }

    func link(_ left: Int, _ right: Int) {
        guard links.insert([min(left, right), max(left, right)]).inserted else { return }
        announceMembers(left)
        announceMembers(right)
        submit(.linkUp(nodes[right].id), to: left)
        submit(.linkUp(nodes[left].id), to: right)
        schedule(now + keepAlive * random.unit(), .keepAlive(from: left, to: right))
        schedule(now + keepAlive * random.unit(), .keepAlive(from: right, to: left))
    }

    func unlink(_ left: Int, _ right: Int) {
        guard links.remove([min(left, right), max(left, right)]) != nil else { return }
        nodes[left].heard[right] = nil
        nodes[right].heard[left] = nil
        submit(.linkDown(nodes[right].id), to: left)
        submit(.linkDown(nodes[left].id), to: right)
    }

    func leave(_ index: Int) {
        for other in nodes.indices where other != index { unlink(index, other) }
        nodes[index].isUp = false
        for other in nodes.indices where nodes[other].isUp { announceMembers(other) }
    }

    private func announceMembers(_ index: Int) {
        submit(.membersChanged(nodes.indices.filter { nodes[$0].isUp }.map { nodes[$0].id }), to: index)
    }

    private func schedule(_ time: Double, _ what: Happening) {
        counter += 1
        var low = 0
        var high = queue.count
        // Kept latest first, so that the next is taken from the end.
        while low < high {
            let middle = (low + high) / 2
            if queue[middle].time > time { low = middle + 1 } else { high = middle }
        }
        queue.insert((time, counter, what), at: low)
    }

    private func perform(_ outbox: Outbox<CoordinatorOutput>, of index: Int) {
        for output in outbox.items {
            switch output {
            case .send(let message, let peer, _, let isReliable):
                guard let other = nodes.firstIndex(where: { $0.id == peer }) else { continue }
                send(distort(index, message), from: index, to: other, isReliable: isReliable)
            case .event(let event): nodes[index].events.append(event)
            case .orderChanged: break
            }
        }
    }

    private func send(_ message: ClockMessage?, from: Int, to: Int, isReliable: Bool = false) {
        let path = path(from, to)
        let sent = host(from)
        let heard = nodes[from].heard[to]
        let delay = path.delay(&random)
        guard isReliable || random.unit() >= path.loss else { return }
        var arrival = now + delay
        if path.burst > 0 { arrival = (arrival / path.burst).rounded(.up) * path.burst }
        schedule(
            arrival,
            .datagram(
                number: counter, to: to, from: from, sent: sent, echo: heard?.sent,
                hold: heard.map { sent - $0.received } ?? .zero,
                message: message))
    }

    private func deliver(_ what: Happening) {
        switch what {
        case .keepAlive(let from, let to):
            guard links.contains([min(from, to), max(from, to)]) else { return }
            send(nil, from: from, to: to)
            schedule(now + keepAlive, .keepAlive(from: from, to: to))
        case .datagram(let number, let to, let from, let sent, let echo, let hold, let message):
            guard links.contains([min(from, to), max(from, to)]) else { return }
            let received = host(to)
            if nodes[to].heard[from].map({ $0.number < number }) ?? true {
                nodes[to].heard[from] = (number, sent, received)
            }
            if let echo, hold < .seconds(4) {
                let sample = ClockSample(
                    sentHere: echo, receivedThere: sent - hold, sentThere: sent, receivedHere: received)
                submit(.sample(nodes[from].id, sample), to: to)
            }
            guard let message else { return }
            var outbox = Outbox<CoordinatorOutput>()
            nodes[to].machine.receive(message, from: nodes[from].id, at: received, into: &outbox)
            perform(outbox, of: to)
        }
    }

    /// Runs for `seconds` of true time, calling `each` every `step`.
    func run(_ seconds: Double, every step: Double = .infinity, each: () -> Void = {}) {
        let end = now + seconds
        var nextLook = now + step
        while true {
            var time = min(end, nextLook, queue.last?.time ?? .infinity)
            var due: Int?
            for index in nodes.indices where nodes[index].isUp {
                guard let deadline = nodes[index].machine.nextDeadline else { continue }
                // A nanosecond late, because a host instant falls between two values of a Double.
                let instant = max(now, trueTime(index, of: deadline) + 2e-9)
                if instant < time { (time, due) = (instant, index) }
            }
            now = max(now, time)
            if let due {
                var outbox = Outbox<CoordinatorOutput>()
                nodes[due].machine.handleDeadline(at: host(due), into: &outbox)
                perform(outbox, of: due)
            } else if let next = queue.last, next.time <= now {
                queue.removeLast()
                deliver(next.what)
            } else if nextLook <= now {
                each()
                nextLook += step
            } else if now >= end {
                return
            }
        }
    }

    func mesh(_ index: Int) -> Int64 { nodes[index].machine.meshTime(at: host(index)).nanoseconds }

    /// Greatest difference of mesh time between nodes that are up, at this instant, nanoseconds.
    func spread(_ chosen: [Int]? = nil) -> Int64 {
        let values = (chosen ?? nodes.indices.filter { nodes[$0].isUp }).map(mesh)
        return (values.max() ?? 0) - (values.min() ?? 0)
    }

    func state(_ index: Int) -> ClockSummary.State { nodes[index].machine.clock(at: host(index)).state }

    /// Peer's host clock minus ours, in truth.
    func trueOffset(from index: Int, to other: Int) -> Int64 { host(other).nanoseconds - host(index).nanoseconds }
}

extension ClockSimulation.Path {
    /// Like a wired LAN: 60 µs round trip with a few µs of noise.
    static let lan = ClockSimulation.Path { random in 30e-6 + 4e-6 * random.unit() }
    /// 20 ms ± 5 ms, 1 % loss.
    static let wan = ClockSimulation.Path(delay: { random in 15e-3 + 10e-3 * random.unit() }, loss: 0.01)
}

let dayNanoseconds: Int64 = 86_400_000_000_000
