import MeshProtocol
import MeshSystem

/// What waits to be handed to each actor within one turn. The arrays keep their capacity from turn to turn.
struct TurnWork: Sendable {
    var session: [Session.Input] = []
    var messenger: [MessengerCommand] = []
    var journal: [Journal.Input] = []
    var coordinator: [Coordinator.Input] = []
    /// Records to make durable, posted as one transaction at the end of the turn.
    var records: [StoredRecord] = []

    /// They leave with the turn's datagrams.
    private(set) var beacons: [[UInt8]] = []

    /// Beacons repeat themselves, so the newest few are enough while nothing may leave.
    private static let maximumBeacons = 8

    mutating func add(beacon: [UInt8]) {
        if beacons.count >= Self.maximumBeacons { beacons.removeFirst() }
        beacons.append(beacon)
    }

    mutating func takeBeacons() -> [[UInt8]] {
        guard !beacons.isEmpty else { return [] }
        defer { beacons = [] }
        return beacons
    }

    var isPending: Bool {
        !session.isEmpty || !messenger.isEmpty || !journal.isEmpty || !coordinator.isEmpty
    }
}
