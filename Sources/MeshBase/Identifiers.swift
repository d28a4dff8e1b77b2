/// A 32-byte name with a meaning of its own, so that a digest can never be passed where a key is meant.
public protocol Identifier32: Hashable, Comparable, Sendable, CustomStringConvertible {
    var value: Bytes32 { get }
    init(_ value: Bytes32)
}

extension Identifier32 {
    /// `nil` unless exactly 32 bytes are given.
    public init?(bytes: some Collection<UInt8>) {
        guard let value = Bytes32(bytes) else { return nil }
        self.init(value)
    }

    public var bytes: [UInt8] { value.bytes }
    public var description: String { Hexadecimal.encode(value.bytes) }
    /// The first eight hexadecimal digits: for people, never for decisions.
    public var shortDescription: String { String(description.prefix(8)) }

    public static func < (left: Self, right: Self) -> Bool { left.value < right.value }
}

/// A node's lasting name in one mesh: its Ed25519 public key. Proven by every handshake and signature.
public struct PeerID: Identifier32 {
    public let value: Bytes32
    public init(_ value: Bytes32) { self.value = value }
}

/// A mesh: the id of its GENESIS record.
public struct MeshID: Identifier32 {
    public let value: Bytes32
    public init(_ value: Bytes32) { self.value = value }
}

/// A signed record: BLAKE2b-256 over its bytes before the signature (ids never cover signatures).
public struct RecordID: Identifier32 {
    public let value: Bytes32
    public init(_ value: Bytes32) { self.value = value }
}

/// The content of an attachment: the root of its keyed hash tree. Equal content has an equal id within one mesh.
public struct ContentID: Identifier32 {
    public let value: Bytes32
    public init(_ value: Bytes32) { self.value = value }
}

/// A join or epoch secret, named without revealing it: BLAKE2b-128 of the secret.
public struct SecretID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let value: Bytes16
    public init(_ value: Bytes16) { self.value = value }

    public var bytes: [UInt8] { value.bytes }
    public var description: String { Hexadecimal.encode(value.bytes) }
    public static func < (left: SecretID, right: SecretID) -> Bool { left.value < right.value }
}

/// One process life of a node: random at every start, so that a restored backup or a second process can never fork
/// a chain or reuse a nonce. The order of two incarnations means nothing.
public struct Incarnation: Hashable, Comparable, Sendable {
    public let value: UInt64
    public init(_ value: UInt64) { self.value = value }
    public static func < (left: Incarnation, right: Incarnation) -> Bool { left.value < right.value }
}
