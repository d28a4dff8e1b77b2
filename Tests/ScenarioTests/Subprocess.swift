import Foundation
import Glibc

/// A child of the test with its output in files: nothing fills up, and nobody waits for a grandchild that keeps a pipe.
final class Subprocess {
    let pid: pid_t
    let output: URL
    let errorOutput: URL
    /// Its number is free again once it was reaped: it is neither asked nor ended after that.
    private var ended: Int32?

    private init(pid: pid_t, output: URL, errorOutput: URL) {
        self.pid = pid
        self.output = output
        self.errorOutput = errorOutput
    }

    enum Failure: Error { case cannotStart(String, Int32) }

    /// Signals are at their defaults, whatever the test process blocks or ignores.
    static func start(
        _ path: String, _ arguments: [String], environment: [String: String], input: URL, output: URL,
        errorOutput: URL
    ) throws -> Subprocess {
        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawnattr_init(&attributes)
        defer {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }
        let create = O_WRONLY | O_CREAT | O_APPEND
        unsafe posix_spawn_file_actions_addopen(&actions, 0, input.path, O_RDONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, output.path, create, 0o600)
        unsafe posix_spawn_file_actions_addopen(&actions, 2, errorOutput.path, create, 0o600)
        var none = sigset_t()
        var all = sigset_t()
        unsafe sigemptyset(&none)
        unsafe sigfillset(&all)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setsigdefault(&attributes, &all)
        let signalMask: Int16 = 0x08
        let signalDefaults: Int16 = 0x04
        unsafe posix_spawnattr_setflags(&attributes, signalMask | signalDefaults)
        var pid: pid_t = 0
        let number = unsafe withStrings([path] + arguments) { arguments in
            unsafe withStrings(environment.map { "\($0.key)=\($0.value)" }) { variables in
                unsafe posix_spawn(&pid, path, &actions, &attributes, arguments, variables)
            }
        }
        guard number == 0 else { throw Failure.cannotStart(path, number) }
        return Subprocess(pid: pid, output: output, errorOutput: errorOutput)
    }

    private static func withStrings<Result>(
        _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let pointers = unsafe texts.map { unsafe strdup($0) }
        defer { unsafe pointers.forEach { unsafe free($0) } }
        return unsafe body(pointers + [nil])
    }

    /// The exit code when it has ended, 128 + signal when one ended it; `nil` while it runs. Reaps it.
    func exitCode() -> Int32? {
        if let ended { return ended }
        var status: Int32 = 0
        guard unsafe waitpid(pid, &status, WNOHANG) == pid else { return nil }
        ended = status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
        return ended
    }

    var outputText: String { Self.text(output) }
    var errorText: String { Self.text(errorOutput) }

    private static func text(_ file: URL) -> String {
        guard let data = try? Data(contentsOf: file) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }
}

/// What a finished command left.
struct Outcome: CustomStringConvertible {
    var exit: Int32
    var output: String
    var errorOutput: String

    /// The last object on standard output.
    var document: Document { Document.lines(output).last ?? Document.empty }
    var documents: [Document] { Document.lines(output) }
    /// The typed error on standard error.
    var failure: Document { Document.lines(errorOutput).last { !$0["code"].isAbsent } ?? Document.empty }

    var description: String { "exit \(exit)\n\(output)\n\(errorOutput)" }
}
