import Glibc
import MeshBase
import MeshSystem

/// `starling-simulator`: from its arguments to its exit code. Results on stdout, talk on stderr; 0 all held,
/// 1 an invariant was violated, 2 usage, 7 the file of scenarios cannot be read.
public enum SimulatorProgram {
    static let usage = """
        starling-simulator run --listed --workers 2          every listed seed of every scenario
        starling-simulator run --for 1h --workers 2          new seeds of all scenarios for an hour
        starling-simulator run --scenario storm --seed 17    replays one run, to the byte
        starling-simulator field --nodes 1000                the gossip alone, in a large mesh
        starling-simulator list                              scenarios, hazards, roles, and what each invariant proves

        run   [--listed | --first | --seeds A-B | --seed N | --for DURATION] [--scenario NAME] [--file FILE]
              [--workers N] [--json] [--quiet]
        field [--nodes N] [--messages N] [--seed N] [--json]
        DURATION is a number with s, m or h. FILE is Tests/SimulationTests/Scenarios.txt unless named.

        """

    public static func run(_ arguments: [String]) -> Int32 {
        let rest = Array(arguments.dropFirst())
        switch arguments.first {
        case "run":
            guard let options = SimulatorOptions(rest) else { return refuse(arguments) }
            return withScenarios(options.file) { SimulatorSweep(options, $0).run() }
        case "field":
            guard let options = FieldOptions(rest) else { return refuse(arguments) }
            return FieldProgram.run(options)
        case "list":
            guard let options = SimulatorOptions(rest) else { return refuse(arguments) }
            return withScenarios(options.file) { list($0) }
        case "--help", "-h", "help":
            SimulatorOutput.write(usage, terminator: "")
            return 0
        default: return refuse(arguments)
        }
    }

    private static func refuse(_ arguments: [String]) -> Int32 {
        SimulatorOutput.talk("not understood: \(SafeText.escaped(arguments.joined(separator: " "), limit: 200))")
        SimulatorOutput.talk(usage, terminator: "")
        return 2
    }

    private static func withScenarios(_ path: String, _ body: (ScenarioFile) -> Int32) -> Int32 {
        do {
            return body(try ScenarioFile(text: String(decoding: try SimulatorOutput.read(path), as: UTF8.self)))
        } catch {
            SimulatorOutput.talk("\(SafeText.escaped(path, limit: 200)) cannot be used: \(error)")
            return 7
        }
    }

    private static func list(_ file: ScenarioFile) -> Int32 {
        SimulatorOutput.write("SCENARIOS")
        for entry in file.entries {
            SimulatorOutput.write("  \(entry.scenario.name): \(entry.scenario.summary); \(entry.allSeeds.count) seeds")
        }
        SimulatorOutput.write("HAZARDS")
        for hazard in Hazard.allCases { SimulatorOutput.write("  \(hazard.rawValue): \(hazard.summary)") }
        SimulatorOutput.write("HOSTILE ROLES")
        for kind in HostileKind.allCases { SimulatorOutput.write("  \(kind.rawValue): \(kind.summary)") }
        SimulatorOutput.write("CHECKED AT EVERY EVENT")
        for invariant in EventInvariant.allCases {
            SimulatorOutput.write("  \(invariant.guarantee) \(invariant.rawValue): \(invariant.sentence)")
        }
        for (kind, title) in [
            (Invariant.Kind.always, "CHECKED EVERY TWO SECONDS"), (.eventually, "HOLD AFTER THE FAULTS"),
        ] {
            SimulatorOutput.write(title)
            for invariant in Invariants.all where invariant.kind == kind {
                SimulatorOutput.write("  \(invariant.name): \(invariant.sentence)")
            }
        }
        return 0
    }
}

/// What the simulator reads and writes itself.
enum SimulatorOutput {
    static func write(_ text: String, terminator: String = "\n") { emit(text + terminator, to: 1) }
    static func talk(_ text: String, terminator: String = "\n") { emit(text + terminator, to: 2) }

    /// A closed pipe is no error: whoever read has seen enough.
    private static func emit(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
            }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }

    static func read(_ path: String) throws -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw StorageError.notFound(path: path) }
        defer { close(descriptor) }
        return unsafe readAll { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
    }

    private static func readAll(_ next: (UnsafeMutableRawBufferPointer) -> Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while bytes.count < 1 << 20 {
            let count = unsafe block.withUnsafeMutableBytes { unsafe next($0) }
            guard count > 0 else { break }
            bytes += block.prefix(count)
        }
        return bytes
    }

    /// The commit of the working tree, marked when it was changed since; "unknown" outside of one.
    static func commit() -> String {
        guard let pipe = unsafe popen("git describe --always --dirty --abbrev=12 2>/dev/null", "r") else {
            return "unknown"
        }
        defer { unsafe pclose(pipe) }
        let bytes = unsafe readAll { unsafe fread($0.baseAddress, 1, $0.count, pipe) }
        let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isNewline }
        return text.isEmpty ? "unknown" : text
    }

    static func rounded(_ value: Double, _ digits: Int = 1) -> String {
        let scale = digits == 1 ? 10.0 : 10_000.0
        return "\((value * scale).rounded() / scale)"
    }
}
