import Foundation

/// The sanitizer that this run and the command were built with, as `Tools/test` says it.
enum Sanitizer {
    static let name = ProcessInfo.processInfo.environment["STARLING_SANITIZED"]

    /// By how much every time limit is longer under a sanitizer: an instrumented process starts, hashes and seals five
    /// to ten times slower. The node's own deadlines are what they are.
    static let patience: Double = name == nil ? 1 : 5

    /// Each process writes what the sanitizer finds, leaks at an orderly end included, to a file of its own,
    /// `sanitizer.PID`: a test may close, or compare, every other output.
    static func environment(in directory: URL) -> [String: String] {
        guard name != nil else { return [:] }
        let log = "log_path=" + directory.appending(path: "sanitizer").path
        return ["TSAN_OPTIONS": log, "ASAN_OPTIONS": log]
    }

    /// Every report that a process of this directory left.
    static func reports(in directory: URL) -> [String] {
        guard name != nil, let files = try? FileManager.default.contentsOfDirectory(atPath: directory.path) else {
            return []
        }
        return files.filter { $0.hasPrefix("sanitizer.") }.sorted().compactMap { file in
            try? String(contentsOf: directory.appending(path: file), encoding: .utf8)
        }
    }
}
