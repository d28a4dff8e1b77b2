import Glibc

/// Whole small text files and links, for /proc and our own pid files.
enum SmallFile {
    static let limit = 1 << 20

    /// At most 1 MiB of text; `nil` when it cannot be read.
    static func read(_ path: String) -> String? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { _ = close(descriptor) }
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 16_384)
        while bytes.count < limit {
            let got = unsafe Glibc.read(descriptor, &block, block.count)
            if got < 0 && errno == EINTR { continue }
            guard got > 0 else { break }
            bytes.append(contentsOf: block[..<got])
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func linkTarget(_ path: String) -> String? {
        var bytes = [CChar](repeating: 0, count: 4096)
        let got = unsafe readlink(path, &bytes, bytes.count)
        guard got > 0 else { return nil }
        return String(decoding: bytes[..<got].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// Names in a folder.
enum DirectoryListing {
    private static let nameOffset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 19

    /// Without "." and ".."; empty when the folder cannot be read. Names that are not UTF-8 are left out: ours all are.
    static func names(_ path: String) -> [String] {
        guard let stream = unsafe opendir(path) else { return [] }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            // By pointer: copying the whole 256-byte field would read past short entries.
            let start = unsafe UnsafeRawPointer(entry) + nameOffset
            let text = unsafe String(validatingCString: start.assumingMemoryBound(to: CChar.self))
            guard let name = text, name != ".", name != ".." else { continue }
            names.append(name)
        }
        return names
    }
}
