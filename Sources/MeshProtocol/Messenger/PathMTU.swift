import MeshBase
import MeshWire

/// The largest datagram that the path is known to carry. Only an acknowledged probe raises it; nothing but repeated
/// silence of large datagrams lowers it, never below 1,232 bytes, and never an ICMP message (AB-59).
struct PathMTU: Sendable {
    /// UDP payload of the largest proven datagram.
    private(set) var current: Int
    private let targets: [Int]
    private let attempts: Int
    private let retry: TimeSpan
    private var targetIndex: Int
    private var failures = 0
    private(set) var probeInFlight = false
    /// When the next probe may leave; `nil` when all sizes are settled.
    private(set) var nextProbeAt: HostTime?
    private var largeLosses = 0

    /// Large datagrams lost in a row, with none acknowledged, before the path counts as a black hole.
    private static let blackHoleLosses = 10
    private static let blackHoleRetry: TimeSpan = .seconds(60)

    /// On loopback the largest size is tried first, else sizes ascend and 64 KiB are not tried. Through a member one size
    /// alone goes.
    init(configuration: LinkConfiguration, address: SocketAddress, at now: HostTime) {
        let isLoopback = address.isLoopback
        let limit = min(configuration.maximumDatagramBytes, WireLimits.maximumDatagramBytes)
        current = address.isDiscardOnly ? WireLimits.relayedDatagramBytes : WireLimits.baseDatagramBytes
        let base = current
        let sizes = configuration.probeTargets.filter { size in
            size > base && size <= limit && (isLoopback || size <= 16_384) && !address.isDiscardOnly
        }
        targets = isLoopback ? sizes.sorted(by: >) : sizes.sorted()
        attempts = configuration.probeAttempts
        retry = configuration.probeRetry
        targetIndex = 0
        nextProbeAt = configuration.allowsMTUGrowth && !targets.isEmpty ? now : nil
    }

    /// The size to try now, if any.
    func probeSize(at now: HostTime) -> Int? {
        guard !probeInFlight, let nextProbeAt, nextProbeAt <= now, targetIndex < targets.count else { return nil }
        return targets[targetIndex]
    }

    mutating func didSendProbe() { probeInFlight = true }

    mutating func probeAcknowledged(size: Int, at now: HostTime) {
        probeInFlight = false
        current = max(current, size)
        failures = 0
        largeLosses = 0
        // Descending targets that are smaller than what works need no probe.
        targetIndex = 0
        while targetIndex < targets.count, targets[targetIndex] <= current { targetIndex += 1 }
        nextProbeAt = targetIndex < targets.count && targets[targetIndex] > current && !isDescending ? now : nil
    }

    private var isDescending: Bool { targets.count > 1 && targets[0] > targets[1] }

    mutating func probeLost(at now: HostTime, roundTrip: TimeSpan) {
        probeInFlight = false
        guard targetIndex < targets.count else {
            // A second probe of a size that was acknowledged meanwhile.
            nextProbeAt = nil
            return
        }
        failures += 1
        if failures < attempts {
            nextProbeAt = now + roundTrip
        } else if isDescending, targetIndex + 1 < targets.count {
            failures = 0
            targetIndex += 1
            nextProbeAt = now
        } else {
            failures = 0
            targetIndex = 0
            while targetIndex < targets.count, targets[targetIndex] <= current { targetIndex += 1 }
            nextProbeAt = targetIndex < targets.count ? now + retry : nil
        }
    }

    mutating func acknowledged(datagramBytes: Int) {
        if datagramBytes > WireLimits.baseDatagramBytes { largeLosses = 0 }
    }

    /// Returns whether the path turned out to be a black hole for large datagrams and the size fell back to the base.
    mutating func lost(datagramBytes: Int, at now: HostTime) -> Bool {
        guard datagramBytes > WireLimits.baseDatagramBytes, current > WireLimits.baseDatagramBytes else { return false }
        largeLosses += 1
        guard largeLosses >= Self.blackHoleLosses else { return false }
        largeLosses = 0
        current = WireLimits.baseDatagramBytes
        targetIndex = 0
        failures = 0
        nextProbeAt = targets.isEmpty ? nil : now + Self.blackHoleRetry
        return true
    }
}
