import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// Which actor's output is which actor's input: the whole of what the five know of each other, in one file.
extension Node {
    func route(_ output: MessengerOutput, at now: HostTime) {
        switch output {
        case .transmit: break  // The messenger keeps these for its own batch.
        case .linkEstablished(let link):
            dials.answered(link, at: now)
            work.session.append(.command(.linkEstablished(link)))
            silentHolders.remove(link.peer)
            if admittedLinks.linkUp(link.peer) { tellLinkUp(link.peer) }
        case .linkLost(let peer, let loss):
            work.session.append(.command(.linkLost(peer, loss)))
            silentHolders.remove(peer)
            if admittedLinks.linkDown(peer) { tellLinkDown(peer) }
        case .linkMoved(let peer, let address, let relay):
            work.session.append(.command(.linkMoved(peer, address, relay: relay)))
        case .relayRefused(let peer, let relay): work.session.append(.command(.relayRefused(peer, by: relay)))
        case .dialFailed(let request, let failure):
            dials.failed(request, failure, at: now)
            work.session.append(.command(.dialFailed(request, failure)))
        case .message(.session, let bytes, let peer): work.session.append(.message(bytes, from: peer))
        case .message(let channel, let bytes, let peer):
            hear(AdmittedLinks.Message(channel: channel, bytes: bytes), from: peer)
        case .clockSample(let peer, let sample):
            if admittedLinks.isOpen(peer) { work.coordinator.append(.command(.sample(peer, sample))) }
        case .recordAccepted(let record): route(record)
        case .recordVoided(let id):
            tellObserver(.recordVoided(id))
            work.session.append(.command(.recordVoided(id)))
            work.journal.append(.command(.recordVoided(id)))
            work.coordinator.append(.command(.recordVoided(id)))
        case .recordMuted(let id, let kind):
            // Of admissions the session is told as a whole.
            if kind != .admit { work.session.append(.command(.recordVoided(id))) }
            work.journal.append(.command(.recordVoided(id)))
            work.coordinator.append(.command(.recordVoided(id)))
        case .membership(let membership): work.session.append(.command(.membership(membership)))
        case .epochSecrets(let all, let safe): work.session.append(.command(.epochSecrets(all, safe: safe)))
        case .voidAdmission(let record): work.session.append(.command(.voidAdmission(record)))
        case .persistRecord(let id, let bytes): work.records.append(StoredRecord(id: id, bytes: bytes))
        case .published(let token, let id): waiting.published(token, record: id)
        case .publishRefused(let kind, let body, let error): route(refused: kind, body, error)
        case .userMessage(let message): receive(.one(message))
        case .userMessages(let batch): receive(.several(batch))
        case .messageSettled(let token, let outcome): waiting.settle(token, .message(outcome))
        case .event(let event): note(event, at: now)
        }
    }

    private func route(refused kind: RecordKind, _ body: [UInt8], _ error: CommandError) {
        switch kind {
        case .invite, .revoke: work.session.append(.command(.publishRefused(kind, body: body, error)))
        case .attachmentAdded, .attachmentRemoved:
            work.journal.append(.command(.publishRefused(kind, body: body, error)))
        default: break  // Nobody waits for it: an admission is made again when the newcomer asks again.
        }
    }

    // MARK: Links of members

    /// Only members are heard by the journal and the coordinator; a stranger's first words wait for its admission.
    private func hear(_ message: AdmittedLinks.Message, from peer: PeerID) {
        guard admittedLinks.isOpen(peer) else { return admittedLinks.hold(message, from: peer) }
        switch message.channel {
        case .journal: work.journal.append(.message(message.bytes, from: peer))
        case .coordinator: work.coordinator.append(.message(message.bytes, from: peer))
        case .session, .gossip, .relay: break  // The session's are routed above; the others' never come out.
        }
    }

    private func tellLinkUp(_ peer: PeerID) {
        work.journal.append(.command(.linkUp(peer)))
        work.coordinator.append(.command(.linkUp(peer)))
    }

    private func tellLinkDown(_ peer: PeerID) {
        work.journal.append(.command(.linkDown(peer)))
        work.coordinator.append(.command(.linkDown(peer)))
    }

    private func openLinksOfMembers() {
        let change = admittedLinks.membersChanged(Set(members.lazy.filter { !$0.isLocal }.map(\.peer)))
        for peer in change.closed { tellLinkDown(peer) }
        for (peer, messages) in change.opened {
            tellLinkUp(peer)
            for message in messages { hear(message, from: peer) }
        }
    }

    // MARK: Records

    func route(_ record: AcceptedRecord) {
        tellObserver(.recordAccepted(record))
        work.coordinator.append(.command(.recordAccepted(record)))
        switch record.kind {
        case .genesis:
            learnJournalKey(record)
            work.session.append(.command(.recordAccepted(record)))
        case .admit, .invite, .revoke: work.session.append(.command(.recordAccepted(record)))
        case .attachmentAdded, .attachmentRemoved: work.journal.append(.command(.recordAccepted(record)))
        default: break  // Of a later version: kept and passed on, and means nothing here.
        }
    }

    func route(_ output: SessionOutput, at now: HostTime) async {
        switch output {
        case .send(let message, let peer, let priority, let isReliable):
            send(.session, message.encoded, to: peer, priority, isReliable)
        case .publish(let kind, let body, let token):
            work.messenger.append(.gossip(.publish(kind, body: body, token: token)))
        case .foundMesh(let genesis, let secret): await found(genesis, secret, at: now)
        case .adoptMesh(_, let genesis): work.messenger.append(.gossip(.adopt(genesis: genesis)))
        case .dial(let request):
            dials.began(request, at: now)
            work.messenger.append(.dial(request))
        case .closeLink(let peer): work.messenger.append(.closeLink(peer))
        case .changeRelay(let peer): work.messenger.append(.changeRelay(peer))
        case .setSecrets(let secrets):
            work.messenger.append(.setSecrets(secrets, epochs: await session.current.epochSecrets))
        case .setMesh(let mesh): work.messenger.append(.setMesh(mesh))
        case .sendBeacon(let bytes): work.add(beacon: bytes)
        case .persist(let state): save(state)
        case .membersChanged: await learnMembers()
        case .memberLost(let peer):
            work.messenger.append(.gossip(.memberLost(peer)))
            silentHolders.insert(peer)
            work.journal.append(.command(.holderSilent(peer)))
        case .joined: isInMesh = true
        case .joinFailed(let failure):
            discoveryOutcome = Self.discoveryText(await session.current.statistics, failure)
            joinFailure = failure
        case .refused(let token, let error): waiting.fail(token, NodeError(error))
        case .inviteReady(let token, let ticket): waiting.settle(token, .invite(ticket))
        case .inviteRevoked(let token, let id): waiting.settle(token, .revoked(id))
        case .left: await finishLeaving()
        case .removed(let remover): await endAsRemoved(by: remover)
        case .ending(let member): await meshIsEnding(by: member)
        case .ended(let member): await endWithMesh(by: member)
        case .yielded: yieldIdentity()
        case .event(let event): note(event, at: now)
        }
    }

    func route(_ output: JournalOutput, at now: HostTime) async {
        switch output {
        case .storage: break  // The journal posts these itself.
        case .send(let message, let peer, let priority, let isReliable):
            send(.journal, message.encoded, to: peer, priority, isReliable)
        case .publish(let kind, let body, let token):
            work.messenger.append(.gossip(.publish(kind, body: body, token: token)))
        case .added(let token, let summary): waiting.settle(token, .added(summary))
        case .removed(let token): waiting.settle(token, .removed)
        case .refused(let token, let error): waiting.fail(token, NodeError(error))
        case .settled(let token, let outcome): waiting.settle(token, .waited(outcome))
        case .changed: journalChanged = true
        case .event(let event): note(event, at: now)
        }
    }

    func route(_ output: CoordinatorOutput, at now: HostTime) {
        switch output {
        case .send(let message, let peer, let priority, let isReliable):
            send(.coordinator, message.encoded, to: peer, priority, isReliable)
        case .orderChanged: break
        case .event(let event):
            // The gossip judges deadlines by the clock, and this one has just become another.
            if [.clockSteady, .clockStepped, .clockMerged].contains(event.kind) { roundTripsDue = now }
            note(event, at: now)
        }
    }

    /// Authentic datagrams of these peers came. A link outlives the word that its peer is dead, so that a frozen one goes
    /// on where it was; the journal is told when that happens.
    func routeHeard(_ peers: [PeerID]) {
        guard !peers.isEmpty else { return }
        work.session.append(.command(.heard(peers)))
        for peer in peers where !silentHolders.isEmpty && silentHolders.remove(peer) != nil {
            work.journal.append(.command(.holderHeard(peer)))
        }
    }

    private func send(
        _ channel: Channel, _ payload: [UInt8], to peer: PeerID, _ priority: Priority, _ isReliable: Bool
    ) {
        let message = OutgoingMessage(channel: channel, payload: payload, priority: priority, isReliable: isReliable)
        work.messenger.append(.send(message, to: peer))
    }

    /// The GENESIS record is made at once, so that what the session does next already stands in the new mesh.
    private func found(_ genesis: GenesisBody, _ secret: GroupSecret, at now: HostTime) async {
        let commands = take(commandsBefore: .gossip(.found(genesis, secret: secret, token: nil)))
        for output in await messenger.perform(commands, at: now) { route(output, at: now) }
        guard let gossip = await messenger.foundedMesh() else { return }
        work.session.append(.command(.setGenesis(gossip)))
        isInMesh = true
    }

    private func take(commandsBefore last: MessengerCommand) -> [MessengerCommand] {
        defer { work.messenger = [] }
        return work.messenger + [last]
    }

    private func learnJournalKey(_ record: AcceptedRecord) {
        // The gossip has decoded this body before it accepted the record.
        guard let genesis = try? GenesisBody(decoding: record.body) else { return }
        storage.setKey(genesis.journalKey)
        work.journal.append(.command(.setKey(genesis.journalKey)))
    }

    private func learnMembers() async {
        members = named(await session.members)
        openLinksOfMembers()
        let others = members.filter { !$0.isLocal && ($0.state == .alive || $0.state == .suspect) }.map(\.peer)
        let lives = members.filter { !$0.isLocal && $0.incarnation != Incarnation(0) }.map { ($0.peer, $0.incarnation) }
        work.messenger.append(
            .gossip(.membersChanged(others, lives: Dictionary(lives, uniquingKeysWith: { first, _ in first }))))
        work.coordinator.append(.command(.membersChanged(others)))
    }

    /// Members with the names they had when they last said one, where they have not said it again yet. News is kept.
    private func named(_ members: [Member]) -> [Member] {
        var isNews = false
        for member in members where knownNames.learn(member.name, of: member.peer) { isNews = true }
        if isNews { storage.post(convenience: NodeBoot.namesSetting, value: knownNames.encoded) }
        return members.map(withKnownName)
    }

    func withKnownName(_ member: Member) -> Member {
        guard member.name.isEmpty, let name = knownNames[member.peer] else { return member }
        var member = member
        member.name = name
        return member
    }

    private func receive(_ content: ReceivedContent) {
        tellObserver(messages: content)
        let name = name(of: content.from)
        messages.append(content, fromName: name)
        followers.publish(content, fromName: name, counting: messages)
    }
}
