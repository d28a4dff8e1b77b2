import CMeshSystem
import Glibc
import MeshBase

/// Slots that the kernel fills with datagrams, or with trains of them (GRO), and the place up to which they have been
/// handed out. Allocated once; a steady state allocates nothing.
@safe final class ReceiveRing {
    static let slotCount = 8
    static let slotByteCount = 65_536

    private let slots: UnsafeMutablePointer<UInt8>
    private var arrivals = [mesh_arrival](repeating: mesh_arrival(), count: ReceiveRing.slotCount)
    private var arrivalCount = 0
    /// The next datagram to hand out: its slot, and the offset in it.
    private var slot = 0
    private var offset = 0
    /// Source and receive time of `slot`, converted once per train.
    private var source: SocketAddress?
    private var receivedAt = HostTime.zero
    private(set) var truncatedCount: UInt64 = 0

    init() {
        unsafe slots = .allocate(capacity: Self.slotCount * Self.slotByteCount)
        unsafe slots.initialize(repeating: 0, count: Self.slotCount * Self.slotByteCount)
    }

    deinit { unsafe slots.deallocate() }

    var isEmpty: Bool { slot >= arrivalCount }

    /// Reads from a socket into the empty ring. The number of slots filled, or a negative errno.
    func fill(from descriptor: Int32, overflow: inout UInt32) -> Int32 {
        let result = unsafe arrivals.withUnsafeMutableBufferPointer { buffer in
            unsafe mesh_datagram_receive(
                descriptor, slots, Self.slotByteCount, Int32(Self.slotCount), buffer.baseAddress!, &overflow)
        }
        arrivalCount = max(Int(result), 0)
        slot = 0
        offset = 0
        return result
    }

    /// Hands out at most `limit` datagrams.
    func drain(
        limit: Int, clock: any HostClock, counters: inout TransportStatistics,
        _ body: (inout MutableSpan<UInt8>, SocketAddress, HostTime) -> Void
    ) -> Int {
        var count = 0
        let stampBase = isEmpty ? 0 : mesh_realtime_nanoseconds()
        let now = isEmpty ? 0 : mesh_monotonic_nanoseconds()
        while count < limit, slot < arrivalCount {
            let arrival = arrivals[slot]
            if offset == 0 {
                source = SocketAddress(arrival.source)
                let lag = Self.lag(stamp: arrival.stamp, now: stampBase)
                receivedAt = clock.hostTime(ofTrue: now - lag)
            }
            let length = min(Int(arrival.length), Self.slotByteCount)
            let end = arrival.segment == 0 ? length : min(offset + Int(arrival.segment), length)
            if arrival.truncated != 0 {
                counters.truncatedDatagrams += 1
            } else if let source {
                let start = unsafe slots + (slot * Self.slotByteCount + offset)
                let buffer = unsafe UnsafeMutableBufferPointer(start: start, count: end - offset)
                var bytes = unsafe buffer.mutableSpan
                body(&bytes, source, receivedAt)
                counters.receivedDatagrams += 1
                counters.receivedBytes += UInt64(end - offset)
                count += 1
            }
            offset = end
            if offset >= length || arrival.truncated != 0 {
                slot += 1
                offset = 0
            }
        }
        return count
    }

    /// Nanoseconds since the kernel stamped a datagram. A wall clock that was set in between gives nonsense: then zero,
    /// the time of reading.
    static func lag(stamp: Int64, now: Int64) -> Int64 {
        guard stamp != 0 else { return 0 }
        let (lag, overflow) = now.subtractingReportingOverflow(stamp)
        return overflow || lag < 0 || lag > 5_000_000_000 ? 0 : lag
    }
}
