import Glibc

/// Who holds a UDP port, read from /proc: the answer to "address in use" that a person can act on (MEM-20).
enum PortHolder {
    /// `nil` when nobody does or we may not see who.
    static func find(port: UInt16) -> ProcessName? {
        let inodes = ["/proc/net/udp", "/proc/net/udp6"].flatMap { path in
            SmallFile.read(path).map { socketInodes(table: $0, port: port) } ?? []
        }
        guard !inodes.isEmpty else { return nil }
        let wanted = Set(inodes.map { "socket:[\($0)]" })
        for entry in DirectoryListing.names("/proc") {
            guard let pid = Int32(entry) else { continue }
            let folder = "/proc/\(pid)/fd"
            let holds = DirectoryListing.names(folder).contains { name in
                SmallFile.linkTarget("\(folder)/\(name)").map(wanted.contains) ?? false
            }
            guard holds else { continue }
            let command = SmallFile.read("/proc/\(pid)/comm") ?? ""
            return ProcessName(pid: pid, command: String(command.prefix { $0 != "\n" }))
        }
        return nil
    }

    /// Inode numbers of the sockets bound to `port` in one of the kernel's socket tables.
    static func socketInodes(table: String, port: UInt16) -> [String] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let fields = line.split(separator: " ", omittingEmptySubsequences: true)
            guard fields.count > 9, let colon = fields[1].lastIndex(of: ":") else { return nil }
            let digits = fields[1][fields[1].index(after: colon)...]
            return UInt16(digits, radix: 16) == port ? String(fields[9]) : nil
        }
    }
}
