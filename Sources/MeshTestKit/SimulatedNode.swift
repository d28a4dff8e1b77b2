import MeshBase
import MeshCrypto
import MeshNode
import MeshProtocol
import MeshSystem

/// One host of a cluster: its disk and clock, which last, and the process that lives on it now, if any.
public final class SimulatedNode {
    /// One process life of the node.
    struct Life {
        var node: Node
        var clock: SimulatedClock
        var executor: ManualExecutor
        var transport: SimulatedTransport
        var queues: [SimulatedWorkQueue]
        var inbox: SimulatedReply
        /// The life's task has ended.
        var isOver: Flag
        var end: Lock<Result<Int32, NodeError>?>
    }

    /// A boolean that a task sets.
    final class Flag: Sendable {
        private let value = Lock(false)
        var isSet: Bool { value.withLock { $0 } }
        func set() { value.withLock { $0 = true } }
    }

    public let index: Int
    public let name: String
    public let storage: SimulatedStorage
    public let entropy: SimulatedEntropy
    public let clockOffset: TimeSpan
    public let clockRatePartsPerMillion: Double
    /// What each life so far received, in order.
    public internal(set) var receivedByLife: [[ReceivedText]] = []
    /// The node's lasting identity, once it has started.
    public internal(set) var peerID: PeerID?
    /// Starts so far.
    public internal(set) var startCount = 0
    /// The process was told to stop, or its end has been noted.
    var isEndExpected = false
    var life: Life?

    init(index: Int, seed: UInt64, clockOffset: TimeSpan, clockRatePartsPerMillion: Double) {
        self.index = index
        self.clockOffset = clockOffset
        self.clockRatePartsPerMillion = clockRatePartsPerMillion
        name = "node\(index)"
        storage = SimulatedStorage(seed: seed &* 31 &+ 1)
        entropy = SimulatedEntropy(seed: seed &* 31 &+ 2)
    }

    /// How the last process that was started ended; `nil` while it runs.
    public var end: Result<Int32, NodeError>? { life?.end.withLock { $0 } }

    public var isRunning: Bool { life.map { !$0.isOver.isSet } ?? false }
    public var id: String? { peerID?.description }
    /// The host clock of the running process; a fault may make it jump.
    public var clock: SimulatedClock? { life?.clock }

    let wallClockOffset = Lock(0.0)
    /// Sets the host's time of day, as a person or a time service does; it may go back.
    public func stepWallClock(bySeconds seconds: Double) { wallClockOffset.withLock { $0 += seconds } }

    /// Notes what the running process received so far. A sender whose name had not arrived is shown by the beginning
    /// of its id: `nameOfID` tells whose that is.
    func collect(_ nameOfID: [String: String]) {
        guard let life, !receivedByLife.isEmpty else { return }
        for object in life.inbox.takeNew() {
            guard var received = ReceivedText(object) else { continue }
            received.from = nameOfID[received.from] ?? received.from
            receivedByLife[receivedByLife.count - 1].append(received)
        }
    }
}

/// A message as a node shows it.
public struct ReceivedText: Hashable, Sendable {
    public var from: String
    public var text: String

    init?(_ object: JSONValue) {
        guard let from = object["from"]?.stringValue, let text = object["text"]?.stringValue else { return nil }
        self.from = from
        self.text = text
    }
}

/// The answer to a control request, growing as simulated time passes.
public final class SimulatedReply: Sendable {
    private struct State {
        var objects: [JSONValue] = []
        var isFinished = false
        var takenCount = 0
    }

    private let state = Lock(State())

    public init() {}

    /// What the node writes to.
    public var control: ControlReply {
        ControlReply { [self] item in
            state.withLock { state in
                switch item {
                case .object(let object): state.objects.append(object)
                case .later(let make): state.objects.append(make())
                case .end(let closing):
                    state.objects.append(closing)
                    state.isFinished = true
                }
                return true
            }
        }
    }

    /// Everything answered so far, without the closing object.
    public var objects: [JSONValue] {
        state.withLock { state in
            state.objects.filter { !($0["schema"]?.stringValue ?? "").hasPrefix("starling/done/") }
        }
    }

    /// What came since the last call.
    func takeNew() -> ArraySlice<JSONValue> {
        state.withLock { state in
            defer { state.takenCount = state.objects.count }
            return state.objects[state.takenCount...]
        }
    }

    public var isFinished: Bool { state.withLock { $0.isFinished } }

    /// The stable word of the error, if it ended with one.
    public var errorCode: String? {
        objects.last { $0["schema"]?.stringValue?.hasPrefix("starling/error/") == true }?["code"]?.stringValue
    }
}
