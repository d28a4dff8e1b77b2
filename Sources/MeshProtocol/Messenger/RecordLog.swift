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
        let kind: RecordKind
        /// The secret that seals the body.
        let epoch: SecretID
        var isVoid: Bool
        /// Its author may not say this, or not any more: kept and passed on, and not told to the machines above.
        var isMuted = false
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

    struct Pending: Sendable {
        let record: SignedRecord
        let source: PeerID?
        let since: HostTime
        var missing: Set<RecordID>
    }

    /// What a record waits for.
    enum Wait {
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
        /// Known as a cause, without effect but for an admission: to be kept.
        case knownVoid(AcceptedRecord, bytes: [UInt8])
        case voided(RecordID)
        case forked(ChainKey, at: UInt64, ForkProof)
        case refused(RecordID, author: PeerID, Refusal, source: PeerID?)
        /// Dropped before a verdict: the waiting room was full.
        case dropped(RecordID, author: PeerID)
    }

    let configuration: GossipConfiguration
    var mesh: MeshID?
    /// Opens what is sealed to this node alone.
    var signing: SigningKeyPair?
    var secrets: [SecretID: GroupSecret] = [:]
    var genesisID: RecordID?

    var stored: [RecordID: Stored] = [:]
    /// The records of all fork proofs.
    var proofRecords: [RecordID: [UInt8]] = [:]
    var chains: [ChainKey: Chain] = [:]
    var chainCounts: [PeerID: Int] = [:]
    var recordCounts: [PeerID: Int] = [:]
    var authorised: Set<PeerID> = []
    /// Records that no other names as a cause yet: the parents of the next one written here.
    var heads: Set<RecordID> = []
    var greatestLamport: UInt64 = 0

    var pending: [RecordID: Pending] = [:]
    var pendingByAuthor: [PeerID: Int] = [:]
    var pendingBySource: [PeerID: Int] = [:]
    /// Missing record → those that wait for it.
    var waitingForRecord: [RecordID: [RecordID]] = [:]
    /// Not admitted author → its records.
    var waitingForAdmission: [PeerID: [RecordID]] = [:]
    var waitingForSecret: [SecretID: [RecordID]] = [:]
    var isRestoring = false
    var epochBodies: [RecordID: EpochBody] = [:]
    /// EPOCHs whose secret is not here.
    var lackingEpochs: Set<RecordID> = []

    /// Digest of the accepted set, kept while nothing changes.
    var cachedHead: Bytes16?

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
        process(deriveSecrets(), at: .distantPast, into: &changes)
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
    func nextParents(besides previous: RecordID?) -> [RecordID] {
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

    mutating func insertOne(_ arrival: Pending, at now: HostTime, into changes: inout [Change]) {
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
    func refusalBeforeCauses(_ record: SignedRecord) -> Refusal? {
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

    mutating func createChain(_ key: ChainKey) {
        guard chains[key] == nil else { return }
        chains[key] = Chain()
        chainCounts[key.author, default: 0] += 1
    }
}
