import MeshBase
import MeshProtocol
import MeshSystem

extension ProtocolEvent.Kind {
    /// Where an event stands in the log: the part of the node that it is about, and how much it matters.
    var logPlace: (area: LogArea, level: LogLevel) {
        switch self {
        case .meshFounded, .meshJoined, .inviteCreated, .inviteRevoked: (.session, .info)
        case .joinFailed, .identityConflict: (.session, .error)
        case .memberAdmitted, .memberAlive, .memberLeft, .memberReturned, .memberRenamed: (.session, .info)
        case .meshEnded, .memberRemoved: (.session, .warning)
        case .secretRenewed: (.session, .info)
        case .memberSuspect, .memberDead, .memberRefused: (.session, .warning)
        case .linkEstablished, .linkMoved: (.messenger, .info)
        case .linkLost, .handshakeRefused, .versionMismatch, .messageDropped, .limitReached: (.messenger, .warning)
        case .recordRefused, .recordFork: (.messenger, .warning)
        case .messageReceived: (.messenger, .debug)
        case .attachmentAdded, .attachmentComplete, .attachmentRemoved: (.journal, .info)
        case .attachmentFailed, .chunkRejected: (.journal, .warning)
        case .attachmentWaiting: (.journal, .info)
        case .storageFailed: (.storage, .error)
        case .storageRecovered: (.storage, .info)
        case .clockSteady, .clockMerged: (.coordinator, .info)
        case .clockStepped: (.coordinator, .warning)
        case .interfacesChanged, .suspended: (.system, .info)
        }
    }
}

extension Logger {
    /// A log line for `event`: its kind is the message, its facts the details.
    func log(_ event: NodeEvent) {
        let (area, level) = event.event.kind.logPlace
        guard isEnabled(level, area) else { return }
        var details: [(String, String)] = event.event.subject == nil ? [] : [("member", event.subjectName)]
        for detail in event.event.detail {
            let value =
                switch detail.value {
                case .text(let text): text
                case .integer(let number): String(number)
                case .number(let number): number.description
                }
            details.append((detail.name, value))
        }
        log(level, area, event.event.kind.rawValue, details: details)
    }
}
