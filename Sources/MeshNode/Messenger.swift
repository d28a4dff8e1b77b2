import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// Links and gossip: the one actor that sees datagrams.
///
/// Its only effects are receiving and transmitting batches. No method suspends, so none is ever re-entered halfway.
public actor Messenger {
    public nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }
    private nonisolated let executor: any NodeExecutor
    private let transport: any DatagramTransport
    private var machine: MessengerStateMachine
    private var outbox = Outbox<MessengerOutput>()

    private let attachmentQueueBytes: Int

    init(
        machine: MessengerStateMachine, attachmentQueueBytes: Int, transport: any DatagramTransport,
        executor: any NodeExecutor
    ) {
        self.attachmentQueueBytes = attachmentQueueBytes
        self.machine = machine
        self.transport = transport
        self.executor = executor
    }

    /// Reads and handles at most `limit` datagrams. Returns what follows from them and whether the limit was reached.
    func receiveBatch(limit: Int, at now: HostTime) -> (outputs: [MessengerOutput], isMoreWaiting: Bool) {
        let count = transport.receive(limit: limit) { datagram, source, receivedAt in
            machine.receive(&datagram, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        }
        if count > 0 { isDeadlineKnown = false }
        return (takeOutputs(), count >= limit)
    }

    /// Carries out commands in order, then whatever is due.
    func perform(_ commands: [MessengerCommand], at now: HostTime) -> [MessengerOutput] {
        guard !commands.isEmpty || nextDeadline.isDue(at: now) else { return [] }
        for command in commands {
            do { try machine.submit(command, at: now, into: &outbox) } catch { refused(command, error) }
        }
        if !commands.isEmpty { isDeadlineKnown = false }
        if nextDeadline.isDue(at: now) {
            machine.handleDeadline(at: now, into: &outbox)
            isDeadlineKnown = false
        }
        return takeOutputs()
    }

    /// A record that cannot be made goes back to the machine that wanted it: somebody may be waiting.
    private func refused(_ command: MessengerCommand, _ error: CommandError) {
        actorStatistics.refusedCommands += 1
        if case .gossip(.publish(let kind, let body, _)) = command {
            outbox.append(.publishRefused(kind, body: body, error))
        }
    }

    /// One command of a person, whose refusal is answered.
    func submit(_ command: MessengerCommand, at now: HostTime) throws(CommandError) -> [MessengerOutput] {
        defer { isDeadlineKnown = false }
        try machine.submit(command, at: now, into: &outbox)
        return takeOutputs()
    }

    /// Assembles and transmits what is queued; returns what else came of it.
    func transmit(at now: HostTime) -> [MessengerOutput] {
        machine.flush(at: now, into: &outbox)
        var datagrams: [TransportDatagram] = []
        var others: [MessengerOutput] = []
        outbox.drain { output in
            if case .transmit(let datagram) = output {
                datagrams.append(TransportDatagram(bytes: datagram.bytes, destination: datagram.destination))
            } else {
                others.append(output)
            }
        }
        datagrams.insert(contentsOf: waitingDatagrams, at: 0)
        waitingDatagrams.removeAll(keepingCapacity: true)
        if !datagrams.isEmpty {
            let result = transport.send(datagrams)
            machine.didTransmit(at: result.startedAt)
        }
        isDeadlineKnown = false
        return others
    }

    func takeHeard() -> [PeerID] { machine.takeHeard() }
    func restore(_ records: [[UInt8]]) -> RestoredRecords {
        defer { isDeadlineKnown = false }
        return machine.restore(records)
    }

    /// Worked out when it is asked for: several inputs of a turn change it, and one question ends the turn.
    var nextDeadline: HostTime? {
        if !isDeadlineKnown {
            knownDeadline = machine.askNextDeadline()
            isDeadlineKnown = true
        }
        return knownDeadline
    }
    private var knownDeadline: HostTime?
    private var isDeadlineKnown = false
    /// How many more bytes of attachments a link's queue takes now, for each where that changed since the last call.
    func takeQueueSpaces() -> [(peer: PeerID, byteCount: Int)] {
        machine.takeAttachmentQueueBytes().map { ($0.peer, max(0, attachmentQueueBytes - $0.byteCount)) }
    }

    /// What the links measured, for the session's time-outs.
    func roundTrips() -> [SessionCommand] {
        machine.links.linkedPeers.compactMap { peer in
            guard let link = machine.links.statistics(of: peer), let smoothed = link.smoothedRoundTrip else {
                return nil
            }
            return .roundTrip(peer, smoothed: smoothed, variance: link.roundTripVariance)
        }
    }

    /// The GENESIS record of the mesh that was just founded.
    func foundedMesh() -> [UInt8]? { machine.gossip.genesis }

    var links: LinkTable { machine.links }
    var gossip: Gossip { machine.gossip }
    var statistics: MessengerStateMachine.Statistics { machine.statistics }
    private(set) var actorStatistics = ActorStatistics()

    /// Handshake answers made while receiving; they leave with the turn's other datagrams, first.
    private var waitingDatagrams: [TransportDatagram] = []

    private func takeOutputs() -> [MessengerOutput] {
        guard !outbox.isEmpty else { return [] }
        var outputs: [MessengerOutput] = []
        outputs.reserveCapacity(outbox.items.count)
        outbox.drain { output in
            if case .transmit(let datagram) = output {
                waitingDatagrams.append(
                    TransportDatagram(bytes: datagram.bytes, destination: datagram.destination))
            } else {
                outputs.append(output)
            }
        }
        return outputs
    }
}
