import MeshBase
import MeshCrypto
import MeshWire

/// The keys of one finished handshake, with the counters and the replay window that belong to them.
///
/// The only place that gives out send counters: each is used once (AB-47), and none at or beyond the limit (AB-48).
struct KeyGeneration: Sendable {
    /// What the peer writes as receiver index.
    let localIndex: UInt32
    /// What this node writes as receiver index.
    let remoteIndex: UInt32
    let role: LinkIdentity.Role
    let secretID: SecretID
    /// Equal on both sides; decides between two handshakes that crossed (AB-57).
    let handshakeHash: [UInt8]
    let createdAt: HostTime
    /// The counter of the first datagram under these keys.
    let firstCounter: UInt64
    /// Number in the link's sending order of this key's counter zero, wrapping; set by `activate`.
    private(set) var firstNumber: UInt64 = 0
    /// Sends, or has sent. Keys send in one stretch: once others took over, they never send again.
    private(set) var isActivated = false
    private let sendKey: SecretBytes
    private let receiveKey: SecretBytes
    private(set) var nextCounter: UInt64
    private(set) var datagramsSent: UInt64 = 0
    private(set) var bytesSealed: UInt64 = 0
    var window = ReplayWindow()
    var acknowledgements = Acknowledgements()
    /// Something authentic arrived under these keys: the peer has them.
    var isConfirmed: Bool
    /// After this, datagrams under these keys are no longer opened; `nil` while they are in use.
    var retiresAt: HostTime?

    init(
        localIndex: UInt32, remoteIndex: UInt32, role: LinkIdentity.Role, secretID: SecretID, handshakeHash: [UInt8],
        sendKey: SecretBytes, receiveKey: SecretBytes, firstCounter: UInt64, at now: HostTime
    ) {
        self.localIndex = localIndex
        self.remoteIndex = remoteIndex
        self.role = role
        self.secretID = secretID
        self.handshakeHash = handshakeHash
        self.sendKey = sendKey
        self.receiveKey = receiveKey
        createdAt = now
        nextCounter = firstCounter
        self.firstCounter = firstCounter
        isConfirmed = role == .responder
    }

    /// Takes over sending. `nextNumber`: of the next datagram in the link's order.
    mutating func activate(nextNumber: UInt64) {
        firstNumber = nextNumber &- firstCounter
        isActivated = true
    }

    /// Numbers in the link's order of counters that the peer acknowledges; `nil` for counters never used here.
    func numbers(of counters: ClosedRange<UInt64>) -> ClosedRange<UInt64>? {
        guard isActivated, counters.lowerBound >= firstCounter, counters.upperBound < nextCounter else { return nil }
        return (firstNumber &+ counters.lowerBound)...(firstNumber &+ counters.upperBound)
    }

    /// Whether a datagram may still be sealed.
    var canSend: Bool { nextCounter < ReplayWindow.counterLimit }

    /// Seals a whole datagram whose header is already in place.
    mutating func seal(_ datagram: inout [UInt8]) -> Bool {
        guard canSend else { return false }
        let counter = nextCounter
        nextCounter += 1
        datagramsSent += 1
        bytesSealed += UInt64(datagram.count)
        var span = datagram.mutableSpan
        do throws(CryptoError) {
            try AuthenticatedCipher.sealDatagram(
                &span, headerByteCount: WireLimits.dataHeaderBytes, counter: counter, key: sendKey)
            return true
        } catch {
            // Only lengths can be wrong here, and the assembler leaves room for the tag.
            return false
        }
    }

    /// Leaves out one counter.
    mutating func skipCounter() { nextCounter += 1 }

    enum Opening {
        case opened, replay, badTag
    }

    /// Checks the counter, opens in place, and only then moves the window.
    mutating func open(_ datagram: inout MutableSpan<UInt8>, counter: UInt64) -> Opening {
        guard window.check(counter) == .accept else { return .replay }
        do throws(CryptoError) {
            try AuthenticatedCipher.openDatagram(
                &datagram, headerByteCount: WireLimits.dataHeaderBytes, counter: counter, key: receiveKey)
        } catch {
            return .badTag
        }
        window.mark(counter)
        isConfirmed = true
        return .opened
    }

    /// When this side replaces the keys: at once when they are worn by use, else by age.
    func rekeyAt(_ configuration: LinkConfiguration) -> HostTime {
        guard !isWornByUse(configuration) else { return createdAt }
        return createdAt + configuration.rekeyInterval
            + (role == .initiator ? TimeSpan.zero : configuration.responderRekeyDelay)
    }

    /// Worn by use, not by age. Half of the spare counters before the limit are left for the new handshake.
    func isWornByUse(_ configuration: LinkConfiguration) -> Bool {
        datagramsSent >= configuration.rekeyPackets || bytesSealed >= configuration.rekeyBytes
            || nextCounter >= ReplayWindow.counterLimit - 4096
    }
}
