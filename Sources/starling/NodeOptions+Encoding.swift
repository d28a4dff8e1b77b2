import MeshBase
import MeshNode

/// How `--background` hands a node's options to the process it starts: on a pipe, where no list of processes shows them.
extension NodeOptions {
    var encoded: JSONValue {
        [
            "name": .string(name), "stateDirectory": .string(stateDirectory),
            "controlSocketPath": .string(controlSocketPath), "meshLabel": meshLabel.map(JSONValue.string) ?? .null,
            "policyText": policyText.map(JSONValue.string) ?? .null,
            "port": .integer(Int64(port)), "isPortFixed": .bool(isPortFixed),
            "bindAddresses": .array(bindAddresses.map(JSONValue.string)), "discovery": .bool(discovery),
            "ephemeral": .bool(ephemeral), "hostClockOffsetNanoseconds": .integer(hostClockOffsetNanoseconds),
            "hostClockPartsPerMillion": .number(hostClockPartsPerMillion),
            "ticketText": ticketText.map(JSONValue.string) ?? .null,
            "atAddresses": .array(atAddresses.map(JSONValue.string)),
            "logLevels": .object(logLevels.keys.sorted().map { .init($0, .string(logLevels[$0] ?? "info")) }),
            "maxAttachmentBytes": maxAttachmentBytes.map(JSONValue.integer) ?? .null,
            "timeoutSeconds": .number(timeoutSeconds),
        ]
    }

    init?(encoded value: JSONValue) {
        guard let name = value["name"]?.stringValue, let state = value["stateDirectory"]?.stringValue,
            let socket = value["controlSocketPath"]?.stringValue
        else { return nil }
        self.init(name: name, stateDirectory: state, controlSocketPath: socket)
        meshLabel = value["meshLabel"]?.stringValue
        policyText = value["policyText"]?.stringValue
        port = value["port"]?.integerValue.flatMap { UInt16(exactly: $0) } ?? port
        isPortFixed = value["isPortFixed"]?.boolValue ?? false
        bindAddresses = value["bindAddresses"]?.arrayValue?.compactMap(\.stringValue) ?? []
        discovery = value["discovery"]?.boolValue ?? true
        ephemeral = value["ephemeral"]?.boolValue ?? false
        hostClockOffsetNanoseconds = value["hostClockOffsetNanoseconds"]?.integerValue ?? 0
        hostClockPartsPerMillion = value["hostClockPartsPerMillion"]?.numberValue ?? 0
        ticketText = value["ticketText"]?.stringValue
        atAddresses = value["atAddresses"]?.arrayValue?.compactMap(\.stringValue) ?? []
        if case .object(let levels)? = value["logLevels"] {
            for level in levels { logLevels[level.name] = level.value.stringValue }
        }
        maxAttachmentBytes = value["maxAttachmentBytes"]?.integerValue
        timeoutSeconds = value["timeoutSeconds"]?.numberValue ?? timeoutSeconds
    }

    /// The value of `--host-clock`, checked by the parser.
    mutating func setHostClock(_ value: JSONValue?) {
        hostClockOffsetNanoseconds = value?["offsetNanoseconds"]?.integerValue ?? 0
        hostClockPartsPerMillion = value?["partsPerMillion"]?.numberValue ?? 0
    }
}
