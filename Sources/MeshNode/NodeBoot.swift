import MeshBase
import MeshCrypto
import MeshProtocol
import MeshSystem
import MeshWire

/// What a start reads from the store before the loop runs: the lasting identity, and what was known.
public struct NodeBoot: Sendable {
    public var identity: NodeIdentity
    /// Seed of the machines' generators; fresh at every start.
    public var seed: SecretBytes
    /// The mesh this state directory belongs to; `nil` before the first.
    public var state: SessionState?
    public var records: [[UInt8]]
    public var contents: [StoredContent]
    /// What the others were called.
    var knownNames = KnownNames()

    static let identitySetting = "identity"
    static let sessionSetting = "session"
    static let namesSetting = "names"

    /// Reads the store, making a new identity on the first start. Fails closed when the entropy is implausible (AB-49).
    public static func load(
        storage: any NodeStorage, entropy: any EntropySource
    ) throws(NodeError) -> NodeBoot {
        do {
            let (seed, check) = (try entropy.fill(count: 32), try entropy.fill(count: 32))
            try validate(seed, check)
            let identitySeed = try identitySeed(storage: storage, entropy: entropy)
            var random = RandomStream(seed: seed)
            let identity = NodeIdentity(
                signing: SigningKeyPair(seed: identitySeed), incarnation: Incarnation(random.uint64()))
            return NodeBoot(
                identity: identity, seed: random.secret(), state: try storedState(storage),
                records: try storage.records().map(\.bytes), contents: try storage.contents(),
                knownNames: KnownNames(decoding: try storage.setting(namesSetting) ?? []))
        } catch let error as StorageError {
            throw NodeError(error)
        } catch let error as SystemError {
            throw NodeError(error)
        } catch let error as NodeError {
            throw error
        } catch {
            // The three above are all that is thrown here.
            throw NodeError("failed", "the store cannot be read", hint: "starling doctor", exit: 1)
        }
    }

    private static func validate(_ first: SecretBytes, _ second: SecretBytes) throws {
        do { try RandomSeed.validate(first, second) } catch {
            throw NodeError(
                "entropyUnavailable", "the system's random numbers repeat or are zero; nothing was started",
                hint: "check /dev/urandom and the virtual machine's entropy", exit: 1)
        }
    }

    private static func identitySeed(storage: any NodeStorage, entropy: any EntropySource) throws -> SecretBytes {
        if let stored = try storage.setting(identitySetting), stored.count == 32 { return SecretBytes(copying: stored) }
        let fresh = try entropy.fill(count: 32)
        try storage.setSetting(identitySetting, fresh.revealed())
        return fresh
    }

    private static func storedState(_ storage: any NodeStorage) throws -> SessionState? {
        guard let bytes = try storage.setting(sessionSetting) else { return nil }
        do { return try SessionState(decoding: bytes) } catch {
            throw NodeError(
                "storageCorrupt", "what this node knows of its mesh cannot be read",
                hint: "restore the state directory from a backup; or start a node of its own: "
                    + "starling join INVITE --name OTHER", exit: 7)
        }
    }
}
