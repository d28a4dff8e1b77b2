import Glibc

/// A directory of a test's own, removed with its contents when the test ends.
final class TemporaryDirectory: Sendable {
    let path: String

    init() {
        var template = Array("/tmp/starling-test-XXXXXX".utf8CString)
        unsafe template.withUnsafeMutableBufferPointer { buffer in
            precondition(unsafe mkdtemp(buffer.baseAddress!) != nil, "no directory for a test")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { Shell.run("/bin/rm", "-rf", path) }

    func file(_ name: String) -> String { path + "/" + name }
}

enum Shell {
    /// Runs a program and waits; its exit status.
    @discardableResult
    static func run(_ arguments: String...) -> Int32 {
        var list = unsafe arguments.map { unsafe strdup($0) } + [nil]
        defer { unsafe list.forEach { unsafe free($0) } }
        var child: pid_t = 0
        guard unsafe posix_spawn(&child, arguments[0], nil, nil, &list, environ) == 0 else { return -1 }
        var status: Int32 = 0
        while unsafe waitpid(child, &status, 0) < 0 && errno == EINTR {}
        return status
    }
}

/// Whole files, for what tests put down and look at.
enum TestFile {
    static func write(_ bytes: [UInt8], to path: String) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        precondition(descriptor >= 0, "a test cannot write \(path): errno \(errno)")
        defer { _ = close(descriptor) }
        var done = 0
        while done < bytes.count {
            let put = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress! + done, $0.count - done)
            }
            precondition(put > 0, "a test cannot write \(path): errno \(errno)")
            done += put
        }
    }

    static func read(_ path: String) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY)
        guard descriptor >= 0 else { return nil }
        defer { _ = close(descriptor) }
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while true {
            let got = unsafe Glibc.read(descriptor, &block, block.count)
            guard got > 0 else { return bytes }
            bytes.append(contentsOf: block[..<got])
        }
    }

    static func mode(_ path: String) -> mode_t {
        var information = stat()
        guard unsafe lstat(path, &information) == 0 else { return 0 }
        return information.st_mode & 0o7777
    }

    static func names(_ path: String) -> [String] {
        guard let stream = unsafe opendir(path) else { return [] }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let start = unsafe UnsafeRawPointer(entry) + MemoryLayout<dirent>.offset(of: \.d_name)!
            let name = unsafe String(cString: start.assumingMemoryBound(to: CChar.self))
            if name != "." && name != ".." { names.append(name) }
        }
        return names.sorted()
    }
}

/// Bytes that look random and are the same each time.
func patternBytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9e37_79b9_7f4a_7c15 | 1
    var bytes = [UInt8](repeating: 0, count: count)
    for position in 0..<count {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        bytes[position] = UInt8(truncatingIfNeeded: state >> 24)
    }
    return bytes
}
