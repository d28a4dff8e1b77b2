import MeshBase

/// One kind of mishap that a scenario names.
public enum Hazard: String, Hashable, Sendable, CaseIterable {
    case partition, swizzle, cut, deaf, slow, narrow, rebind, interfaces
    case freeze, sleep, crash
    case crashInWrite = "crash-in-write"
    case restore
    case restartAll = "restart-all"
    case leave
    case clockJump = "clock-jump"
    case clockRate = "clock-rate"
    case timeOfDay = "time-of-day"
    case disk
    case diskFull = "disk-full"

    /// One line for people.
    public var summary: String {
        switch self {
        case .partition: "the hosts split into two groups"
        case .swizzle: "members are cut off one by one in random order, and joined again one by one in another"
        case .cut: "one pair loses its path, both ways"
        case .deaf: "one host no longer hears another, which hears it"
        case .slow: "everything to one host takes up to 300 ms longer"
        case .narrow: "nothing larger than 1,280 bytes reaches one host"
        case .rebind: "an address translator gives one host another address"
        case .interfaces: "one host is told that its interfaces changed"
        case .freeze: "a process is stopped and goes on (SIGSTOP)"
        case .sleep: "a machine sleeps, and its clock with it"
        case .crash: "a process is killed, its disk as after a power cut, and started again"
        case .crashInWrite: "a process dies at one of its next writes, and is started again"
        case .restore: "a process is killed and started again on an older copy of its disk"
        case .restartAll: "every process is killed and started again within a second"
        case .leave: "a member leaves politely and comes back"
        case .clockJump: "a host clock jumps ahead"
        case .clockRate: "a host clock changes its rate, within ± 200 ppm"
        case .timeOfDay: "a host's time of day is set, by days"
        case .disk: "a fifth of one host's writes fail"
        case .diskFull: "one host's disk is full"
        }
    }

    /// How long it lasts when the scenario does not say.
    var standardSpan: ClosedRange<TimeSpan> {
        switch self {
        case .partition, .cut, .deaf, .slow, .narrow, .disk, .diskFull, .rebind:
            .milliseconds(500) ... .milliseconds(5_500)
        case .swizzle: .seconds(4) ... .seconds(12)
        case .freeze, .sleep: .milliseconds(100) ... .seconds(5)
        case .crash, .crashInWrite, .restore, .leave: .milliseconds(500) ... .milliseconds(6_500)
        case .restartAll: .milliseconds(0) ... .seconds(1)
        case .interfaces, .clockJump, .clockRate, .timeOfDay: .zero ... .zero
        }
    }
}

/// A hazard that comes again and again, at instants drawn from the seed.
public struct RecurringHazard: Hashable, Sendable {
    public var hazard: Hazard
    /// On average; 0 < rate ≤ 600.
    public var perMinute: Double
    public var span: ClosedRange<TimeSpan>

    public init(_ hazard: Hazard, perMinute: Double, span: ClosedRange<TimeSpan>? = nil) {
        self.hazard = hazard
        self.perMinute = perMinute
        self.span = span ?? hazard.standardSpan
    }
}

/// A hazard at one instant of the storm.
public struct ScheduledHazard: Hashable, Sendable {
    public var at: TimeSpan
    public var hazard: Hazard
    /// How many hosts it strikes; of a partition, how many are on one side. `nil` leaves it to the seed.
    public var count: Int?
    public var span: ClosedRange<TimeSpan>

    public init(at: TimeSpan, _ hazard: Hazard, count: Int? = nil, span: ClosedRange<TimeSpan>? = nil) {
        self.at = at
        self.hazard = hazard
        self.count = count
        self.span = span ?? hazard.standardSpan
    }
}
