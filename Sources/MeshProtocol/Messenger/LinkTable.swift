import MeshBase
import MeshCrypto
import MeshWire

/// Bytes ↔ messages between this node and the peers it is directly linked with.
///
/// Owns every handshake, link and queue. Pure: time, bytes and randomness come in as parameters, datagrams go out through
/// the outbox. The order of calls within one turn: `receive` for each datagram, `send` and `dial` as the machines above
/// decide, `handleDeadline` when `nextDeadline` has come, `flush` once, the system call, `didTransmit`.
public struct LinkTable: Sendable {
    /// Counters of everything done and refused.
    public internal(set) var statistics = LinkTableStatistics()

    /// What a receiver index of ours stands for.
    enum IndexOwner: Sendable {
        case dial(number: UInt64, target: Int)
        case halfOpen
        case link(slot: Int)
    }

    let identity: NodeIdentity
    let configuration: LinkConfiguration
    var random: RandomStream
    private let staticKey: AgreementKeyPair
    private(set) var suite: HandshakeSuite?
    private(set) var secrets: [GroupSecret] = []
    var pairs: PairSecrets
    private(set) var membershipHead = Bytes16.zero

    var links = LinkSlots()
    private var slots: [PeerID: Int] = [:]
    var owners: [UInt32: IndexOwner] = [:]
    var dials: [Dial] = []
    var nextDialNumber: UInt64 = 0
    var finals: [PendingFinal] = []
    var halfOpen: HalfOpenTable
    var cookies: CookieMint
    var history: DialHistory
    var handshakeRate: LoadMeter
    private var heard = SlotMarks()
    private var transmitted = SlotMarks()
    var relays = RelayRoutes()
    var budget: RelayBudget
    /// Links that were given something to carry in this flush.
    var carriers = SlotMarks()
    /// When spare ways through members are asked next whether they work.
    var nextSpareProbeAt = HostTime.distantFuture

    /// Four epoch secrets, as after removals that did not know of each other, and sixteen tickets.
    public static let maximumSecrets = 20
    /// A link that was heard this recently needs no dial.
    static let recentlyHeard: TimeSpan = .seconds(2)

    /// `random`: owned from now on; a copy used elsewhere would repeat its bytes.
    public init(identity: NodeIdentity, configuration: LinkConfiguration, random: RandomStream) {
        self.identity = identity
        self.configuration = configuration
        var random = random
        staticKey = AgreementKeyPair(secret: random.secret())
        cookies = CookieMint(life: configuration.cookieLife, random: &random)
        halfOpen = HalfOpenTable(configuration: configuration)
        pairs = PairSecrets(identity: identity)
        history = DialHistory(configuration: configuration)
        handshakeRate = LoadMeter(limitPerSecond: configuration.handshakesPerSecondBeforeCookies)
        budget = RelayBudget(configuration: configuration)
        self.random = random
    }

    // MARK: What handshakes prove

    /// The mesh named in every handshake. Without it nothing is sent and nothing accepted.
    public mutating func setMesh(_ mesh: MeshID) {
        suite = HandshakeSuite(identity: identity, mesh: mesh, configuration: configuration, staticKey: staticKey)
    }

    /// The secrets that may open handshakes, epoch secrets first, at most 20; the rest is ignored. Links that exist are
    /// kept.
    public mutating func setSecrets(_ secrets: [GroupSecret]) {
        self.secrets = Array(secrets.prefix(Self.maximumSecrets))
    }

    /// The digest of the records held here, told in every handshake.
    public mutating func setMembershipHead(_ head: Bytes16) { membershipHead = head }

    func secret(_ id: SecretID) -> GroupSecret? { secrets.first { $0.id == id } ?? pairs.secret(id) }

    /// A member more.
    public mutating func admit(_ peer: PeerID) { pairs.admit(peer) }

    /// Who is a member, and whose key makes no link any more, whatever ticket it holds. Links that exist are kept.
    public mutating func setMembers(_ members: Set<PeerID>, removed: Set<PeerID>) {
        pairs.set(members: members, removed: removed)
    }

    // MARK: In

    /// Takes one datagram; DATA is opened in place. Never throws and never traps: what is wrong is dropped and counted.
    /// - Parameters:
    ///   - receivedAt: the kernel's receive time on the host clock.
    ///   - now: the time of this turn.
    public mutating func receive(
        _ datagram: inout MutableSpan<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        // What names a path inside this process comes from no network.
        guard !source.isDiscardOnly else {
            statistics.refusedSource += 1
            return
        }
        accept(&datagram, from: source, receivedAt: receivedAt, at: now, into: &outbox)
    }

    mutating func accept(
        _ datagram: inout MutableSpan<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        statistics.datagramsReceived += 1
        statistics.bytesReceived += UInt64(datagram.count)
        guard !datagram.isEmpty else {
            statistics.refusedLength += 1
            return
        }
        guard let type = DatagramType(rawValue: datagram[0]) else {
            statistics.refusedType += 1
            return
        }
        switch type {
        case .data:
            receiveData(&datagram, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        case .initiation, .response, .final:
            receiveHandshake(datagram.span, from: source, receivedAt: receivedAt, at: now, into: &outbox)
        case .cookie:
            receiveCookie(datagram.span, from: source, at: now, into: &outbox)
        }
    }

    private mutating func receiveData(
        _ datagram: inout MutableSpan<UInt8>, from source: SocketAddress, receivedAt: HostTime, at now: HostTime,
        into outbox: inout Outbox<LinkOutput>
    ) {
        let header: DataHeader
        do throws(WireError) {
            header = try DataHeader(decoding: datagram.span)
        } catch {
            count(error)
            return
        }
        // Before the link exists nothing is kept for it (AB-22).
        guard case .link(let slot) = owners[header.receiverIndex] else {
            statistics.refusedIndex += 1
            return
        }
        guard isPlausible(source, for: slot) else {
            statistics.refusedSource += 1
            return
        }
        let reception = links[slot]?.receive(
            &datagram, header: header, from: source, receivedAt: receivedAt, at: now, random: &random,
            statistics: &statistics, into: &outbox)
        switch reception {
        case .accepted: heard.mark(slot)
        case .unknownIndex: statistics.refusedIndex += 1
        case .replay: statistics.refusedReplay += 1
        case .badTag, nil: statistics.refusedTag += 1
        case .closedByPeer: removeLink(slot, loss: .closedByPeer, at: now, into: &outbox)
        case .violation:
            statistics.violations += 1
            closeLink(slot, reason: .protocolViolation, loss: .protocolViolation, at: now, into: &outbox)
        }
    }

    mutating func count(_ error: WireError) {
        switch error {
        case .truncated, .trailingBytes: statistics.refusedLength += 1
        case .unknownType: statistics.refusedType += 1
        default: statistics.refusedReserved += 1
        }
    }

    // MARK: Commands

    /// Tries to link with whoever answers at one of the addresses. A request equal to one that is running, or for a peer
    /// that is linked and was heard within the last two seconds, is ignored.
    public mutating func dial(_ request: DialRequest, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        if isNeedless(request, at: now) {
            statistics.dialsIgnored += 1
            return
        }
        if let failure = beginDial(request, purpose: .link, at: now) {
            statistics.dialsFailed += 1
            outbox.append(.dialFailed(request, failure))
            return
        }
        runDials(at: now, into: &outbox)
    }

    private func isNeedless(_ request: DialRequest, at now: HostTime) -> Bool {
        if dials.contains(where: { $0.request == request && $0.purpose == .link }) { return true }
        guard let peer = request.expectedPeer, let link = link(to: peer) else { return false }
        // A link through a member is worth less than one that needs none.
        if link.isRelayed, !request.addresses.isEmpty { return false }
        return now - link.lastHeardAt < Self.recentlyHeard
    }

    /// Queues a message; `flush` sends it. Throws `notConnected`, `queueFull` (bounds of the configuration), or
    /// `limitExceeded` beyond `WireLimits.maximumLinkMessageBytes`; nothing is queued then.
    public mutating func send(
        _ message: OutgoingMessage, to peer: PeerID, at now: HostTime
    ) throws(CommandError) {
        guard let slot = slots[peer] else { throw .notConnected }
        try links[slot]?.enqueue(message)
    }

    /// Sends what is queued above bulk, then CLOSE, and forgets the link; says `lost(.closedHere)`.
    public mutating func close(
        _ peer: PeerID, reason: CloseReason = .leaving, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        guard let slot = slots[peer] else { return }
        closeLink(slot, reason: reason, loss: .closedHere, at: now, into: &outbox)
    }

    private mutating func closeLink(
        _ slot: Int, reason: CloseReason, loss: LinkLoss, at now: HostTime, into outbox: inout Outbox<LinkOutput>
    ) {
        var made = Outbox<LinkOutput>()
        links[slot]?.sendClose(
            reason.rawValue, sendsQueue: reason == .leaving, at: now, random: &random, statistics: &statistics,
            into: &made)
        divert(&made, into: &outbox)
        removeLink(slot, loss: loss, at: now, into: &outbox)
    }

    // MARK: Time

    public mutating func handleDeadline(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        for index in halfOpen.expire(at: now) { owners[index] = nil }
        runDials(at: now, into: &outbox)
        runFinals(at: now, into: &outbox)
        if nextSpareProbeAt <= now { probeSpares(at: now) }
        for slot in links.indices where links.isDue(slot, at: now) {
            handleLinkDeadline(slot, at: now, into: &outbox)
        }
    }

    private mutating func handleLinkDeadline(_ slot: Int, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        guard links[slot]?.handleDeadline(at: now) == .alive else {
            removeLink(slot, loss: .timedOut, at: now, into: &outbox)
            return
        }
        for index in links[slot]?.removeRetired(at: now) ?? [] { owners[index] = nil }
        if links[slot]?.takeRekey(at: now) ?? false { beginRekey(slot, at: now, into: &outbox) }
    }

    /// When `handleDeadline` has something to do, and then `flush`. Cost: one small entry of every link.
    public var nextDeadline: HostTime? {
        var next: HostTime?
        let consider = { (time: HostTime?) in
            guard let time else { return }
            next = next.map { min($0, time) } ?? time
        }
        consider(halfOpen.nextDeadline)
        for dial in dials { consider(dial.nextDeadline) }
        for final in finals { consider(final.nextSendAt) }
        consider(links.nextDeadline)
        if nextSpareProbeAt != .distantFuture { consider(nextSpareProbeAt) }
        return next
    }

    // MARK: Out

    /// Assembles datagrams from the queues as pacing and congestion allow; called once at the end of a turn. Cost: the
    /// links that were changed or due since the last call.
    public mutating func flush(at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        guard relays.isInUse else { return flush(links.takeChanged(), at: now, into: &outbox) }
        // What goes through members is given to their links, which are flushed again; an answer to a challenge that came
        // through a member may go there in the second round.
        var slots = links.takeChanged()
        for _ in 0..<3 where !slots.isEmpty {
            var made = Outbox<LinkOutput>()
            flush(slots, at: now, into: &made)
            divert(&made, into: &outbox)
            slots = carriers.takeAll()
        }
    }

    private mutating func flush(_ slots: [Int], at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        for slot in slots {
            let didSend = links[slot]?.flush(
                at: now, random: &random, statistics: &statistics, into: &outbox)
            if didSend ?? false { transmitted.mark(slot) }
        }
    }

    /// When the datagrams of the last flush really left: host time right before the system call.
    public mutating func didTransmit(at actual: HostTime) {
        for slot in transmitted.takeAll() { links.noteTransmission(slot, at: actual) }
    }

    /// Peers from which something authentic arrived since the last call, sorted.
    public mutating func takeHeard() -> [PeerID] {
        let slots = heard.takeAll()
        return slots.isEmpty ? [] : slots.compactMap { links.peer($0) }.sorted()
    }

    // MARK: Queries

    public func statistics(of peer: PeerID) -> LinkStatistics? {
        guard var statistics = link(to: peer)?.statistics else { return nil }
        statistics.identity.relay = relay(of: statistics.identity.address)
        return statistics
    }

    /// Bytes queued for `peer`, or sent and not yet acknowledged; zero when not linked. Each message is charged 128
    /// bytes beside its payload.
    public func sendQueueBytes(to peer: PeerID) -> Int { link(to: peer)?.queue.bytes ?? 0 }

    /// Links whose queue of attachments grew or shrank since the last call, sorted by peer, and the bytes it holds; a
    /// new link is among them once.
    public mutating func takeAttachmentQueueBytes() -> [(peer: PeerID, byteCount: Int)] {
        let changes = links.takeAttachmentBytes()
        return changes.count < 2 ? changes : changes.sorted { $0.peer < $1.peer }
    }

    /// Sorted.
    public var linkedPeers: [PeerID] { slots.keys.sorted() }

    func link(to peer: PeerID) -> SecureLink? { slots[peer].flatMap { links[$0] } }

    func slot(of peer: PeerID) -> Int? { slots[peer] }

    // MARK: Links come and go

    mutating func insertLink(_ link: SecureLink) -> Int {
        let slot = links.insert(link)
        slots[link.peer] = slot
        return slot
    }

    var hasRoomForLink: Bool { slots.count < configuration.maximumLinks }

    mutating func removeLink(_ slot: Int, loss: LinkLoss, at now: HostTime, into outbox: inout Outbox<LinkOutput>) {
        guard let link = links[slot] else { return }
        for generation in link.generations { owners[generation.localIndex] = nil }
        finals.removeAll { $0.slot == slot }
        links.remove(slot)
        slots[link.peer] = nil
        abandonRekeys(of: link.peer)
        statistics.linksLost += 1
        outbox.append(.lost(link.peer, loss))
        if relays.isInUse { relayLost(link.peer, at: now, into: &outbox) }
    }

    /// A receiver index that stands for nothing yet.
    mutating func freshIndex() -> UInt32 {
        while true {
            let index = random.uint32()
            if index != 0, owners[index] == nil { return index }
        }
    }
}

/// Why a link is closed: the code of the CLOSE frame.
public enum CloseReason: UInt8, Sendable, Hashable, CaseIterable {
    /// The node leaves the mesh or stops.
    case leaving = 0
    /// The peer broke the protocol.
    case protocolViolation = 1
    /// The peer may not be here: not admitted, removed, or the mesh has ended.
    case notPermitted = 2
    /// Too many links.
    case limitReached = 3
}
