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

    var isPending: Bool {
        !session.isEmpty || !messenger.isEmpty || !journal.isEmpty || !coordinator.isEmpty
    }
}
