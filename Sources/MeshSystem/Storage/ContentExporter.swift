import CMeshSystem
import Glibc
import MeshBase
import MeshCrypto

/// Writes a content into a folder of the user's: verified while copied, under a hidden name until whole and synced, and
/// never outside that folder whatever the attachment is called.
struct ContentExporter {
    let content: StoredContent
    let key: Bytes32
    let operations: any FileOperations
    /// Sixteen hexadecimal digits for the hidden name.
    let random: String
    /// Throws when the export shall end early.
    let check: () throws(StorageError) -> Void
    /// The bytes of a chunk.
    let chunk: (UInt64) throws(StorageError) -> [UInt8]

    /// How many numbered names are tried.
    private static let maximumNumber = 10_000

    func export(toDirectory directory: String, name: String, overwrite: Bool) throws(StorageError) -> ExportResult {
        let isMade = try makeIfMissing(directory)
        do throws(StorageError) {
            return try export(into: try OpenFile(directory, flags: O_RDONLY | O_DIRECTORY), name, overwrite)
        } catch {
            // Only an empty directory can be removed so.
            if isMade { unsafe rmdir(directory) }
            throw error
        }
    }

    /// Makes the last part of `directory`, as a new folder of the user's, when only that is missing; true when it did.
    private func makeIfMissing(_ directory: String) throws(StorageError) -> Bool {
        if unsafe mkdir(directory, 0o777) == 0 { return true }
        switch errno {
        case EEXIST:
            guard try FileStatus(path: directory).kind == .directory else { throw .notADirectory(path: directory) }
            return false
        case ENOENT: throw .noDirectory(path: directory)
        case ENOTDIR: throw .notADirectory(path: Self.parent(of: directory))
        case EROFS: throw .readOnly(path: directory)
        default: throw .system(errno, "mkdir", path: directory)
        }
    }

    private static func parent(of path: String) -> String {
        var trimmed = Substring(path)
        while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed = trimmed.dropLast() }
        guard let slash = trimmed.lastIndex(of: "/"), slash != trimmed.startIndex else { return "/" }
        return String(trimmed[..<slash])
    }

    private func export(into folder: OpenFile, _ name: String, _ overwrite: Bool) throws(StorageError) -> ExportResult {
        let safe = SafeFileName.make(name, isNarrow: !operations.takesAnyName(folder.descriptor))
        if let found = try existing(safe.name, in: folder), found.isSame {
            return result(folder, found.name, .alreadyThere, safe.change)
        }
        sweep(folder)
        let hidden = ".\(random)\(Self.hiddenEnding)"
        let isReplacing = overwrite && exists(safe.name, in: folder)
        do throws(StorageError) {
            let written: (name: String, outcome: ExportResult.Outcome)
            if let twin = try overwrite ? nil : twin(of: safe.name, in: folder) {
                return result(folder, twin, .alreadyThere, .numbered)
            }
            try copy(to: hidden, in: folder)
            if overwrite {
                try replace(hidden, safe.name, in: folder)
                written = (safe.name, isReplacing ? .replaced : .written)
            } else {
                written = (try place(hidden, safe.name, in: folder), .written)
            }
            try synchronize(folder, isDirectory: true)
            return result(folder, written.name, written.outcome, written.name == safe.name ? safe.change : .numbered)
        } catch {
            _ = unsafe unlinkat(folder.descriptor, hidden, 0)
            throw error
        }
    }

    private static let hiddenEnding = ".starling-part"

    /// Removes what exports left that were killed. One that is under way holds a lock on its file.
    private func sweep(_ folder: OpenFile) {
        for name in DirectoryListing.names(folder.path) where name.hasPrefix(".") && name.hasSuffix(Self.hiddenEnding) {
            guard let file = try? OpenFile(name: name, in: folder, flags: O_WRONLY | O_NONBLOCK),
                (try? file.status())?.kind == nil, mesh_lock_file(file.descriptor) == 0
            else { continue }
            _ = unsafe unlinkat(folder.descriptor, name, 0)
        }
    }

    private func result(
        _ folder: OpenFile, _ name: String, _ outcome: ExportResult.Outcome, _ change: NameChange?
    ) -> ExportResult {
        ExportResult(path: folder.path + "/" + name, outcome: outcome, nameChange: change)
    }

    // MARK: Names in the folder

    /// What stands under `name`, or under a name that looks the same (ATT-17): its real name, and whether its content
    /// is this one.
    private func existing(_ name: String, in folder: OpenFile) throws(StorageError) -> (name: String, isSame: Bool)? {
        guard let found = entry(lookingLike: name, in: folder) else { return nil }
        return (found, try isSameContent(found, in: folder))
    }

    /// Swift compares text by what it looks like: é as one scalar or as two are equal.
    private func entry(lookingLike name: String, in folder: OpenFile) -> String? {
        if exists(name, in: folder) { return name }
        if name.utf8.allSatisfy({ $0 < 0x80 }) { return nil }
        return DirectoryListing.names(folder.path).first { $0 == name }
    }

    private func exists(_ name: String, in folder: OpenFile) -> Bool {
        var information = stat()
        return unsafe fstatat(folder.descriptor, name, &information, AT_SYMLINK_NOFOLLOW) == 0
    }

    private func isSameContent(_ name: String, in folder: OpenFile) throws(StorageError) -> Bool {
        // A link, pipe or unreadable file is simply something else.
        guard let file = try? OpenFile(name: name, in: folder, flags: O_RDONLY | O_NONBLOCK),
            let status = try? file.status(), status.kind == nil, status.byteCount == content.byteCount
        else { return false }
        let builder = ChunkTreeBuilder(key: key)
        var buffer = [UInt8](repeating: 0, count: SourceFile.blockByteCount)
        var offset: UInt64 = 0
        while let count = try? file.read(into: &buffer, at: offset), count > 0 {
            try check()
            builder.append(buffer.span.extracting(0..<count))
            offset += UInt64(count)
        }
        return builder.finish().content == content.id
    }

    /// A numbered copy from an earlier export of the same content (ATT-20).
    private func twin(of name: String, in folder: OpenFile) throws(StorageError) -> String? {
        guard entry(lookingLike: name, in: folder) != nil else { return nil }
        for number in 2...Self.maximumNumber {
            let candidate = SafeFileName.numbered(name, number)
            guard let found = entry(lookingLike: candidate, in: folder) else { return nil }
            if try isSameContent(found, in: folder) { return found }
        }
        return nil
    }

    // MARK: Copying

    private func copy(to hidden: String, in folder: OpenFile) throws(StorageError) {
        if let available = FileSystemSpace.available(at: folder.path), available < content.byteCount {
            throw .noSpace(path: folder.path, needed: content.byteCount, available: available)
        }
        let file = try OpenFile(name: hidden, in: folder, flags: O_WRONLY | O_CREAT | O_EXCL)
        // Where a file system has no locks, a sweep leaves the file alone as well.
        _ = mesh_lock_file(file.descriptor)
        for (position, leaf) in content.leaves.enumerated() {
            let index = UInt64(position)
            try check()
            let bytes = try chunk(index)
            guard ChunkTree.leaf(key: key, index: index, chunk: bytes.span) == leaf else {
                throw .corrupt(path: content.id.description)
            }
            try file.write(bytes.span, at: index * UInt64(ChunkTree.chunkByteCount), operations)
        }
        // Made private, and now what any new file of the user's would be.
        let mask = umask(0)
        _ = umask(mask)
        _ = fchmod(file.descriptor, 0o666 & ~mask)
        try synchronize(file, isDirectory: false)
    }

    private func synchronize(_ file: OpenFile, isDirectory: Bool) throws(StorageError) {
        let result = operations.synchronize(file.descriptor, isDirectory: isDirectory)
        guard result == 0 else { throw .system(-result, "fsync", path: file.path) }
    }

    private func replace(_ hidden: String, _ name: String, in folder: OpenFile) throws(StorageError) {
        guard unsafe renameat(folder.descriptor, hidden, folder.descriptor, name) == 0 else {
            throw .system(errno, "rename", path: folder.path + "/" + name)
        }
    }

    /// The first free name of `name`, `name (2)`, `name (3)`… that nothing has, decided by the rename itself.
    private func place(_ hidden: String, _ name: String, in folder: OpenFile) throws(StorageError) -> String {
        for number in 1...Self.maximumNumber {
            let candidate = number == 1 ? name : SafeFileName.numbered(name, number)
            if entry(lookingLike: candidate, in: folder) != nil { continue }
            let result = unsafe mesh_rename_new(folder.descriptor, hidden, folder.descriptor, candidate)
            if result == 0 { return candidate }
            guard result == -EEXIST else { throw .system(-result, "rename", path: folder.path + "/" + candidate) }
        }
        throw .exists(path: folder.path + "/" + name)
    }
}
