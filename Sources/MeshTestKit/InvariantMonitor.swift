import Glibc
import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// What must hold of everything that happens, checked at the moment it happens and each time at the cost of a look-up.
public enum EventInvariant: String, Hashable, Sendable, CaseIterable {
    case unreadable = "nothing readable on the wire"
    case noAmplification = "no amplification"
    case genuineRecords = "genuine records"
    case genuineMessages = "genuine messages"
    case atMostOnce = "at most once"
    case inOrder = "in order"
    case causalRecords = "causal records"
    case honestChains = "honest chains"
    case delivered = "delivered means received"
    case noGhosts = "no ghosts"
    case apart = "meshes stay apart"
    case survival = "no input stops a process"
    case answered = "every command is answered"

    /// The guarantee it belongs to (Docs/Guarantees.md).
    public var guarantee: String {
        switch self {
        case .unreadable: "P1"
        case .genuineRecords, .genuineMessages, .honestChains: "P2"
        case .atMostOnce, .causalRecords: "P3"
        case .inOrder, .delivered: "P5"
        case .noGhosts, .apart: "P8"
        case .noAmplification: "P12"
        case .survival: "P13"
        case .answered: "P15"
        }
    }

    /// What is proven when it is never violated.
    public var sentence: String {
        switch self {
        case .unreadable: "No datagram holds a piece of a message's text as it was written."
        case .noAmplification: "A stranger's address gets at most as many bytes as came from it."
        case .genuineRecords:
            "A record of an honest member was accepted by that member itself before anybody else accepted it."
        case .genuineMessages: "A message shown as an honest member's was sent by it, byte for byte."
        case .atMostOnce: "A process receives each message and accepts each record at most once."
        case .inOrder: "A process receives one life's reliable messages in the order in which they were sent."
        case .causalRecords: "A process accepts the records of a chain in order, 1, 2, 3, without a gap."
        case .honestChains: "No honest member writes two records of one number, and none is accused of it."
        case .delivered: "When a send is answered without an error, every recipient it names has received the message."
        case .noGhosts: "Nobody is shown as a member who was never started, nor as alive five seconds after its end."
        case .apart: "No member, record or message of one mesh appears in another, whatever its label."
        case .survival: "A process ends only when it is killed, told to stop, or another one goes on with its identity."
        case .answered: "Every command is answered, with a result or an error, within its time-out."
        }
    }
}

/// Watches every process of a cluster and every datagram between them, and notes each violation of an
/// `EventInvariant` when it happens.
public final class InvariantMonitor: Sendable {
    /// Begins every message's text: what a listener would look for.
    public static let marker = "in-clear"
    /// A process that ended longer ago is a ghost when it is shown as alive: reports of it may be under way for that long.
    static let ghostSpan: Int64 = 5_000_000_000

    struct Sent: Sendable {
        var host: Int
        var life: Int
        var number: Int
        var isReliable: Bool
    }

    struct Chain: Hashable, Sendable {
        var author: PeerID
        var incarnation: Incarnation
    }

    struct Numbered: Hashable, Sendable {
        var chain: Chain
        var sequence: UInt64
    }

    /// Of the process that lives on a host now.
    struct Life: Sendable {
        var number = 0
        var received: Set<String> = []
        /// The last reliable message's number by the sender's host and life.
        var lastNumber: [Int: Int] = [:]
        var accepted: Set<RecordID> = []
        var chains: [Chain: UInt64] = [:]
    }

    struct Host: Sendable {
        var mesh = 0
        var peer: PeerID?
        var isHonest = true
        var isUp = false
        var downAt: Int64 = .min
        var life = Life()
        /// Texts received in any life.
        var everReceived: Set<String> = []
    }

    /// A process that went down and those who have not noticed yet.
    struct Notice: Sendable {
        var at: Int64
        var waitingFor: Set<Int>
    }

    struct State: Sendable {
        var hosts: [Int: Host] = [:]
        var hostOfPeer: [PeerID: Int] = [:]
        var authored: Set<RecordID> = []
        var numbered: [Numbered: RecordID] = [:]
        var sent: [String: Sent] = [:]
        var notices: [Int: Notice] = [:]
        var strangers: [SocketAddress: (toIt: Int, fromIt: Int)] = [:]
        var violations: [String] = []
        var violationCount = 0
        var falseDeaths: [String] = []
        var slowestNotice: TimeSpan?
        var checks: UInt64 = 0
    }

    let time: SimulatedTime
    let state = Lock(State())
    /// Violations kept as text; more are counted.
    static let maximumKept = 50

    public init(time: SimulatedTime) { self.time = time }

    // MARK: Results

    public var violations: [String] { state.withLock { $0.violations } }
    public var violationCount: Int { state.withLock { $0.violationCount } }
    /// Members declared dead while their process was there.
    public var falseDeaths: [String] { state.withLock { $0.falseDeaths } }
    /// The longest time from a process's end until all others had noticed; `nil` when none was noticed by all.
    public var slowestNotice: TimeSpan? { state.withLock { $0.slowestNotice } }
    /// Events looked at.
    public var checkCount: UInt64 { state.withLock { $0.checks } }

    public func violate(_ invariant: EventInvariant, _ text: @autoclosure () -> String) {
        state.withLock { Self.violate(invariant, text(), at: time.now, &$0) }
    }

    static func violate(_ invariant: EventInvariant, _ text: String, at now: Int64, _ state: inout State) {
        state.violationCount += 1
        guard state.violations.count < maximumKept else { return }
        let seconds = Double((now - 1_000_000_000_000) / 1_000_000) / 1_000
        state.violations.append("\(invariant.rawValue): \(text) (at \(seconds) s)")
    }

    // MARK: What the driver does

    /// A host exists. `peer` is known once its process has an identity.
    public func register(host: Int, mesh: Int, peer: PeerID, isHonest: Bool = true) {
        state.withLock { state in
            state.hosts[host, default: Host()].mesh = mesh
            state.hosts[host]?.isHonest = isHonest
            state.hosts[host]?.peer = peer
            state.hostOfPeer[peer] = host
        }
    }

    /// A process of the host runs from now on.
    public func started(_ host: Int, life: Int) {
        state.withLock { state in
            var number = Life()
            number.number = life
            state.hosts[host]?.life = number
            state.hosts[host]?.isUp = true
            state.notices[host] = nil
        }
    }

    /// The process is killed, stopped for longer than anybody should wait, or told to leave.
    public func ended(_ host: Int, isNoticed: Bool) {
        state.withLock { state in
            guard state.hosts[host]?.isUp == true else { return }
            state.hosts[host]?.isUp = false
            state.hosts[host]?.downAt = time.now
            for other in state.notices.keys { state.notices[other]?.waitingFor.remove(host) }
            guard isNoticed, let mesh = state.hosts[host]?.mesh else { return }
            let others = state.hosts.filter {
                $0.key != host && $0.value.isUp && $0.value.isHonest && $0.value.mesh == mesh
            }
            state.notices[host] = Notice(at: time.now, waitingFor: Set(others.keys))
        }
    }

    /// A stopped process goes on.
    public func thawed(_ host: Int) {
        state.withLock { state in
            state.hosts[host]?.isUp = true
            state.notices[host] = nil
        }
    }

    /// Who has not noticed an end that is longer ago than `limit`, in words; each is told once.
    func overdueNotices(limit: TimeSpan) -> [String] {
        state.withLock { state in
            var texts: [String] = []
            for (host, notice) in state.notices.sorted(by: { $0.key < $1.key })
            where !notice.waitingFor.isEmpty && time.now - notice.at > limit.nanoseconds {
                let names = notice.waitingFor.sorted().map { "node\($0)" }.joined(separator: " ")
                texts.append("the end of node\(host) is not noticed after \(limit.seconds) s by \(names)")
                state.notices[host] = nil
            }
            return texts
        }
    }

    public func willSend(_ text: String, from host: Int, number: Int, isReliable: Bool) {
        state.withLock { state in
            let life = state.hosts[host]?.life.number ?? 0
            state.sent[text] = Sent(host: host, life: life, number: number, isReliable: isReliable)
        }
    }

    /// A send was answered without an error.
    public func answered(_ text: String, recipients: [String]) {
        state.withLock { state in
            state.checks += 1
            for name in recipients {
                guard let host = Int(name.dropFirst("node".count)), state.hosts[host]?.isHonest == true else {
                    continue
                }
                if state.hosts[host]?.everReceived.contains(text) == false {
                    Self.violate(.delivered, "\(name) never received \(text.prefix(60))", at: time.now, &state)
                }
            }
        }
    }
}
