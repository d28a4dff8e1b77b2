import MeshBase

/// The instants at which a node says what can wait a moment: about every `interval`, and the same for every machine of
/// the node that asks.
///
/// Machines that each kept a period of their own would wake the node, and every neighbour, once for each; on one grid
/// their messages share a datagram. Every tick is moved by up to a tenth of the interval, as a number of the node and of
/// the tick decides: never in step with anything periodic on the path, nor with another node.
public struct TickGrid: Hashable, Sendable {
    /// A quarter of a second: what the detection of failures needs, and everything else can wait for.
    public static let standardInterval = TimeSpan.milliseconds(250)

    private let interval: Int64
    private let seed: UInt64

    /// `interval`: at least a microsecond.
    public init(of peer: PeerID, interval: TimeSpan = standardInterval) {
        self.interval = max(interval.nanoseconds, 1_000)
        seed = peer.value.leadingWord
    }

    /// The first tick after `time`; at the far end of the range none comes, and `distantFuture` is returned.
    public func next(after time: HostTime) -> HostTime {
        let slot = time.nanoseconds / interval
        for candidate in (slot - 1)...(slot + 1) {
            let tick = tick(candidate)
            if tick > time { return tick }
        }
        return .distantFuture
    }

    private func tick(_ slot: Int64) -> HostTime {
        let spread = UInt64(interval / 10)
        let moved = Self.mix(seed ^ UInt64(bitPattern: slot)) % (spread + 1)
        let (start, overflow) = slot.multipliedReportingOverflow(by: interval)
        guard !overflow else { return slot < 0 ? .distantPast : .distantFuture }
        return HostTime(nanoseconds: start) + TimeSpan(nanoseconds: Int64(moved))
    }

    /// Spreads every bit over all others (the finaliser of SplitMix64).
    private static func mix(_ value: UInt64) -> UInt64 {
        var value = value &+ 0x9e37_79b9_7f4a_7c15
        value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}
