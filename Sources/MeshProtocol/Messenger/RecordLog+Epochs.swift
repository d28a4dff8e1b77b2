import MeshBase
import MeshCrypto
import MeshWire

/// Secrets that records bring: every EPOCH whose box or bases this node can open.
extension RecordLog {
    /// An EPOCH was accepted, or is known as a cause.
    mutating func noteEpoch(_ record: SignedRecord, body: [UInt8]) {
        guard record.envelope.kind == .epoch, let epoch = try? EpochBody(decoding: body) else { return }
        epochBodies[record.id] = epoch
        if secrets[epoch.secretID] == nil { lackingEpochs.insert(record.id) }
    }

    /// Derives what can be derived; returns the records that waited for it.
    mutating func deriveSecrets() -> [Pending] {
        var released: [Pending] = []
        var isProgressing = !lackingEpochs.isEmpty
        while isProgressing {
            isProgressing = false
            for id in lackingEpochs.sorted() {
                guard let body = epochBodies[id] else { continue }
                if secrets[body.secretID] == nil {
                    guard let secret = derive(body) else { continue }
                    secrets[secret.id] = secret
                }
                lackingEpochs.remove(id)
                isProgressing = true
                released += (waitingForSecret.removeValue(forKey: body.secretID) ?? []).compactMap { take($0) }
            }
        }
        return released
    }

    /// Nil when a base is not known, the fresh part is sealed to others only, or the result is not what the record says.
    private func derive(_ body: EpochBody) -> GroupSecret? {
        guard let mesh, let signing else { return nil }
        let bases = body.bases.compactMap { secretID(of: $0).flatMap { secrets[$0]?.secret } }
        guard bases.count == body.bases.count else { return nil }
        var fresh: SecretBytes?
        if !body.isMerge {
            let own = body.boxes.first { $0.recipient == signing.peerID }
            fresh = own.flatMap { EpochSecret.open($0.sealed, from: body.ephemeralKey, as: signing, mesh: mesh) }
            guard fresh != nil else { return nil }
        }
        let secret = EpochSecret.combine(fresh: fresh, bases: bases, mesh: mesh)
        return secret.id == body.secretID ? secret : nil
    }

    /// Of the secret that a GENESIS or EPOCH record stands for.
    private func secretID(of record: RecordID) -> SecretID? {
        if let body = epochBodies[record] { return body.secretID }
        return record == genesisID ? stored[record]?.epoch : nil
    }

    /// Secrets that records were sealed under, or that an EPOCH made, and that are not here; in order.
    func missingSecrets(limit: Int) -> [SecretID] {
        let lacking = lackingEpochs.compactMap { epochBodies[$0]?.secretID } + waitingForSecret.keys
        return Array(Set(lacking).filter { secrets[$0] == nil }.sorted().prefix(limit))
    }
}
