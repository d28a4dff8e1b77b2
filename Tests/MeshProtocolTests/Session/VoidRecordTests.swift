import MeshBase
import MeshCrypto
import MeshWire
import Testing

@testable import MeshProtocol

/// A record counts or it does not, whichever came first: the record, or the proof that its author forked.
@Suite struct VoidRecordTests {
    private static func record(
        _ kind: RecordKind, _ number: UInt64, body: [UInt8], author: PeerID
    ) -> AcceptedRecord {
        AcceptedRecord(
            id: RecordID(Digest.hash32([UInt8(number), kind.rawValue])), kind: kind, author: author,
            incarnation: Incarnation(1), sequence: number, lamport: number, body: body)
    }

    private func invite(_ number: UInt64, author: PeerID, lifetimeSeconds: UInt64 = 0) -> AcceptedRecord {
        let secret = Digest.hash32([UInt8(number), 77])
        let body = InviteBody(joinSecret: secret, lifetimeSeconds: lifetimeSeconds)
        return Self.record(.invite, number, body: body.encoded, author: author)
    }

    private func revoke(_ number: UInt64, of invite: AcceptedRecord) throws -> AcceptedRecord {
        let secret = try InviteBody(decoding: invite.body).joinSecret
        let id = GroupSecret(secret: SecretBytes(copying: secret.bytes)).id
        return Self.record(.revoke, number, body: RevokeBody(secretID: id).encoded, author: invite.author)
    }

    @Test func `AB-69 invites and revocations of a void record are undone in the session`() throws {
        let mesh = TestMesh.settled(2)
        let node = mesh.nodes[0]
        let before = node.machine.invites.map(\.id)
        let (kept, void) = (invite(50, author: node.peer), invite(51, author: node.peer))
        let voidRevoke = try revoke(52, of: kept)
        mesh.submit(node, .recordAccepted(kept))
        let expected = node.machine.invites.map(\.id)
        #expect(expected.count == before.count + 1)

        // The record first, then the proof; the other order never shows the session these two.
        mesh.submit(node, .recordAccepted(void))
        mesh.submit(node, .recordAccepted(voidRevoke))
        #expect(node.machine.invites.map(\.id) != expected)
        mesh.submit(node, .recordVoided(voidRevoke.id))
        mesh.submit(node, .recordVoided(void.id))

        #expect(node.machine.invites.map(\.id) == expected)
        #expect(node.lastSecrets == node.machine.handshakeSecrets.map(\.id), "and the links are told")
    }

    @Test func `AB-69 an invite expires though a revocation of it was void`() throws {
        let mesh = TestMesh.settled(1)
        let node = mesh.nodes[0]
        let short = invite(50, author: node.peer, lifetimeSeconds: 10)
        let voidRevoke = try revoke(51, of: short)
        mesh.submit(node, .recordAccepted(short))
        mesh.submit(node, .recordAccepted(voidRevoke))
        mesh.run(.seconds(5 as Int64))
        mesh.submit(node, .recordVoided(voidRevoke.id))
        #expect(node.machine.invites.count == 2)
        mesh.run(.seconds(6 as Int64))

        #expect(node.machine.invites.count == 1)
    }

    @Test func `AB-69 attachments and removals of a void record are undone in the journal`() throws {
        let author = PeerID(Digest.hash32([3]))
        func added(_ number: UInt64) -> AcceptedRecord {
            let body = AttachmentAddedBody(
                content: ContentID(Digest.hash32([UInt8(number), 9])), byteCount: 5, name: "file \(number)", note: "")
            return Self.record(.attachmentAdded, number, body: body.encoded, author: author)
        }
        let kept = added(1)
        let void = added(2)
        let voidRemoval = Self.record(
            .attachmentRemoved, 3, body: AttachmentRemovedBody(attachment: kept.id).encoded, author: author)
        func journal(_ commands: [JournalCommand]) throws -> JournalStateMachine {
            var machine = JournalStateMachine(
                identity: PeerID(.zero), configuration: JournalConfiguration(), random: RandomStream(testSeed: 1))
            var outbox = Outbox<JournalOutput>()
            for command in [.setKey(.zero)] + commands {
                try machine.submit(command, at: HostTime(nanoseconds: 1_000), into: &outbox)
            }
            return machine
        }

        let proofFirst = try journal([.recordAccepted(kept)])
        let recordsFirst = try journal([
            .recordAccepted(kept), .recordAccepted(void), .recordAccepted(voidRemoval), .recordVoided(voidRemoval.id),
            .recordVoided(void.id),
        ])
        let removalFirst = try journal([
            .recordAccepted(voidRemoval), .recordAccepted(kept), .recordAccepted(void), .recordVoided(void.id),
            .recordVoided(voidRemoval.id),
        ])

        #expect(proofFirst.attachments.map(\.id) == [kept.id])
        #expect(recordsFirst.attachments.map(\.id) == [kept.id])
        #expect(removalFirst.attachments.map(\.id) == [kept.id])
        #expect(Set(recordsFirst.contents.keys) == Set(proofFirst.contents.keys))
        #expect(Set(removalFirst.contents.keys) == Set(proofFirst.contents.keys))
    }

    @Test func `AB-69 a void record loses its place in the order`() throws {
        let records = (1...4 as ClosedRange<UInt64>).map { number in
            Self.record(.revoke, number, body: [], author: PeerID(.zero))
        }
        func order(_ commands: [CoordinatorCommand]) throws -> [RecordID] {
            let identity = NodeIdentity(signing: RandomStream.testKey(1), incarnation: Incarnation(1))
            var machine = CoordinatorStateMachine(
                identity: identity, configuration: CoordinatorConfiguration(), random: RandomStream(testSeed: 1))
            var outbox = Outbox<CoordinatorOutput>()
            for command in commands { try machine.submit(command, at: HostTime(nanoseconds: 1_000), into: &outbox) }
            return machine.order.map(\.id)
        }
        let proofFirst = try order([.recordAccepted(records[0]), .recordAccepted(records[3])])
        let recordsFirst = try order(records.map { .recordAccepted($0) } + records[1...2].map { .recordVoided($0.id) })

        #expect(recordsFirst == proofFirst)
    }

    @Test func `AB-69 whoever a void record admitted is a member everywhere in the end`() {
        let mesh = TestMesh.settled(3)
        let newcomer = mesh.add()
        let body = AdmitBody(
            subject: newcomer.peer, secretID: mesh.ticket(mesh.nodes[0]).secretID, name: "newcomer")
        // Node 0 had the ADMIT before the proof, node 1 knows it as a cause of another record, node 2 never heard of it.
        let admission = Self.record(.admit, 60, body: body.encoded, author: mesh.nodes[1].peer)
        mesh.submit(mesh.nodes[0], .recordAccepted(admission))
        mesh.submit(mesh.nodes[0], .recordVoided(admission.id))
        mesh.submit(mesh.nodes[1], .voidAdmission(admission))
        #expect(mesh.nodes[0].machine.isAdmitted(newcomer.peer), "a right does not lapse")
        #expect(mesh.nodes[1].machine.isAdmitted(newcomer.peer))
        #expect(!mesh.nodes[2].machine.isAdmitted(newcomer.peer))

        mesh.run(.seconds(10 as Int64))

        #expect(mesh.nodes[2].machine.isAdmitted(newcomer.peer))
        #expect(
            mesh.nodes[0].records.count { $0.kind == .admit && $0.body.starts(with: [1] + newcomer.peer.value.bytes) }
                == 1)
    }
}

extension TestMesh.Node {
    /// What the links were told last.
    fileprivate var lastSecrets: [SecretID] {
        for output in outputs.reversed() { if case .setSecrets(let secrets) = output { return secrets.map(\.id) } }
        return []
    }
}
