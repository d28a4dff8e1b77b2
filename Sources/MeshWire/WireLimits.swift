/// Limits of the wire format, each in its unit. Part of the specification: changing one changes the protocol.
public enum WireLimits {
    /// UDP payload that every path carries: the IPv6 minimum of 1280 less 48 bytes of headers.
    public static let baseDatagramBytes = 1232
    /// The largest datagram that goes through a member: with the carrier's headers around it, it fits 1,232 bytes.
    public static let relayedDatagramBytes = 1120
    /// The smallest datagram of any type.
    public static let leastDatagramBytes = 56
    /// The largest UDP payload ever sent: loopback's 65,535 less an IPv4 and a UDP header.
    public static let maximumDatagramBytes = 65_507
    /// Every handshake datagram, so that a reply is never larger than its request.
    public static let handshakeDatagramBytes = 352
    /// DATA: type, zeros, receiver index, counter before the sealed frames.
    public static let dataHeaderBytes = 16
    public static let tagBytes = 16
    /// Payload of one message between two peers, or of one application message.
    public static let maximumMessageBytes = 262_144
    /// What a link carries: one application message with the headers of its channel around it.
    public static let maximumLinkMessageBytes = maximumMessageBytes + 1024
    /// Fragments lie at multiples of this offset. Small, so that a datagram of any size is filled nearly whole.
    public static let fragmentSlotBytes = 64
    /// A member's name in UTF-8.
    public static let maximumNameBytes = 64
    /// An attachment's name in UTF-8, and its note.
    public static let maximumAttachmentNameBytes = 1024
    public static let maximumNoteBytes = 4096
    /// Addresses in a presence record and in a ticket.
    public static let maximumPresenceAddresses = 16
    public static let maximumTicketAddresses = 4
    /// Parents of one record.
    public static let maximumParents = 16
    /// Body of one record after sealing.
    public static let maximumRecordBodyBytes = 65_536
    /// Acknowledgement ranges in one frame.
    public static let maximumAcknowledgementRanges = 64
    /// Attachments are cut into chunks of this size; the last may be shorter.
    public static let chunkBytes = 65_536
}

/// The protocol version, named in the handshake's prologue. A new version is a whole new suite.
public enum WireVersion {
    public static let current: UInt8 = 1
}
