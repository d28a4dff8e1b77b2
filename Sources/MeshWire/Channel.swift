/// Which machine a message between two linked peers belongs to.
///
/// The kind and channel of a message are inside its sealed bytes, so a message can never be taken for one of another
/// channel (AB-70).
public enum Channel: UInt8, Sendable, Hashable, CaseIterable {
    case session = 1
    case gossip = 2
    case journal = 3
    case coordinator = 4
    case relay = 5
}

/// In which order queued messages leave: a lower one always goes first.
public enum Priority: UInt8, Sendable, Hashable, Comparable, CaseIterable {
    case clock = 0
    case command = 1
    case repair = 2
    case message = 3
    case attachment = 4

    public static func < (left: Priority, right: Priority) -> Bool { left.rawValue < right.rawValue }
}
