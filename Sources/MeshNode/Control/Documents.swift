import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem

/// The JSON objects of the control channel: a contract (Docs/Command.md). Field names are camelCase, units last.
enum Documents {
    static func status(_ snapshot: NodeSnapshot, processID: Int32) -> JSONValue {
        let mesh: JSONValue =
            snapshot.meshID.map { id in
                [
                    "id": .string(id.description), "label": .string(snapshot.meshLabel),
                    "memberCount": .integer(Int64(snapshot.presentMembers.count)), "hasLeft": .bool(snapshot.hasLeft),
                ]
            } ?? .null
        return [
            "schema": "starling/status/1",
            "node": [
                "name": .string(snapshot.name), "id": .string(snapshot.id.description),
                "fingerprint": .string(Fingerprint.words(of: snapshot.id)), "pid": .integer(Int64(processID)),
                "uptimeSeconds": .number(rounded(snapshot.uptime.seconds, 3)), "port": .integer(Int64(snapshot.port)),
            ],
            "mesh": mesh, "peers": peerList(snapshot), "session": session(snapshot),
            "journal": [
                "attachmentCount": .integer(Int64(snapshot.attachments.count)),
                "bytes": .integer(Int64(clamping: snapshot.attachments.reduce(0) { $0 &+ $1.byteCount })),
            ],
            "storage": snapshot.storageTrouble.map { error in
                ["code": .string(error.code), "message": .string(error.message), "hint": .string(error.hint)]
            } ?? .null,
            "messages": messages(snapshot), "clock": clock(snapshot),
            "faults": [
                "refusedCommands": count(snapshot.faults.refusedCommands),
                "malformedMessages": count(snapshot.faults.malformedMessages ?? 0),
            ],
        ]
    }

    /// What was dropped, by reason, is of unreliable messages.
    private static func messages(_ snapshot: NodeSnapshot) -> JSONValue {
        let gossip = snapshot.gossip
        return [
            "sent": .integer(Int64(gossip.messagesSent)), "received": .integer(Int64(gossip.messagesReceived)),
            "failed": .integer(Int64(gossip.messagesFailed)),
            "droppedNoRoute": .integer(Int64(gossip.unreliableDroppedNoRoute)),
            "droppedQueueFull": count(snapshot.messenger.unreliableDroppedQueueFull),
            "droppedLateHere": count(snapshot.linkTable.lateMessages),
            "droppedLateOnArrival": .integer(Int64(gossip.unreliableDroppedLate)),
        ]
    }

    static func peers(_ snapshot: NodeSnapshot) -> JSONValue {
        ["schema": "starling/peers/1", "peers": peerList(snapshot)]
    }

    private static func peerList(_ snapshot: NodeSnapshot) -> JSONValue {
        .array(
            snapshot.peers.map { item in
                let relay = item.link?.identity.relay.map { snapshot.name(of: $0) }
                return peer(item, relay: relay, isHeard: !snapshot.hasLeft)
            })
    }

    /// Whether a member is alive, as far as this node can still tell: one that has left hears nobody.
    static func stateText(_ member: Member, hasLeft: Bool) -> String {
        guard hasLeft else { return member.state.rawValue }
        return member.isLocal || member.state == .left ? Member.State.left.rawValue : "unknown"
    }

    /// `relay`: the name of the member through which its link goes.
    static func peer(_ peer: NodeSnapshot.Peer, relay: String?, isHeard: Bool = true) -> JSONValue {
        let link = peer.link
        let path: JSONValue
        if let relay {
            path = ["address": nil, "kind": "relay", "via": .string(relay)]
        } else if let link {
            path = ["address": .string(link.identity.address.description), "kind": "direct", "via": nil]
        } else if isHeard, peer.isRelayed, peer.member.state == .alive {
            path = ["address": nil, "kind": "relayed", "via": nil]
        } else {
            path = .null
        }
        return [
            "name": .string(peer.member.name), "id": .string(peer.member.peer.description),
            "state": .string(stateText(peer.member, hasLeft: !isHeard)), "path": path,
            "rttMicroseconds": microseconds(link?.smoothedRoundTrip),
            "offsetMicroseconds": microseconds(peer.offset?.offset),
            "offsetErrorMicroseconds": microseconds(peer.offset?.error),
            "lossPercent": .number(rounded((link?.lossFraction ?? 0) * 100, 2)),
            "sentBytes": count(link?.bytesSent ?? 0), "receivedBytes": count(link?.bytesReceived ?? 0),
            "sinceSeconds": .number(rounded(peer.member.lastHeardAt == nil ? 0 : linkAge(peer), 1)),
        ]
    }

    private static func linkAge(_ peer: NodeSnapshot.Peer) -> Double {
        guard let link = peer.link else { return 0 }
        return link.lastHeardAt.since(link.establishedAt).seconds
    }

    static func members(_ snapshot: NodeSnapshot) -> JSONValue {
        let rows = snapshot.members.map { member -> JSONValue in
            [
                "name": .string(member.name), "id": .string(member.peer.description),
                "state": .string(stateText(member, hasLeft: snapshot.hasLeft)),
                "incarnation": .string(hexadecimal(member.incarnation.value)),
                "admittedBy": member.admittedBy.map { .string(snapshot.name(of: $0)) } ?? .null,
                "isLocal": .bool(member.isLocal),
            ]
        }
        return ["schema": "starling/members/1", "members": .array(rows)]
    }

    static func links(_ snapshot: NodeSnapshot) -> JSONValue {
        let rows = snapshot.peers.compactMap { peer -> JSONValue? in
            guard let link = peer.link else { return nil }
            return [
                "peer": .string(peer.member.name),
                "address": link.identity.relay == nil ? .string(link.identity.address.description) : .null,
                "via": link.identity.relay.map { .string(snapshot.name(of: $0)) } ?? .null,
                "rttMicroseconds": microseconds(link.smoothedRoundTrip),
                "lossPercent": .number(rounded(link.lossFraction * 100, 2)),
                "congestionWindowBytes": .integer(Int64(link.congestionWindowBytes)),
                "pacingBytesPerSecond": .integer(integer(link.pacingBytesPerSecond)),
                "mtuBytes": .integer(Int64(link.datagramBytes)), "gso": .bool(snapshot.transport.usesSegmentation),
                "queueBytes": .integer(Int64(link.queueBytes)), "lateMessages": count(link.lateMessages),
            ]
        }
        let carried = snapshot.relaying
        return [
            "schema": "starling/links/1", "links": .array(rows),
            "relaying": [
                "pairCount": .integer(Int64(carried.pairCount)), "maximumPairs": .integer(Int64(carried.maximumPairs)),
                "maximumBytesPerSecond": .integer(Int64(carried.maximumBytesPerSecond)),
                "datagrams": count(carried.datagrams), "bytes": count(carried.bytes),
                "droppedDatagrams": count(carried.droppedDatagrams),
            ],
        ]
    }

    static func clock(_ snapshot: NodeSnapshot) -> JSONValue {
        [
            "schema": "starling/clock/1", "epoch": .string(snapshot.clock.epoch),
            "meshTimeNanoseconds": .integer(snapshot.meshTime.nanoseconds),
            "hostTimeNanoseconds": .integer(snapshot.hostTime.nanoseconds),
            "errorNanoseconds": snapshot.clock.error == ClockSummary.unknownError
                ? .null : .integer(snapshot.clock.error.nanoseconds),
            "ratePartsPerMillion": .number(rounded(snapshot.clock.ratePartsPerMillion, 3)),
            "state": .string(snapshot.clock.state.rawValue),
        ]
    }

    /// The mesh's built-in activity, which every node joins at start; `null` before, and after it has left.
    static func session(_ snapshot: NodeSnapshot) -> JSONValue {
        guard let mesh = snapshot.meshID, !snapshot.hasLeft else { return .null }
        let participants = snapshot.presentMembers.filter { $0.state == .alive || $0.isLocal }
        return [
            "id": .string(mesh.description),
            "activity": ["identifier": "starling.mesh", "type": "generic", "title": .string(snapshot.meshLabel)],
            "state": "joined",
            "participants": .array(
                participants.map { member in
                    [
                        "id": .string(member.peer.description), "name": .string(member.name),
                        "isLocal": .bool(member.isLocal),
                    ]
                }),
            "isLocallyInitiated": .bool(snapshot.members.contains { $0.isLocal && $0.admittedBy == nil }),
        ]
    }

    static func event(_ noted: NodeEvent) -> JSONValue {
        let detail = noted.event.detail.map { item -> JSONValue.Member in
            switch item.value {
            case .text(let text): JSONValue.Member(item.name, .string(text))
            case .integer(let value): JSONValue.Member(item.name, .integer(value))
            case .number(let value): JSONValue.Member(item.name, .number(value))
            }
        }
        return [
            "schema": "starling/events/1", "at": .string(timestampText(noted.wallSeconds)),
            "hostTimeNanoseconds": .integer(noted.hostTime.nanoseconds),
            "lamport": noted.event.lamport.map { .integer(Int64(clamping: $0)) } ?? .null,
            "kind": .string(noted.event.kind.rawValue), "node": .string(noted.subjectName),
            "detail": .object(detail),
        ]
    }

    static func message(_ received: ReceivedMessage) -> JSONValue {
        [
            "schema": "starling/inbox/1", "from": .string(received.fromName),
            "mode": .string(modeText(received.message.mode)),
            "lamport": .integer(Int64(clamping: received.message.lamport)),
            "late": .bool(received.message.isLate),
            "text": .string(String(decoding: received.message.payload, as: UTF8.self)),
        ]
    }

    static func count(_ box: MessageBox) -> JSONValue {
        [
            "schema": "starling/inbox/1", "count": .integer(Int64(box.receivedCount)),
            "bytes": .integer(Int64(box.receivedBytes)), "dropped": .integer(Int64(box.droppedCount)),
        ]
    }

    static func journal(_ snapshot: NodeSnapshot) -> JSONValue {
        let ids = ShortIDs(snapshot.attachments.map(\.id))
        let rows = snapshot.attachments.map { attachment -> JSONValue in
            [
                "id": .string(ids.text(attachment.id)), "name": .string(attachment.name),
                "bytes": count(attachment.byteCount), "addedBy": .string(snapshot.name(of: attachment.addedBy)),
                "note": attachment.note.isEmpty ? .null : .string(attachment.note),
                "present": .bool(attachment.isPresent), "fraction": .number(rounded(attachment.fraction, 4)),
                "holders": .array(attachment.holders.map { .string(snapshot.name(of: $0)) }.sorted(by: byText)),
                "durable": .bool(attachment.isDurable), "state": .string(stateText(attachment.state)),
                "bytesPerSecond": .integer(integer(attachment.bytesPerSecond)),
                "recordId": .string(attachment.id.description), "content": .string(attachment.content.description),
            ]
        }
        return ["schema": "starling/journal.ls/1", "attachments": .array(rows)]
    }

    static func progress(
        verb: String, name: String, done: UInt64, total: UInt64, rate: Double, holders: [String]
    ) -> JSONValue {
        [
            "schema": "starling/progress/1", "verb": .string(verb), "name": .string(name), "doneBytes": count(done),
            "totalBytes": count(total), "bytesPerSecond": .integer(integer(rate)),
            "holders": .array(holders.map { .string($0) }),
        ]
    }

    static func stateText(_ state: AttachmentState) -> String {
        switch state {
        case .complete: "complete"
        case .fetching: "fetching"
        case .waitingForHolder: "waitingForHolder"
        case .failed(.noSpace(let needed, let available)): "failed: \(needed) bytes are needed, \(available) are free"
        case .failed(.tooLarge(let byteCount, let limit)):
            "too large: \(byteCount) bytes, this node's limit is \(limit); up --max-attachment raises it"
        case .failed(.sizeMismatch(let byteCount)): "failed: the content does not have the \(byteCount) bytes announced"
        case .failed(.storage): "failed: the store cannot write"
        case .failed(.tooManyContents(let limit)): "failed: there are \(limit) contents already"
        }
    }

    static func modeText(_ mode: DeliveryMode) -> String {
        switch mode {
        case .reliable: "reliable"
        case .unreliable: "unreliable"
        case .ordered: "ordered"
        }
    }
}
