import MeshBase
import MeshCrypto
import MeshWire

/// One record of the membership, as far as the fold needs it.
struct MembershipFact: Hashable, Sendable {
    enum Statement: Hashable, Sendable {
        case genesis(MeshPolicies)
        case admit(PeerID, under: SecretID, name: String)
        /// Only matters where not everybody may invite.
        case invite(SecretID)
        case remove(RemoveBody)
        case epoch(EpochBody)
        case end
    }

    let id: RecordID
    let order: RecordOrder
    /// The epoch secret that seals the record.
    let sealedUnder: SecretID
    let statement: Statement

    var author: PeerID { order.author }

    /// Nil for a record of another kind, or one whose body is not what its kind says.
    init?(_ record: AcceptedRecord) {
        id = record.id
        order = RecordOrder(record)
        sealedUnder = record.epoch
        do {
            switch record.kind {
            case .genesis: statement = .genesis(try GenesisBody(decoding: record.body).policies)
            case .admit:
                let body = try AdmitBody(decoding: record.body)
                statement = .admit(body.subject, under: body.secretID, name: body.name)
            case .invite:
                let secret = try InviteBody(decoding: record.body).joinSecret
                statement = .invite(SecretID(Digest.hash16(secret.bytes)))
            case .remove: statement = .remove(try RemoveBody(decoding: record.body))
            case .epoch: statement = .epoch(try EpochBody(decoding: record.body))
            case .end:
                _ = try EndBody(decoding: record.body)
                statement = .end
            default: return nil
            }
        } catch {
            return nil
        }
    }

    init(id: RecordID, order: RecordOrder, sealedUnder: SecretID, statement: Statement) {
        self.id = id
        self.order = order
        self.sealedUnder = sealedUnder
        self.statement = statement
    }
}

/// The membership as a pure function of the set of records, fed in any order.
///
/// 1. Admissions count in total order: an ADMIT counts when its author was admitted before it and no cut excludes it.
/// 2. A REMOVE carries a cut: what of its subject's records counts. It counts itself when its author is a member by (1),
///    the policy lets it, and no other REMOVE that counts cuts it off.
/// 3. Where removals cut each other off in a circle, none of them knowing of the others, the one of the most senior
///    remover counts, and what would cut it off does not. Seniority is the order of admission, the creator first.
/// 4. What falls with an admission that no longer counts falls too: removals, invites and ends of somebody whom only a
///    removed member let in, behind its back.
///
/// Cost: one pass over the facts for each removal that counts; without any removal an admission costs a few look-ups.
struct MembershipFold: Sendable {
    private var facts: [RecordID: MembershipFact] = [:]
    /// In total order; nil when it must be sorted again.
    private var sorted: [MembershipFact]?
    private var removeCount = 0

    private(set) var membership = Membership()
    private(set) var epochs = EpochTree()
    /// ADMITs that count.
    private(set) var admissions: Set<RecordID> = []
    /// The cuts of every removal that counts.
    private(set) var cuts: [PeerID: [RemoveBody]] = [:]
    /// REMOVEs that count, each of which an epoch secret must answer.
    private(set) var countingRemovals: Set<RecordID> = []
    private var admitCount = 0
    private var isStale = false

    // MARK: Feeding

    mutating func insert(_ fact: MembershipFact) {
        guard facts[fact.id] == nil else { return }
        facts[fact.id] = fact
        sorted = nil
        switch fact.statement {
        case .remove: removeCount += 1
        case .admit: admitCount += 1
        default: break
        }
        if !isStale, removeCount == 0, extend(by: fact) { return }
        isStale = true
    }

    /// A record that a fork voided: it says nothing any more, but an admission stands.
    mutating func void(_ id: RecordID) {
        guard let fact = facts[id] else { return }
        if case .admit = fact.statement { return }
        if case .genesis = fact.statement { return }
        if case .remove = fact.statement { removeCount -= 1 }
        facts[id] = nil
        sorted = nil
        isStale = true
    }

    /// Brings the verdicts up to date. True when anything but a plain admission changed.
    mutating func refresh() -> Bool {
        guard isStale else { return false }
        isStale = false
        let (before, cutsBefore, epochsBefore) = (membership, countingRemovals, epochs)
        evaluate()
        return before != membership || cutsBefore != countingRemovals || epochsBefore != epochs
    }

    /// The usual case: nobody was ever removed, and every admission counts.
    private mutating func extend(by fact: MembershipFact) -> Bool {
        switch fact.statement {
        case .admit(let subject, _, let name):
            guard membership.mayInvite(fact.author), admissions.count == admitCount - 1,
                let author = membership.standings[fact.author], author.order < fact.order
            else { return false }
            if let known = membership.standings[subject] {
                // An earlier one than what is known may be older than what its subject admitted: looked at in full.
                guard known.order < fact.order else { return false }
            } else {
                membership.standings[subject] = standing(fact, name: name)
            }
            admissions.insert(fact.id)
            return true
        case .invite: return membership.policies.invite == .anyMember
        case .genesis, .remove, .epoch, .end: return false
        }
    }

    private func standing(_ fact: MembershipFact, name: String) -> Membership.Standing {
        Membership.Standing(
            order: fact.order, admittedBy: fact.author, record: fact.id, name: name)
    }

    // MARK: Verdicts

    /// Whether a record of this author, in this place, counts as far as the membership is concerned.
    func counts(_ order: RecordOrder) -> Bool {
        guard membership.standings[order.author] != nil else { return false }
        return cuts[order.author]?.allSatisfy { $0.covers(order.incarnation, order.sequence) } ?? true
    }

    /// Whether an invite sealed under this secret is unknown to everybody who was removed.
    func isSafe(_ secret: SecretID) -> Bool { countingRemovals.isSubset(of: epochs.coverage(of: secret)) }

    // MARK: The fold

    private mutating func evaluate() {
        let list = sorted ?? facts.values.sorted { ($0.order, $0.id) < ($1.order, $1.id) }
        sorted = list
        var dropped: Set<RecordID> = []
        while true {
            let applied = applyRemovals(list, dropped: dropped)
            guard let fallen = applied.first(where: { !isCounting($0) }) else { break }
            dropped.insert(fallen.id)
        }
        finish(list)
    }

    /// Applies removals one after the other until none is left; returns them in that order.
    private mutating func applyRemovals(_ list: [MembershipFact], dropped: Set<RecordID>) -> [MembershipFact] {
        var applied: [MembershipFact] = []
        cuts = [:]
        countingRemovals = []
        admit(list)
        var dropped = dropped
        while let next = nextRemoval(list, dropped: &dropped) {
            guard case .remove(let body) = next.statement else { break }
            applied.append(next)
            countingRemovals.insert(next.id)
            cuts[body.subject, default: []].append(body)
            admit(list)
        }
        return applied
    }

    /// Everybody whom the cuts so far let be admitted.
    private mutating func admit(_ list: [MembershipFact]) {
        membership = Membership()
        admissions = []
        let invites = invitesOfCreator(list)
        for fact in list {
            switch fact.statement {
            case .genesis(let policies):
                membership.policies = policies
                membership.creator = fact.author
                membership.standings[fact.author] = Membership.Standing(
                    order: fact.order, admittedBy: nil, record: fact.id, name: "")
            case .admit(let subject, let secret, let name):
                guard counts(fact.order), membership.mayInvite(fact.author) || invites.contains(secret) else {
                    continue
                }
                admissions.insert(fact.id)
                if membership.standings[subject] == nil { membership.standings[subject] = standing(fact, name: name) }
            default: break
            }
        }
    }

    private func invitesOfCreator(_ list: [MembershipFact]) -> Set<SecretID> {
        guard case .genesis(let policies) = list.first?.statement, policies.invite != .anyMember else { return [] }
        return Set(
            list.compactMap { fact in
                if case .invite(let secret) = fact.statement, fact.author == list[0].author { secret } else { nil }
            })
    }

    private func isCounting(_ fact: MembershipFact) -> Bool {
        guard counts(fact.order), let standing = membership.standings[fact.author],
            standing.order < fact.order
        else { return false }
        guard case .remove(let body) = fact.statement else { return true }
        return membership.standings[body.subject] != nil && membership.mayRemove(fact.author, body.subject)
    }

    /// The removal to apply next: one that no other cuts off; in a circle the most senior remover's.
    private mutating func nextRemoval(_ list: [MembershipFact], dropped: inout Set<RecordID>) -> MembershipFact? {
        let open = list.filter { fact in
            guard case .remove = fact.statement else { return false }
            return !countingRemovals.contains(fact.id) && !dropped.contains(fact.id) && isCounting(fact)
        }
        let free = open.filter { fact in !open.contains { Self.cutsOff($0, fact) } }
        let next = (free.isEmpty ? open : free).min { left, right in
            (seniority(left.author), left.order) < (seniority(right.author), right.order)
        }
        if free.isEmpty, let next { dropped.formUnion(open.filter { Self.cutsOff($0, next) }.map(\.id)) }
        return next
    }

    private static func cutsOff(_ removal: MembershipFact, _ fact: MembershipFact) -> Bool {
        guard case .remove(let body) = removal.statement, body.subject == fact.author else { return false }
        return !body.covers(fact.order.incarnation, fact.order.sequence)
    }

    /// Only of members: others' removals are not asked about.
    private func seniority(_ peer: PeerID) -> RecordOrder {
        membership.standings[peer]?.order
            ?? RecordOrder(lamport: .max, author: peer, incarnation: Incarnation(.max), sequence: .max)
    }

    /// What follows from the removals that count.
    private mutating func finish(_ list: [MembershipFact]) {
        epochs = EpochTree()
        for fact in list {
            switch fact.statement {
            case .genesis: epochs.found(fact.id, secret: fact.sealedUnder)
            case .remove(let body) where countingRemovals.contains(fact.id):
                guard membership.removals[body.subject] == nil else { continue }
                membership.removals[body.subject] = Membership.Removal(
                    by: fact.author, record: fact.id, lamport: fact.order.lamport)
            case .epoch(let body):
                if isCounting(fact) { epochs.insert(fact.id, body) }
            case .end:
                guard membership.ending == nil, isCounting(fact), membership.mayEnd(fact.author) else { continue }
                membership.ending = Membership.Ending(by: fact.author, record: fact.id)
            default: break
            }
        }
    }
}
