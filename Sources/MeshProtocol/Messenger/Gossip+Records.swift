import MeshBase
import MeshCrypto
import MeshWire

/// Writing, spreading and repairing records.
extension Gossip {
    // MARK: Writing

    mutating func publish(
        _ kind: RecordKind, body: [UInt8], token: CommandToken?, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard log.genesisID != nil, !epochSecrets.isEmpty else { throw .noMesh }
        guard kind != .genesis, fold.membership.removals[identity.peerID] == nil else { throw .notPermitted }
        let limit = WireLimits.maximumRecordBodyBytes - WireLimits.tagBytes
        guard body.count <= limit else { throw .limitExceeded(limit: limit, actual: body.count) }
        let own = ChainKey(author: identity.peerID, incarnation: identity.incarnation)
        // Somebody else writes with this node's key in its name: nothing written here would count until a restart.
        guard log.chains[own]?.forkedAt == nil else { throw .notPermitted }
        guard !log.isOverCap(author: identity.peerID, chain: own) else {
            throw .limitExceeded(
                limit: configuration.maximumRecordsPerAuthor, actual: configuration.maximumRecordsPerAuthor + 1)
        }
        // A newcomer may not yet hold its own admission; what it writes follows right behind it.
        guard log.isAuthorised(identity.peerID), let secret = try sealingSecret(at: now, into: &outbox) else {
            let limit = configuration.maximumWaitingPublications
            guard waitingPublications.count < limit else { throw .queueFull(limit: limit) }
            waitingPublications.append(Publication(kind: kind, body: body, token: token))
            return
        }
        try write(Publication(kind: kind, body: body, token: token), secret: secret, at: now, into: &outbox)
    }

    mutating func write(
        _ publication: Publication, secret: GroupSecret, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        let result: (RecordID, [RecordLog.Change])
        do {
            result = try log.write(
                kind: publication.kind, body: publication.body, secret: secret,
                nonce: random.bytes(Envelope.nonceByteCount), identity: identity)
        } catch {
            throw .invalid(field: "body")
        }
        try finishWriting(result.0, result.1, token: publication.token, at: now, into: &outbox)
    }

    /// Once this node's own admission and the secret that seals are known.
    mutating func writeWaiting(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard !waitingPublications.isEmpty, log.isAuthorised(identity.peerID), let secret = sealing.current else {
            return
        }
        let publications = waitingPublications
        waitingPublications = []
        for publication in publications {
            do {
                try write(publication, secret: secret, at: now, into: &outbox)
            } catch {
                // Its body is not what its kind says: told, since the command was answered long ago.
                counters.recordsRefused += 1
                outbox.append(
                    .event(ProtocolEvent(.recordRefused, detail: [.init("reason", .text("bad body"))])))
                outbox.append(.publishRefused(publication.kind, body: publication.body, error))
            }
        }
    }

    mutating func found(
        _ body: GenesisBody, secret: GroupSecret, token: CommandToken?, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard log.genesisID == nil, log.mesh == nil else { throw .notPermitted }
        guard body.label.utf8.count <= WireLimits.maximumNameBytes else { throw .invalid(field: "label") }
        let result: (RecordID, [RecordLog.Change])
        do {
            result = try log.found(
                body: body.encoded, secret: secret, nonce: random.bytes(Envelope.nonceByteCount), identity: identity)
        } catch {
            throw .invalid(field: "genesis")
        }
        epochSecrets = [secret] + epochSecrets.filter { $0.id != secret.id }
        try finishWriting(result.0, result.1, token: token, at: now, into: &outbox)
        for peer in sortedLinks where isTrusted(peer) { greetWithSummary(peer, at: now, into: &outbox) }
    }

    private mutating func finishWriting(
        _ id: RecordID, _ changes: [RecordLog.Change], token: CommandToken?, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        for case .refused(let refused, _, _, _) in changes where refused == id { throw .invalid(field: "body") }
        apply(changes, from: nil, at: now, into: &outbox)
        if let token { outbox.append(.published(token, id)) }
    }

    /// A joiner takes GENESIS from a member it does not know yet: only the mesh's own name vouches for it.
    mutating func adopt(
        _ genesis: [UInt8], at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) throws(CommandError) {
        guard let mesh = log.mesh, !epochSecrets.isEmpty else { throw .noMesh }
        guard log.genesisID == nil else { return }
        guard let record = try? SignedRecord(decoding: genesis), record.envelope.kind == .genesis,
            record.id.value == mesh.value, record.isSignatureValid
        else { throw .invalid(field: "genesis") }
        counters.signaturesVerified += 1
        apply(log.insert([record], from: nil, at: now), from: nil, isLocal: true, at: now, into: &outbox)
        guard log.genesisID != nil else { throw .invalid(field: "genesis") }
        for peer in sortedLinks { greetWithSummary(peer, at: now, into: &outbox) }
    }

    // MARK: What changes lead to

    mutating func applyDeferred(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard !deferredChanges.isEmpty || sealing.isUnsettled else { return }
        let changes = deferredChanges
        deferredChanges = []
        apply(changes, from: nil, isLocal: true, at: now, into: &outbox)
    }

    /// Tells what became of records, and passes on what is new. `isLocal`: from this node's disk or a welcome, not
    /// written just now, so not pushed.
    mutating func apply(
        _ changes: [RecordLog.Change], from source: PeerID?, isLocal: Bool = false, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        var fresh: [RecordID] = []
        for change in changes {
            switch change {
            case .accepted(let record, let bytes):
                counters.recordsAccepted += 1
                outbox.append(.persist(id: record.id, bytes: bytes))
                learn(record)
                settleMembership(at: now, into: &outbox)
                fresh.append(record.id)
                guard isEffective(record.id) else {
                    log.stored[record.id]?.isMuted = true
                    continue
                }
                outbox.append(.recordAccepted(record))
                if record.kind == .admit { welcome(record, at: now, into: &outbox) }
            case .knownVoid(let record, let bytes):
                outbox.append(.persist(id: record.id, bytes: bytes))
                guard record.kind == .admit else { continue }
                learn(record)
                settleMembership(at: now, into: &outbox)
                guard isEffective(record.id) else { continue }
                outbox.append(.voidAdmission(record))
                welcome(record, at: now, into: &outbox)
            case .voided(let id):
                fold.void(id)
                settleMembership(at: now, into: &outbox)
                outbox.append(.recordVoided(id))
            case .forked(let key, let sequence, let proof):
                tellFork(key, at: sequence, proof, from: source, into: &outbox)
            case .refused(let id, let author, let refusal, let source):
                refuse(id, author: author, refusal, from: source, at: now, into: &outbox)
            case .dropped:
                counters.pendingDropped += 1
            }
        }
        if !isLocal { forward(fresh, from: source, into: &outbox) }
        settleSealing(at: now, into: &outbox)
        writeWaiting(at: now, into: &outbox)
        if log.pendingCount > 0, wantAt == nil {
            wantAt = now + configuration.wantDelay
            lastSource = source
        }
    }

    /// A newcomer's link counts from its admission on. It may have asked before, and got nothing: it is told that there
    /// is something to ask for.
    private mutating func welcome(
        _ admission: AcceptedRecord, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        // The log accepted the body, so it decodes.
        guard let body = try? AdmitBody(decoding: admission.body), let link = links[body.subject],
            isMember(body.subject)
        else { return }
        if !link.isGreeted { greet(body.subject, at: now, into: &outbox) }
        for message in links[body.subject]?.takeHeldMessages() ?? [] {
            receiveDirect(message, from: body.subject, at: now, into: &outbox)
        }
    }

    private mutating func refuse(
        _ id: RecordID, author: PeerID, _ refusal: RecordLog.Refusal, from source: PeerID?, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        if refusal == .overCap {
            counters.recordsOverCap += 1
            // Said once per doubling, so that a flood of records is no flood of events.
            guard counters.recordsOverCap.nonzeroBitCount == 1 else { return }
            outbox.append(
                .event(
                    ProtocolEvent(.limitReached, subject: author, detail: [.init("reason", .text(refusal.rawValue))])))
            return
        }
        counters.recordsRefused += 1
        // Whoever passes such a record on has not checked it; honest members do.
        if let source { links[source]?.punish(at: now) }
        outbox.append(
            .event(
                ProtocolEvent(
                    .recordRefused, subject: author,
                    detail: [.init("record", .text(id.description)), .init("reason", .text(refusal.rawValue))])))
    }

    private mutating func tellFork(
        _ key: ChainKey, at sequence: UInt64, _ proof: RecordLog.ForkProof, from source: PeerID?,
        into outbox: inout Outbox<GossipOutput>
    ) {
        counters.forks += 1
        outbox.append(.persist(id: proof.first, bytes: proof.firstBytes))
        outbox.append(.persist(id: proof.second, bytes: proof.secondBytes))
        outbox.append(
            .event(
                ProtocolEvent(
                    .recordFork, subject: key.author,
                    detail: [.init("sequence", .integer(Int64(clamping: sequence)))])))
        for peer in sortedLinks where peer != source && isMember(peer) {
            sendProof(proof, to: peer, into: &outbox)
        }
    }

    private func sendProof(
        _ proof: RecordLog.ForkProof, to peer: PeerID, into outbox: inout Outbox<GossipOutput>
    ) {
        send(
            .fork(proof.firstBytes, proof.secondBytes), to: peer, priority: .command, isReliable: true, into: &outbox)
    }

    // MARK: Spreading

    /// Passes new records on: own ones to every link, others' to those links that their author does not reach itself.
    private mutating func forward(
        _ ids: [RecordID], from source: PeerID?, into outbox: inout Outbox<GossipOutput>
    ) {
        let ordered = ids.compactMap { id in log.order(of: id).map { ($0, id) } }.sorted { $0.0 < $1.0 }
        guard !ordered.isEmpty else { return }
        for peer in sortedLinks where peer != source && isMember(peer) {
            let wanted = ordered.filter { order, _ in needsForward(order, to: peer) }
            sendRecords(wanted, to: peer, priority: .command, limitToOneBundle: false, into: &outbox)
            if source != nil { counters.recordsForwarded += wanted.count }
        }
    }

    private func needsForward(_ order: RecordOrder, to peer: PeerID) -> Bool {
        guard let link = links[peer], order.author != peer else { return false }
        if order.author != identity.peerID, link.isLinked(to: order.author) { return false }
        let key = ChainKey(author: order.author, incarnation: order.incarnation)
        return link.held[key] ?? 0 < order.sequence
    }

    /// Sends records in causal order, cut into bundles, and notes that the peer will have them. With `limitToOneBundle`
    /// the rest waits to be asked for, which is what keeps a long catch-up from flooding a link.
    mutating func sendRecords(
        _ records: [(RecordOrder, RecordID)], to peer: PeerID, priority: Priority, limitToOneBundle: Bool,
        into outbox: inout Outbox<GossipOutput>
    ) {
        var bundle: [[UInt8]] = []
        var byteCount = 0
        for (order, id) in records {
            guard let bytes = log.bytes(of: id) else { continue }
            let isFull =
                bundle.count == RecordBundle.maximumRecords || byteCount + bytes.count > RecordBundle.targetBytes
            if isFull, !bundle.isEmpty {
                let message = GossipMessage.records(RecordBundle(hasMore: limitToOneBundle, records: bundle))
                send(message, to: peer, priority: priority, isReliable: true, into: &outbox)
                if limitToOneBundle { return }
                bundle = []
                byteCount = 0
            }
            bundle.append(bytes)
            byteCount += bytes.count
            links[peer]?.noteHeld(ChainKey(author: order.author, incarnation: order.incarnation), order.sequence)
        }
        guard !bundle.isEmpty || limitToOneBundle else { return }
        let message = GossipMessage.records(RecordBundle(hasMore: false, records: bundle))
        send(message, to: peer, priority: priority, isReliable: true, into: &outbox)
    }

    // MARK: Receiving

    mutating func receiveBundle(
        _ bundle: RecordBundle, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard log.mesh != nil, let link = links[peer] else { return }
        guard link.ignoredUntil <= now else {
            counters.bundlesIgnored += 1
            return
        }
        guard let fresh = checkedRecords(bundle.records, from: peer) else {
            counters.bundlesRefused += 1
            links[peer]?.punish(at: now)
            tellRefusedBundle(of: peer, into: &outbox)
            if catchUp?.peer == peer { endCatchUp(at: now, into: &outbox) }
            askAnother(than: peer, at: now, into: &outbox)
            return
        }
        let acceptedBefore = counters.recordsAccepted
        apply(log.insert(fresh, from: peer, at: now), from: peer, at: now, into: &outbox)
        if counters.recordsAccepted > acceptedBefore {
            links[peer]?.summaryPause = configuration.summaryInterval
            links[peer]?.nextSummaryAt = now
        }
        guard catchUp?.peer == peer else { return }
        if bundle.hasMore, counters.recordsAccepted > acceptedBefore {
            startCatchUp(with: peer, at: now, into: &outbox)
        } else {
            endCatchUp(at: now, into: &outbox)
        }
    }

    /// The records of a bundle that are new, all of them decoded and their signatures checked; nil when one is bad, for
    /// then nothing of the bundle is believed (AB-75). Known records cost no signature check.
    private mutating func checkedRecords(_ records: [[UInt8]], from peer: PeerID) -> [SignedRecord]? {
        var fresh: [SignedRecord] = []
        var seen: Set<RecordID> = []
        for bytes in records {
            guard let record = try? SignedRecord(decoding: bytes) else { return nil }
            // Only of chains known here, or a peer could fill memory with names.
            if log.chains[record.chain] != nil { links[peer]?.noteHeld(record.chain, record.envelope.sequence) }
            guard !log.isKnown(record.id), seen.insert(record.id).inserted else {
                counters.recordsDuplicate += 1
                continue
            }
            counters.signaturesVerified += 1
            guard record.isSignatureValid else { return nil }
            fresh.append(record)
        }
        return fresh
    }

    private func tellRefusedBundle(of peer: PeerID, into outbox: inout Outbox<GossipOutput>) {
        outbox.append(
            .event(
                ProtocolEvent(
                    .recordRefused, subject: peer,
                    detail: [.init("reason", .text("a record in its bundle is malformed or not signed by its author"))])
            ))
    }

    mutating func receiveWant(_ ids: [RecordID], from peer: PeerID, into outbox: inout Outbox<GossipOutput>) {
        guard isMember(peer) else { return }
        var records: [[UInt8]] = []
        var byteCount = 0
        for id in ids {
            guard let bytes = log.bytes(of: id), byteCount + bytes.count <= RecordBundle.targetBytes else { continue }
            records.append(bytes)
            byteCount += bytes.count
        }
        guard !records.isEmpty else { return }
        let bundle = GossipMessage.records(RecordBundle(hasMore: false, records: records))
        send(bundle, to: peer, priority: .repair, isReliable: true, into: &outbox)
    }

    mutating func receiveFork(
        _ first: [UInt8], _ second: [UInt8], from peer: PeerID, at now: HostTime,
        into outbox: inout Outbox<GossipOutput>
    ) {
        guard log.mesh != nil, let link = links[peer], link.ignoredUntil <= now else { return }
        guard let one = try? SignedRecord(decoding: first), let other = try? SignedRecord(decoding: second) else {
            links[peer]?.punish(at: now)
            return
        }
        // Known already: no need to check anything.
        if let forkedAt = log.chains[one.chain]?.forkedAt, forkedAt <= one.envelope.sequence { return }
        counters.signaturesVerified += 2
        guard one.isSignatureValid, other.isSignatureValid else {
            links[peer]?.punish(at: now)
            return
        }
        let (isProof, changes) = log.insertProof(one, other)
        if !isProof { links[peer]?.punish(at: now) }
        apply(changes, from: peer, at: now, into: &outbox)
    }

    // MARK: Summaries

    /// On a new link: what this node holds, and a request unless another peer is being asked.
    mutating func greetWithSummary(_ peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard log.genesisID != nil else { return }
        if catchUp == nil {
            startCatchUp(with: peer, at: now, into: &outbox)
        } else {
            sendSummary(to: peer, asks: false, at: now, into: &outbox)
        }
    }

    private mutating func startCatchUp(with peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard links[peer] != nil else { return }
        catchUp = CatchUp(peer: peer, until: now + configuration.catchUpTimeout)
        links[peer]?.hasNews = false
        sendSummary(to: peer, asks: true, at: now, into: &outbox)
    }

    /// The peer is done, gone or silent; whoever else showed news is asked next.
    mutating func endCatchUp(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        catchUp = nil
        let next = sortedLinks.filter { peer in
            guard let link = links[peer] else { return false }
            return link.hasNews && link.nextSummaryAt <= now && link.ignoredUntil <= now
        }
        if let peer = next.first { startCatchUp(with: peer, at: now, into: &outbox) }
    }

    private mutating func askAnother(than peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard catchUp == nil else { return }
        let others = sortedLinks.filter { other in
            other != peer && isTrusted(other) && (links[other]?.ignoredUntil ?? now) <= now
        }
        guard !others.isEmpty else { return }
        startCatchUp(with: others[random.below(others.count)], at: now, into: &outbox)
    }

    private mutating func sendSummary(
        to peer: PeerID, asks: Bool, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        let keys = log.sortedChainKeys
        var lower: ChainKey?
        var start = 0
        repeat {
            let end = min(start + RecordSummary.maximumEntries, keys.count)
            let chains = keys[start..<end].compactMap { key in
                log.chains[key].map { ChainSummary(key: key, contiguous: $0.contiguous, isForked: $0.isForkedNext) }
            }
            let page = RecordSummary(
                asksForRecords: asks, lower: lower, reachesEnd: end == keys.count, chains: chains)
            send(.summary(page), to: peer, priority: .repair, isReliable: true, into: &outbox)
            counters.summariesSent += 1
            lower = chains.last?.key
            start = end
        } while start < keys.count
        guard asks, let pause = links[peer]?.summaryPause else { return }
        links[peer]?.nextSummaryAt = now + pause
        links[peer]?.summaryPause = min(pause * 2, configuration.summaryBackoffLimit)
    }

    mutating func receiveSummary(
        _ summary: RecordSummary, from peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>
    ) {
        guard log.genesisID != nil else { return }
        let news = noteSummary(summary, of: peer)
        var lacking: [(RecordOrder, RecordID)] = []
        let listed = Dictionary(summary.chains.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
        for key in log.sortedChainKeys where summary.covers(key) {
            guard let chain = log.chains[key] else { continue }
            let theirs = listed[key]
            if let proof = chain.proof, chain.isForkedNext, theirs?.isForked != true, isMember(peer) {
                sendProof(proof, to: peer, into: &outbox)
            }
            guard theirs?.isForked != true, summary.asksForRecords else { continue }
            lacking.append(contentsOf: missing(of: chain, beyond: theirs?.contiguous ?? 0))
        }
        // A joiner that is not admitted yet gets nothing, but an answer: it asks again.
        if summary.asksForRecords {
            let records = isMember(peer) ? lacking.sorted { $0.0 < $1.0 } : []
            sendRecords(records, to: peer, priority: .repair, limitToOneBundle: true, into: &outbox)
        }
        if news { pursueNews(of: peer, at: now, into: &outbox) }
    }

    /// The peer holds what this node lacks: asks now, or when the running catch-up or the peer's pause ends.
    private mutating func pursueNews(of peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let link = links[peer] else { return }
        let allowedAt = max(link.nextSummaryAt, link.ignoredUntil)
        if catchUp != nil {
            links[peer]?.hasNews = true
        } else if allowedAt <= now {
            startCatchUp(with: peer, at: now, into: &outbox)
        } else {
            links[peer]?.hasNews = true
            links[peer]?.compareAt = allowedAt
        }
    }

    /// Remembers what the peer holds of the chains known here; true when it holds something this node lacks.
    private mutating func noteSummary(_ summary: RecordSummary, of peer: PeerID) -> Bool {
        var news = false
        for theirs in summary.chains {
            guard let chain = log.chains[theirs.key] else {
                news = news || theirs.contiguous > 0
                continue
            }
            links[peer]?.held[theirs.key] = theirs.contiguous
            let isCut = chain.isForkedNext
            if !isCut, theirs.contiguous > chain.contiguous || theirs.isForked { news = true }
        }
        return news
    }

    private func missing(of chain: RecordLog.Chain, beyond contiguous: UInt64) -> [(RecordOrder, RecordID)] {
        guard contiguous < chain.contiguous else { return [] }
        return chain.accepted[Int(contiguous)...].compactMap { id in log.order(of: id).map { ($0, id) } }
    }

    mutating func receiveHead(_ digest: Bytes16, from peer: PeerID, at now: HostTime) {
        guard log.genesisID != nil else { return }
        if digest == log.head {
            links[peer]?.differingHead = nil
            links[peer]?.compareAt = nil
            links[peer]?.hasNews = false
            links[peer]?.summaryPause = configuration.summaryInterval
        } else {
            links[peer]?.differingHead = digest
            if links[peer]?.compareAt == nil { links[peer]?.compareAt = now + configuration.headGrace }
        }
    }

    // MARK: Deadlines

    var recordDeadline: HostTime? {
        var earliest = [announceAt, wantAt, catchUp?.until].compactMap { $0 }.min()
        for link in links.values { earliest = min(earliest ?? .distantFuture, link.deadline) }
        return earliest
    }

    mutating func handleRecordDeadlines(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        if let time = announceAt, time <= now {
            announceAt = nil
            announceLinks(to: sortedLinks, into: &outbox)
        }
        if let running = catchUp, running.until <= now { endCatchUp(at: now, into: &outbox) }
        for peer in sortedLinks {
            compareHeads(with: peer, at: now, into: &outbox)
            sayHead(to: peer, at: now, into: &outbox)
        }
        if let time = wantAt, time <= now { pursuePending(at: now, into: &outbox) }
    }

    /// With the keep-alives; to each peer at moments of its own.
    mutating func nextHead(after now: HostTime) -> HostTime {
        grid.next(after: now + random.jittered(configuration.headInterval) - TickGrid.standardInterval / 2)
    }

    private mutating func sayHead(to peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let link = links[peer], link.nextHeadAt <= now else { return }
        let next = nextHead(after: now)
        links[peer]?.nextHeadAt = next
        guard log.genesisID != nil, isTrusted(peer) else { return }
        send(.head(log.head), to: peer, priority: .repair, isReliable: false, into: &outbox)
    }

    private mutating func compareHeads(with peer: PeerID, at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        guard let link = links[peer], let time = link.compareAt, time <= now else { return }
        links[peer]?.compareAt = nil
        links[peer]?.differingHead = nil
        let stillDiffers = link.differingHead.map { $0 != log.head } ?? false
        if stillDiffers || link.hasNews { pursueNews(of: peer, at: now, into: &outbox) }
    }

    /// Asks for missing causes, first whoever sent their effects, then one peer after the other; gives up in the end.
    private mutating func pursuePending(at now: HostTime, into outbox: inout Outbox<GossipOutput>) {
        wantAt = nil
        counters.pendingDropped += log.dropPending(heldBefore: now - configuration.pendingTimeout)
        guard log.pendingCount > 0 else { return }
        wantAt = now + configuration.wantInterval
        let missing = log.missingCauses(limit: GossipMessage.maximumWanted)
        let peers = sortedLinks.filter { isTrusted($0) }
        guard !missing.isEmpty else { return }
        let peer: PeerID
        if let source = lastSource, links[source] != nil {
            peer = source
        } else {
            guard !peers.isEmpty else { return }
            peer = peers[wantTurn % peers.count]
            wantTurn = (wantTurn + 1) % 65_536
        }
        lastSource = nil
        send(.want(missing), to: peer, priority: .repair, isReliable: true, into: &outbox)
    }
}

extension RecordSummary {
    /// Whether the page speaks about this chain.
    func covers(_ key: ChainKey) -> Bool {
        if let lower, key <= lower { return false }
        if reachesEnd { return true }
        guard let last = chains.last else { return false }
        return key <= last.key
    }
}
