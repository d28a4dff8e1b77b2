import MeshBase

/// The settings in force and where each came from: option, then environment, then file, then default.
public struct Settings: Hashable, Sendable {
    public struct Setting: Hashable, Sendable {
        public var name: String
        public var value: String?
        /// "--node", "STARLING_NODE", the file's path, or "default".
        public var origin: String
    }

    public private(set) var all: [Setting] = []

    /// What stands in the file, at most this long.
    public static let maximumFileBytes = 65_536

    /// The value of a setting; `nil` when nobody set it and it has no default.
    public subscript(name: String) -> String? { all.first { $0.name == name }?.value }

    /// - Parameter file: the bytes of the configuration file; `nil` when there is none.
    public init(
        invocation: Invocation, environment: (String) -> String?, file: [UInt8]?, paths: NodePaths, machineName: String
    ) throws(CommandFailure) {
        let path = paths.configFile ?? "config.json"
        let members = try Self.members(of: file, path: path)
        func add(_ name: String, option: String?, variable: String?, kind: ValueKind, standard: String?)
            throws(CommandFailure)
        {
            if let option, let value = invocation.options[option] {
                all.append(Setting(name: name, value: value.stringValue ?? value.text, origin: "--\(option)"))
            } else if let variable, let value = environment(variable), !value.isEmpty {
                all.append(Setting(name: name, value: try Self.checked(value, kind, variable), origin: variable))
            } else if let value = members[name] {
                let label = "\(SafeText.escaped(path)): \(name)"
                guard let text = value.stringValue else { throw Self.invalid(label, "it must be text") }
                all.append(Setting(name: name, value: try Self.checked(text, kind, label), origin: path))
            } else {
                all.append(Setting(name: name, value: standard, origin: "default"))
            }
        }
        try add("node", option: "node", variable: "STARLING_NODE", kind: .nodeName, standard: nil)
        try add("name", option: "name", variable: nil, kind: .nodeName, standard: machineName)
        try add("log", option: "log", variable: "STARLING_LOG", kind: .logLevels, standard: nil)
        all.append(
            Setting(
                name: "state", value: paths.stateRoot,
                origin: Self.origin(["STARLING_STATE", "XDG_STATE_HOME", "HOME"], environment)))
        all.append(
            Setting(
                name: "sockets", value: paths.runtimeRoot ?? paths.stateRoot.map { $0 + "/NAME/control.sock" },
                origin: paths.runtimeRoot == nil ? "default" : "XDG_RUNTIME_DIR"))
        all.append(
            Setting(
                name: "config", value: paths.configFile,
                origin: Self.origin(["XDG_CONFIG_HOME", "HOME"], environment) + (file == nil ? " (not there)" : "")))
    }

    private static func origin(_ variables: [String], _ environment: (String) -> String?) -> String {
        variables.first { environment($0)?.hasPrefix("/") ?? false } ?? "default"
    }

    private static func members(of file: [UInt8]?, path: String) throws(CommandFailure) -> [String: JSONValue] {
        guard let file else { return [:] }
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue.parse(file, byteLimit: maximumFileBytes)
        } catch {
            throw invalid(SafeText.escaped(path), "it is not JSON (\(error))")
        }
        guard case .object(let members) = value else { throw invalid(SafeText.escaped(path), "it must be an object") }
        return Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
    }

    private static func checked(_ text: String, _ kind: ValueKind, _ label: String) throws(CommandFailure) -> String {
        switch kind.parse(text) {
        case .success: return text
        case .failure(let reason): throw invalid(label, reason.reason)
        }
    }

    private static func invalid(_ label: String, _ reason: String) -> CommandFailure {
        .usage("\(label) is not valid: \(reason)", hint: "starling config --origin tells where settings come from")
    }

    /// The levels of `log` by area.
    public var logLevels: [String: String] {
        guard let text = self["log"] else { return [:] }
        // From an option it is an object already, written as JSON; from elsewhere AREA=LEVEL.
        let value: JSONValue?
        if text.hasPrefix("{") {
            value = try? JSONValue.parse(text)  // Written by us a moment ago; unreadable means no levels.
        } else {
            value = try? ValueKind.logLevels.parse(text).get()  // Checked when it was read.
        }
        guard case .object(let members)? = value else { return [:] }
        return Dictionary(members.compactMap { member in member.value.stringValue.map { (member.name, $0) } }) { $1 }
    }

    public func json(withOrigin: Bool) -> JSONValue {
        let rows = all.map { setting -> JSONValue in
            var members: [JSONValue.Member] = [
                .init("name", .string(setting.name)), .init("value", setting.value.map(JSONValue.string) ?? .null),
            ]
            if withOrigin { members.append(.init("origin", .string(setting.origin))) }
            return .object(members)
        }
        return ["schema": "starling/config/1", "settings": .array(rows)]
    }
}
