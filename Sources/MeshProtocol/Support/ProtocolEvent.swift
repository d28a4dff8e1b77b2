import MeshBase

/// Something worth telling a person: who did what, or what a machine decided and why. Machines neither log nor print;
/// they emit these, and the shell stamps and keeps them.
public struct ProtocolEvent: Hashable, Sendable {
    /// Stable words: they stand in `starling events --json`.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case meshFounded, meshJoined, joinFailed, meshEnded
        case memberAdmitted, memberAlive, memberSuspect, memberDead, memberLeft, memberReturned, memberRenamed
        case memberRefused, memberRemoved, secretRenewed, identityConflict
        case linkEstablished, linkLost, linkMoved, handshakeRefused, versionMismatch
        case inviteCreated, inviteRevoked
        case recordRefused, recordFork
        case messageReceived, messageDropped
        case attachmentAdded, attachmentComplete, attachmentRemoved, attachmentFailed, attachmentWaiting
        case chunkRejected, storageFailed, storageRecovered
        case clockSteady, clockStepped, clockMerged
        case interfacesChanged, suspended
        case limitReached
    }

    public var kind: Kind
    /// The member concerned; `nil` when the event is about this node itself.
    public var subject: PeerID?
    /// The Lamport time of the record behind the event, where there is one.
    public var lamport: UInt64?
    /// Named facts in display order. Values are untrusted text: escape them on screen. Never secrets or payloads.
    public var detail: [Detail]

    public struct Detail: Hashable, Sendable {
        public var name: String
        public var value: Value
        public init(_ name: String, _ value: Value) {
            self.name = name
            self.value = value
        }
    }

    public enum Value: Hashable, Sendable {
        case text(String)
        case integer(Int64)
        case number(Double)
    }

    public init(_ kind: Kind, subject: PeerID? = nil, lamport: UInt64? = nil, detail: [Detail] = []) {
        self.kind = kind
        self.subject = subject
        self.lamport = lamport
        self.detail = detail
    }
}

/// Names the person or program that asked for something, so that the shell can answer it when the machine is done.
/// Opaque to the machines: never a continuation, never a pointer.
public struct CommandToken: Hashable, Sendable {
    public let value: UInt64
    public init(_ value: UInt64) { self.value = value }
}

/// What a queue's limit counts.
public enum QueueUnit: Hashable, Sendable {
    case items
    case bytes
}

/// Why a machine refused a command; state is unchanged.
public enum CommandError: Error, Hashable, Sendable {
    /// The command needs a mesh and there is none yet.
    case noMesh
    /// No such peer, attachment, invite or record.
    case notFound
    /// Not linked to that peer now.
    case notConnected
    /// `limit` and `actual` in the unit of what was asked: bytes or items.
    case limitExceeded(limit: Int, actual: Int)
    /// A bounded queue is full; try again when it has drained.
    case queueFull(limit: Int, of: QueueUnit = .items)
    /// The mesh has ended, or this node has left it.
    case ended
    /// The policy of the mesh does not allow it.
    case notPermitted
    /// Text or a value outside its definition; the word names the field.
    case invalid(field: String)
}
