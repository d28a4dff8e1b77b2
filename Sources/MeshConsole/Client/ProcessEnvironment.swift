import Glibc

/// This process: its environment, its arguments, its standard streams.
public enum ProcessEnvironment {
    /// `nil` when not set or empty: an empty variable says nothing.
    public static func variable(_ name: String) -> String? {
        guard let value = unsafe getenv(name) else { return nil }
        let text = unsafe String(cString: value)
        return text.isEmpty ? nil : text
    }

    /// The arguments behind the program's name, byte for byte.
    public static func arguments() -> [[UInt8]] {
        let count = Int(CommandLine.argc)
        let vector = unsafe CommandLine.unsafeArgv
        guard count > 1 else { return [] }
        return (1..<count).compactMap { position in
            guard let start = unsafe vector[position] else { return nil }
            return unsafe Array(UnsafeBufferPointer(start: start, count: strlen(start)).map(UInt8.init(bitPattern:)))
        }
    }

    /// Overwrites an argument in the memory that `ps` shows (AB-85). The kernel reads it from there; copies made before
    /// are not reached.
    public static func wipeArgument(equalTo text: String) {
        let wanted = Array(text.utf8)
        let vector = unsafe CommandLine.unsafeArgv
        for position in 0..<Int(CommandLine.argc) {
            guard let start = unsafe vector[position] else { continue }
            let length = unsafe strlen(start)
            let bytes = unsafe UnsafeBufferPointer(start: start, count: length).map(UInt8.init(bitPattern:))
            // The argument may carry white space that the parser took away.
            if bytes.filter({ $0 > 0x20 }) == wanted { unsafe memset(start, 0x78, length) }
        }
    }

    /// The home directory of the account, for a process without `HOME`.
    public static func accountHome() -> String? {
        guard let entry = unsafe getpwuid(getuid()), let path = unsafe entry.pointee.pw_dir else { return nil }
        return unsafe String(cString: path)
    }

    public static func currentDirectory() -> String {
        var bytes = [CChar](repeating: 0, count: 4096)
        guard unsafe getcwd(&bytes, bytes.count) != nil else { return "/" }
        return String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// This machine's name up to the first dot, made fit to name a node.
    public static func machineName() -> String {
        var bytes = [CChar](repeating: 0, count: 256)
        unsafe gethostname(&bytes, bytes.count - 1)
        let full = String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let name = String(full.prefix { $0 != "." })
        return ValueKind.isNodeName(name) ? name : "node"
    }

    public static func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Whether `path` is a directory of this user that can be written.
    public static func isOwnDirectory(_ path: String) -> Bool {
        var information = stat()
        guard unsafe stat(path, &information) == 0, information.st_mode & S_IFMT == S_IFDIR else { return false }
        return unsafe information.st_uid == getuid() && access(path, W_OK | X_OK) == 0
    }

    /// The paths for this user and process.
    public static func paths() -> NodePaths {
        NodePaths(environment: variable, homeDirectory: accountHome(), isUsable: isOwnDirectory)
    }

    /// All of standard input up to `limit` bytes; `nil` beyond.
    public static func standardInput(limit: Int) -> [UInt8]? {
        var output: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while true {
            let got = unsafe read(0, &block, block.count)
            if got < 0, errno == EINTR { continue }
            guard got > 0 else { return output }
            output += block.prefix(got)
            if output.count > limit { return nil }
        }
    }

    /// A file of at most `limit` bytes; `nil` when it cannot be read or is longer.
    public static func file(_ path: String, limit: Int) -> [UInt8]? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var output: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 65_536)
        while output.count <= limit {
            let got = unsafe read(descriptor, &block, block.count)
            if got < 0, errno == EINTR { continue }
            if got < 0 { return nil }
            guard got > 0 else { return output }
            output += block.prefix(got)
        }
        return nil
    }

    /// The names in a directory, sorted; empty when it cannot be read. At most 10,000.
    public static func names(in path: String) -> [String] {
        guard let directory = unsafe opendir(path) else { return [] }
        defer { unsafe closedir(directory) }
        var output: [String] = []
        while output.count < 10_000, let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                unsafe String(validating: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let name, name != ".", name != ".." { output.append(name) }
        }
        return output.sorted()
    }

    public static func isDirectory(_ path: String) -> Bool {
        var information = stat()
        return unsafe stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFDIR
    }

    /// What `errno` means, in the C library's words.
    public static func reason(_ number: Int32) -> String { unsafe String(cString: strerror(number)) }

    /// Makes a directory and its parents, each with mode 0700. Returns an error number, 0 when it is there.
    public static func makeDirectories(_ path: String) -> Int32 {
        var made = ""
        for part in path.split(separator: "/") {
            made += "/" + part
            guard unsafe mkdir(made, 0o700) != 0 else { continue }
            // Kept before anything else asks the system: it is this directory's error that explains the rest.
            let number = errno
            if number != EEXIST, !isDirectory(made) { return number }
        }
        return isDirectory(path) ? 0 : ENOTDIR
    }

    /// Replaces a file with mode 0600, by a rename, so that a reader sees the old or the new. Returns an error number.
    public static func replaceFile(_ path: String, with bytes: [UInt8]) -> Int32 {
        let temporary = "\(path).\(getpid()).new"
        let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return errno }
        var number = StandardStream.write(bytes, to: descriptor)
        if close(descriptor) != 0, number == 0 { number = errno }
        if number == 0, unsafe rename(temporary, path) != 0 { number = errno }
        if number != 0 { unsafe unlink(temporary) }
        return number
    }

    /// Monotonic nanoseconds, for time limits of the command itself.
    public static func monotonicNanoseconds() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
