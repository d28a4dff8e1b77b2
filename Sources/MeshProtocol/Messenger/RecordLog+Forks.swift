import MeshBase
import MeshWire

/// Two signed records of one number: what that does to a chain.
extension RecordLog {
    /// Another signed record of the same number, if one is known, makes a fork.
    mutating func noteForkIfRivalled(_ record: SignedRecord, into changes: inout [Change]) {
        guard let chain = chains[record.chain], let rival = rival(of: record, in: chain), rival.0 != record.id else {
            return
        }
        let proof = ForkProof(first: rival.0, second: record.id, firstBytes: rival.1, secondBytes: record.bytes)
        let involvesGenesis = record.envelope.kind == .genesis || rival.0 == genesisID
        noteFork(record.chain, at: involvesGenesis ? 2 : record.envelope.sequence, proof, into: &changes)
    }

    func rival(of record: SignedRecord, in chain: Chain) -> (RecordID, [UInt8])? {
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

    func isOfThisMesh(_ record: SignedRecord) -> Bool {
        record.envelope.kind == .genesis ? record.id.value == mesh?.value : record.envelope.mesh == mesh
    }

    /// Cuts a chain at a number of which there are two records. GENESIS itself cannot be voided: the mesh is named after
    /// it, so a rival of it cuts what follows.
    mutating func noteFork(
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

    mutating func makeVoid(_ id: RecordID, into changes: inout [Change]) {
        stored[id]?.isVoid = true
        changes.append(.voided(id))
        guard heads.remove(id) != nil, let bytes = stored[id]?.bytes else { return }
        // Its causes are latest again, or at least harmless to name.
        guard let record = try? SignedRecord(decoding: bytes) else { return }
        for cause in record.causes where stored[cause]?.isVoid == false { heads.insert(cause) }
    }
}
