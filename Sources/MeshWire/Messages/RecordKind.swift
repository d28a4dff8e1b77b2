import MeshBase

/// What a signed record says. Part of the signed bytes.
///
/// An open set: a record of a kind that this build does not know is checked, kept and passed on like any other, and
/// means nothing here. So a mesh of two versions keeps one set of records, and an old node that is updated finds in its
/// store what it could not read before.
public struct RecordKind: RawRepresentable, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Founds a mesh; its id is the mesh's name.
    public static let genesis = RecordKind(rawValue: 1)
    /// A member lets a newcomer in.
    public static let admit = RecordKind(rawValue: 2)
    /// A ticket's join secret, told to every member so that any of them can admit with it.
    public static let invite = RecordKind(rawValue: 3)
    /// A ticket is worth nothing from now on.
    public static let revoke = RecordKind(rawValue: 4)
    /// A member is out of the mesh, for ever, and what it did beyond a stated point counts for nothing.
    public static let remove = RecordKind(rawValue: 5)
    /// A new epoch secret, sealed to each member, or several of them merged into one.
    public static let epoch = RecordKind(rawValue: 6)
    /// The mesh is over, for everybody.
    public static let end = RecordKind(rawValue: 7)
    /// An attachment exists.
    public static let attachmentAdded = RecordKind(rawValue: 16)
    /// An attachment is gone, for everyone.
    public static let attachmentRemoved = RecordKind(rawValue: 17)
}

/// Body of ADMIT: `version u8 = 1 | subject 32 | secret id 16 | name text`.
public struct AdmitBody: WireMessage {
    /// The newcomer's public key.
    public var subject: PeerID
    /// The join secret it proved.
    public var secretID: SecretID
    /// The name it gave itself when it was admitted.
    public var name: String

    public init(subject: PeerID, secretID: SecretID, name: String) {
        self.subject = subject
        self.secretID = secretID
        self.name = name
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(subject.value)
        writer.write(secretID.value)
        writer.write(text: name)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        subject = PeerID(try bytes.readBytes32(&position))
        secretID = SecretID(try bytes.readBytes16(&position))
        name = try bytes.readText(&position, maximum: WireLimits.maximumNameBytes)
        try bytes.expectEnd(position)
    }
}

/// Body of INVITE: `version u8 = 1 | join secret 32 | lifetime u64` (seconds, 0 = for ever). A span and not a date: each
/// member counts it on its own clock from when it accepts the record.
public struct InviteBody: WireMessage {
    public var joinSecret: Bytes32
    public var lifetimeSeconds: UInt64

    public init(joinSecret: Bytes32, lifetimeSeconds: UInt64) {
        self.joinSecret = joinSecret
        self.lifetimeSeconds = lifetimeSeconds
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(joinSecret)
        writer.write(lifetimeSeconds)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        joinSecret = try bytes.readBytes32(&position)
        lifetimeSeconds = try bytes.readUInt64(&position)
        try bytes.expectEnd(position)
    }
}

/// Body of REVOKE: `version u8 = 1 | secret id 16`.
public struct RevokeBody: WireMessage {
    public var secretID: SecretID

    public init(secretID: SecretID) { self.secretID = secretID }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(secretID.value)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        secretID = SecretID(try bytes.readBytes16(&position))
        try bytes.expectEnd(position)
    }
}

/// Body of ATTACHMENT_ADDED: `version u8 = 1 | content 32 | byte count u64 | name text | note text`.
public struct AttachmentAddedBody: WireMessage {
    public var content: ContentID
    public var byteCount: UInt64
    /// A label, never a path: any UTF-8, shown escaped, made safe when written to a file system.
    public var name: String
    public var note: String

    public init(content: ContentID, byteCount: UInt64, name: String, note: String) {
        self.content = content
        self.byteCount = byteCount
        self.name = name
        self.note = note
    }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(content.value)
        writer.write(byteCount)
        writer.write(text: name)
        writer.write(text: note)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        content = ContentID(try bytes.readBytes32(&position))
        byteCount = try bytes.readUInt64(&position)
        name = try bytes.readText(&position, maximum: WireLimits.maximumAttachmentNameBytes)
        note = try bytes.readText(&position, maximum: WireLimits.maximumNoteBytes)
        try bytes.expectEnd(position)
    }
}

/// Body of ATTACHMENT_REMOVED: `version u8 = 1 | record 32`.
public struct AttachmentRemovedBody: WireMessage {
    /// The ATTACHMENT_ADDED record that is undone.
    public var attachment: RecordID

    public init(attachment: RecordID) { self.attachment = attachment }

    public func encode(into writer: inout ByteWriter) {
        writer.write(UInt8(1))
        writer.write(attachment.value)
    }

    public init(decoding bytes: Span<UInt8>) throws(WireError) {
        var position = 0
        guard try bytes.readUInt8(&position) == 1 else { throw .unsupportedVersion }
        attachment = RecordID(try bytes.readBytes32(&position))
        try bytes.expectEnd(position)
    }
}
