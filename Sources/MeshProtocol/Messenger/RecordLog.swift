import MeshBase
import MeshCrypto
import MeshWire

/// All records of one mesh: what is accepted, what waits for its causes, who may write.
///
/// The accepted set depends only on which records and fork proofs have arrived, never on their order:
/// - A record is accepted when its author is admitted, all its causes are known, its Lamport time is one more than the
///   greatest of theirs, and it continues its chain. Every one of these is a fact about signed bytes.
/// - Two signed records with one (author, incarnation, sequence) are a *fork*. The chain then counts only up to the
///   number before; later records of it are *void*: they have no effect and no place in the digest, but stay known where
///   an honest record names them as a cause, so that a fork never blocks anybody else (AB-69).
/// - A refusal keeps no state: the same bytes get the same verdict each time they come.
///
/// Caps (chains and records per author, records waiting) are the exception: beyond them a node refuses by arrival.
struct RecordLog: Sendable {
    /// An accepted record, or a void one that is known as a cause.
    struct Stored: Sendable {
        let bytes: [UInt8]
        let order: RecordOrder
        var isVoid: Bool
    }

    /// One author's records in one process life.
    struct Chain: Sendable {
        /// Accepted and not void, number 1 first.
        var accepted: [RecordID] = []
        /// The first record seen of a number that is not accepted yet.
        var waiting: [UInt64: RecordID] = [:]
        /// The least number of which two records are known.
        var forkedAt: UInt64?
        /// Those two.
        var proof: ForkProof?

        var contiguous: UInt64 { UInt64(accepted.count) }
        var isForkedNext: Bool { forkedAt == contiguous &+ 1 }

        func isVoid(_ sequence: UInt64) -> Bool {
            guard let forkedAt else { return false }
            return sequence >= forkedAt
        }
    }

    /// Two signed records of one number. Their bytes prove it to everybody.
    struct ForkProof: Sendable {
        let first: RecordID
        let second: RecordID
        let firstBytes: [UInt8]
        let secondBytes: [UInt8]
    }

    private struct Pending: Sendable {
        let record: SignedRecord
        let source: PeerID?
        let since: HostTime
        var missing: Set<RecordID>
    }

    /// What a record waits for.
    private enum Wait {
        case causes(Set<RecordID>)
        case admission
        case secret
    }

    /// Why a record's claims do not hold.
    enum Refusal: String, Sendable {
        case wrongMesh = "wrong mesh"
        case notContinuous = "does not continue its chain"
        case wrongLamport = "wrong Lamport time"
        case noCauses = "no causes"
        case sealBroken = "seal does not hold"
        case badBody = "bad body"
        case overCap = "author over its cap"
    }

    /// What an arrival led to, in order.
    enum Change: Sendable {
        case accepted(AcceptedRecord, bytes: [UInt8])
        /// Known as a cause, without effect: to be kept, not to be told.
        case knownVoid(RecordID, bytes: [UInt8])
        case voided(RecordID)
        case forked(ChainKey, at: UInt64, ForkProof)
        case refused(RecordID, author: PeerID, Refusal, source: PeerID?)
        /// Dropped before a verdict: the waiting room was full.
        case dropped(RecordID, author: PeerID)
    }

    private let configuration: GossipConfiguration
    private(set) var mesh: MeshID?
    private var secrets: [SecretID: GroupSecret] = [:]
    private(set) var genesisID: RecordID?

    private var stored: [RecordID: Stored] = [:]
    /// The records of all fork proofs.
    private var proofRecords: [RecordID: [UInt8]] = [:]
    private(set) var chains: [ChainKey: Chain] = [:]
    private var chainCounts: [PeerID: Int] = [:]
    private var recordCounts: [PeerID: Int] = [:]
    private(set) var authorised: Set<PeerID> = []
    /// Records that no other names as a cause yet: the parents of the next one written here.
    private var heads: Set<RecordID> = []
    private(set) var greatestLamport: UInt64 = 0

    private var pending: [RecordID: Pending] = [:]
    private var pendingByAuthor: [PeerID: Int] = [:]
    private var pendingBySource: [PeerID: Int] = [:]
    /// Missing record → those that wait for it.
    private var waitingForRecord: [RecordID: [RecordID]] = [:]
    /// Not admitted author → its records.
    private var waitingForAdmission: [PeerID: [RecordID]] = [:]
    private var waitingForSecret: [SecretID: [RecordID]] = [:]
    private var isRestoring = false

    /// Digest of the accepted set, kept while nothing changes.
    private var cachedHead: Bytes16?

    init(configuration: GossipConfiguration) {
        self.configuration = configuration
    }

    mutating func setMesh(_ mesh: MeshID) {
        guard genesisID == nil else { return }
        self.mesh = mesh
        cachedHead = nil
    }

    /// Adds secrets; records that waited for one are tried again.
    mutating func setSecrets(_ list: [GroupSecret]) -> [Change] {
        var changes: [Change] = []
        for secret in list {
            secrets[secret.id] = secret
            let released = waitingForSecret.removeValue(forKey: secret.id) ?? []
            process(released.compactMap { take($0) }, at: .distantPast, into: &changes)
        }
        return changes
    }

    // MARK: Queries

    var genesis: [UInt8]? { genesisID.flatMap { stored[$0]?.bytes } }
    var pendingCount: Int { pending.count }
    func isKnown(_ id: RecordID) -> Bool { stored[id] != nil || pending[id] != nil }
    func isAuthorised(_ peer: PeerID) -> Bool { authorised.contains(peer) }
    func bytes(of id: RecordID) -> [UInt8]? { stored[id]?.bytes ?? proofRecords[id] }
    func order(of id: RecordID) -> RecordOrder? { stored[id]?.order }

    /// Accepted and not void, in total order. Cost: O(n log n).
    var acceptedIDs: [RecordID] {
        stored.filter { !$0.value.isVoid }.map { ($0.value.order, $0.key) }.sorted { $0.0 < $1.0 }.map(\.1)
    }

    /// The bytes of all accepted records in total order.
    var acceptedBytes: [[UInt8]] { acceptedIDs.compactMap { stored[$0]?.bytes } }

    var sortedChainKeys: [ChainKey] { chains.keys.sorted() }

    /// Causes that were named but never seen, in order.
    func missingCauses(limit: Int) -> [RecordID] {
        Array(waitingForRecord.keys.filter { stored[$0] == nil && pending[$0] == nil }.sorted().prefix(limit))
    }

    /// Digest of the accepted set: BLAKE2b-128 over `"STARLING/1 head\0" | mesh 32 | for each chain in order: author 32 |
    /// incarnation 8 | contiguous u64 | forked u8 | id of the last record 32 (zero when none)`. A chain's last id
    /// commits to all before it.
    var head: Bytes16 {
        if let cachedHead { return cachedHead }
        var writer = ByteWriter(reserving: 64 + chains.count * 81)
        writer.write(bytes: Array("STARLING/1 head\0".utf8))
        writer.write(mesh?.value ?? .zero)
        for key in sortedChainKeys {
            guard let chain = chains[key], chain.contiguous > 0 || chain.isForkedNext else { continue }
            writer.write(key.author.value)
            writer.write(key.incarnation.value)
            writer.write(chain.contiguous)
            writer.write(UInt8(chain.isForkedNext ? 1 : 0))
            writer.write(chain.accepted.last?.value ?? .zero)
        }
        return Digest.hash16(writer.bytes)
    }

    /// Computes the digest once for the queries until the next change. Cost: O(chains).
    mutating func refreshHead() {
        if cachedHead == nil { cachedHead = head }
    }

    // MARK: Writing

    /// The GENESIS record of a new mesh.
    mutating func found(
        body: [UInt8], secret: GroupSecret, nonce: [UInt8], identity: NodeIdentity
    ) throws(CryptoError) -> (RecordID, [Change]) {
        let record = try SignedRecord(
            kind: .genesis, mesh: MeshID(.zero), sequence: 1, lamport: 1, previous: RecordID(.zero), parents: [],
            body: body, secret: secret, nonce: nonce, identity: identity)
        mesh = MeshID(record.id.value)
        secrets[secret.id] = secret
        var changes: [Change] = []
        process([Pending(record: record, source: nil, since: .zero, missing: [])], at: .zero, into: &changes)
        return (record.id, changes)
    }

    /// The next record of this node's own chain.
    mutating func write(
        kind: RecordKind, body: [UInt8], secret: GroupSecret, nonce: [UInt8], identity: NodeIdentity
    ) throws(CryptoError) -> (RecordID, [Change]) {
        let key = ChainKey(author: identity.peerID, incarnation: identity.incarnation)
        let chain = chains[key] ?? Chain()
        let previous = chain.accepted.last
        let parents = nextParents(besides: previous)
        let causes = (previous.map { [$0] } ?? []) + parents
        let lamport = (causes.compactMap { stored[$0]?.order.lamport }.max() ?? 0) &+ 1
        let record = try SignedRecord(
            kind: kind, mesh: mesh ?? MeshID(.zero), sequence: chain.contiguous &+ 1, lamport: lamport,
            previous: previous ?? RecordID(.zero), parents: parents, body: body, secret: secret, nonce: nonce,
            identity: identity)
        var changes: [Change] = []
        process([Pending(record: record, source: nil, since: .zero, missing: [])], at: .zero, into: &changes)
        return (record.id, changes)
    }

    /// The latest heads, at most the limit: the greatest Lamport times first, so that the new record is after them all
    /// even when there are too many to name (AB-68).
    private func nextParents(besides previous: RecordID?) -> [RecordID] {
        let candidates = heads.filter { $0 != previous }.compactMap { id in stored[id].map { ($0.order, id) } }
        let latest = candidates.sorted { $0.0 > $1.0 }.prefix(WireLimits.maximumParents)
        return latest.map(\.1).sorted()
    }

    func isOverCap(author: PeerID, chain: ChainKey) -> Bool {
        if recordCounts[author, default: 0] >= configuration.maximumRecordsPerAuthor { return true }
        return chains[chain] == nil && chainCounts[author, default: 0] >= configuration.maximumChainsPerAuthor
    }

    // MARK: Arrival

    /// Takes records whose signatures hold and that were not known.
    mutating func insert(_ records: [SignedRecord], from source: PeerID?, at now: HostTime) -> [Change] {
        var changes: [Change] = []
        for record in records {
            insertOne(Pending(record: record, source: source, since: now, missing: []), at: now, into: &changes)
        }
        return changes
    }

    /// Takes what was on disk, in any order, however much; signatures were checked.
    mutating func restore(_ records: [SignedRecord]) -> [Change] {
        isRestoring = true
        defer { isRestoring = false }
        return insert(records.sorted { $0.order < $1.order }, from: nil, at: .distantPast)
    }

    private mutating func insertOne(_ arrival: Pending, at now: HostTime, into changes: inout [Change]) {
        let record = arrival.record
        guard !isKnown(record.id) else { return }
        if let refusal = refusalBeforeCauses(record) {
            changes.append(
                .refused(record.id, author: record.envelope.author, refusal, source: arrival.source))
            return
        }
        let isWanted = waitingForRecord[record.id] != nil
        noteForkIfRivalled(record, into: &changes)
        // A void record is kept only where something that counts may stand on it.
        if chains[record.chain]?.isVoid(record.envelope.sequence) == true, !isWanted, !isRestoring { return }
        process([arrival], at: now, into: &changes)
    }

    /// What can be said of a record without knowing any other.
    private func refusalBeforeCauses(_ record: SignedRecord) -> Refusal? {
        let envelope = record.envelope
        guard let mesh else { return .wrongMesh }
        if envelope.kind == .genesis {
            guard record.id.value == mesh.value, envelope.mesh.value == .zero else { return .wrongMesh }
            guard envelope.sequence == 1, envelope.lamport == 1, record.causes.isEmpty else { return .notContinuous }
            return nil
        }
        guard envelope.mesh == mesh else { return .wrongMesh }
        guard envelope.sequence >= 1, (envelope.sequence == 1) == (envelope.previous.value == .zero) else {
            return .notContinuous
        }
        guard !record.causes.isEmpty else { return .noCauses }
        if isOverCap(author: envelope.author, chain: record.chain) { return .overCap }
        return nil
    }

    /// Another signed record of the same number, if one is known, makes a fork.
    private mutating func noteForkIfRivalled(_ record: SignedRecord, into changes: inout [Change]) {
        guard let chain = chains[record.chain], let rival = rival(of: record, in: chain), rival.0 != record.id else {
            return
        }
        let proof = ForkProof(first: rival.0, second: record.id, firstBytes: rival.1, secondBytes: record.bytes)
        let involvesGenesis = record.envelope.kind == .genesis || rival.0 == genesisID
        noteFork(record.chain, at: involvesGenesis ? 2 : record.envelope.sequence, proof, into: &changes)
    }

    private func rival(of record: SignedRecord, in chain: Chain) -> (RecordID, [UInt8])? {
        let sequence = record.envelope.sequence
        if sequence <= chain.contiguous {
            let id = chain.accepted[Int(sequence) - 1]
            return stored[id].map { (id, $0.bytes) }
        }
        return chain.waiting[sequence].flatMap { id in pending[id].map { (id, $0.record.bytes) } }
    }

    /// Takes a fork proof: both records signed by one admitted author with one number, and not the same record.
    /// False when it proves nothing.
    mutating func insertProof(_ first: SignedRecord, _ second: SignedRecord) -> (isProof: Bool, changes: [Change]) {
        guard first.chain == second.chain, first.envelope.sequence == second.envelope.sequence,
            first.id != second.id, first.envelope.sequence >= 1,
            [first, second].allSatisfy({ isOfThisMesh($0) })
        else { return (false, []) }
        // Proofs about strangers would fill memory; if one is admitted later, the proof is offered again.
        guard isAuthorised(first.envelope.author) else { return (true, []) }
        if chains[first.chain] == nil, isOverCap(author: first.envelope.author, chain: first.chain) {
            return (true, [])
        }
        var changes: [Change] = []
        let proof = ForkProof(first: first.id, second: second.id, firstBytes: first.bytes, secondBytes: second.bytes)
        let involvesGenesis = first.envelope.kind == .genesis || second.envelope.kind == .genesis
        noteFork(first.chain, at: involvesGenesis ? 2 : first.envelope.sequence, proof, into: &changes)
        return (true, changes)
    }

    private func isOfThisMesh(_ record: SignedRecord) -> Bool {
        record.envelope.kind == .genesis ? record.id.value == mesh?.value : record.envelope.mesh == mesh
    }

    /// Cuts a chain at a number of which there are two records. GENESIS itself cannot be voided: the mesh is named after
    /// it, so a rival of it cuts what follows.
    private mutating func noteFork(
        _ key: ChainKey, at sequence: UInt64, _ proof: ForkProof, into changes: inout [Change]
    ) {
        createChain(key)
        var chain = chains[key] ?? Chain()
        if let earlier = chain.forkedAt, earlier <= sequence { return }
        if let replaced = chain.proof {
            proofRecords[replaced.first] = nil
            proofRecords[replaced.second] = nil
        }
        chain.forkedAt = sequence
        chain.proof = proof
        proofRecords[proof.first] = proof.firstBytes
        proofRecords[proof.second] = proof.secondBytes
        let keptCount = min(chain.accepted.count, Int(clamping: sequence - 1))
        let voided = Array(chain.accepted[keptCount...])
        chain.accepted.removeLast(voided.count)
        chain.waiting = chain.waiting.filter { $0.key < sequence }
        chains[key] = chain
        cachedHead = nil
        changes.append(.forked(key, at: sequence, proof))
        for id in voided { makeVoid(id, into: &changes) }
    }

    private mutating func makeVoid(_ id: RecordID, into changes: inout [Change]) {
        stored[id]?.isVoid = true
        changes.append(.voided(id))
        guard heads.remove(id) != nil, let bytes = stored[id]?.bytes else { return }
        // Its causes are latest again, or at least harmless to name.
        guard let record = try? SignedRecord(decoding: bytes) else { return }
        for cause in record.causes where stored[cause]?.isVoid == false { heads.insert(cause) }
    }

    private mutating func createChain(_ key: ChainKey) {
        guard chains[key] == nil else { return }
        chains[key] = Chain()
        chainCounts[key.author, default: 0] += 1
    }

    // MARK: Acceptance

    /// Accepts what can be, and whatever that sets free, without recursion.
    private mutating func process(_ arrivals: [Pending], at now: HostTime, into changes: inout [Change]) {
        var queue = arrivals
        var position = 0
        while position < queue.count {
            let candidate = queue[position]
            position += 1
            let released = consider(candidate, into: &changes)
            queue.append(contentsOf: released)
        }
    }

    /// One record: accepted, refused or put to wait. Returns what its acceptance sets free.
    private mutating func consider(_ candidate: Pending, into changes: inout [Change]) -> [Pending] {
        let record = candidate.record
        let author = record.envelope.author
        let missing = record.causes.filter { stored[$0] == nil }
        guard missing.isEmpty else {
            hold(candidate, for: .causes(Set(missing)), into: &changes)
            return []
        }
        guard record.envelope.kind == .genesis || authorised.contains(author) else {
            hold(candidate, for: .admission, into: &changes)
            return []
        }
        guard let secret = secrets[record.envelope.epoch] else {
            hold(candidate, for: .secret, into: &changes)
            return []
        }
        noteForkIfRivalled(record, into: &changes)
        if let refusal = refusalByCauses(record) {
            changes.append(.refused(record.id, author: author, refusal, source: candidate.source))
            forgetNumber(record)
            return []
        }
        guard let body = record.openBody(with: secret) else {
            changes.append(.refused(record.id, author: author, .sealBroken, source: candidate.source))
            forgetNumber(record)
            return []
        }
        guard let admitted = admittedPeer(by: record, body: body) else {
            changes.append(.refused(record.id, author: author, .badBody, source: candidate.source))
            forgetNumber(record)
            return []
        }
        return accept(record, body: body, admitted: admitted, into: &changes)
    }

    /// Checked, not believed: a Lamport time is exactly one more than the greatest of the causes (AB-66), and a chain
    /// has no gap and no second branch.
    private func refusalByCauses(_ record: SignedRecord) -> Refusal? {
        let envelope = record.envelope
        guard envelope.kind != .genesis else { return nil }
        let greatest = record.causes.compactMap { stored[$0]?.order.lamport }.max() ?? 0
        guard greatest < .max, envelope.lamport == greatest + 1 else { return .wrongLamport }
        // A rival of GENESIS has a number that is taken and yet not void.
        if let chain = chains[record.chain], !chain.isVoid(envelope.sequence), envelope.sequence <= chain.contiguous {
            return .notContinuous
        }
        guard envelope.sequence > 1 else { return nil }
        guard let previous = stored[envelope.previous], previous.order.author == envelope.author,
            previous.order.incarnation == envelope.incarnation, previous.order.sequence == envelope.sequence - 1
        else { return .notContinuous }
        return nil
    }

    /// Whom the record lets write: its subject for ADMIT, its author for GENESIS, nobody (an empty list) for others.
    /// Nil when the body is not what its kind says.
    private func admittedPeer(by record: SignedRecord, body: [UInt8]) -> [PeerID]? {
        switch record.envelope.kind {
        case .genesis:
            return (try? GenesisBody(decoding: body)) == nil ? nil : [record.envelope.author]
        case .admit:
            guard let admission = try? AdmitBody(decoding: body) else { return nil }
            return [admission.subject]
        case .invite, .revoke, .attachmentAdded, .attachmentRemoved:
            return []
        }
    }

    private mutating func accept(
        _ record: SignedRecord, body: [UInt8], admitted: [PeerID], into changes: inout [Change]
    ) -> [Pending] {
        let envelope = record.envelope
        createChain(record.chain)
        let isVoid = chains[record.chain]?.isVoid(envelope.sequence) ?? false
        stored[record.id] = Stored(bytes: record.bytes, order: record.order, isVoid: isVoid)
        recordCounts[envelope.author, default: 0] += 1
        greatestLamport = max(greatestLamport, envelope.lamport)
        if isVoid {
            changes.append(.knownVoid(record.id, bytes: record.bytes))
        } else {
            chains[record.chain]?.accepted.append(record.id)
            chains[record.chain]?.waiting[envelope.sequence] = nil
            for cause in record.causes { heads.remove(cause) }
            heads.insert(record.id)
            cachedHead = nil
            if envelope.kind == .genesis { genesisID = record.id }
            changes.append(.accepted(acceptedRecord(record, body: body), bytes: record.bytes))
        }
        // Admission by a void record still counts: the newcomer did nothing wrong, and a right to write never lapses by
        // arrival order.
        for peer in admitted { authorised.insert(peer) }
        return release(after: record.id, admitted: admitted)
    }

    private func acceptedRecord(_ record: SignedRecord, body: [UInt8]) -> AcceptedRecord {
        AcceptedRecord(
            id: record.id, kind: record.envelope.kind, author: record.envelope.author,
            incarnation: record.envelope.incarnation, sequence: record.envelope.sequence,
            lamport: record.envelope.lamport, body: body)
    }

    // MARK: Waiting

    private mutating func hold(_ candidate: Pending, for wait: Wait, into changes: inout [Change]) {
        let record = candidate.record
        let author = record.envelope.author
        guard isRestoring || hasRoom(author: author, source: candidate.source) else {
            changes.append(.dropped(record.id, author: author))
            return
        }
        var held = candidate
        if case .causes(let missing) = wait { held.missing = missing } else { held.missing = [] }
        pending[record.id] = held
        pendingByAuthor[author, default: 0] += 1
        if let source = candidate.source { pendingBySource[source, default: 0] += 1 }
        switch wait {
        case .causes(let missing): for cause in missing { waitingForRecord[cause, default: []].append(record.id) }
        case .admission: waitingForAdmission[author, default: []].append(record.id)
        case .secret: waitingForSecret[record.envelope.epoch, default: []].append(record.id)
        }
        // Numbers are remembered for admitted authors only, so strangers leave nothing behind but their place here.
        if authorised.contains(author), chains[record.chain] != nil || !isOverCap(author: author, chain: record.chain) {
            createChain(record.chain)
            if chains[record.chain]?.waiting[record.envelope.sequence] == nil {
                chains[record.chain]?.waiting[record.envelope.sequence] = record.id
            }
        }
    }

    private func hasRoom(author: PeerID, source: PeerID?) -> Bool {
        guard pending.count < configuration.maximumPendingRecords,
            pendingByAuthor[author, default: 0] < configuration.maximumPendingRecordsPerAuthor
        else { return false }
        guard let source else { return true }
        return pendingBySource[source, default: 0] < max(1, configuration.maximumPendingRecords / 2)
    }

    /// Removes a waiting record and its place in every index but the one that led here.
    private mutating func take(_ id: RecordID) -> Pending? {
        guard let held = pending.removeValue(forKey: id) else { return nil }
        decrement(&pendingByAuthor, held.record.envelope.author)
        if let source = held.source { decrement(&pendingBySource, source) }
        return held
    }

    private func decrement(_ table: inout [PeerID: Int], _ peer: PeerID) {
        let count = (table[peer] ?? 0) - 1
        table[peer] = count > 0 ? count : nil
    }

    private mutating func release(after id: RecordID, admitted: [PeerID]) -> [Pending] {
        var released: [Pending] = []
        for waiter in waitingForRecord.removeValue(forKey: id) ?? [] {
            pending[waiter]?.missing.remove(id)
            if pending[waiter]?.missing.isEmpty == true, let held = take(waiter) { released.append(held) }
        }
        for peer in admitted {
            let waiters = waitingForAdmission.removeValue(forKey: peer) ?? []
            released.append(contentsOf: waiters.compactMap { take($0) })
        }
        return released
    }

    /// A refused record leaves no number behind.
    private mutating func forgetNumber(_ record: SignedRecord) {
        guard chains[record.chain]?.waiting[record.envelope.sequence] == record.id else { return }
        chains[record.chain]?.waiting[record.envelope.sequence] = nil
        dropIfEmpty(record.chain)
    }

    private mutating func dropIfEmpty(_ key: ChainKey) {
        guard let chain = chains[key], chain.accepted.isEmpty, chain.waiting.isEmpty, chain.forkedAt == nil else {
            return
        }
        chains[key] = nil
        decrement(&chainCounts, key.author)
    }

    /// Drops what has waited since before `limit`; returns how many. Cost: O(waiting).
    mutating func dropPending(heldBefore limit: HostTime) -> Int {
        let expired = pending.filter { $0.value.since < limit }.map(\.key).sorted()
        for id in expired {
            guard let held = take(id) else { continue }
            for cause in held.missing { removeWaiter(id, from: &waitingForRecord, cause) }
            removeWaiter(id, from: &waitingForAdmission, held.record.envelope.author)
            removeWaiter(id, from: &waitingForSecret, held.record.envelope.epoch)
            forgetNumber(held.record)
        }
        return expired.count
    }

    private func removeWaiter<Key: Hashable>(_ id: RecordID, from table: inout [Key: [RecordID]], _ key: Key) {
        guard var waiters = table[key] else { return }
        waiters.removeAll { $0 == id }
        table[key] = waiters.isEmpty ? nil : waiters
    }
}
