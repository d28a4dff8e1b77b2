import MeshBase
import MeshWire

/// The mesh clock at one instant, for machines that only look at it: good for seconds, with an error that grows.
public struct MeshClockReading: Hashable, Sendable {
    private let line: MeshClock
    private let readAt: HostTime
    private let readError: TimeSpan
    /// The low 16 bits of the number line's id.
    public let epoch: UInt16

    init(line: MeshClock, error: TimeSpan, epoch: UInt16, at now: HostTime) {
        self.line = line
        readError = error
        self.epoch = epoch
        readAt = now
    }

    public func meshTime(at host: HostTime) -> MeshTime { line.meshTime(at: host) }

    /// Bound on the difference to any member's mesh time: as stated at the reading, and what two clocks may have been
    /// slewed apart since.
    public func error(at now: HostTime) -> TimeSpan {
        let age = max(.zero, now - readAt)
        return readError + age.scaled(by: 2 * MeshClock.maximumSlew)
    }
}

extension CoordinatorStateMachine {
    /// Nil while mesh time may still step, and while nothing is known of the error.
    public func reading(at now: HostTime) -> MeshClockReading? {
        let summary = clock(at: now)
        guard summary.state != .joining, summary.error != ClockSummary.unknownError else { return nil }
        return MeshClockReading(
            line: line, error: summary.error, epoch: UInt16(truncatingIfNeeded: epoch.id), at: now)
    }
}
