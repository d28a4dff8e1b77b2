import MeshBase

/// The settings in force and where each came from: option, then environment, then file, then default.
public struct Settings: Hashable, Sendable {
    public struct Setting: Hashable, Sendable {
        public var name: String
        public var value: String?
        /// "--node", "STARLING_NODE", the file's path, or "default".
        public var origin: String
    }

    /// Something that was set and cannot be used.
    public struct Problem: Hashable, Sendable {
        /// The file's path, or the variable's name.
        public var place: String
        /// In the file, counted from 1; `nil` when no line in particular is to blame.
        public var line: Int?
        /// One sentence, safe to show.
        public var message: String
        /// Told, and no reason to refuse: a later version may know the key.
        public var isHarmless = false
    }

    public private(set) var all: [Setting] = []
    /// What is wrong with the file or the environment. `init` throws the first that matters; `reading` keeps them all.
    public private(set) var problems: [Problem] = []

    /// What stands in the file, at most this long.
    public static let maximumFileBytes = 65_536

    /// The value of a setting; `nil` when nobody set it and it has no default.
    public subscript(name: String) -> String? { all.first { $0.name == name }?.value }

    /// - Parameter file: the bytes of the configuration file; `nil` when there is none.
    public init(
        invocation: Invocation, environment: (String) -> String?, file: [UInt8]?, paths: NodePaths, machineName: String
    ) throws(CommandFailure) {
        self = Self.reading(
            invocation: invocation, environment: environment, file: file, paths: paths, machineName: machineName)
        try requireUsable()
    }

    /// Throws the first of the `problems` that matters.
    public func requireUsable() throws(CommandFailure) {
        guard let problem = problems.first(where: { !$0.isHarmless }) else { return }
        let line = problem.line.map { ", line \($0)" } ?? ""
        throw .usage(
            "\(SafeText.escaped(problem.place))\(line): \(problem.message)",
            hint: "starling config --origin tells where settings come from")
    }

    /// As `init`, but what cannot be used becomes one of the `problems` and counts as not set.
    public static func reading(
        invocation: Invocation, environment: (String) -> String?, file: [UInt8]?, paths: NodePaths, machineName: String
    ) -> Settings {
        var settings = Settings()
        let path = paths.configFile ?? "config.json"
        let members = settings.members(of: file, path: path)
        func add(_ name: String, option: String?, variable: String?, kind: ValueKind, standard: String?) {
            let inFile = settings.value(of: name, kind, members: members, file: file ?? [], path: path)
            let inEnvironment = variable.flatMap { settings.value(of: $0, kind, environment) }
            if let option, let value = invocation.options[option] {
                settings.all.append(
                    Setting(name: name, value: value.stringValue ?? value.text, origin: "--\(option)"))
            } else if let variable, let inEnvironment {
                settings.all.append(Setting(name: name, value: inEnvironment, origin: variable))
            } else if let inFile {
                settings.all.append(Setting(name: name, value: inFile, origin: path))
            } else {
                settings.all.append(Setting(name: name, value: standard, origin: "default"))
            }
        }
        add("node", option: "node", variable: "STARLING_NODE", kind: .nodeName, standard: nil)
        add("name", option: "name", variable: nil, kind: .nodeName, standard: machineName)
        add("log", option: "log", variable: "STARLING_LOG", kind: .logLevels, standard: nil)
        settings.addPaths(paths, environment, isFileThere: file != nil)
        return settings
    }

    private init() {}

    /// Where things are: nothing of it stands in the file.
    private mutating func addPaths(_ paths: NodePaths, _ environment: (String) -> String?, isFileThere: Bool) {
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
                origin: Self.origin(["XDG_CONFIG_HOME", "HOME"], environment) + (isFileThere ? "" : " (not there)")))
    }

    private static func origin(_ variables: [String], _ environment: (String) -> String?) -> String {
        variables.first { environment($0)?.hasPrefix("/") ?? false } ?? "default"
    }

    // MARK: The file

    private static let fileKeys = ["node", "name", "log"]

    private mutating func members(of file: [UInt8]?, path: String) -> [String: JSONValue] {
        guard let file else { return [:] }
        do throws(JSONError) {
            let value = try JSONValue.parse(file, byteLimit: Self.maximumFileBytes)
            guard case .object(let members) = value else {
                problems.append(Problem(place: path, line: 1, message: "it must be an object: {\"node\": \"ana\"}"))
                return [:]
            }
            for member in members where !Self.fileKeys.contains(member.name) {
                noteUnknown(member.name, in: file, path: path)
            }
            return Dictionary(members.map { ($0.name, $0.value) }) { first, _ in first }
        } catch {
            problems.append(Problem(place: path, line: error.line(in: file), message: error.message(in: file)))
            return [:]
        }
    }

    private mutating func noteUnknown(_ key: String, in file: [UInt8], path: String) {
        let near = Suggestion.nearest(to: key, among: Self.fileKeys)
        let rest = near.map { "did you mean \($0)?" } ?? "known are \(Self.fileKeys.joined(separator: ", "))"
        problems.append(
            Problem(
                place: path, line: Self.line(of: key, in: file),
                message: "“\(SafeText.escaped(key, limit: 40))” is not a setting; \(rest)", isHarmless: true))
    }

    private mutating func value(
        of name: String, _ kind: ValueKind, members: [String: JSONValue], file: [UInt8], path: String
    ) -> String? {
        guard let value = members[name] else { return nil }
        let reason: String
        if let text = value.stringValue {
            guard case .failure(let invalid) = kind.parse(text) else { return text }
            reason = invalid.reason
        } else {
            reason = "it must be text"
        }
        problems.append(Problem(place: path, line: Self.line(of: name, in: file), message: "\(name): \(reason)"))
        return nil
    }

    private mutating func value(
        of variable: String, _ kind: ValueKind, _ environment: (String) -> String?
    ) -> String? {
        guard let text = environment(variable), !text.isEmpty else { return nil }
        guard case .failure(let invalid) = kind.parse(text) else { return text }
        problems.append(Problem(place: variable, line: nil, message: "it is not valid: \(invalid.reason)"))
        return nil
    }

    /// The line on which a key first stands.
    private static func line(of key: String, in file: [UInt8]) -> Int? {
        let text = String(decoding: file, as: UTF8.self)
        guard let place = text.firstRange(of: "\"\(key)\"") else { return nil }
        return 1 + text[..<place.lowerBound].utf8.count { $0 == UInt8(ascii: "\n") }
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
        let told = problems.map { problem -> JSONValue in
            [
                "place": .string(problem.place), "line": problem.line.map { .integer(Int64($0)) } ?? .null,
                "message": .string(problem.message),
            ]
        }
        return ["schema": "starling/config/1", "settings": .array(rows), "problems": .array(told)]
    }
}
